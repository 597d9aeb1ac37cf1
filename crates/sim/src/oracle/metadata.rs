//! Checker `metadata_consistent`: once all clients have left, the stored metadata is one consistent tree.
//! Every entry leads to an inode; every inode has one primary entry and as many names as its link count;
//! directories count their entries; the inode index knows every place; removed files leave nothing behind,
//! and removed snapshots no clones (the paper's sections 3.3 and 4.1; ADRs 0006 and 0015).
//!
//! It asks no server: it reads the objects of the pools, as a repair tool would, and applies the journal's
//! events to them.

use fsfmt::journal::{JournalHeader, read_frames};
use fsfmt::tables::{InoTable, parse_session_key};
use fsfmt::{
    BackPointer, Counted, Dentry, DentryKey, DirFrag, Frag, Ino, InodeData, Link, NestStat, Realm,
    Refragment, SnapRecord, SubtreeRecord, Update, names, parse_border_key, parse_subtree_key, snap_state,
};
use maps::{MdsRank, SnapId};
use osd::object_info;
use std::collections::{BTreeMap, BTreeSet};
use store::ObjectView;
use wire::{Decode, Reader};

/// Objects of one pool, by name.
pub type Pool = BTreeMap<String, ObjectView>;

/// The most ranks of a file system.
const RANKS: u32 = 8;

/// The metadata of all ranks.
#[derive(Default)]
struct Stored {
    dirs: BTreeMap<DirFrag, BTreeMap<DentryKey, Dentry>>,
    bases: BTreeMap<Ino, InodeData>,
    index: BTreeMap<Ino, (Ino, Vec<u8>)>,
    /// What snapshots keep of entries.
    copies: BTreeMap<DirFrag, BTreeMap<DentryKey, Dentry>>,
    /// The table of snapshots.
    snaps: BTreeMap<SnapId, SnapRecord>,
    sessions: BTreeSet<u64>,
    /// The next inode number of each rank.
    ino_next: BTreeMap<u32, u64>,
    /// The subtrees of the partition.
    subtrees: BTreeMap<Ino, SubtreeRecord>,
    /// What the directories above them count of them.
    borders: BTreeMap<Ino, NestStat>,
    /// What the journal has changed in fragments.
    changed: BTreeMap<DirFrag, BTreeMap<DentryKey, Option<Dentry>>>,
    /// Fragments that their directories have not, or no longer, by what the journal says of splits and joins.
    unused: BTreeSet<DirFrag>,
}

fn decode<T: Decode>(bytes: &[u8], what: &str) -> Result<T, String> {
    Reader::new(bytes).get().map_err(|e| format!("{what} does not decode: {e}"))
}

fn content(view: &ObjectView) -> Vec<u8> {
    view.data.iter().flat_map(|d| d.to_vec()).collect()
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

impl Stored {
    fn read(pool: &Pool) -> Result<Self, String> {
        let mut this = Self::default();
        for (name, view) in pool {
            this.object(name, view)?;
        }
        for rank in 0..RANKS {
            this.replay(pool, rank)?;
        }
        Ok(this)
    }

    fn object(&mut self, name: &str, view: &ObjectView) -> Result<(), String> {
        if (0..RANKS).any(|rank| name == names::session_table(rank)) {
            self.sessions.extend(view.omap_entries.iter().filter_map(|(k, _)| parse_session_key(k)));
        } else if name == names::partition() {
            for (key, value) in &view.omap_entries {
                if let Some(root) = parse_border_key(key) {
                    self.borders.insert(root, decode::<Counted>(value, name)?.rstat());
                    continue;
                }
                let root = parse_subtree_key(key).ok_or(format!("{name}: key {key:?}"))?;
                self.subtrees.insert(root, decode(value, name)?);
            }
        } else if name == names::snap_table() {
            for (key, value) in &view.omap_entries {
                if let Some(snap) = std::str::from_utf8(key).ok().and_then(hex) {
                    self.snaps.insert(SnapId(snap), decode(value, name)?);
                }
            }
        } else if let Some(rank) = (0..RANKS).find(|rank| name == names::ino_table(*rank)) {
            self.ino_next.insert(rank, decode::<InoTable>(&content(view), name)?.next);
        } else if name.starts_with("inoindex.") {
            for (key, value) in &view.omap_entries {
                let ino =
                    std::str::from_utf8(key).ok().and_then(hex).ok_or(format!("{name}: key {key:?}"))?;
                let back: BackPointer = decode(value, name)?;
                self.index.insert(Ino(ino), (back.dir, back.name));
            }
        } else if let Some(ino) = name.strip_suffix(".00000000.inode").and_then(hex) {
            self.bases.insert(Ino(ino), decode(&content(view), name)?);
        } else if let Some(dir) = dir_of_object(name).filter(|dir| dir.ino.0 != 0x200) {
            self.dirs.insert(dir, BTreeMap::new());
            for (key, value) in &view.omap_entries {
                let key = DentryKey::from_omap(key).ok_or(format!("{name}: key {key:?}"))?;
                self.entries(dir, &key).insert(key, decode(value, name)?);
            }
        }
        Ok(())
    }

    /// The table that an entry of a directory is in.
    fn entries(&mut self, dir: DirFrag, key: &DentryKey) -> &mut BTreeMap<DentryKey, Dentry> {
        let all = if key.is_head() { &mut self.dirs } else { &mut self.copies };
        all.entry(dir).or_default()
    }

    /// What the directory above an inode counts of it.
    fn counted<'a>(&'a self, child: &'a InodeData) -> &'a NestStat {
        let border = self.borders.get(&child.ino).filter(|_| self.subtrees.contains_key(&child.ino));
        border.unwrap_or(&child.accounted)
    }

    fn is_live(&self, snap: SnapId) -> bool {
        self.snaps.get(&snap).is_some_and(|record| record.state == snap_state::LIVE)
    }

    /// Reports whether a snapshot still needs an inode without a name.
    fn is_needed(&self, inode: &InodeData) -> bool {
        let past = inode.own_realm.iter().flat_map(|own| &own.past_parent_snaps);
        (inode.is_dir() || inode.realm == Realm::GLOBAL) && past.into_iter().any(|snap| self.is_live(*snap))
    }

    /// Applies the journal of a rank, if there has been one.
    fn replay(&mut self, pool: &Pool, rank: u32) -> Result<(), String> {
        let name = names::journal_object(rank, 0);
        let header = match pool.get(&name) {
            Some(header) => header,
            None if rank == 0 => return Err("the journal has no header".to_owned()),
            None => return Ok(()),
        };
        let header: JournalHeader = decode(&content(header), &name)?;
        let (mut number, mut seq) = (header.first, header.first_seq);
        while let Some(view) = pool.get(&names::journal_object(rank, number)) {
            let events = read_frames(&content(view), seq)
                .map_err(|e| format!("journal object {number} of rank {rank}: {e}"))?;
            seq += events.len() as u64;
            events.into_iter().flat_map(|(_, e)| e.updates).for_each(|update| self.apply(rank, update));
            number += 1;
        }
        for dir in std::mem::take(&mut self.unused) {
            self.dirs.remove(&dir);
            self.copies.remove(&dir);
        }
        for (dir, entries) in std::mem::take(&mut self.changed) {
            entries.into_iter().for_each(|(key, value)| self.set(dir, key, value));
        }
        Ok(())
    }

    fn set(&mut self, dir: DirFrag, key: DentryKey, value: Option<Dentry>) {
        match value {
            Some(dentry) => drop(self.entries(dir, &key).insert(key, dentry)),
            None => drop(self.entries(dir, &key).remove(&key)),
        }
    }

    /// New fragments have the entries that the old ones had in store; what the journal has changed since goes
    /// to them.
    fn refragment(&mut self, change: Refragment) {
        for dir in change.new_ones() {
            self.unused.remove(&dir);
        }
        for dir in change.old() {
            self.unused.insert(dir);
            for (key, value) in self.changed.remove(&dir).unwrap_or_default() {
                self.changed.entry(change.place_of(key.hash)).or_default().insert(key, value);
            }
        }
    }

    fn apply(&mut self, rank: u32, update: Update) {
        match update {
            Update::Dentry { dir, key, value } => {
                if let Some(Link::Primary(inode)) = value.as_ref().map(|dentry| &dentry.link)
                    && key.is_head()
                {
                    self.index.insert(inode.ino, (dir.ino, key.name.to_vec()));
                    // The root of a subtree that became part of the one around it.
                    self.bases.remove(&inode.ino);
                }
                self.changed.entry(dir).or_default().insert(key, value.map(|dentry| *dentry));
            }
            Update::Refragment { dir, bits, is_done } => {
                let change = Refragment::of_update(dir, bits).expect("a change that servers make");
                match is_done {
                    true => self.refragment(change),
                    // Copies that nobody has taken into use.
                    false => self.unused.extend(change.new_ones()),
                }
            }
            Update::Border { root, counted } => {
                self.borders.insert(root, counted.rstat());
                if root.is_shard() {
                    // Perhaps it has joined its directory: everything has, in the end.
                    self.bases.remove(&root);
                }
            }
            Update::Base { inode } => drop(self.bases.insert(inode.ino, *inode)),
            Update::Snapshot { snap, record: Some(record) } => drop(self.snaps.insert(snap, *record)),
            Update::Snapshot { snap, record: None } => drop(self.snaps.remove(&snap)),
            // A state of a snapshot goes with its entry.
            Update::Forget { inode } if !inode.is_head() => {}
            Update::Forget { inode } => {
                self.copies.retain(|dir, _| dir.ino != inode.ino);
                self.changed.retain(|dir, _| dir.ino != inode.ino);
                self.index.remove(&inode.ino);
                self.dirs.retain(|dir, _| dir.ino != inode.ino);
            }
            Update::InoNext { next } => {
                let known = self.ino_next.entry(rank).or_default();
                *known = next.max(*known);
            }
            Update::SessionOpen { client, .. } => drop(self.sessions.insert(client)),
            Update::SessionClose { client } => drop(self.sessions.remove(&client)),
            Update::Completed { .. }
            | Update::Flushed { .. }
            | Update::InoRanges { .. }
            | Update::SnapHead { .. }
            | Update::Subtrees { .. }
            | Update::Absent { .. } => {}
            other => unreachable!("no server journals {} yet", other.name()),
        }
    }

    /// All inodes with a primary entry, and the places of those.
    fn inodes(&self) -> Result<BTreeMap<Ino, (&InodeData, Ino, &DentryKey)>, String> {
        let mut out = BTreeMap::new();
        for (dir, entries) in &self.dirs {
            for (key, dentry) in entries {
                let Link::Primary(inode) = &dentry.link else { continue };
                if let Some((_, other, name)) = out.insert(inode.ino, (&**inode, dir.ino, key)) {
                    let (name, key) = (show(&name.name), show(&key.name));
                    return Err(format!("inode {} is at {other}/{name} and at {dir}/{key}", inode.ino));
                }
            }
        }
        Ok(out)
    }
}

/// The directory fragment that an object holds, by its name.
fn dir_of_object(name: &str) -> Option<DirFrag> {
    let (ino, frag) = name.split_once('.')?;
    let frag = Frag::from_raw(u32::try_from(hex(frag)?).ok()?)?;
    Some(DirFrag { ino: Ino(hex(ino)?), frag })
}

fn show(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Checks the pools of a file system whose clients have left and whose server has purged what they removed.
pub fn check(metadata: &Pool, data: &Pool) -> Result<(), String> {
    let stored = Stored::read(metadata)?;
    let inodes = stored.inodes()?;
    check_names(&stored, &inodes)?;
    check_directories(&stored, &inodes)?;
    check_index(&stored, &inodes)?;
    check_clones(&stored, data)?;
    check_partition(&stored)?;
    // A killed client keeps its files until its session ends.
    if stored.sessions.is_empty() { check_leaks(&stored, &inodes, data) } else { Ok(()) }
}

/// Checks that everything is rank 0's, once the others have stopped: what has no name in its directory of
/// strays too, and nothing else is stored apart.
fn check_partition(stored: &Stored) -> Result<(), String> {
    let is_whole = |(root, record): &(&Ino, &SubtreeRecord)| {
        root.is_stray() && record.rank == MdsRank(0) && record.from.is_none()
    };
    if let Some((root, record)) = stored.subtrees.iter().find(|subtree| !is_whole(subtree)) {
        return Err(format!("subtree {root} is apart still: rank {}, from {:?}", record.rank, record.from));
    }
    match stored.bases.keys().find(|ino| !ino.is_base()) {
        Some(root) => Err(format!("inode {root} is stored alone, and no root of a subtree")),
        None => Ok(()),
    }
}

/// Checks that data is kept only for snapshots that are there.
fn check_clones(stored: &Stored, data: &Pool) -> Result<(), String> {
    for (name, view) in data {
        let clones = object_info(view).into_iter().flat_map(|info| info.snapset.clones);
        let shown = clones.flat_map(|clone| clone.snaps);
        if let Some(snap) = shown.into_iter().find(|snap| !stored.is_live(*snap)) {
            return Err(format!("data object {name} has a clone for {snap}, which is removed"));
        }
    }
    match stored.snaps.iter().find(|(_, record)| record.state != snap_state::LIVE) {
        Some((snap, _)) => Err(format!("the removal of snapshot {snap} has not ended")),
        None => Ok(()),
    }
}

type Inodes<'a> = BTreeMap<Ino, (&'a InodeData, Ino, &'a DentryKey)>;

/// Checks that every entry leads to an inode, and that each inode has as many names as its link count.
fn check_names(stored: &Stored, inodes: &Inodes<'_>) -> Result<(), String> {
    let mut names: BTreeMap<Ino, u32> = BTreeMap::new();
    for (dir, entries) in &stored.dirs {
        for (key, dentry) in entries {
            let (ino, name) = (dentry.link.ino(), show(&key.name));
            if !dir.contains(key) {
                return Err(format!("{dir}/{name} is in a fragment that its hash {:x} is not in", key.hash));
            }
            if !inodes.contains_key(&ino) {
                return Err(format!("{dir}/{name} leads to inode {ino}, which is nowhere"));
            }
            *names.entry(ino).or_default() += u32::from(!dir.ino.is_stray());
        }
    }
    for (ino, (inode, dir, key)) in inodes {
        let there = names.get(ino).copied().unwrap_or(0);
        if inode.nlink != there {
            let at = show(&key.name);
            return Err(format!("inode {ino} at {dir}/{at} says {} names and has {there}", inode.nlink));
        }
        let next = stored.ino_next.get(&ino.maker()).copied().unwrap_or_default();
        if ino.0 >= next {
            return Err(format!("inode {ino} is in use, and the next number is {next:x}"));
        }
    }
    Ok(())
}

/// Checks that every directory counts its entries and its subtree, and belongs to an inode.
fn check_directories(stored: &Stored, inodes: &Inodes<'_>) -> Result<(), String> {
    for (dir, entries) in &stored.dirs {
        let known =
            stored.bases.contains_key(&dir.ino) || inodes.get(&dir.ino).is_some_and(|(i, ..)| i.is_dir());
        let inode = stored.bases.get(&dir.ino).or_else(|| inodes.get(&dir.ino).map(|(inode, ..)| *inode));
        if inode.is_some_and(|inode| inode.frag_of(dir.frag.value()) != *dir) {
            return Err(format!("{dir} is stored, and the directory does not have that fragment"));
        }
        if !known && !entries.is_empty() {
            return Err(format!("directory {dir} has {} entries and no inode", entries.len()));
        }
    }
    for (dir, copies) in &stored.copies {
        let is_needed = |(key, copy): &(&DentryKey, &Dentry)| {
            stored.snaps.keys().any(|s| copy.first <= *s && *s <= key.snap && stored.is_live(*s))
        };
        let known =
            stored.bases.contains_key(&dir.ino) || inodes.get(&dir.ino).is_some_and(|(i, ..)| i.is_dir());
        if let Some((key, _)) = copies.iter().find(is_needed).filter(|_| !known) {
            let name = show(&key.name);
            return Err(format!("directory {dir} keeps {name} for a snapshot and has no inode"));
        }
    }
    let root = stored.bases.get(&Ino::ROOT).ok_or("there is no root")?;
    for inode in inodes.values().map(|(i, ..)| *i).chain([root]) {
        if !inode.is_dir() {
            if inode.rstat.rbytes != inode.size {
                return Err(format!("inode {}: {} bytes, rstat {:?}", inode.ino, inode.size, inode.rstat));
            }
            continue;
        }
        let entries: Vec<&Dentry> =
            stored.dirs.range(DirFrag::all_of(inode.ino)).flat_map(|(_, entries)| entries.values()).collect();
        let is_dir = |d: &&&Dentry| inodes.get(&d.link.ino()).is_some_and(|(i, ..)| i.is_dir());
        let dirs = entries.iter().filter(is_dir).count() as u64;
        let stat = (inode.dirstat.nfiles, inode.dirstat.nsubdirs);
        if stat != (entries.len() as u64 - dirs, dirs) {
            return Err(format!(
                "directory {}: {} entries, {dirs} directories, dirstat {stat:?}",
                inode.ino,
                entries.len()
            ));
        }
        let mut sum = NestStat { rsubdirs: 1, ..NestStat::default() };
        for dentry in entries {
            if let Link::Primary(child) = &dentry.link {
                let counted = stored.counted(child);
                sum.rbytes += counted.rbytes;
                sum.rfiles += counted.rfiles;
                sum.rsubdirs += counted.rsubdirs;
            }
        }
        let of = |s: &NestStat| (s.rbytes, s.rfiles, s.rsubdirs);
        if of(&sum) != of(&inode.rstat) {
            let (sum, says) = (of(&sum), of(&inode.rstat));
            return Err(format!("directory {}: its children sum up to {sum:?}, it says {says:?}", inode.ino));
        }
    }
    Ok(())
}

/// Checks that the inode index knows exactly the places of the existing inodes.
fn check_index(stored: &Stored, inodes: &Inodes<'_>) -> Result<(), String> {
    for (ino, (_, dir, key)) in inodes {
        let known = stored.index.get(ino);
        if known != Some(&(*dir, key.name.to_vec())) {
            let known = known.map_or("nowhere".to_owned(), |(dir, name)| format!("at {dir}/{}", show(name)));
            return Err(format!("inode {ino} is at {dir}/{}, the index has it {known}", show(&key.name)));
        }
    }
    match stored.index.keys().find(|ino| !inodes.contains_key(ino)) {
        Some(ino) => Err(format!("the index knows inode {ino}, which is nowhere")),
        None => Ok(()),
    }
}

/// Checks that no data is left of removed or truncated files.
fn check_leaks(stored: &Stored, inodes: &Inodes<'_>, data: &Pool) -> Result<(), String> {
    for (ino, (inode, dir, _)) in inodes {
        if dir.is_stray() && inode.nlink == 0 && !stored.is_needed(inode) {
            return Err(format!("inode {ino} has no name, nobody has it open, and it is not removed"));
        }
        if inode.truncate_from > 0 {
            return Err(format!(
                "the truncation of inode {ino} from {} bytes has not ended",
                inode.truncate_from
            ));
        }
    }
    for (name, view) in data {
        let ino = name.split_once('.').and_then(|(ino, _)| hex(ino)).map(Ino);
        // A file that had several names has clones for snapshots that do not contain it.
        let is_removed = object_info(view).is_some_and(|info| info.whiteout);
        if !is_removed && !ino.is_some_and(|ino| inodes.contains_key(&ino)) {
            return Err(format!("data object {name} is of no file"));
        }
    }
    Ok(())
}

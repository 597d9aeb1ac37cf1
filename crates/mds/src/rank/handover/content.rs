//! What a rank hands over: how it is sent, and what it is once decoded, with the part of it that came ahead.

use crate::cache::{Cache, Inode};
use crate::types::{ClientId, Lsn, Place, RankPeer};
use fsfmt::tables::SessionRecord;
use fsfmt::{Dentry, DentryKey, DirFrag, Frag, Ino, InodeData, InodeKey, Link, SubtreeRecord};
use msgs::FileLock;
use peer::{FragId, HandedCap, HandedEntry, MdsHandAhead, MdsHandOver};
use std::collections::{BTreeMap, BTreeSet};
use stdx::Instant;
use stdx::mutants::is_active;
use wire::{DecodeError, Reader, Writer};

/// An entry with its place.
pub(super) type Placed = (DirFrag, DentryKey, Dentry);

/// What is handed over, decoded.
#[derive(Debug)]
pub(in crate::rank) struct Content {
    pub record: SubtreeRecord,
    pub root: InodeData,
    pub sessions: Vec<(ClientId, SessionRecord)>,
    /// Each directory before what is in it.
    pub entries: Vec<Placed>,
    pub caps: Vec<HandedCap>,
    pub locks: Vec<(InodeKey, ClientId, [Vec<FileLock>; 2])>,
    pub subtrees: BTreeMap<Ino, SubtreeRecord>,
    pub popularity: BTreeMap<u64, u64>,
    /// The version of the table of snapshots that this rank has to know.
    pub snap_table: u64,
}

impl Content {
    /// Decodes a message. `ahead` is what came ahead of it.
    pub fn decode(m: &MdsHandOver, ahead: Option<Ahead>) -> Result<Self, DecodeError> {
        let sessions = m.sessions.iter().map(|(client, r)| Ok((ClientId(*client), Reader::new(r).get()?)));
        let mut entries = m.entries.iter().map(placed).collect::<Result<Vec<_>, _>>()?;
        let mut caps = m.caps.clone();
        if let Some(ahead) = ahead {
            let changed = m.changed.iter().copied().filter(|_| !is_active("mds_keeps_what_went_ahead"));
            let changed: BTreeSet<u64> = changed.collect();
            let is_same = |(_, _, dentry): &Placed| !changed.contains(&dentry.link.ino().0);
            entries.extend(ahead.entries.into_iter().filter(is_same));
            caps.extend(ahead.caps.into_iter().filter(|cap| !changed.contains(&cap.ino)));
        }
        let mut locks = Vec::new();
        for of_file in &m.locks {
            let mut r = Reader::new(&of_file.locks);
            locks.push((Ino(of_file.ino).head(), ClientId(of_file.client), [r.get()?, r.get()?]));
        }
        let subtrees = m.subtrees.iter().map(|(root, r)| Ok((Ino(*root), Reader::new(r).get()?)));
        Ok(Self {
            subtrees: subtrees.collect::<Result<_, DecodeError>>()?,
            record: Reader::new(&m.record).get()?,
            root: Reader::new(&m.inode).get()?,
            sessions: sessions.collect::<Result<_, DecodeError>>()?,
            entries,
            caps,
            locks,
            popularity: m.popularity.clone(),
            snap_table: m.snap_table,
        })
    }
}

pub(super) fn placed(entry: &HandedEntry) -> Result<Placed, DecodeError> {
    let frag = Frag::from_raw(entry.dir.frag).unwrap_or_default();
    let dir = DirFrag { ino: Ino(entry.dir.ino), frag };
    Ok((dir, DentryKey::new(&entry.name), Reader::new(&entry.entry).get()?))
}

/// The state of a file as it was sent ahead. Whatever changes its entry changes it.
#[derive(Debug)]
pub(in crate::rank) struct Sent {
    change: Lsn,
    place: Option<Place>,
    pub caps: Vec<HandedCap>,
}

/// What has come ahead of a subtree: files, with what clients held of them then.
#[derive(Debug)]
pub(in crate::rank) struct Ahead {
    from: RankPeer,
    /// The sender's number.
    id: u64,
    parts: u32,
    entries: Vec<Placed>,
    caps: Vec<HandedCap>,
    /// The time of the last part.
    pub at: Instant,
}

impl Ahead {
    /// What came before, with one more part. A part that does not follow makes what came before useless.
    pub fn with(
        before: Option<Self>,
        from: RankPeer,
        m: &MdsHandAhead,
        now: Instant,
    ) -> Result<Option<Self>, DecodeError> {
        let first = Self { from, id: m.ahead, parts: 0, entries: Vec::new(), caps: Vec::new(), at: now };
        let before =
            before.filter(|ahead| (ahead.from, ahead.id) == (from, m.ahead) && m.part > 0).unwrap_or(first);
        let Some(mut all) = Some(before).filter(|ahead| ahead.parts == m.part) else { return Ok(None) };
        for entry in &m.entries {
            all.entries.push(placed(entry)?);
        }
        all.caps.extend_from_slice(&m.caps);
        (all.parts, all.at) = (all.parts + 1, now);
        Ok(Some(all))
    }

    /// True if this is all that came ahead of a message.
    pub fn is_of(&self, from: RankPeer, m: &MdsHandOver) -> bool {
        (self.from, self.id, self.parts) == (from, m.ahead, m.parts)
    }
}

/// What clients hold of an inode.
pub(super) fn caps_of(inode: &Inode) -> impl Iterator<Item = HandedCap> {
    inode.caps.clients().map(|client| {
        let cap = inode.caps.get(client).expect("one of its capabilities");
        HandedCap {
            ino: inode.data.ino.0,
            client: client.0,
            id: cap.id,
            held: cap.held(),
            wanted: cap.wanted,
            seq: cap.seq,
            migrate_seq: cap.migrate_seq,
            is_untold: inode.under_way.untold.contains(&client.into()),
        }
    })
}

/// The entry that an inode is in.
pub(super) fn entry_of(cache: &Cache, inode: &Inode) -> Option<HandedEntry> {
    let place @ (dir, key) = inode.place.as_ref()?;
    let entry = cache.dentry(place, Link::Primary(Box::new(inode.data.clone())));
    let entry = Writer::encode(&*entry);
    Some(HandedEntry { dir: FragId { ino: dir.ino.0, frag: dir.frag.raw() }, name: key.name.to_vec(), entry })
}

impl Sent {
    /// A file that is about to be sent.
    pub(super) fn new(inode: &Inode) -> Self {
        let caps = caps_of(inode).collect();
        Self { change: inode.change.lsn(), place: inode.place.clone(), caps }
    }

    /// True if the receiver knows the file as it is now.
    pub(super) fn is(&self, inode: &Inode) -> bool {
        let is_same = self.change == inode.change.lsn() && self.place == inode.place;
        is_same && caps_of(inode).eq(self.caps.iter().copied())
    }
}

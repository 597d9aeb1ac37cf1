//! Inodes and names, and by which right they are believed: learning from answers, naming to the MDS, forgetting.

use crate::api::{Entry, Ino};
use crate::client::{Client, Outs};
use crate::inode::{Cap, Inode};
use msgs::{Caps, ClientReply, FilePath, InodeStat, LeaseStat, cap};
use std::time::Duration;
use stdx::{Instant, Now};

/// The root of the file system.
pub(crate) const ROOT: Ino = 1;
/// What attributes rest on.
pub(crate) const STAT_CAPS: u32 = cap::PIN | cap::ANY_SHARED;

/// A name in a directory.
#[derive(Clone, Debug)]
pub(crate) struct Dentry {
    /// `None` where it is known not to exist.
    pub(crate) ino: Option<Ino>,
    lease_until: Instant,
    /// The directory's `shared_gen` when it was learnt.
    shared_gen: u64,
}

/// What is known of a name.
pub(crate) enum Name {
    Inode(Ino),
    Absent,
    Unknown,
}

/// How an inode is named to the MDS: by its number. The names that once led to it may lead to another by now.
pub(crate) fn path(ino: Ino) -> FilePath {
    FilePath { ino, path: Vec::new() }
}

/// The path of a name in a directory.
pub(crate) fn path_in(dir: Ino, name: &[u8]) -> FilePath {
    FilePath { ino: dir, path: name.to_vec() }
}

impl Client {
    /// Takes everything that an answer says of dentry and inode.
    pub(crate) fn learn(&mut self, now: Now, reply: &ClientReply) {
        if let Some(target) = &reply.trace.target {
            self.learn_inode(target);
        }
        if let Some(dentry) = &reply.trace.dentry {
            self.learn_inode(&dentry.dir);
            let ino = reply.trace.target.as_ref().map(|t| t.ino);
            self.learn_dentry(now, dentry.dir.ino, &dentry.name, ino, &dentry.lease);
        }
    }

    /// Takes what is said of an inode, and the capability that came with it.
    pub(crate) fn learn_inode(&mut self, stat: &InodeStat) -> Ino {
        self.use_counter += 1;
        let used_at = self.use_counter;
        let inode = self.inodes.entry(stat.ino).or_insert_with(|| Inode::new(stat.ino));
        inode.used_at = used_at;
        inode.update(stat);
        if stat.cap.cap_id != 0 && stat.cap.caps != 0 {
            if inode.cap.as_ref().is_some_and(|c| c.id != stat.cap.cap_id) {
                inode.lose_cap();
            }
            let cap = inode.cap.get_or_insert_with(|| Cap { id: stat.cap.cap_id, ..Cap::default() });
            // A reply may overtake a message about the cap; the higher seq is the newer word.
            if stat.cap.seq >= cap.seq {
                cap.seq = stat.cap.seq;
                cap.issue_seq = stat.cap.seq;
                cap.mseq = stat.cap.mseq;
                cap.realm = stat.cap.realm;
                cap.wanted = cap.wanted | Caps(stat.cap.wanted);
                // What a reply brings is added: only a revocation takes away.
                let issued = cap.issued | Caps(stat.cap.caps);
                inode.set_issued(issued);
            }
        }
        self.touch(stat.ino);
        stat.ino
    }

    /// Takes what is said of a name.
    pub(crate) fn learn_dentry(
        &mut self,
        now: Now,
        dir: Ino,
        name: &[u8],
        ino: Option<Ino>,
        lease: &LeaseStat,
    ) {
        let Some(parent) = self.inodes.get(&dir) else { return };
        let shared_gen = parent.shared_gen;
        let lease_until = now.mono + Duration::from_millis(u64::from(lease.duration_ms));
        let lease_until = if lease.mask == 0 { Instant(0) } else { lease_until };
        let dentry = Dentry { ino, lease_until, shared_gen };
        self.dentries.insert((dir, name.to_vec()), dentry);
        if let Some(inode) = ino.and_then(|ino| self.inodes.get_mut(&ino)) {
            inode.parent = Some((dir, name.to_vec()));
        }
    }

    /// Forgets what was believed of a name. The directory's names are not all known any more.
    pub(crate) fn drop_dentry(&mut self, dir: Ino, name: &[u8]) {
        self.dentries.remove(&(dir, name.to_vec()));
        if let Some(parent) = self.inodes.get_mut(&dir) {
            parent.forget_name();
        }
    }

    /// Notes that a name does not exist any more, because we removed it under the directory's `Fs`.
    pub(crate) fn name_removed(&mut self, dir: Ino, name: &[u8]) {
        let Some(parent) = self.inodes.get(&dir) else { return };
        let dentry = Dentry { ino: None, lease_until: Instant(0), shared_gen: parent.shared_gen };
        self.dentries.insert((dir, name.to_vec()), dentry);
    }

    /// What is known of a name without asking.
    pub(crate) fn known_name(&self, now: Now, dir: Ino, name: &[u8]) -> Name {
        let Some(parent) = self.inodes.get(&dir) else { return Name::Unknown };
        let shared = parent.may(cap::FILE_SHARED);
        match self.dentries.get(&(dir, name.to_vec())) {
            Some(d)
                if (shared && d.shared_gen == parent.shared_gen)
                    || now.mono < d.lease_until
                    || stdx::mutants::is_active("client_believes_old_names") =>
            {
                match d.ino {
                    Some(ino) => Name::Inode(ino),
                    None => Name::Absent,
                }
            }
            Some(_) => Name::Unknown,
            None if shared && parent.complete == Some(parent.shared_gen) => Name::Absent,
            None => Name::Unknown,
        }
    }

    /// An inode for a local caller, who from now on holds one more reference to it.
    pub(crate) fn entry(&mut self, ino: Ino) -> Option<Entry> {
        let inode = self.inodes.get_mut(&ino)?;
        inode.lookups += 1;
        self.use_counter += 1;
        inode.used_at = self.use_counter;
        // Callers ask again each time: that costs no message while the capability is here.
        Some(Entry { attr: inode.attr(), entry_valid: Duration::ZERO, attr_valid: Duration::ZERO })
    }

    /// A local caller gives references back.
    pub(crate) fn forget(&mut self, ino: Ino, count: u64) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.lookups = inode.lookups.saturating_sub(count);
            if inode.is_idle() && inode.nlink == 0 {
                self.touch(ino);
            }
        }
    }

    /// Forgets the idle inodes that were least of use, where there are too many.
    pub(crate) fn trim_inodes(&mut self, out: &mut Outs) {
        let limit = self.config.options.idle_inodes;
        if self.inodes.len() < limit + limit / 8 {
            return;
        }
        let mut idle: Vec<(u64, Ino)> = self
            .inodes
            .values()
            .filter(|i| i.is_idle() && i.ino != ROOT)
            .map(|i| (i.used_at, i.ino))
            .collect();
        let excess = self.inodes.len() - limit;
        idle.sort_unstable();
        idle.truncate(excess);
        self.drop_inodes(idle.into_iter().map(|(_, ino)| ino), out);
    }

    /// Forgets inodes, which must be idle, and gives their capabilities back.
    pub(crate) fn drop_inodes(&mut self, inos: impl Iterator<Item = Ino>, out: &mut Outs) {
        let mut releases = Vec::new();
        for ino in inos {
            let Some(inode) = self.inodes.remove(&ino) else { continue };
            self.dirty_bytes -= inode.counted_bytes;
            releases.extend(release_item(&inode));
            if let Some((dir, name)) = &inode.parent {
                let key = (*dir, name.clone());
                if self.dentries.get(&key).is_some_and(|d| d.ino == Some(ino)) {
                    self.dentries.remove(&key);
                    if let Some(parent) = self.inodes.get_mut(dir) {
                        parent.forget_name();
                    }
                }
            }
            if inode.is_dir() {
                let names: Vec<_> = self
                    .dentries
                    .range((ino, Vec::new())..(ino + 1, Vec::new()))
                    .map(|(k, _)| k.clone())
                    .collect();
                for key in &names {
                    self.dentries.remove(key);
                }
                self.end_belief_in_listings(ino);
            }
        }
        self.send_releases(releases, out);
    }

    /// The MDS wants us to hold at most `max` capabilities.
    pub(crate) fn trim_caps(&mut self, max: usize, out: &mut Outs) {
        let mut held: Vec<(bool, u64, Ino)> = self
            .inodes
            .values()
            .filter(|i| i.cap.is_some() && i.ino != ROOT)
            .map(|i| (!i.is_idle(), i.used_at, i.ino))
            .collect();
        let excess = held.len().saturating_sub(max);
        held.sort_unstable();
        let (mut drop_whole, mut releases) = (Vec::new(), Vec::new());
        for (in_use, _, ino) in held.into_iter().take(excess) {
            if !in_use {
                drop_whole.push(ino);
                continue;
            }
            let inode = self.inodes.get_mut(&ino).expect("just listed");
            // A reference from above needs no capability; an open file or unflushed data do.
            let only_referenced = inode.readers + inode.writers + inode.reads == 0
                && inode.dirty.is_empty()
                && inode.dirty_caps == Caps::NONE
                && inode.flushing.is_empty()
                && !inode.pages_cached;
            if only_referenced {
                releases.extend(release_item(inode));
                inode.lose_cap();
            }
        }
        self.drop_inodes(drop_whole.into_iter(), out);
        self.send_releases(releases, out);
    }

    fn send_releases(&mut self, caps: Vec<msgs::CapReleaseItem>, out: &mut Outs) {
        if !caps.is_empty() {
            let body = msgs::ClientCapRelease { caps, osd_epoch_barrier: maps::Epoch(0) };
            self.mds.send(msgs::Body::from(body), 0, out);
        }
    }
}

fn release_item(inode: &Inode) -> Option<msgs::CapReleaseItem> {
    let cap = inode.cap.as_ref()?;
    Some(msgs::CapReleaseItem { ino: inode.ino, cap_id: cap.id, migrate_seq: cap.mseq, seq: cap.issue_seq })
}

//! What an update touches, in a few words for people.

use crate::{Counted, Dentry, DirFrag, Ino, Link, Refragment, Update, ranges};
use std::fmt;

impl Update {
    /// The inodes that it is about: of an entry, the directory and its target.
    pub fn inodes(&self) -> Vec<Ino> {
        match self {
            Self::Dentry { dir, value: Some(dentry), .. } => vec![dir.ino, dentry.link.ino()],
            Self::Dentry { dir, .. } | Self::Refragment { dir, .. } | Self::Header { dir, .. } => {
                vec![dir.ino]
            }
            Self::Base { inode } => vec![inode.ino],
            Self::Forget { inode } => vec![inode.ino],
            Self::Completed { ino, .. } | Self::Locks { ino, .. } => vec![*ino],
            Self::Snapshot { record: Some(record), .. } => vec![record.info.ino],
            Self::Prepare { part, .. } => part.updates.iter().flat_map(Self::inodes).collect(),
            _ => Vec::new(),
        }
    }
}

/// The target of an entry.
struct Target<'a>(&'a Dentry);

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.link {
            Link::Primary(inode) => write!(f, "{} v{}", inode.ino, inode.version),
            Link::Remote { ino, .. } => write!(f, "{ino} (remote)"),
        }
    }
}

impl fmt::Display for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dentry { dir, key, value } => {
                write!(f, "dentry {dir}/{}", key.name.escape_ascii())?;
                if !key.is_head() {
                    write!(f, "@{}", key.snap)?;
                }
                match value {
                    Some(dentry) => write!(f, " = {}", Target(dentry)),
                    None => f.write_str(" removed"),
                }
            }
            Self::Base { inode } => write!(f, "inode {} v{}", inode.ino, inode.version),
            Self::Forget { inode } => write!(f, "inode {inode} gone"),
            Self::InoNext { next } => write!(f, "next inode {next:x}"),
            Self::SessionOpen { client, record } => {
                write!(f, "session client.{client} {} open", record.addrs)
            }
            Self::SessionClose { client } => write!(f, "session client.{client} closed"),
            Self::Completed { client, tid, ino } => write!(f, "client.{client}:{tid} completed, inode {ino}"),
            Self::Flushed { client, tid } => write!(f, "client.{client} flush {tid}"),
            Self::Subtrees { subtrees } => {
                let dirs: Vec<DirFrag> = subtrees.iter().map(|subtree| subtree.dir).collect();
                write!(f, "subtrees {dirs:?}")
            }
            Self::Absent { clients } => write!(f, "absent clients {clients:?}"),
            Self::InoRanges { client, preallocated, delegated } => {
                let (reserved, own) = (ranges::count(preallocated), ranges::count(delegated));
                write!(f, "client.{client} has {reserved} inode numbers reserved, {own} delegated")
            }
            Self::InoFree { free } => write!(f, "{} ranges of free inode numbers", free.len()),
            Self::Locks { client, ino, locks } => write!(f, "client.{client} {} locks on {ino}", locks.len()),
            Self::Snapshot { snap, record: Some(record) } => {
                write!(f, "snapshot {snap} of {} {}", record.info.ino, record.info.name.escape_ascii())
            }
            Self::Snapshot { snap, record: None } => write!(f, "snapshot {snap} gone"),
            Self::Prepare { txn, part } => write!(f, "transaction {txn}: {} updates", part.updates.len()),
            Self::Commit { txn } => write!(f, "transaction {txn} committed"),
            Self::Abort { txn } => write!(f, "transaction {txn} aborted"),
            Self::Refragment { dir, bits, is_done } => {
                let state = if *is_done { "done" } else { "begun" };
                match Refragment::of_update(*dir, *bits) {
                    Some(change) => write!(f, "fragments: {change}, {state}"),
                    None => write!(f, "fragments: {dir} by {bits} bits, which is no change, {state}"),
                }
            }
            Self::Header { dir, fnode } => write!(f, "header {dir} v{}", fnode.version),
            Self::SnapHead { table } => write!(f, "snaptable v{}", table.version),
            Self::Pack { pack, record } => {
                write!(f, "pack {pack:x}{}", if record.is_some() { "" } else { " gone" })
            }
            Self::Border { root, counted } => {
                let Counted { rbytes, rfiles, rsubdirs, .. } = counted;
                write!(f, "subtree {root} counts as {rbytes} bytes, {rfiles} files, {rsubdirs} directories")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DentryKey;
    use stdx::Rng;
    use wire::Sample;

    #[test]
    fn an_update_says_what_it_touches() {
        let dir = DirFrag::whole(Ino::ROOT);
        let key = DentryKey::new(b"a\nb");
        let dentry = Dentry::head(Link::Remote { ino: Ino(0x1_0000), dtype: 8 });
        let made = Update::Dentry { dir, key: key.clone(), value: Some(Box::new(dentry)) };
        assert_eq!(made.to_string(), "dentry 1/a\\nb = 10000 (remote)");
        assert_eq!(made.inodes(), [Ino::ROOT, Ino(0x1_0000)]);
        let gone = Update::Dentry { dir, key, value: None };
        assert_eq!(gone.to_string(), "dentry 1/a\\nb removed");
        assert_eq!(Update::InoNext { next: 255 }.to_string(), "next inode ff");
        let begun = Update::Refragment { dir, bits: 3, is_done: false };
        assert_eq!(begun.to_string(), "fragments: 1 into 8 parts, begun");
        let joined = Update::Refragment { dir, bits: -3, is_done: true };
        assert_eq!(joined.to_string(), "fragments: the 8 parts of 1 into one, done");
    }

    #[test]
    fn whatever_an_update_holds_is_shown_in_one_line() {
        let mut rng = Rng::from_seed(11);
        for _ in 0..500 {
            let text = Update::sample(&mut rng).to_string();
            assert!(!text.is_empty() && !text.contains('\n'), "{text:?}");
        }
    }
}

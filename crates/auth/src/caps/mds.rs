//! `mds` capabilities.

use super::parser::{CapsError, Parser};

/// A client's permissions in the file systems.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MdsCap {
    grants: Vec<MdsGrant>,
}

/// The kind of access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads.
    Read,
    /// Changes.
    Write,
    /// Sets quotas or layouts.
    SetPolicy,
    /// Makes or removes snapshots.
    Snapshot,
}

/// The caller, as its client names it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caller<'a> {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Further groups.
    pub more_gids: &'a [u64],
}

#[derive(Clone, PartialEq, Debug, Default)]
struct MdsGrant {
    read: bool,
    write: bool,
    policy: bool,
    snapshot: bool,
    /// `*`: also what has no letter (commands to the daemon).
    all: bool,
    /// Without slashes at the ends.
    path: Option<String>,
    fsname: Option<String>,
    uid: Option<u32>,
    gids: Vec<u32>,
    root_squash: bool,
}

impl MdsCap {
    /// Parses a capability string.
    pub fn parse(text: &str) -> Result<Self, CapsError> {
        // Old MDSs have this for one another.
        if text.trim() == "allow" {
            let grant =
                MdsGrant { read: true, write: true, policy: true, snapshot: true, ..MdsGrant::default() };
            return Ok(Self { grants: vec![grant] });
        }
        Ok(Self { grants: Parser::grants(text, grant)? })
    }

    /// True if it is `allow *`.
    pub fn is_allow_all(&self) -> bool {
        self.grants.iter().any(|g| g.all && g.unconditional())
    }

    /// True if anything is granted in this file system: otherwise a session is refused.
    pub fn allows_fs(&self, fsname: &str) -> bool {
        self.grants.iter().any(|g| g.in_fs(fsname))
    }

    /// True if a caller may do `access` to `path` (from the file system's root, `/a/b`).
    pub fn allows(&self, fsname: &str, path: &str, caller: &Caller<'_>, access: Access) -> bool {
        self.grants
            .iter()
            .any(|g| g.in_fs(fsname) && g.covers(path) && g.is_user(caller) && g.grants(access, caller))
    }

    /// True if some user of this key may write at `path`: a write under a capability names no user.
    pub fn lets_somebody_write(&self, fsname: &str, path: &str) -> bool {
        self.grants.iter().any(|g| g.in_fs(fsname) && g.covers(path) && g.write)
    }

    /// True if every user of this key may write at `path`.
    pub fn lets_all_write(&self, fsname: &str, path: &str) -> bool {
        let is_for_all = |g: &MdsGrant| g.uid.is_none() && g.gids.is_empty() && !g.root_squash;
        self.grants.iter().any(|g| g.in_fs(fsname) && g.covers(path) && g.write && is_for_all(g))
    }

    /// The directory that a mount must start at or below, if every grant has a path.
    pub fn root_paths(&self, fsname: &str) -> Vec<&str> {
        self.grants.iter().filter(|g| g.in_fs(fsname)).map(|g| g.path.as_deref().unwrap_or("")).collect()
    }
}

impl MdsGrant {
    fn unconditional(&self) -> bool {
        self.path.is_none() && self.fsname.is_none() && self.uid.is_none() && !self.root_squash
    }

    fn in_fs(&self, fsname: &str) -> bool {
        self.fsname.as_ref().is_none_or(|f| f == "*" || f == fsname)
    }

    fn covers(&self, path: &str) -> bool {
        let Some(root) = &self.path else { return true };
        let below = path.trim_matches('/').strip_prefix(root.as_str());
        root.is_empty() || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    fn is_user(&self, caller: &Caller<'_>) -> bool {
        let has = |g: &u32| *g == caller.gid || caller.more_gids.contains(&u64::from(*g));
        self.uid.is_none_or(|u| u == caller.uid && (self.gids.is_empty() || self.gids.iter().any(has)))
    }

    fn grants(&self, access: Access, caller: &Caller<'_>) -> bool {
        // As in Ceph, the group counts as much as the user.
        let squashed = self.root_squash && (caller.uid == 0 || caller.gid == 0);
        match access {
            Access::Read => self.read,
            Access::Write => self.write && !squashed,
            Access::SetPolicy => self.policy && !squashed,
            Access::Snapshot => self.snapshot && !squashed,
        }
    }

    fn letters(&mut self, word: &str) -> bool {
        if word == "*" || word == "all" {
            (self.read, self.write, self.policy, self.snapshot, self.all) = (true, true, true, true, true);
            return true;
        }
        for c in word.chars() {
            match c {
                'r' => self.read = true,
                'w' => self.write = true,
                'p' => self.policy = true,
                's' => self.snapshot = true,
                _ => return false,
            }
        }
        self.read
    }
}

fn grant(p: &mut Parser<'_>) -> Result<MdsGrant, CapsError> {
    if !p.eat_word("allow") {
        return Err(p.error("`allow`"));
    }
    let mut out = MdsGrant::default();
    let word = p.peek();
    if !out.letters(word) {
        return Err(p.error("`*`, `r`, or `rw` with `p` or `s`"));
    }
    p.eat_word(word);
    while !p.grant_ends() {
        if p.eat_word("path") {
            out.path = Some(p.value("a path")?.trim_matches('/').to_owned());
        } else if p.eat_word("fsname") {
            out.fsname = Some(p.value("a file system's name")?);
        } else if p.eat_word("root_squash") {
            out.root_squash = true;
        } else if p.eat_word("uid") {
            p.eat('=');
            out.uid = p.numbers()?.first().copied();
        } else if p.eat_word("gids") {
            p.eat('=');
            out.gids = p.numbers()?;
        } else {
            return Err(p.error("`path`, `fsname`, `root_squash`, `uid`, `gids`, `,` or the end"));
        }
    }
    Ok(out)
}

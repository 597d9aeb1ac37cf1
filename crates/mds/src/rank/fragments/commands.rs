//! `dirfrag ls`, `split` and `merge`: what administrators ask for is noted here and carried out later.

use super::Fragments;
use super::asked::Asked;
use super::choice::changed;
use crate::cache::Cache;
use fsfmt::{DirFrag, Frag, Ino, Refragment};
use serde_json::{Value, json};
use wire::Errno;

/// The refusal of a command.
type Refusal = (Errno, String);

impl Fragments {
    /// The fragments of a directory.
    pub fn list(cache: &Cache, path: &str) -> Result<Value, Refusal> {
        let leaves = cache.inodes[&directory(cache, path)?.head()].data.fragtree.leaves();
        let describe = |frag: Frag| json!({ "value": frag.value(), "bits": frag.bits(), "str": frag.text() });
        Ok(leaves.into_iter().map(describe).collect())
    }

    /// Has a fragment split into 2^`bits`.
    pub fn ask_split(&mut self, cache: &Cache, path: &str, (frag, bits): (&str, u32)) -> Result<(), Refusal> {
        let dir = fragment(cache, path, frag)?;
        let change = Refragment::split(dir, bits).ok_or_else(|| {
            let text = "a fragment is split by 1 to 8 bits, and has 24 at most";
            (Errno::EINVAL, text.to_owned())
        })?;
        if changed(cache, change).is_none() {
            let text = format!("`{path}` has no fragment {frag}: `dirfrag ls` shows those that it has");
            return Err((Errno::ENOENT, text));
        }
        self.asked.push_back(Asked::Split(change));
        Ok(())
    }

    /// Has a fragment in which too much is done split into 2^`bits` parts. Nothing joins these as long as
    /// there are names.
    pub fn split_for_load(&mut self, cache: &Cache, dir: DirFrag, bits: u32) {
        let change = Refragment::split(dir, bits).filter(|change| changed(cache, *change).is_some());
        self.asked.extend(change.map(Asked::Split));
    }

    /// Has all parts of a fragment joined.
    pub fn ask_join(&mut self, cache: &Cache, path: &str, frag: &str) -> Result<(), Refusal> {
        let asked = Asked::Join(fragment(cache, path, frag)?);
        if asked.next(cache).is_none() {
            let text =
                format!("`{path}` has no parts of fragment {frag}: `dirfrag ls` shows those that it has");
            return Err((Errno::ENOENT, text));
        }
        self.asked.push_back(asked);
        Ok(())
    }
}

fn fragment(cache: &Cache, path: &str, frag: &str) -> Result<DirFrag, Refusal> {
    Ok(DirFrag { ino: directory(cache, path)?, frag: parse_fragment(frag)? })
}

/// A fragment as administrators write it.
pub fn parse_fragment(frag: &str) -> Result<Frag, Refusal> {
    frag.parse().map_err(|()| {
        let text =
            format!("`{frag}` is no fragment: it is a prefix in hex, `/` and its bits, as in c00000/2");
        (Errno::EINVAL, text)
    })
}

/// The directory at a path, if it is cached.
fn directory(cache: &Cache, path: &str) -> Result<Ino, Refusal> {
    let found = cache.find(path.as_bytes()).map_err(|_| {
        let text = format!("`{path}` is not in the cache: list it in a client, and try again");
        (Errno::ENOENT, text)
    })?;
    let inode = found.and_then(|ino| cache.inodes.get(&ino));
    let inode = inode.ok_or_else(|| (Errno::ENOENT, format!("there is no `{path}`")))?;
    match inode.data.is_dir() {
        true => Ok(inode.data.ino),
        false => Err((Errno::ENOTDIR, format!("`{path}` is no directory"))),
    }
}

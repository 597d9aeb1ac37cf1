//! Layouts as JSON, for the xattrs `ceph.file.layout.json` and `ceph.dir.layout.json`. The latter tells of
//! every directory which layout new files get there: its own, or that of the closest directory above that has
//! one.

use crate::api::Answer;
use crate::cache::Cache;
use crate::key::InodeKey;
use crate::mds_request;
use crate::op::{Attempt, Stage, Step, done, fail};
use crate::sessions::Sessions;
use maps::{FileLayout, OsdMap};
use msgs::cap;
use std::fmt::Write;
use wire::Errno;

/// The xattr of directories.
pub(crate) const OF_DIR: &[u8] = b"ceph.dir.layout.json";

/// Where a layout comes from, in Ceph's words.
pub(crate) const SET: &str = "@set";
const INHERITED: &str = "@inherited";
const DEFAULT: &str = "@default";

/// Attempts to tell the layout of new files in a directory. Each directory on the way up is asked for whose
/// xattrs are not known.
pub(crate) fn of_dir(
    (cache, sessions): (&Cache, &mut Sessions),
    attempt: &mut Attempt<'_>,
    dir: InodeKey,
    osdmap: &OsdMap,
) -> Step {
    let told = match attempt.take_stage() {
        Stage::New => None,
        Stage::Answered(reply) => match (Errno::from_result_code(reply.result), &reply.trace.target) {
            (None, Some(target)) => Some(InodeKey::new(target.ino, target.snapid)),
            (Some(errno), _) if cache.inode(dir).is_none() => return fail(errno),
            // This client may not look there. What it knows is better than nothing.
            _ => Some(InodeKey::ROOT),
        },
        stage => return attempt.wait_at(stage),
    };
    let (mut at, mut is_below) = (dir, told.is_some());
    // The way up may be out of date: one that is a circle ends.
    for _ in 0..=cache.len() {
        let known = cache.inode(at);
        if !is_below && !known.is_some_and(|inode| inode.may(cap::XATTR_SHARED)) {
            return ask(cache, sessions, attempt, at);
        }
        is_below &= told != Some(at);
        let Some(inode) = known else { return fail(Errno::ESTALE) };
        if !inode.attrs().is_dir() {
            break;
        }
        let layout = Some(inode.attrs().layout()).filter(|layout| layout.stripe_unit > 0);
        let default = sessions.map().data_pools.first().map(|pool| FileLayout::new(*pool));
        if at == InodeKey::ROOT && layout.is_none_or(|layout| default.as_ref() == Some(layout)) {
            return default.map_or_else(|| fail(Errno::ENODATA), |layout| tell(&layout, DEFAULT, osdmap));
        }
        if let Some(layout) = layout {
            return tell(layout, if at == dir { SET } else { INHERITED }, osdmap);
        }
        let Some((parent, _)) = inode.parent() else { break };
        at = *parent;
    }
    fail(Errno::ENODATA)
}

fn ask(cache: &Cache, sessions: &mut Sessions, attempt: &mut Attempt<'_>, dir: InodeKey) -> Step {
    let message = mds_request::look_at_some(dir.ino(), cap::PIN | cap::XATTR_SHARED);
    sessions.ask(attempt, cache, message)
}

fn tell(layout: &FileLayout, inheritance: &str, osdmap: &OsdMap) -> Step {
    done(Answer::Data(text(layout, inheritance, osdmap.pool_name(layout.pool)).into_bytes().into()))
}

/// A layout, with the keys and in the order of Ceph's.
pub(crate) fn text(layout: &FileLayout, inheritance: &str, pool: &str) -> String {
    let FileLayout { stripe_unit, stripe_count, object_size, pool: id, pool_ns } = layout;
    let (pool, namespace) = (quoted(pool), quoted(pool_ns));
    format!(
        "{{\"stripe_unit\": {stripe_unit}, \"stripe_count\": {stripe_count}, \"object_size\": {object_size}, \
         \"pool_name\": {pool}, \"pool_id\": {id}, \"pool_namespace\": {namespace}, \
         \"inheritance\": \"{inheritance}\"}}"
    )
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            // Writing to a string does not fail.
            '\0'..=' ' if c != ' ' => drop(write!(out, "\\u{:04x}", u32::from(c))),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_that_of_ceph() {
        let layout = FileLayout::new(3);
        let wanted = "{\"stripe_unit\": 4194304, \"stripe_count\": 1, \"object_size\": 4194304, \
                      \"pool_name\": \"cephfs.a.data\", \"pool_id\": 3, \"pool_namespace\": \"\", \
                      \"inheritance\": \"@default\"}";
        assert_eq!(text(&layout, DEFAULT, "cephfs.a.data"), wanted);
        assert_eq!(quoted("a\"b\\c\nd e"), r#""a\"b\\c\u000ad e""#);
    }
}

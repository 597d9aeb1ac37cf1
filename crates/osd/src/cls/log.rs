//! `log`: entries in the order of their times, in an omap.

use super::class::{Class, Method, MethodResult, done, fail, input, output, reader, updater};
use super::object::{MethodStop, Object};
use wire::{Errno, Reader, Utime, Writer, wire_structs};

pub struct Log;

impl Class for Log {
    fn name(&self) -> &'static str {
        "log"
    }

    fn methods(&self) -> &'static [Method] {
        const { &[updater("add", add), reader("list", list), updater("trim", trim), reader("info", info)] }
    }
}

/// Prefix of the entries' keys.
const PREFIX: &[u8] = b"1_";
/// Entries of one answer.
const MAX_ENTRIES: usize = 1000;

wire_structs! {
    struct LogEntry[v 2/1] {
        pub section: Vec<u8>,
        pub name: Vec<u8>,
        pub timestamp: Utime,
        pub data: Vec<u8>,
        /// Key of the entry.
        pub id: Vec<u8> = since 2,
    }

    /// Content of the omap's header.
    struct Header[v 1/1] {
        pub max_marker: Vec<u8>,
        pub max_time: Utime,
    }

    struct AddOp[v 2/1] {
        pub entries: Vec<LogEntry>,
        /// If set, no entry may be older than those before it.
        pub monotonic: bool = since 2,
    }

    struct ListOp[v 1/1] {
        pub from: Utime,
        pub marker: Vec<u8>,
        pub to: Utime,
        pub max_entries: i32,
    }

    struct ListReply[v 1/1] {
        pub entries: Vec<LogEntry>,
        pub marker: Vec<u8>,
        pub truncated: bool,
    }

    struct TrimOp[v 2/1] {
        pub from: Utime,
        pub to: Utime,
        pub from_marker: Vec<u8> = since 2,
        pub to_marker: Vec<u8> = since 2,
    }

    struct InfoReply[v 1/1] {
        pub header: Header,
    }
}

fn time_key(at: Utime) -> Vec<u8> {
    let key = format!("{:010}.{:06}_", at.sec, at.nsec / 1000);
    [PREFIX, key.as_bytes()].concat()
}

fn header(o: &mut Object<'_, '_>) -> Result<Header, MethodStop> {
    match o.omap_header()? {
        bytes if bytes.is_empty() => Ok(Header::default()),
        bytes => Reader::new(&bytes).get().map_err(|_| Errno::EINVAL.into()),
    }
}

fn add(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let op: AddOp = input(bytes)?;
    let mut header = header(o)?;
    let unique = format!("{}.{}", o.next_version().version, o.op());
    let mut entries = Vec::new();
    for mut entry in op.entries {
        let mut at = entry.timestamp;
        if op.monotonic && at < header.max_time {
            at = header.max_time;
        }
        header.max_time = header.max_time.max(at);
        if entry.id.is_empty() {
            entry.id = [time_key(at), unique.clone().into_bytes()].concat();
        }
        header.max_marker = header.max_marker.max(entry.id.clone());
        entries.push((entry.id.clone(), Writer::encode(&entry)));
    }
    o.omap_set(entries)?;
    o.omap_set_header(Writer::encode(&header))?;
    done()
}

fn list(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let op: ListOp = input(bytes)?;
    let from = if op.marker.is_empty() { time_key(op.from) } else { op.marker };
    let bounded = op.from != Utime::default() && op.to >= op.from;
    let to = bounded.then(|| time_key(op.to));
    let max = usize::try_from(op.max_entries).ok().filter(|n| (1..=MAX_ENTRIES).contains(n));
    let (found, mut more) = o.omap_range(&from, PREFIX, max.unwrap_or(MAX_ENTRIES))?;
    let (mut entries, mut marker) = (Vec::new(), Vec::new());
    for (key, value) in found {
        let past = to.as_ref().is_some_and(|to| key[..to.len().min(key.len())] >= to[..]);
        marker = key;
        if past {
            more = false;
            break;
        }
        entries.extend(Reader::new(&value).get::<LogEntry>().ok());
    }
    output(&ListReply { entries, marker, truncated: more })
}

fn trim(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let op: TrimOp = input(bytes)?;
    let from = if op.from_marker.is_empty() { time_key(op.from) } else { op.from_marker };
    // After the last key to remove: entries of the very last moment are removed too.
    let to = match op.to_marker.is_empty() {
        true => time_key(just_behind(op.to)),
        false => [&op.to_marker[..], &[0]].concat(),
    };
    let (first, _) = o.omap_range(&from, PREFIX, 1)?;
    let (first, _) = first.into_iter().next().ok_or(Errno::ENODATA)?;
    if to <= first {
        return fail(Errno::ENODATA);
    }
    o.omap_remove_range(first, to)?;
    done()
}

fn just_behind(at: Utime) -> Utime {
    match at.nsec.saturating_add(1000) {
        nsec if nsec >= 1_000_000_000 => Utime { sec: at.sec.saturating_add(1), nsec: nsec - 1_000_000_000 },
        nsec => Utime { sec: at.sec, nsec },
    }
}

fn info(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    output(&InfoReply { header: header(o)? })
}

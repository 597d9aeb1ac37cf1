//! Commands on the blocklist of clients.

use crate::commands::reply::{Outcome, said};
use crate::edit::Edit;
use crate::failure::invalid;
use decl::Args;
use std::time::Duration;
use wire::EntityAddr;

/// Default time on the blocklist.
const BLOCKLIST: f64 = 3600.0;

pub fn blocklist(edit: &mut Edit<'_>, args: &Args, op: &str) -> Outcome {
    let text = args.str("addr");
    let Some(mut addr) = EntityAddr::parse(text) else {
        return invalid(format!("`{text}` is no address: write IP:PORT/NONCE or IP"));
    };
    // Entries match any protocol, as clients are known by address and nonce alone.
    if !text.starts_with("v1:") && !text.starts_with("v2:") {
        addr.ty = wire::AddrType::ANY;
    }
    let shown = addr.legacy_string();
    if args.str(op) == "rm" {
        let same = |a: &&EntityAddr| a.addr == addr.addr && a.nonce == addr.nonce;
        let listed: Vec<EntityAddr> = edit.osdmap().blocklist.keys().filter(same).copied().collect();
        if listed.is_empty() {
            return said(format!("{shown} isn't blocklisted"));
        }
        edit.osd().old_blocklist.extend(listed);
        return said(format!("un-blocklisting {shown}"));
    }
    let secs = args.float("expire").unwrap_or(BLOCKLIST).max(0.0);
    let until = edit.now.wall + Duration::try_from_secs_f64(secs).unwrap_or(Duration::MAX / 4);
    let until: wire::Utime = until.into();
    edit.osd().new_blocklist.insert(addr, until);
    said(format!("blocklisting {shown} until {} ({} sec)", until.iso8601(), crate::text::float(secs)))
}

pub fn blocklist_clear(edit: &mut Edit<'_>, _: &Args, _: &[u8]) -> Outcome {
    let all: Vec<EntityAddr> = edit.osdmap().blocklist.keys().copied().collect();
    if !all.is_empty() {
        edit.osd().old_blocklist = all;
    }
    said("removed all blocklist entries")
}

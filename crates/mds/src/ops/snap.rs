//! Snapshots are not implemented: a listing of them is empty.

use super::context::Cx;
use super::plan::{Extra, Plan, Reply};
use crate::types::Stop;
use fsfmt::Frag;
use msgs::readdir_flag::{FRAG_COMPLETE, FRAG_END};

pub(super) fn list(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let target = cx.resolve(&cx.request.path)?;
    cx.dir(target.ino)?;
    let extra = Extra::Listing {
        frag: Frag::WHOLE,
        entries: Vec::new(),
        flags: FRAG_END | FRAG_COMPLETE,
        max_bytes: 0,
    };
    let reply = Reply { target: Some(target.ino), extra, ..Reply::default() };
    Ok(Plan { reply, ..Plan::default() })
}

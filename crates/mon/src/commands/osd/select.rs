//! The epoch and the OSD that a command's arguments name.

use crate::failure::{Failure, invalid, missing};
use crate::view::View;
use decl::Args;
use maps::{OsdId, OsdMap};
use std::sync::Arc;
use wire::Errno;

/// The map of the epoch that is asked for, or the newest.
pub fn at_epoch(view: &View<'_>, args: &Args) -> Result<Arc<OsdMap>, Failure> {
    let maps = &view.state.osd;
    let Some(epoch) = args.int("epoch").filter(|e| *e != 0) else { return Ok(maps.map().clone()) };
    let found = u32::try_from(epoch).ok().and_then(|e| maps.at(maps::Epoch(e)));
    found.ok_or_else(|| {
        let text = format!("osdmap epoch {epoch} is not kept; {} to {} are", maps.oldest(), maps.epoch());
        Failure::new(Errno::ENOENT, text)
    })
}

/// The OSD that an argument names, which must exist.
pub fn existing(map: &OsdMap, args: &Args, name: &str) -> Result<OsdId, Failure> {
    match args.osd(name).map(OsdId) {
        Some(osd) if map.exists(osd) => Ok(osd),
        Some(osd) => missing(format!("osd.{osd} does not exist")),
        None => invalid(format!("{name}: write an OSD as 0 or osd.0")),
    }
}

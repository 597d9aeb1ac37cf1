//! Feature levels ([`NacreMap::feature_level`](maps::NacreMap::feature_level)): features in use that OSDs of
//! older builds do not understand. A level is raised when one of its features is first used; until then OSDs
//! may return to an older build, afterwards OSDs below that level are refused. An OSD reports its level when
//! it boots, and the monitor keeps it with the OSD's metadata.

use crate::edit::Edit;
use crate::failure::Failure;
use crate::state::State;
use maps::OsdId;
use wire::{EntityName, EntityType, Errno};

/// The level from which OSDs can merge PGs. An older OSD would take the lower `pg_num` for the end of the PG
/// and delete its objects.
pub const MERGES: u32 = 2;

/// Name of an OSD's level in its metadata.
pub const KEY: &str = "feature_level";

/// The level that an OSD reported at its last boot; 1 for OSDs of builds that report none.
fn of_osd(state: &State, osd: OsdId) -> u32 {
    let metadata = state.metadata.get(&EntityName::new(EntityType::OSD, osd.0.to_string()));
    metadata.and_then(|metadata| metadata.get(KEY)?.parse().ok()).unwrap_or(1)
}

/// Requires that all OSDs of the cluster support a feature that is about to be used, now and later.
pub fn require(edit: &mut Edit<'_>, level: u32) -> Result<(), Failure> {
    if edit.nacre_now().feature_level >= level {
        return Ok(());
    }
    // OSDs that were never up hold no data.
    let counts = |osd: &maps::OsdEntry| osd.is_up() || osd.is_in() && osd.info.up_from.0 > 0;
    let older = edit.osdmap().existing().filter(|(id, osd)| counts(osd) && of_osd(edit.base, *id) < level);
    let older: Vec<String> = older.map(|(id, _)| format!("osd.{id}")).collect();
    if !older.is_empty() {
        let text = format!(
            "OSDs of an older version don't understand this, and would lose data: upgrade and restart {} first",
            older.join(", ")
        );
        return Err(Failure::new(Errno::EPERM, text));
    }
    edit.nacre().feature_level = level;
    edit.notes.push(format!("OSDs of feature level {level} or newer are required from now on"));
    Ok(())
}

/// The reason why an OSD of this `level` may not boot, if it may not.
pub fn refusal(state: &State, osd: OsdId, level: u32) -> Option<String> {
    let required = state.osd.nacre().feature_level;
    (level < required).then(|| {
        format!("osd.{osd} is of feature level {level}, the cluster uses {required}: upgrade it, an older version would lose data")
    })
}

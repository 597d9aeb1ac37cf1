//! Commands that remove OSDs or declare them lost.

use crate::commands::crush::failure::crush_failure;
use crate::commands::osd::select::existing;
use crate::commands::reply::{Outcome, said};
use crate::edit::Edit;
use crate::entry::Change;
use crate::failure::{Failure, invalid};
use crate::text::plural;
use decl::Args;
use maps::{OsdId, osd_state};
use wire::{EntityName, EntityType, Errno};

/// The OSD of `id` if it may be destroyed or purged: it exists, is down, and the user consents. `Err` holds
/// the answer if there is nothing to do or it is not allowed.
pub fn doomed(edit: &Edit<'_>, args: &Args, force: bool) -> Result<OsdId, Outcome> {
    let map = edit.osdmap();
    let Some(osd) = args.osd("id").map(OsdId) else { return Err(invalid("id: write an OSD as 0 or osd.0")) };
    if !map.exists(osd) {
        return Err(said(format!("osd.{osd} does not exist")));
    }
    let busy = |text: String| Err(Err(Failure::new(Errno::EBUSY, text)));
    let holds = edit.view.pgs.pgs_on(osd);
    if holds > 0 && !force {
        return busy(format!(
            "OSD(s) {osd} have {} currently mapped to them. Mark it out and wait, or add --force: data may then be lost",
            plural(holds, "pg", "pgs")
        ));
    }
    if map.is_up(osd) {
        return busy(format!("osd.{osd} is not `down`."));
    }
    if !args.flag("yes_i_really_mean_it") {
        let text = "Are you SURE?  This will mean real, permanent data loss, as well as cephx keys. Pass --yes-i-really-mean-it if you really do.";
        return Err(Err(Failure::new(Errno::EPERM, text)));
    }
    Ok(osd)
}

/// Deletes an OSD's key and store id; its number and place stay for the next disk.
pub fn destroy(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let osd = match doomed(edit, args, args.flag("force")) {
        Ok(osd) => osd,
        Err(outcome) => return outcome,
    };
    let entry = edit.osdmap().osd(osd).expect("was checked");
    let (state, epoch) = (entry.state, edit.osdmap().epoch.next());
    if state & osd_state::DESTROYED != 0 {
        return said(format!("osd.{osd} is already destroyed"));
    }
    let inc = edit.osd();
    *inc.new_state.entry(osd).or_default() ^= osd_state::DESTROYED;
    inc.new_uuid.insert(osd, wire::Uuid::default());
    inc.new_lost.insert(osd, epoch);
    let name = EntityName::new(EntityType::OSD, osd.to_string());
    edit.push(Change::Auth(name.clone(), None));
    edit.push(Change::Metadata(name, None));
    said(format!("destroyed osd.{osd}"))
}

pub fn purge_new(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let osd = existing(edit.osdmap(), args, "id");
    if let Ok(osd) = osd
        && edit.osdmap().osd(osd).is_some_and(|o| o.state & osd_state::NEW == 0)
    {
        return Err(Failure::new(Errno::EPERM, format!("osd.{osd} is not new: use `ceph osd purge`")));
    }
    crate::commands::osd::remove::purge(edit, args, &[])
}

fn needs_consent(args: &Args, what: &str) -> Result<(), Failure> {
    match args.flag("yes_i_really_mean_it") {
        true => Ok(()),
        false => {
            Err(Failure::new(Errno::EPERM, format!("{what} If you are sure, add --yes-i-really-mean-it.")))
        }
    }
}

pub fn lost(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    needs_consent(args, "are you SURE?  Declaring an OSD lost gives up what only it has.")?;
    let map = edit.osdmap();
    let osd = existing(map, args, "id")?;
    let entry = map.osd(osd).expect("was checked");
    if entry.is_up() {
        return Err(Failure::new(Errno::EBUSY, format!("osd.{osd} is not down")));
    }
    let (epoch, down_at) = (map.epoch.next(), entry.info.down_at);
    edit.osd().new_lost.insert(osd, epoch);
    said(format!("marked osd lost in epoch {epoch} (down since {down_at})"))
}

/// Takes an OSD that is down out of the map, of CRUSH and of the keys.
fn forget(edit: &mut Edit<'_>, osd: OsdId, with_key: bool) -> Result<(), Failure> {
    let map = edit.osdmap();
    let entry = map.osd(osd).expect("was checked");
    if entry.is_up() {
        return Err(Failure::new(
            Errno::EBUSY,
            format!("osd.{osd} is still up; must be down before removal."),
        ));
    }
    let state = entry.state;
    // XORing EXISTS removes the number with everything that belongs to it.
    edit.osd().new_state.insert(osd, state);
    if with_key {
        let mut crush = edit.crush();
        if crush.names.contains_key(&osd.0) {
            crush.remove(osd.0).map_err(crush_failure)?;
            edit.set_crush(crush);
        }
        let name = EntityName::new(EntityType::OSD, osd.to_string());
        edit.push(Change::Auth(name.clone(), None));
        edit.push(Change::Metadata(name, None));
    }
    edit.nacre().dead.remove(&osd);
    Ok(())
}

pub fn purge(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let osd = match crate::commands::osd::remove::doomed(edit, args, args.flag("force")) {
        Ok(osd) => osd,
        Err(outcome) => return outcome,
    };
    forget(edit, osd, true)?;
    said(format!("purged osd.{osd}"))
}

pub fn rm(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let mut failed = None;
    let outcome = each(edit, args, |edit, osd| match forget(edit, osd, false) {
        Ok(()) => format!("removed osd.{osd}. "),
        Err(failure) => {
            failed = Some(failure);
            String::new()
        }
    });
    failed.map_or(outcome, Err)
}

/// The OSDs of a list; `any`, `all` and `*` mean every one.
pub(crate) fn each(
    edit: &mut Edit<'_>,
    args: &Args,
    mut apply: impl FnMut(&mut Edit<'_>, OsdId) -> String,
) -> Outcome {
    let map = edit.osdmap();
    let list = args.list("ids");
    let mut status = String::new();
    let mut ids = Vec::new();
    for text in &list {
        match (text.as_str(), decl::args::parse_osd(text).map(OsdId)) {
            ("any" | "all" | "*", _) => ids.extend(map.existing().map(|(id, _)| id)),
            (_, Some(osd)) if map.exists(osd) => ids.push(osd),
            (_, Some(osd)) => status.push_str(&format!("osd.{osd} does not exist. ")),
            _ => return invalid(format!("`{text}` is no OSD: write 0, osd.0 or all")),
        }
    }
    for osd in ids {
        status.push_str(&apply(edit, osd));
    }
    said(status)
}

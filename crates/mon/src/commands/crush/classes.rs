//! Commands that change the device classes of OSDs.

use crate::commands::crush::change::keep;
use crate::commands::crush::failure::crush_failure;
use crate::commands::reply::{Outcome, said};
use crate::edit::Edit;
use crate::failure::{Failure, invalid, missing};
use decl::Args;
use maps::OsdId;
use wire::Errno;

/// The OSDs of `ids`, all of which must exist.
fn osds(edit: &Edit<'_>, args: &Args) -> Result<Vec<i32>, Failure> {
    let mut out = Vec::new();
    for text in args.list("ids") {
        match decl::args::parse_osd(&text) {
            _ if matches!(text.as_str(), "any" | "all" | "*") => {
                out.extend(edit.osdmap().existing().map(|(id, _)| id.0));
            }
            Some(osd) if edit.osdmap().exists(OsdId(osd)) => out.push(osd),
            Some(osd) => return missing(format!("osd.{osd} does not exist")),
            None => return invalid(format!("`{text}` is no OSD: write 0 or osd.0")),
        }
    }
    Ok(out)
}

fn numbers(osds: &[i32]) -> String {
    osds.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

pub fn set_device_class(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (class, osds) = (args.str("class"), osds(edit, args)?);
    let mut crush = edit.crush();
    let mut changed = Vec::new();
    for osd in osds {
        match crush.class_name_of(osd) {
            Some(old) if old == class => {}
            Some(old) => {
                let text = format!(
                    "osd.{osd} has already bound to class '{old}', can not reset class to '{class}'; \
                     use 'ceph osd crush rm-device-class <id>' to remove old class first"
                );
                return Err(Failure::new(Errno::EBUSY, text));
            }
            None => {
                crush.set_class(osd, Some(class)).map_err(crush_failure)?;
                changed.push(osd);
            }
        }
    }
    let text = format!("set osd(s) {} to class '{class}'", numbers(&changed));
    if changed.is_empty() { said(text) } else { keep(edit, crush, text) }
}

pub fn rm_device_class(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let osds = osds(edit, args)?;
    let mut crush = edit.crush();
    let mut changed = Vec::new();
    for osd in osds {
        if crush.class_name_of(osd).is_some() {
            crush.set_class(osd, None).map_err(crush_failure)?;
            changed.push(osd);
        }
    }
    let text = format!("done removing class of osd(s): {}", numbers(&changed));
    if changed.is_empty() { said(text) } else { keep(edit, crush, text) }
}

pub fn class_rename(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (from, to) = (args.str("srcname"), args.str("dstname"));
    let mut crush = edit.crush();
    match (crush.class_of(from), crush.class_of(to)) {
        (None, Some(_)) => said(format!("already renamed to '{to}'")),
        (None, None) => missing(format!("class '{from}' does not exist")),
        (Some(_), Some(_)) => Err(Failure::new(Errno::EEXIST, format!("class '{to}' already exists"))),
        (Some(id), None) => {
            crush.rename_class(id, to).map_err(crush_failure)?;
            keep(edit, crush, format!("rename class '{from}' to '{to}'"))
        }
    }
}

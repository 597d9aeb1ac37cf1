//! Commands on the releases that OSDs and clients must have.

use crate::commands::reply::{Outcome, said};
use crate::edit::Edit;
use crate::failure::{Failure, invalid};
use decl::Args;
use maps::release;
use wire::Errno;

fn release_number(name: &str) -> Option<u8> {
    (1..=u8::MAX).take(30).find(|n| release::name(*n) == name)
}

pub fn require_release(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let name = args.str("release");
    let wanted = release_number(name).expect("was checked");
    let now = edit.osdmap().require_osd_release;
    if wanted < now {
        return Err(Failure::new(Errno::EPERM, "require_osd_release cannot be lowered once it has been set"));
    }
    if wanted > now {
        edit.osd().new_require_osd_release = wanted;
    }
    said("")
}

pub fn min_compat_client(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let name = args.str("version");
    let Some(wanted) = release_number(name).filter(|n| *n >= release::JEWEL) else {
        return invalid(format!("version {name} is not recognized"));
    };
    let map = edit.osdmap();
    let least = if map.pg_upmap.is_empty() && map.pg_upmap_items.is_empty() {
        release::JEWEL
    } else {
        release::LUMINOUS
    };
    if wanted < least {
        let text = format!("osdmap current utilizes features that require {}", release::name(least));
        return Err(Failure::new(Errno::EPERM, text));
    }
    if wanted > release::PACIFIC && !args.flag("yes_i_really_mean_it") {
        let text =
            format!("clients of pacific could not connect any more with {name}: add --yes-i-really-mean-it");
        return Err(Failure::new(Errno::EPERM, text));
    }
    edit.osd().new_require_min_compat_client = wanted;
    said(format!("set require_min_compat_client to {name}"))
}

//! Commands about Ceph's manager daemon, of which Nacre has none: the leader does its work.

use crate::commands::reply::{Outcome, structured};
use crate::failure::missing;
use crate::text::{addrvec, legacy_addr};
use crate::view::View;
use decl::Args;
use serde_json::json;
use wire::AddrVec;

/// Answers in place of Ceph's manager, which does not exist here.
pub fn mgr_stat(_: &View<'_>, args: &Args) -> Outcome {
    structured(args, &json!({ "epoch": 1, "available": false, "active_name": "", "num_standby": 0 }))
}

pub fn mgr_dump(_: &View<'_>, args: &Args) -> Outcome {
    let none = AddrVec::default();
    let json = json!({
        "epoch": 1, "active_gid": 0, "active_name": "",
        "active_addrs": addrvec(&none), "active_addr": legacy_addr(&none),
        "active_change": "0.000000", "active_mgr_features": 0, "available": false, "standbys": [],
        "modules": [], "available_modules": [], "services": {}, "always_on_modules": {},
        "last_failure_osd_epoch": 0,
        "active_clients": [],
    });
    structured(args, &json)
}

pub fn mgr_metadata(_: &View<'_>, args: &Args) -> Outcome {
    match args.opt_str("who") {
        Some(who) => missing(format!("there is no mgr.{who}: monitors do a manager's work")),
        None => structured(args, &json!([])),
    }
}

pub fn mgr_module_ls(_: &View<'_>, args: &Args) -> Outcome {
    structured(args, &json!({ "always_on_modules": [], "enabled_modules": [], "disabled_modules": [] }))
}

pub fn mgr_services(_: &View<'_>, args: &Args) -> Outcome {
    structured(args, &json!({}))
}

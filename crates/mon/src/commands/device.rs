//! The devices that daemons store on, as their metadata tell: `device_ids` is a list of `DEV=ID`.

use crate::commands::reply::{Outcome, answer, structured};
use crate::commands::table::Align::L;
use crate::commands::table::Table;
use crate::failure::missing;
use crate::view::View;
use decl::Args;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use wire::EntityName;

/// A device, the hosts that report it, and the daemons on it.
#[derive(Default)]
struct Device {
    /// Host, device, path.
    places: BTreeSet<(String, String, String)>,
    daemons: BTreeSet<String>,
}

/// Parses `DEV=VALUE,DEV=VALUE`.
fn pairs(list: Option<&String>) -> BTreeMap<String, String> {
    let items = list.map(String::as_str).unwrap_or_default().split(',');
    items.filter_map(|item| item.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

fn devices(view: &View<'_>) -> BTreeMap<String, Device> {
    let mut out: BTreeMap<String, Device> = BTreeMap::new();
    for (name, metadata) in view.state.metadata.iter() {
        let paths = pairs(metadata.get("device_paths"));
        let host = metadata.get("hostname").cloned().unwrap_or_default();
        for (dev, id) in pairs(metadata.get("device_ids")) {
            let device = out.entry(id).or_default();
            let path = paths.get(&dev).cloned().unwrap_or_default();
            device.places.insert((host.clone(), dev, path));
            device.daemons.insert(name.to_string());
        }
    }
    out
}

fn device_json(id: &str, device: &Device) -> Value {
    let place =
        |(host, dev, path): &(String, String, String)| json!({ "host": host, "dev": dev, "path": path });
    json!({
        "devid": id,
        "location": device.places.iter().map(place).collect::<Vec<_>>(),
        "daemons": device.daemons,
    })
}

fn list(view: &View<'_>, args: &Args, keep: impl Fn(&Device) -> bool) -> Outcome {
    let all: Vec<_> = devices(view).into_iter().filter(|(_, d)| keep(d)).collect();
    let json = || all.iter().map(|(id, d)| device_json(id, d)).collect::<Vec<_>>().into();
    let plain = || {
        let mut t = Table::new(&["DEVICE", "HOST:DEV", "DAEMONS"].map(|name| (name, L, L)));
        for (id, d) in &all {
            let places: Vec<String> = d.places.iter().map(|(host, dev, _)| format!("{host}:{dev}")).collect();
            let daemons: Vec<&str> = d.daemons.iter().map(String::as_str).collect();
            t.row(vec![id.clone(), places.join(" "), daemons.join(" ")]);
        }
        t.render()
    };
    answer(args, json, plain)
}

pub fn ls(view: &View<'_>, args: &Args) -> Outcome {
    list(view, args, |_| true)
}

pub fn ls_by_daemon(view: &View<'_>, args: &Args) -> Outcome {
    let who = args.str("who");
    let known = EntityName::parse(who).is_some();
    match known {
        true => list(view, args, |d| d.daemons.contains(who)),
        false => crate::failure::invalid(format!("{who} not a valid daemon name: write TYPE.ID, as osd.0")),
    }
}

pub fn ls_by_host(view: &View<'_>, args: &Args) -> Outcome {
    list(view, args, |d| d.places.iter().any(|(host, _, _)| host == args.str("host")))
}

pub fn info(view: &View<'_>, args: &Args) -> Outcome {
    let id = args.str("devid");
    match devices(view).get(id) {
        Some(device) => structured(args, &device_json(id, device)),
        None => missing(format!("device {id} not found")),
    }
}

//! What monitors serve over HTTP, in the place of two modules of Ceph's manager: the dashboard and the
//! metrics. Neither is served until it is enabled.

pub use super::enabled_modules::{KEY, OPTIONAL, enabled};
use crate::view::View;
use serde_json::{Map, Value, json};
use std::net::IpAddr;

/// The key of the dashboard's certificate, as in Ceph.
pub const CERTIFICATE: &str = "mgr/dashboard/crt";
/// The key of the certificate's private key, as in Ceph.
pub const CERTIFICATE_KEY: &str = "mgr/dashboard/key";
/// The key of the dashboard's users, as in Ceph.
pub const USERS: &str = "mgr/dashboard/accessdb_v2";
/// Where a module is served: the addresses (an IP address, or empty for the default) and the port.
struct Place {
    scheme: &'static str,
    addr: String,
    port: u64,
}

fn place(view: &View<'_>, module: &str) -> Place {
    let has = |key| view.state.kv.contains_key(key);
    let (scheme, port) = match module {
        "dashboard" if has(CERTIFICATE) && has(CERTIFICATE_KEY) => ("https", "ssl_server_port"),
        _ => ("http", "server_port"),
    };
    let addr: String = view.mgr_option(&format!("mgr/{module}/server_addr"));
    let addr = match addr.is_empty() && module == "dashboard" && scheme == "http" {
        true => "127.0.0.1".to_owned(),
        false => addr,
    };
    Place { scheme, addr, port: view.mgr_option(&format!("mgr/{module}/{port}")) }
}

/// The IP address of a monitor.
fn ip(view: &View<'_>, name: &str) -> Option<IpAddr> {
    let mon = view.state.monmap.mons.get(name)?;
    mon.addrs.0.iter().find_map(|addr| addr.addr).map(|addr| addr.ip())
}

/// True if this monitor serves at its address. Of several with the same one, the leader does, or the first.
fn serves(view: &View<'_>) -> bool {
    let own = ip(view, &view.config.name);
    let mut beside = view.state.monmap.ranks.iter().filter(|name| own.is_some() && ip(view, name) == own);
    let leader = beside.clone().find(|name| *name == view.quorum.leader());
    leader.or_else(|| beside.next()).is_some_and(|name| *name == view.config.name)
}

/// What this monitor is to serve, for its own process: address, port and scheme of each enabled module.
pub fn to_serve(view: &View<'_>) -> Value {
    let leads = view.quorum.leader() == view.config.name;
    let mut out = json!({ "name": view.config.name, "leads": leads });
    if !serves(view) {
        return out;
    }
    for module in enabled(&view.state.kv) {
        let Place { scheme, addr, port } = place(view, module);
        out[module] = json!({ "scheme": scheme, "addr": addr, "port": port });
        if scheme == "https" {
            // The server is to notice that there is another one.
            let stored = [CERTIFICATE, CERTIFICATE_KEY].map(|key| view.state.kv.get(key));
            let sum = stored.into_iter().flatten().fold(0, |sum, pem| wire::crc32c::update(sum, pem));
            out[module]["certificate"] = sum.into();
        }
    }
    out
}

/// Where clients find each enabled module: at the leader.
pub fn services(view: &View<'_>) -> Value {
    let leader = ip(view, view.quorum.leader());
    let one = |module| {
        let Place { scheme, addr, port } = place(view, module);
        let given = addr.parse::<IpAddr>().ok().filter(|ip| !ip.is_unspecified());
        let url = match given.or(leader)? {
            IpAddr::V6(ip) => format!("{scheme}://[{ip}]:{port}/"),
            IpAddr::V4(ip) => format!("{scheme}://{ip}:{port}/"),
        };
        Some((module.to_owned(), Value::from(url)))
    };
    let all: Map<String, Value> = enabled(&view.state.kv).into_iter().filter_map(one).collect();
    all.into()
}

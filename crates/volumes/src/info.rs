//! What is told of subvolumes and groups.

use crate::attributes::{layout, quota, used};
use crate::clones;
use crate::cluster::Cluster;
use crate::failure::Done;
use crate::output;
use crate::subvolume::{State, Subvolume};
use crate::tree::{Node, Tree};
use serde_json::{Value, json};

/// What is told of any directory.
pub(crate) fn of_directory(tree: &Tree, node: &Node) -> Done<Value> {
    let (attr, quota, used) = (node.attr(), quota(tree, node)?, used(tree, node)?);
    Ok(json!({
        "uid": attr.uid, "gid": attr.gid, "mode": attr.mode,
        "atime": output::time(attr.atime), "mtime": output::time(attr.mtime),
        "ctime": output::time(attr.ctime), "created_at": output::time(attr.btime),
        "bytes_quota": quota.map_or(json!("infinite"), |quota| json!(quota)),
        "bytes_used": used, "bytes_pcent": output::percent(used, quota),
    }))
}

pub(crate) fn of_subvolume(cluster: &Cluster, tree: &Tree, fs: &str, sub: &Subvolume) -> Done<String> {
    let state = sub.state().map_or("", State::name);
    let mut out = match sub.state() {
        Some(State::Retained) => json!({}),
        _ => {
            let fs = cluster.file_system(fs)?;
            let (pool, namespace) = layout(tree, sub.path(), fs.usual_pool())?;
            let mut out = of_directory(tree, &sub.data(tree)?)?;
            out["path"] = sub.path().into();
            out["data_pool"] = pool.into();
            out["pool_namespace"] = namespace.into();
            out
        }
    };
    if let (Some(source), true) = (clones::source(sub), sub.kind() == "clone") {
        out["source"] = source;
    }
    out["type"] = sub.kind().into();
    out["features"] = sub.features().into();
    out["state"] = state.into();
    out["flavor"] = if sub.is_of_first_version() { 1 } else { 2 }.into();
    out["mon_addrs"] = cluster.mon_addrs()?.into();
    Ok(output::json(&out))
}

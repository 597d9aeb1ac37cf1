//! Volumes, which are file systems with their pools.

use crate::cluster::{Cluster, FileSystem};
use crate::failure::{Done, Failure};
use crate::output;
use crate::place::BASE;
use crate::trash;
use crate::tree::Tree;
use decl::Args;
use serde_json::{Value, json};
use wire::Errno;

pub(crate) fn list(cluster: &Cluster) -> Done<String> {
    Ok(output::names(cluster.file_systems()?.into_iter().map(|fs| fs.name)))
}

pub(crate) fn info(cluster: &Cluster, tree: &Tree, fs: &FileSystem, human: bool) -> Done<String> {
    let mut out = json!({ "mon_addrs": cluster.mon_addrs()? });
    let number = |n: u64| if human { json!(output::bytes(n)) } else { json!(n) };
    match tree.find(BASE) {
        Ok(node) => {
            out["used_size"] = number(crate::attributes::used(tree, &node)?);
            out["pending_subvolume_deletions"] = trash::count(tree)?.into();
        }
        Err(Errno::ENOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let df = cluster.ask(&json!({ "prefix": "df" }))?;
    let pool = |name: &String| {
        let all = df["pools"].as_array();
        let stats =
            all.and_then(|all| all.iter().find(|pool| pool["name"] == *name)).map(|pool| &pool["stats"]);
        let stat = |key: &str| stats.and_then(|stats| stats[key].as_u64()).unwrap_or(0);
        json!({ "name": name, "used": number(stat("bytes_used")), "avail": number(stat("max_avail")) })
    };
    let data: Vec<Value> = fs.data_pools.iter().map(pool).collect();
    out["pools"] = json!({ "metadata": [pool(&fs.metadata_pool)], "data": data });
    Ok(output::json(&out))
}

/// Makes a file system, and those of its pools that are not named.
pub(crate) fn create(cluster: &Cluster, args: &Args) -> Done<()> {
    let name = args.str("name");
    let mut made = Vec::new();
    let mut pool = |given: &str, kind: &str| -> Done<String> {
        if let Some(given) = args.opt_str(given) {
            return Ok(given.to_owned());
        }
        let pool = format!("cephfs.{name}.{kind}");
        cluster.command(&json!({ "prefix": "osd pool create", "pool": pool }))?;
        made.push(pool.clone());
        Ok(pool)
    };
    let both = pool("meta_pool", "meta").and_then(|meta| Ok((meta, pool("data_pool", "data")?)));
    let done = both.and_then(|(metadata, data)| {
        let new = json!({ "prefix": "fs new", "fs_name": name, "metadata": metadata, "data": data });
        cluster.command(&new).map(drop)
    });
    if done.is_err() {
        for pool in made {
            // It stays where pools may not be removed, and a repeated command takes it.
            let _ = remove_pool(cluster, &pool);
        }
    }
    done
}

fn remove_pool(cluster: &Cluster, pool: &str) -> Done<()> {
    let remove = json!({
        "prefix": "osd pool rm", "pool": pool, "pool2": pool, "yes_i_really_really_mean_it": true,
    });
    cluster.command(&remove).map(drop)
}

/// Removes a file system with its pools.
pub(crate) fn remove(cluster: &Cluster, args: &Args) -> Done<String> {
    let name = args.str("vol_name");
    if args.opt_str("yes-i-really-mean-it") != Some("--yes-i-really-mean-it") {
        let text = format!(
            "WARNING: this will *PERMANENTLY DESTROY* all data stored in the filesystem '{name}'. If you are \
             *ABSOLUTELY CERTAIN* that is what you want, re-issue the command followed by \
             --yes-i-really-mean-it."
        );
        return Err(Failure::new(Errno::EPERM, text));
    }
    let may =
        cluster.ask(&json!({ "prefix": "config get", "who": "mon", "key": "mon_allow_pool_delete" }))?;
    if may != json!(true) && may != json!("true") {
        let text = "pool deletion is disabled; you must first set the mon_allow_pool_delete config option to \
                    true before volumes can be deleted";
        return Err(Failure::new(Errno::EPERM, text));
    }
    let fs = match cluster.file_system(name) {
        Err(failure) if failure.errno == Errno::ENOENT => {
            return Err(Failure::new(failure.errno, format!("volume {name} doesn't exist")));
        }
        found => found?,
    };
    cluster.forget(name);
    cluster.command(&json!({ "prefix": "fs fail", "fs_name": name }))?;
    cluster.command(&json!({ "prefix": "fs rm", "fs_name": name, "yes_i_really_mean_it": true }))?;
    let pools: Vec<&String> = std::iter::once(&fs.metadata_pool).chain(&fs.data_pools).collect();
    for pool in &pools {
        remove_pool(cluster, pool)?;
    }
    let pools: Vec<&str> = pools.into_iter().map(String::as_str).collect();
    Ok(format!("metadata pool: {} data pool: {:?} removed", pools[0], &pools[1..]))
}

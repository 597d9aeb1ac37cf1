//! An administrator's changes of the cluster, at most 20 a second. Nobody waits for the answers.

use super::profile::Profile;
use super::state::{Fault, Nemesis, Repair};
use crate::cluster::{Cluster, max_mds};
use Profile::{Any, Images, Objects, Rados, Ranks, Snapshots};
use fsclient::Request;
use std::time::Duration;

/// The least time between two commands of the administrator.
const COMMAND_INTERVAL: Duration = Duration::from_millis(50);
/// The most PGs that a pool is given.
const MAX_PGS: u32 = 24;

/// CRUSH gives an OSD no data for a while: its PGs move away and back.
pub static OSD_OUT: Fault = Fault {
    name: "osd_out",
    profiles: &[Rados],
    also_in: &[(Any, 3), (Objects, 3), (Images, 4)],
    inject: |nemesis, _, cluster| {
        nemesis.may_command(cluster)?;
        let number = nemesis.rng.below(cluster.osds.len() as u64) as usize;
        command_osd("osd out", number, cluster);
        let end = cluster.world.now() + Duration::from_millis(nemesis.rng.range(500, 15_000));
        nemesis.repair_at(end, Repair::MarkIn(number));
        Some(())
    },
};

/// A pool gets up to four times as many PGs: they split, and move to places of their own.
pub static PG_NUM_RAISED: Fault = Fault {
    name: "pg_num_raised",
    profiles: &[Rados],
    also_in: &[(Any, 3), (Objects, 3), (Snapshots, 3), (Images, 4)],
    inject: |nemesis, _, cluster| {
        nemesis.may_command(cluster)?;
        let pools = cluster.pools();
        let (name, pg_num) = nemesis.rng.pick(&pools);
        let more = pg_num + nemesis.rng.range(1, u64::from(3 * pg_num) + 1) as u32;
        if more > MAX_PGS {
            return None;
        }
        set_pg_num(name, more, cluster)
    },
};

/// A pool gets fewer PGs: they move together and are merged.
pub static PG_NUM_LOWERED: Fault = Fault {
    name: "pg_num_lowered",
    profiles: &[Rados],
    also_in: &[(Any, 3), (Objects, 3), (Snapshots, 3), (Images, 4)],
    inject: |nemesis, _, cluster| {
        nemesis.may_command(cluster)?;
        let pools = cluster.pools();
        let (name, pg_num) = nemesis.rng.pick(&pools);
        let fewer = nemesis.rng.range(1, u64::from(*pg_num) + 1) as u32;
        set_pg_num(name, fewer, cluster)
    },
};

/// A rank is asked to hand a directory over to another.
pub static SUBTREE_EXPORTED: Fault = Fault {
    name: "subtree_exported",
    profiles: &[Ranks],
    also_in: &[],
    inject: |nemesis, _, cluster| {
        let to = nemesis.rng.below(u64::from(cluster.spec.standbys) + 1);
        let command = |path: &str| serde_json::json!({ "prefix": "export dir", "path": path, "rank": to });
        ask_any(nemesis, cluster, ["/x", "/y", "/x/x", "/x/y", "/y/x", "/y/y", "/locked"], command)
    },
};

/// A rank is asked to hand a part of a directory over to another.
pub static SHARD_EXPORTED: Fault = Fault {
    name: "shard_exported",
    profiles: &[Ranks],
    also_in: &[],
    inject: |nemesis, _, cluster| {
        let to = nemesis.rng.below(u64::from(cluster.spec.standbys) + 1);
        // Those of directories that are whole, in halves, or split by the usual three bits.
        let frag = match nemesis.rng.below(4) {
            0 => "0/0".to_owned(),
            1 => nemesis.rng.pick(&["0/1", "800000/1"]).to_string(),
            _ => format!("{:x}/3", nemesis.rng.below(8) << 21),
        };
        let part = serde_json::json!({ "prefix": "export dir", "rank": to, "frag": frag });
        let command = |path: &str| {
            let mut command = part.clone();
            command["path"] = path.into();
            command
        };
        ask_any(nemesis, cluster, ["/", "/x", "/y", "/x/x", "/x/y", "/y/x", "/y/y"], command)
    },
};

/// A rank is asked to have the others answer for a directory too.
pub static DIR_REPLICATED: Fault = Fault {
    name: "dir_replicated",
    profiles: &[],
    also_in: &[(Ranks, 2)],
    inject: |nemesis, _, cluster| {
        let command = |path: &str| serde_json::json!({ "prefix": "replicate dir", "path": path });
        ask_any(nemesis, cluster, ["/x", "/y", "/x/x", "/x/y", "/y/x", "/y/y", "/locked"], command)
    },
};

/// Gives a command about one of some directories to the server that carries it out; `None` if all refuse.
fn ask_any(
    nemesis: &mut Nemesis,
    cluster: &mut Cluster,
    mut paths: [&str; 7],
    command: impl Fn(&str) -> serde_json::Value,
) -> Option<()> {
    nemesis.rng.shuffle(&mut paths);
    paths.into_iter().find_map(|path| {
        let command = command(path).to_string();
        let mut servers = cluster.mdss().into_iter();
        servers.find_map(|server| cluster.world.admin(server, &command).filter(|(code, _)| *code == 0))
    })?;
    Some(())
}

/// The file system gets another number of ranks, or one that follows the load.
pub static MAX_MDS_SET: Fault = Fault {
    name: "max_mds_set",
    profiles: &[Ranks],
    also_in: &[],
    inject: |nemesis, _, cluster| {
        nemesis.may_command(cluster)?;
        let most = nemesis.rng.range(1, u64::from(cluster.spec.standbys) + 2) as u32;
        let most = if nemesis.rng.below(3) == 0 { "auto".to_owned() } else { most.to_string() };
        let request = Request::Command { command: max_mds(&most).to_string(), input: Default::default() };
        cluster.world.request(cluster.admin, request);
        Some(())
    },
};

/// Metadata servers are busy, or have little to do, and their hosts have processors idle or not.
pub static MDS_LOAD_CHANGED: Fault = Fault {
    name: "mds_load_changed",
    profiles: &[Ranks],
    also_in: &[],
    inject: |nemesis, _, cluster| {
        let busy = *nemesis.rng.pick(&[100, 900]);
        let idle = *nemesis.rng.pick(&[100, 900]);
        let load = node::Load { busy, idle, ..node::Load::default() };
        cluster.mdss().into_iter().for_each(|host| cluster.world.load(host, load));
        Some(())
    },
};

impl Nemesis {
    /// Counts a command of the administrator; `None` if the last one was too short a while ago.
    fn may_command(&mut self, cluster: &Cluster) -> Option<()> {
        let now = cluster.world.now();
        if now < self.next_command {
            return None;
        }
        self.next_command = now + COMMAND_INTERVAL;
        Some(())
    }
}

fn set_pg_num(pool: &str, pg_num: u32, cluster: &mut Cluster) -> Option<()> {
    let set = serde_json::json!({
        "prefix": "osd pool set", "pool": pool, "var": "pg_num", "val": pg_num.to_string()
    });
    let request = Request::Command { command: set.to_string(), input: Default::default() };
    cluster.world.request(cluster.admin, request);
    Some(())
}

/// Gives a command about one OSD, by its number.
pub(super) fn command_osd(prefix: &str, osd: usize, cluster: &mut Cluster) {
    let command = serde_json::json!({ "prefix": prefix, "ids": [osd.to_string()] }).to_string();
    cluster.world.request(cluster.admin, Request::Command { command, input: Default::default() });
}

//! Latency of updates by the number of copies of the metadata (the paper's figure 9 (a)). One client makes
//! files and directories, one after another; each is over once the server's journal has it. The journal's
//! primary OSD is on another machine, or on the server's own.

use super::{SERVER, entry, shared_dir};
use crate::cluster::{Cluster, Spec};
use crate::faults::Faults;
use crate::machines::Machines;
use crate::scaling::PAPER;
use fsclient::{ClientOptions, FsRequest};
use mds::MdsOptions;
use msgs::{Body, MdsOp};
use node::Msg;
use serde_json::json;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use stdx::Instant;

/// Time between an answer and the next update, so that each is in the journal before the next begins.
const PAUSE: Duration = Duration::from_millis(50);
/// The longest wait for the cluster to be healthy again.
const SETTLES: Duration = Duration::from_secs(120);

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct UpdatesSpec {
    /// Copies of the metadata.
    pub copies: u32,
    /// True if the primary OSD of all of it is on the server's own machine.
    pub is_local: bool,
    /// Number of updates.
    pub count: u32,
    /// Seed of the run.
    pub seed: u64,
}

/// Mean latencies, from a client's request to an answer.
#[derive(Clone, Copy, Debug)]
pub struct Updates {
    /// The answer that comes before the journal has the update.
    pub early: Duration,
    /// The one after that.
    pub safe: Duration,
}

/// Requests that are not over, by number, and the times that others took.
#[derive(Default)]
struct Seen {
    began: BTreeMap<u64, Instant>,
    early: Vec<Duration>,
    safe: Vec<Duration>,
}

impl Seen {
    fn see(&mut self, now: Instant, msg: &Msg) {
        match &msg.body {
            node::Body::Client(Body::ClientRequest(m)) if matches!(m.op, MdsOp::MKNOD | MdsOp::MKDIR) => {
                self.began.insert(msg.tid, now);
            }
            node::Body::Client(Body::ClientReply(reply)) => {
                let Some(began) = self.began.get(&msg.tid) else { return };
                let took = now.since(*began) + PAPER.latency;
                if reply.safe {
                    self.safe.push(took);
                    self.began.remove(&msg.tid);
                } else {
                    self.early.push(took);
                }
            }
            _ => {}
        }
    }
}

/// Runs the cluster and measures it.
pub fn run(spec: &UpdatesSpec) -> Result<Updates, String> {
    let mut cluster = cluster(spec);
    cluster.bring_up()?;
    // The primary of everything is the first OSD.
    for osd in 1..spec.copies {
        let id = format!("osd.{osd}");
        cluster.command(&json!({ "prefix": "osd primary-affinity", "id": id, "weight": 0.0 }))?;
    }
    cluster.wait_healthy(SETTLES)?;
    let (client, server) = (cluster.clients[0], cluster.mdss()[0]);
    let dir = entry(&mut cluster, client, shared_dir())?;
    let mut machines = Machines::new(PAPER);
    if spec.is_local {
        machines.put_together(server, cluster.osds[0]);
    }
    cluster.world.machines = Some(machines);
    cluster.world.give_processor(server, SERVER);
    let seen = Rc::new(RefCell::new(Seen::default()));
    let of_observer = seen.clone();
    cluster.world.observer = Some(Box::new(move |now, _, _, msg| {
        of_observer.borrow_mut().see(now, msg);
        None
    }));
    for number in 0..spec.count {
        let name = format!("u{number}").into_bytes();
        let request = match number % 2 {
            0 => FsRequest::Mknod { parent: dir, name, mode: 0o100_644, rdev: 0 },
            _ => FsRequest::Mkdir { parent: dir, name, mode: 0o755 },
        };
        let ino = entry(&mut cluster, client, request)?;
        super::forget(&mut cluster, client, ino);
        cluster.world.run_for(PAUSE);
    }
    let seen = seen.borrow();
    if seen.safe.len() != spec.count as usize {
        return Err(format!("{} of {} updates are in the journal", seen.safe.len(), spec.count));
    }
    Ok(Updates { early: mean(&seen.early), safe: mean(&seen.safe) })
}

fn cluster(spec: &UpdatesSpec) -> Cluster {
    let options = [
        ("osd_pool_default_size", spec.copies.to_string()),
        ("osd_pool_default_min_size", "1".to_owned()),
        ("mon_allow_pool_size_one", "true".to_owned()),
        ("mon_warn_on_pool_no_redundancy", "false".to_owned()),
    ];
    let cluster = Spec {
        osds: spec.copies,
        clients: 1,
        client: ClientOptions { asynchronous: false, ..ClientOptions::default() },
        fs: true,
        standbys: 0,
        ranks: 1,
        osd_disk: 1 << 30,
        // The next update waits for this one.
        mds: MdsOptions { journal_delay: Duration::ZERO, ..MdsOptions::default() },
        options: options.map(|(name, value)| (name.to_owned(), value)).into(),
        ..Spec::default()
    };
    Cluster::new(spec.seed, Faults::none(), &cluster)
}

fn mean(times: &[Duration]) -> Duration {
    times.iter().sum::<Duration>() / u32::try_from(times.len().max(1)).unwrap_or(u32::MAX)
}

/// Runs with one to `most` copies, each with the journal's primary elsewhere and here. `tell` gets the lines
/// of a table.
pub fn report(most: u32, seed: u64, tell: &mut dyn FnMut(&str)) -> Result<(), String> {
    tell("| copies | ms: answered early | in the journal, primary OSD elsewhere | on the server's machine |");
    tell("|---|---|---|---|");
    for copies in 1..=most {
        let spec = |is_local| UpdatesSpec { copies, is_local, count: 200, seed };
        let (remote, local) = (run(&spec(false))?, run(&spec(true))?);
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let (early, remote, local) = (ms(remote.early), ms(remote.safe), ms(local.safe));
        tell(&format!("| {copies} | {early:.2} | {remote:.2} | {local:.2} |"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_copy_takes_a_round_trip_and_a_primary_beside_the_server_saves_one() {
        let measured = |copies, is_local| {
            run(&UpdatesSpec { copies, is_local, count: 20, seed: 4 }).expect("a run without complaints").safe
        };
        let [one, two, three] = [1, 2, 3].map(|copies| measured(copies, false));
        let round_trip = PAPER.latency * 2;
        assert!(two >= one + round_trip, "{one:?} and {two:?}");
        assert!(three < two + round_trip / 2, "the others write at the same time: {two:?} and {three:?}");
        let local = measured(2, true);
        assert!(local + round_trip <= two, "{local:?} and {two:?}");
    }
}

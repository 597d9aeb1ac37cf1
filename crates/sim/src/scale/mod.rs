//! Many OSDs in one simulated cluster: the cost, in messages and bytes, of starting all of them, of losing a
//! rack and of one change of the map. The monitors are the real role on simulated disks. OSDs are stand-ins
//! ([`stand_in`]), or the real role if there are few enough.
//!
//! The real role does not scale to 10,000, because each OSD keeps its own map: 10,000 maps of 10,000 OSDs are
//! 60 GB.

mod atlas;
mod report;
mod stand_in;
mod tally;

pub use report::{Phase, Report};
pub use tally::{Count, Flows, Way};

use crate::any::Daemon;
use crate::cluster::{AnyNode, Cluster, Parts, Spec};
use crate::disk::Crash;
use crate::faults::Faults;
use crate::objects::OBJECTS;
use maps::OsdId;
use node::{Input, Node, Output};
use serde_json::json;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use stdx::{Instant, Now};
use tally::Tally;

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct ScaleSpec {
    /// OSDs, a twentieth of them in each rack, at most 25 hosts a rack.
    pub osds: u32,
    /// Number of monitors.
    pub mons: u32,
    /// PGs of the pool, of 3 copies on different hosts.
    pub pgs: u32,
    /// True for real OSDs instead of stand-ins.
    pub real: bool,
    /// All OSDs are started within this time.
    pub start_within: Duration,
    /// For how long nothing happens, to see what heartbeats and reports cost.
    pub quiet: Duration,
    /// An OSD that is down for this long may be marked out.
    pub out_after: Duration,
    /// Size of each real OSD's disk, in bytes.
    pub osd_disk: u64,
    /// Seed of the run.
    pub seed: u64,
    /// Processor time of this thread, to be told apart by role.
    pub cpu: Option<fn() -> Duration>,
}

impl ScaleSpec {
    /// A cluster of `osds` OSDs, with some 10 to 20 copies of PGs on each.
    pub fn of(osds: u32) -> Self {
        Self {
            osds,
            mons: 5,
            pgs: (osds * 10 / 3).next_power_of_two(),
            real: false,
            start_within: Duration::from_secs(3),
            quiet: Duration::from_secs(5),
            out_after: Duration::from_secs(5),
            osd_disk: 1 << 30,
            seed: 1,
            cpu: None,
        }
    }

    fn rack(&self) -> u32 {
        (self.osds / 20).max(4)
    }

    fn location(&self, osd: u32) -> BTreeMap<String, String> {
        let (rack, host) = (osd / self.rack(), osd / (self.rack() / 25).max(1));
        let at = [("root", "default".to_owned()), ("rack", format!("r{rack}")), ("host", format!("h{host}"))];
        at.map(|(ty, name)| (ty.to_owned(), name)).into()
    }
}

/// Metadata of a typical OSD's host.
fn metadata() -> BTreeMap<String, String> {
    let pairs = [
        ("arch", "x86_64"),
        ("ceph_version", "ceph version 16.2.15-nacre (0000000000000000000000000000000000000000) pacific"),
        ("cpu", "AMD EPYC 7543P 32-Core Processor"),
        ("default_device_class", "ssd"),
        ("devices", "nvme0n1"),
        ("distro", "debian"),
        ("distro_description", "Debian GNU/Linux 12 (bookworm)"),
        ("kernel_version", "6.1.0-18-amd64"),
        ("mem_total_kb", "263857152"),
        ("osd_objectstore", "nacre"),
    ];
    pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).into()
}

/// Adds up the processor time of a node.
struct Timed {
    inner: AnyNode,
    spent: Rc<RefCell<Vec<Duration>>>,
    rank: usize,
    cpu: fn() -> Duration,
}

impl Node for Timed {
    type Request = fsclient::Request;
    type Reply = fsclient::Reply;

    fn handle(&mut self, now: Now, input: Input<Self::Request>, out: &mut Vec<Output<Self::Reply>>) {
        let began = (self.cpu)();
        self.inner.handle(now, input, out);
        self.spent.borrow_mut()[self.rank] += (self.cpu)() - began;
    }

    fn deadline(&self) -> Option<Instant> {
        self.inner.deadline()
    }

    fn shut_down(&mut self, now: Now, out: &mut Vec<Output<Self::Reply>>) {
        self.inner.shut_down(now, out);
    }
}

struct Run<'a> {
    spec: ScaleSpec,
    cluster: Cluster,
    tally: Rc<RefCell<Tally>>,
    spent: Rc<RefCell<Vec<Duration>>>,
    /// Start of the phase: the time, the epoch and the processor time.
    began: (Instant, u32, Duration),
    report: Report,
    tell: &'a mut dyn FnMut(&Phase),
}

/// Runs all of it. `tell` is given each phase as it ends.
pub fn run(spec: &ScaleSpec, tell: &mut dyn FnMut(&Phase)) -> Result<Report, String> {
    let options = [
        ("osd_crush_chooseleaf_type", "1".to_owned()),
        ("osd_pool_default_size", "3".to_owned()),
        ("osd_pool_default_pg_autoscale_mode", "off".to_owned()),
        ("osd_pool_default_min_size", "2".to_owned()),
        ("mon_osd_down_out_interval", spec.out_after.as_secs().to_string()),
    ];
    let cluster_spec = Spec {
        mons: spec.mons,
        osds: spec.osds,
        clients: 0,
        osd: osd::OsdOptions { maps_kept: 4, ..osd::OsdOptions::default() },
        osd_disk: spec.osd_disk,
        options: options.map(|(name, value)| (name.to_owned(), value)).into(),
        mon_disk: 4 << 30,
        ..Spec::default()
    };
    let spent = Rc::new(RefCell::new(vec![Duration::ZERO; spec.mons as usize]));
    let mut cluster = Cluster::of(spec.seed, Faults::none(), &cluster_spec, &parts(spec, &spent));
    let tally = Rc::new(RefCell::new(Tally::new(&cluster.mons, &cluster.osds)));
    let counted = tally.clone();
    cluster.world.observer = Some(Box::new(move |now, from, to, msg| {
        counted.borrow_mut().observe(now, from, to, msg);
        None
    }));
    let report = Report { osds: spec.osds, mons: spec.mons, pgs: spec.pgs, real: spec.real, phases: vec![] };
    let began = (cluster.world.now(), 0, Duration::ZERO);
    let mut run = Run { spec: spec.clone(), cluster, tally, spent, began, report, tell };
    run.all()?;
    Ok(run.report)
}

fn parts(spec: &ScaleSpec, spent: &Rc<RefCell<Vec<Duration>>>) -> Parts {
    let mut parts = Parts { metadata: metadata(), ..Parts::default() };
    let places = spec.clone();
    parts.location = Rc::new(move |osd| places.location(osd));
    if let Some(cpu) = spec.cpu {
        let spent = spent.clone();
        parts.mon =
            Rc::new(move |rank, inner| Box::new(Timed { inner, spent: spent.clone(), rank, cpu }) as AnyNode);
    }
    if !spec.real {
        let atlas = Rc::new(RefCell::new(atlas::Atlas::default()));
        let all = (0..spec.osds).map(|_| Rc::new(RefCell::new(stand_in::Kept::default())));
        let kept: Vec<_> = all.collect();
        parts.osd = Rc::new(move |config, boot| {
            let kept = kept[config.id.0 as usize].clone();
            Box::new(Daemon::new(stand_in::StandIn::new(config, boot.rng, atlas.clone(), kept)))
        });
    }
    parts
}

impl Run<'_> {
    fn all(&mut self) -> Result<(), String> {
        self.monitors()?;
        self.boot_storm("all OSDs are new and start")?;
        self.pool()?;
        self.quiet()?;
        self.change()?;
        self.rack()?;
        for host in self.cluster.osds.clone() {
            self.cluster.world.crash(host, Crash::Process);
        }
        self.begin();
        self.boot_storm("all OSDs are killed and start")
    }

    fn begin(&mut self) {
        self.tally.borrow_mut().take();
        self.spent.borrow_mut().fill(Duration::ZERO);
        let cpu = self.spec.cpu.map_or(Duration::ZERO, |cpu| cpu());
        self.began = (self.cluster.world.now(), self.tally.borrow().map.epoch.0, cpu);
    }

    fn end(&mut self, name: &str, until: Instant, facts: &[(&'static str, f64)]) {
        let (flows, taken, incrementals) = self.tally.borrow_mut().take();
        let epochs = self.tally.borrow().map.epoch.0 - self.began.1;
        let cpu = self.spec.cpu.map_or(Duration::ZERO, |cpu| cpu()) - self.began.2;
        let phase = Phase {
            name: name.to_owned(),
            took: until.since(self.began.0),
            counted: self.cluster.world.now().since(self.began.0),
            epochs,
            incrementals,
            flows,
            most_taken: taken.iter().map(|c| c.bytes).max().unwrap_or(0),
            facts: facts.to_vec(),
            cpu,
            mon_cpu: self.spent.borrow().clone(),
        };
        (self.tell)(&phase);
        self.report.phases.push(phase);
        self.begin();
    }

    /// Runs until `done`, looked at every millisecond.
    fn wait(
        &mut self,
        what: &str,
        limit: Duration,
        mut done: impl FnMut(&Cluster, &Tally) -> bool,
    ) -> Result<(), String> {
        let until = self.cluster.world.now() + limit;
        while !done(&self.cluster, &self.tally.borrow()) {
            if let Some((name, event)) = self.cluster.world.complaints.first() {
                return Err(format!("{what}: {name} complains: {}: {}", event.name, event.detail));
            }
            for host in self.cluster.mons.iter().chain(&self.cluster.osds) {
                if let Some(how) = self.cluster.world.stopped(*host) {
                    return Err(format!("{what}: {} has stopped: {how:?}", self.cluster.world.name(*host)));
                }
            }
            if self.cluster.world.now() >= until {
                let tally = self.tally.borrow();
                return Err(format!(
                    "{what}: not within {limit:?}: epoch {}, {} up",
                    tally.map.epoch,
                    tally.up()
                ));
            }
            self.cluster.world.run_for(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Waits until the map has stood still for half a second and all OSDs have it.
    fn settle(&mut self, what: &str) -> Result<(), String> {
        const STILL: Duration = Duration::from_millis(500);
        self.wait(what, Duration::from_secs(60), |cluster, tally| {
            cluster.world.now().since(tally.map_at) >= STILL && tally.all_follow()
        })
    }

    fn monitors(&mut self) -> Result<(), String> {
        for host in self.cluster.mons.clone() {
            self.cluster.world.start(host);
        }
        self.cluster.world.start(self.cluster.admin);
        self.wait("monitors come up", Duration::from_secs(30), |cluster, _| {
            let all = cluster.mons.iter().chain([&cluster.admin]);
            all.into_iter().all(|host| cluster.world.is_ready(*host))
        })?;
        self.begin();
        Ok(())
    }

    fn boot_storm(&mut self, name: &str) -> Result<(), String> {
        let osds = self.cluster.osds.clone();
        let pause = self.spec.start_within / self.spec.osds;
        for host in &osds {
            self.cluster.world.start(*host);
            self.cluster.world.run_for(pause);
        }
        self.wait(name, Duration::from_secs(120), |cluster, tally| {
            osds.iter().all(|host| cluster.world.is_ready(*host)) && tally.all_follow()
        })?;
        let (up, until) = (self.cluster.world.now(), self.cluster.world.now());
        let facts =
            [("last start to all up, s", (up.since(self.began.0) - self.spec.start_within).as_secs_f64())];
        if name.contains("killed") {
            // PGs agree again: their primaries ask to be recorded.
            self.settle(name)?;
        }
        self.end(name, until, &facts);
        Ok(())
    }

    fn pool(&mut self) -> Result<(), String> {
        // Its moves are not what is measured.
        self.cluster.command(&json!({ "prefix": "balancer off" }))?;
        let create = json!({ "prefix": "osd pool create", "pool": OBJECTS, "pg_num": self.spec.pgs });
        self.cluster.command(&create)?;
        self.settle("a pool is made")?;
        let until = self.tally.borrow().sent_at;
        self.end("a pool is made", until, &[]);
        // Connections for heartbeats are made once tickets are there; nobody is late meanwhile.
        self.cluster.world.run_for(Duration::from_secs(3));
        self.begin();
        Ok(())
    }

    fn quiet(&mut self) -> Result<(), String> {
        self.cluster.world.run_for(self.spec.quiet);
        let (epochs, now) = (self.tally.borrow().map.epoch.0 - self.began.1, self.cluster.world.now());
        self.end("nothing happens", now, &[]);
        if epochs > 0 {
            return Err(format!("{epochs} epochs while nothing happened"));
        }
        Ok(())
    }

    fn change(&mut self) -> Result<(), String> {
        let set = json!({ "prefix": "osd pool application enable", "pool": OBJECTS, "app": "scale" });
        self.cluster.command(&set)?;
        self.settle("one change")?;
        let until = self.tally.borrow().sent_at;
        self.end("one change of the map", until, &[]);
        Ok(())
    }

    fn rack(&mut self) -> Result<(), String> {
        let lost: Vec<usize> = (0..self.spec.rack() as usize).collect();
        for osd in &lost {
            let host = self.cluster.osds[*osd];
            self.cluster.world.crash(host, Crash::Power);
        }
        self.wait("a rack is lost", Duration::from_secs(60), |_, tally| {
            lost.iter().all(|osd| tally.map.is_down(OsdId(*osd as i32)))
        })?;
        let down = self.cluster.world.now();
        let first = self.tally.borrow().marked_down.values().min().copied().unwrap_or(down);
        self.settle("a rack is lost")?;
        let until = self.tally.borrow().sent_at;
        let others = {
            let tally = self.tally.borrow();
            tally.marked_down.keys().filter(|osd| osd.0 as usize >= lost.len()).count()
        };
        let facts = [
            ("power lost to first marked down, s", first.since(self.began.0).as_secs_f64()),
            ("power lost to last marked down, s", down.since(self.began.0).as_secs_f64()),
            ("others marked down", others as f64),
        ];
        self.end("a rack loses its power", until, &facts);
        self.cluster.world.run_for(self.spec.out_after + Duration::from_secs(2));
        let out = self.tally.borrow().marked_out.len();
        let now = self.cluster.world.now();
        self.end("the rack stays away", now, &[("marked out", out as f64)]);
        Ok(())
    }
}

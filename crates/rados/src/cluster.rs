//! The engine together with a session to the monitors: the base of a client, or of a daemon that stores in
//! RADOS.

use crate::{Rados, RadosConfig, RadosOut, RadosTold};
use monc::{Monc, MoncConfig, MoncOut, Net, Stuck, Told};
use msgs::Body;
use node::{CloseReason, ConnId, Msg, Peer};
use stdx::{Instant, Now, Rng};

/// The token of the requests that this module itself sends to the monitors.
const OWN_TOKEN: u64 = u64::MAX;

/// One output of a [`Cluster`].
#[derive(Debug)]
pub enum ClusterOut {
    /// For the world.
    Net(Net),
    /// Of the session to the monitors; OSD maps, which the engine takes, come as [`RadosTold::Map`] too.
    Mon(Told),
    /// Of the engine: [`RadosTold::Map`], [`RadosTold::Done`] or [`RadosTold::Listed`].
    Rados(RadosTold),
}

/// Both machines. The owner calls `monc` and `rados` through [`Self::mon`] and [`Self::rados`].
#[derive(Debug)]
pub struct Cluster {
    monc: Monc,
    rados: Rados,
    stuck: Stuck,
}

impl Cluster {
    /// OSD maps are subscribed by itself; everything else by the owner.
    pub fn new(monc: MoncConfig, rados: RadosConfig, rng: &mut Rng) -> Self {
        assert_ne!(monc.space, rados.space, "each machine has connection numbers of its own");
        let mut monc = Monc::new(monc, rng.fork());
        monc.subscribe("osdmap", 0, false, &mut Vec::new());
        Self { monc, rados: Rados::new(rados, rng.fork()), stuck: Stuck::default() }
    }

    /// The session to the monitors, read-only.
    pub fn monc(&self) -> &Monc {
        &self.monc
    }

    /// The engine, read-only.
    pub fn engine(&self) -> &Rados {
        &self.rados
    }

    /// Does something with the session to the monitors.
    pub fn mon<T>(
        &mut self,
        now: Now,
        out: &mut Vec<ClusterOut>,
        act: impl FnOnce(&mut Monc, &mut Vec<MoncOut>) -> T,
    ) -> T {
        let mut outs = Vec::new();
        let result = act(&mut self.monc, &mut outs);
        self.take_mon(now, outs, out);
        result
    }

    /// Does something with the engine.
    pub fn rados<T>(
        &mut self,
        now: Now,
        out: &mut Vec<ClusterOut>,
        act: impl FnOnce(&mut Rados, &mut Vec<RadosOut>) -> T,
    ) -> T {
        let mut outs = Vec::new();
        let result = act(&mut self.rados, &mut outs);
        self.stuck.follow(now.mono, self.rados.oldest(), self.rados.map().epoch);
        self.take_rados(now, outs, out);
        result
    }

    /// Starts to hunt for a monitor.
    pub fn start(&mut self, now: Now, out: &mut Vec<ClusterOut>) {
        self.mon(now, out, |monc, outs| monc.start(now, outs));
    }

    /// The OSDs refuse this instance: see [`Rados::cut_off`]. The session to the monitors stays.
    pub fn cut_off(&mut self, now: Now, out: &mut Vec<ClusterOut>) {
        self.monc.cancel(OWN_TOKEN);
        self.rados(now, out, |rados, outs| rados.cut_off(outs));
    }

    /// Closes the connections that are left of an instance that is cut off. The owner rebinds
    /// ([`node::Output::Rebind`]), and calls [`Self::begin_anew`].
    pub fn leave(&mut self, now: Now, out: &mut Vec<ClusterOut>) {
        self.mon(now, out, |monc, outs| monc.leave(now, outs));
    }

    /// Begins as a new client. Operations are sent once its map contains all that the monitors knew when it
    /// asked them, and so the entry on the blocklist too: what OSDs have got of the former instance, they
    /// carry out before that map or not at all.
    pub fn begin_anew(&mut self, now: Now, out: &mut Vec<ClusterOut>) {
        self.mon(now, out, |monc, outs| {
            monc.get_version(OWN_TOKEN, "osdmap", outs);
            monc.start(now, outs);
        });
    }

    /// True if inputs about `conn` are for one of the two.
    pub fn owns(&self, conn: ConnId) -> bool {
        self.monc.owns(conn) || self.rados.owns(conn)
    }

    /// A connection is there.
    pub fn connected(&mut self, now: Now, conn: ConnId, peer: &Peer, out: &mut Vec<ClusterOut>) {
        if self.monc.owns(conn) {
            self.mon(now, out, |monc, outs| monc.connected(now, conn, peer, outs));
        }
        // To an OSD it may be sent at once; that it works, the first message shows.
    }

    /// A message on one of our connections.
    pub fn message(&mut self, now: Now, conn: ConnId, msg: Msg, out: &mut Vec<ClusterOut>) {
        if self.monc.owns(conn) {
            self.mon(now, out, |monc, outs| monc.message(now, conn, msg, outs));
        } else {
            self.rados(now, out, |rados, outs| rados.message(conn, msg, outs));
        }
    }

    /// A connection is gone or was never made.
    pub fn closed(&mut self, now: Now, conn: ConnId, reason: CloseReason, out: &mut Vec<ClusterOut>) {
        if self.monc.owns(conn) {
            self.mon(now, out, |monc, outs| monc.closed(now, conn, reason, outs));
        } else {
            if reason == CloseReason::Denied {
                self.mon(now, out, |monc, outs| monc.tickets_refused(now, outs));
            }
            self.rados(now, out, |rados, outs| rados.closed(now, conn, reason, outs));
        }
    }

    /// The time at which [`Self::timer`] is wanted.
    pub fn deadline(&self) -> Option<Instant> {
        [self.monc.deadline(), self.rados.deadline(), self.stuck.deadline()].into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn timer(&mut self, now: Now, out: &mut Vec<ClusterOut>) {
        if self.stuck.is_due(now.mono) {
            self.monc.expect(now, "osdmap");
        }
        self.mon(now, out, |monc, outs| monc.timer(now, outs));
        self.rados(now, out, |rados, outs| rados.timer(now, outs));
    }

    fn take_mon(&mut self, now: Now, outs: Vec<MoncOut>, out: &mut Vec<ClusterOut>) {
        for o in outs {
            match o {
                MoncOut::Net(net) => out.push(ClusterOut::Net(net)),
                MoncOut::Told(Told::Reply { token: OWN_TOKEN, body }) => {
                    if let Body::MonGetVersionReply(m) = body {
                        let newest = maps::Epoch(u32::try_from(m.version).unwrap_or(u32::MAX));
                        self.rados(now, out, |rados, outs| rados.newest_epoch(newest, outs));
                    }
                }
                MoncOut::Told(told) => {
                    match &told {
                        Told::Tickets(tickets) => self.rados.set_tickets((**tickets).clone()),
                        Told::Message(Msg { body: node::Body::Client(Body::OsdMap(m)), .. }) => {
                            self.rados(now, out, |rados, outs| rados.osd_map(m, outs));
                        }
                        _ => {}
                    }
                    out.push(ClusterOut::Mon(told));
                }
            }
        }
    }

    fn take_rados(&mut self, now: Now, outs: Vec<RadosOut>, out: &mut Vec<ClusterOut>) {
        for o in outs {
            match o {
                RadosOut::Net(net) => out.push(ClusterOut::Net(net)),
                RadosOut::Told(RadosTold::WantMap(epoch)) => {
                    // If exactly this is subscribed already, it comes by itself and nothing is sent.
                    self.monc.expect(now, "osdmap");
                    self.mon(now, out, |monc, outs| monc.subscribe("osdmap", epoch.0.into(), false, outs));
                }
                RadosOut::Told(RadosTold::WantNewestEpoch) => {
                    self.mon(now, out, |monc, outs| monc.get_version(OWN_TOKEN, "osdmap", outs));
                }
                RadosOut::Told(RadosTold::GotMap(epoch)) => self.monc.got("osdmap", epoch.0.into()),
                RadosOut::Told(told) => out.push(ClusterOut::Rados(told)),
            }
        }
    }
}

//! What the monitor knows but does not agree on: statistics, who was heard of when, failure reports.
//! All of it is made again from reports after a restart.

use crate::pgstat::PgTable;
use crate::syslog::Said;
use maps::{Epoch, Gid, OsdId, PgId};
use node::ConnId;
use std::collections::{BTreeMap, BTreeSet};
use stdx::Instant;
use wire::AddrVec;

/// Soft state.
#[derive(Debug, Default)]
pub struct Soft {
    /// The OSD map that all of this was last brought in step with.
    pub followed: Epoch,
    /// PG and device statistics.
    pub pgs: PgTable,
    /// Lines for the cluster log on their way to it.
    pub said: Said,
    /// When each up OSD was last heard of.
    pub osd_seen: BTreeMap<OsdId, Instant>,
    /// Since when each OSD is down, as seen by this monitor.
    pub osd_down: BTreeMap<OsdId, Instant>,
    /// OSDs whose session ended, and when.
    pub osd_gone: BTreeMap<OsdId, Instant>,
    /// The newest OSD map in which one went down.
    pub lost_at: Epoch,
    /// When that was.
    pub lost_when: Option<Instant>,
    /// By target: who reports it, and when it last did.
    pub failures: BTreeMap<OsdId, BTreeMap<OsdId, Instant>>,
    /// OSDs that refused a connection; to be marked dead.
    pub refused: BTreeSet<OsdId>,
    /// What OSDs ask of the next OSD map.
    pub wanted: OsdWishes,
    /// OSDs that ask to be marked up in it.
    pub boots: Boots,
    /// How soon there may be another one.
    pub pace: crate::osd_wishes::Pace,
    /// How OSDs' devices do, at the leader.
    pub disks: crate::disks::Disks,
    /// Scrubs that OSDs are to be told of.
    pub scrubs: BTreeMap<OsdId, peer::OsdScrub>,
    /// When each MDS was last heard of, and on which connection.
    pub mds_seen: BTreeMap<Gid, MdsSeen>,
    /// When it was last looked at what is wrong.
    pub health_at: Instant,
    /// What this monitor tells of its host.
    pub host: BTreeMap<String, String>,
    /// Options of this process, once somebody asked for them or set one by `ceph tell`.
    pub settings: Option<decl::Settings>,
    /// Who is in quorum, for people.
    pub quorum: crate::quorum::QuorumInfo,
    /// The balancer, at the leader.
    pub balancer: crate::balancer::Balancer,
    /// When it was last looked at how many PGs pools have.
    pub pg_num_at: Instant,
    /// When it was last looked at how many they should have.
    pub autoscale_at: Instant,
    /// Merges of PGs that are waited for, by pool.
    pub merges: BTreeMap<i64, crate::pg_num::Waits>,
    /// When this monitor became ready, or another one leader.
    pub since: Instant,
}

/// Requests for the next OSD map, gathered so that one epoch serves many.
#[derive(Debug, Default)]
pub struct OsdWishes {
    /// `up_thru` wanted.
    pub up_thru: BTreeMap<OsdId, Epoch>,
    /// Acting sets wanted.
    pub pg_temp: BTreeMap<PgId, Vec<OsdId>>,
    /// To be marked down, if it is still this incarnation.
    pub down: BTreeMap<OsdId, AddrVec>,
}

impl OsdWishes {
    /// Whether nobody asks for anything.
    pub fn is_empty(&self) -> bool {
        self.up_thru.is_empty() && self.pg_temp.is_empty() && self.down.is_empty()
    }
}

/// OSDs that ask to be marked up.
#[derive(Debug, Default)]
pub struct Boots {
    /// What each says of itself.
    pub by_osd: BTreeMap<OsdId, Box<peer::OsdBoot>>,
    /// Until when they wait for others that start at the same time.
    pub until: Option<Instant>,
    /// How soon there may be another epoch of boots.
    pub pace: crate::osd_wishes::Pace,
}

/// When an MDS was last heard of.
#[derive(Clone, Copy, Debug)]
pub struct MdsSeen {
    /// Its last beacon.
    pub at: Instant,
    /// Its session; `None` once that was closed.
    pub conn: Option<ConnId>,
}

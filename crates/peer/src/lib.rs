//! Messages between our own daemons: monitors, OSDs and metadata servers. Clients never see them, so their
//! form is ours; every one has a version, and fields that come later are marked `= since N`.
//!
//! A role that needs a new message adds it to its module ([`mon`], [`osd`], [`mds`]) and to [`Body`], with
//! the next free number of its range: 0xe000 monitors, 0xe100 to and from monitors, 0xe200 OSDs, 0xe300
//! metadata servers.

pub mod daemon;
pub mod level;
pub mod mds;
pub mod mon;
pub mod osd;

pub use daemon::*;
pub use mds::*;
pub use mon::*;
pub use osd::*;

/// The smallest type number of a message of ours; smaller ones are Ceph's.
pub const FIRST_KIND: u16 = 0xe000;

wire::message_bodies! {
    /// Any message between our own daemons.
    pub enum Body {
        MonHello, MonRaft, MonForward, MonForwardReply, MonForwardEnd,
        MonSnapshot, MonSnapshotAck, MonIdsWanted, MonIds,
        Hello, OsdBoot, OsdAlive, OsdFailure, OsdBeacon, PgStats, MdsBeacon,
        NacreMap, OsdPgTemp, MonLeader, OsdScrub, MgrBeacon,
        OsdPing, RepData, RepOp, RepOpReply, PgQuery, PgNotify, PgInfo, PgLog,
        Push, PushReply, Pull, PgScan, PgScanReply, PgRemove,
        PgScrub, PgScrubMap, PgScrubbed,
        PgReserve,
        MdsHandOver, MdsTaken, MdsRecall, MdsAuthority, MdsHeartbeat, MdsStore,
        MdsFence, MdsFenced, MdsFenceDown, MdsHandAhead, MdsStats, MdsCounted,
        MdsReplica, MdsReplicaKept, MdsReplicaRecall, MdsReplicaReturned,
        MdsReplicaTaken,
    }
}

impl Body {
    /// The head of a message about a PG; `None` for all other messages.
    pub fn pg_head(&self) -> Option<&PgHead> {
        Some(match self {
            Self::PgQuery(m) => &m.head,
            Self::PgNotify(m) => &m.head,
            Self::PgLog(m) => &m.head,
            Self::PgInfo(m) => &m.head,
            Self::RepData(m) => &m.head,
            Self::RepOp(m) => &m.head,
            Self::RepOpReply(m) => &m.head,
            Self::Push(m) => &m.head,
            Self::PushReply(m) => &m.head,
            Self::Pull(m) => &m.head,
            Self::PgScan(m) => &m.head,
            Self::PgScanReply(m) => &m.head,
            Self::PgReserve(m) => &m.head,
            Self::PgRemove(m) => &m.head,
            Self::PgScrub(m) => &m.head,
            Self::PgScrubMap(m) => &m.head,
            Self::PgScrubbed(m) => &m.head,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Body;

    #[test]
    fn every_message_survives_its_encoding() {
        let mut rng = stdx::Rng::from_seed(11);
        for round in 0..50 {
            for body in Body::samples(&mut rng) {
                let raw = body.to_raw(round);
                assert!(raw.kind >= super::FIRST_KIND);
                assert_eq!(Body::from_raw(raw).expect("own encoding"), (round, body));
            }
        }
    }

    #[test]
    fn every_message_has_its_own_number_and_no_cut_panics() {
        let mut rng = stdx::Rng::from_seed(12);
        let mut kinds = std::collections::BTreeSet::new();
        for body in Body::samples(&mut rng) {
            assert!(kinds.insert(body.kind()), "{} shares its number", body.name());
            let raw = body.to_raw(1);
            for cut in 0..raw.front.len() {
                let mut short = raw.clone();
                short.front.truncate(cut);
                assert_ne!(
                    Body::from_raw(short).ok(),
                    Some((1, body.clone())),
                    "{} cut at {cut}",
                    body.name()
                );
            }
        }
    }
}

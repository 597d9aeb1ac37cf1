//! The cluster maps: MonMap, OsdMap, FsMap, MdsMap, NacreMap, and what they consist of (PROTOCOL.md 3.3, 4, 6.1,
//! appendix B). All encodings are Pacific's, which every client from Nautilus and Linux 5.11 on reads.

mod apply;
mod bits;
mod compat;
mod fsmap;
mod hash;
mod hobject;
mod ids;
mod incremental;
mod incremental_codec;
mod interval_set;
mod layout;
mod mdsmap;
mod mgrmap;
mod monmap;
mod nacre;
mod osd;
mod osdmap;
mod osdmap_codec;
mod pg;
mod placement;
mod pool;
mod pool_codec;
mod stats;

pub use apply::ApplyError;
pub use bits::FeatureBits;
pub use compat::CompatSet;
pub use fsmap::{Filesystem, FsInfo, FsMap, FsMapUser, MirrorInfo, MirrorPeer};
pub use hash::{ceph_str_hash_rjenkins, object_hash, stable_mod, stable_mod_mask};
pub use hobject::{HObject, ObjectLocator, POOL_MIN};
pub use ids::{Epoch, Fscid, Gid, MdsRank, OsdId, SnapId};
pub use incremental::OsdMapIncremental;
pub use interval_set::IntervalSet;
pub use layout::{FileLayout, LegacyFileLayout};
pub use mdsmap::{MdsInfo, MdsMap, MdsState};
pub use mgrmap::MgrMap;
pub use monmap::{MonFeatures, MonInfo, MonMap};
pub use nacre::NacreMap;
pub use osd::{AFFINITY_DEFAULT, OsdEntry, OsdInfo, OsdXinfo, WEIGHT_IN, osd_state};
pub use osdmap::{OsdMap, osd_flags, release};
pub use pg::{EVersion, PgId, ReqId, Spg, UpActing, Version};
pub use pool::{MergeMeta, Pool, PoolOpt, PoolSnap, pool_flags, pool_opt, pool_type};
pub use stats::{ObjectStatSum, PoolStat, StatCollection, StoreStatfs};

//! Health codes: each with how bad it is, what it means for users and what to do.

/// Severity of a health code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Service is degraded or at risk.
    Warn,
    /// Service or data is lost until somebody acts.
    Error,
}

impl Severity {
    /// Overall status of this severity: `HEALTH_WARN`, `HEALTH_ERR`.
    pub fn status(self) -> &'static str {
        match self {
            Self::Warn => "HEALTH_WARN",
            Self::Error => "HEALTH_ERR",
        }
    }

    /// Tag of a line in `health detail`.
    pub fn tag(self) -> &'static str {
        match self {
            Self::Warn => "[WRN]",
            Self::Error => "[ERR]",
        }
    }
}

macro_rules! codes {
    ($($name:ident = $text:literal $severity:ident $advice:literal;)*) => {
        /// A condition that an administrator should know of. Names are Ceph's, for the tools that match on
        /// them.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Code { $( #[doc = $advice] $name ),* }

        impl Code {
            /// All health codes.
            pub const ALL: &'static [Self] = &[ $( Self::$name ),* ];

            /// Its name in Ceph's vocabulary.
            pub fn name(self) -> &'static str {
                match self { $( Self::$name => $text ),* }
            }

            /// Severity of the code.
            pub fn severity(self) -> Severity {
                match self { $( Self::$name => Severity::$severity ),* }
            }

            /// Advice to an administrator.
            pub fn advice(self) -> &'static str {
                match self { $( Self::$name => $advice ),* }
            }
        }
    };
}

codes! {
    OsdDown = "OSD_DOWN" Warn "start the OSD again; its log says why it stopped";
    OsdHostDown = "OSD_HOST_DOWN" Warn "check the host's power and network";
    PgAvailability = "PG_AVAILABILITY" Warn "some data can't be read or written: bring OSDs of these PGs back";
    PgDegraded = "PG_DEGRADED" Warn "some data has too few copies: recovery runs as soon as enough OSDs are up";
    PgRecoveryFull = "PG_RECOVERY_FULL" Error "add space: no OSD has room for the missing copies";
    PgBackfillFull = "PG_BACKFILL_FULL" Warn "add OSDs or delete data: those that are to be filled have no room";
    ObjectUnfound = "OBJECT_UNFOUND" Error "bring back the OSD that has the newest version";
    TooFewOsds = "TOO_FEW_OSDS" Warn "add OSDs, or lower osd_pool_default_size";
    PoolNoRedundancy = "POOL_NO_REDUNDANCY" Warn "raise the pool's size to keep more than one copy";
    PoolAppNotEnabled = "POOL_APP_NOT_ENABLED" Warn "run `ceph osd pool application enable POOL cephfs|rbd|rgw|NAME`";
    PoolTooFewPgs = "POOL_TOO_FEW_PGS" Warn "run `ceph osd pool set POOL pg_autoscale_mode on`, or set pg_num as `ceph osd pool autoscale-status` says";
    PoolTooManyPgs = "POOL_TOO_MANY_PGS" Warn "run `ceph osd pool set POOL pg_autoscale_mode on`, or set pg_num as `ceph osd pool autoscale-status` says";
    PoolFull = "POOL_FULL" Warn "raise the quota (`ceph osd pool set-quota`) or delete data";
    OsdmapFlags = "OSDMAP_FLAGS" Warn "clear with `ceph osd unset FLAG` when the work is done";
    OsdFlags = "OSD_FLAGS" Warn "clear with `ceph osd unset-group FLAGS WHO` when the work is done";
    OsdFull = "OSD_FULL" Error "writes are blocked: add OSDs or delete data";
    OsdBackfillFull = "OSD_BACKFILLFULL" Warn "recovery to these OSDs is blocked: add OSDs or delete data";
    OsdNearFull = "OSD_NEARFULL" Warn "add OSDs or delete data before writes are blocked";
    MdsAllDown = "MDS_ALL_DOWN" Error "start a metadata server: mounts wait for it";
    MdsUpLessThanMax = "MDS_UP_LESS_THAN_MAX" Warn "start another metadata server or lower max_mds";
    FsDegraded = "FS_DEGRADED" Warn "a metadata server is recovering: mounts wait until it is active";
    MdsDamage = "MDS_DAMAGE" Error "see `ceph tell mds.NAME damage ls`; `scrub start / recursive,repair` puts right what it can (docs/damage.md)";
    MdsInsufficientStandby = "MDS_INSUFFICIENT_STANDBY" Warn "start another metadata server: `nacre mds --id NAME`";
    MgrDown = "MGR_DOWN" Warn "start a metadata server, whose process has a manager: subvolume commands wait for it";
    MonDown = "MON_DOWN" Warn "start the missing monitors";
    MonClockSkew = "MON_CLOCK_SKEW" Warn "synchronize the monitors' clocks";
    AuthInsecureGlobalIdReclaim = "AUTH_INSECURE_GLOBAL_ID_RECLAIM" Warn "upgrade the clients";
    RecentCrash = "RECENT_CRASH" Warn "see `ceph crash info ID`; `ceph crash archive-all` when the cause is known";
    PgDamaged = "PG_DAMAGED" Error "see `rados list-inconsistent-obj PG`, then run `ceph pg repair PG`; what no copy has whole must be restored from elsewhere";
    OsdScrubErrors = "OSD_SCRUB_ERRORS" Error "see `rados list-inconsistent-obj PG` of the PGs that are inconsistent";
    DeviceHealth = "DEVICE_HEALTH" Warn "replace the device; if it is sound after all, `ceph osd in OSD`";
    OsdTooManyRepairs = "OSD_TOO_MANY_REPAIRS" Warn "the device gives wrong data: look at its health and replace it, or run `ceph tell OSD clear_shards_repaired`";
    PgNotScrubbed = "PG_NOT_SCRUBBED" Warn "is `noscrub` set, or a PG never clean? else run `ceph pg scrub PG`";
    PgNotDeepScrubbed = "PG_NOT_DEEP_SCRUBBED" Warn "is `nodeep-scrub` set, or a PG never clean? else run `ceph pg deep-scrub PG`";
    SlowOps = "SLOW_OPS" Warn "see `ceph daemon NAME ops` of the named daemons";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_code_has_its_own_name_and_says_what_to_do() {
        let names: BTreeSet<_> = Code::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        assert!(Code::ALL.iter().all(|c| c.advice().len() > 10));
    }
}

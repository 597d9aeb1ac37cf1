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
    ($($name:ident = $text:literal $severity:ident $effect:literal $advice:literal;)*) => {
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

            /// What it means for users and their data.
            pub fn effect(self) -> &'static str {
                match self { $( Self::$name => $effect ),* }
            }

            /// Advice to an administrator.
            pub fn advice(self) -> &'static str {
                match self { $( Self::$name => $advice ),* }
            }
        }
    };
}

codes! {
    OsdDown = "OSD_DOWN" Warn
        "its data has one copy fewer until it is back, or until it is copied elsewhere 10 minutes later"
        "start the OSD again: `nacre osd --conf CONF --id N`; its log says why it stopped";
    OsdHostDown = "OSD_HOST_DOWN" Warn
        "all OSDs of the host are away: each PG on them has a copy fewer"
        "check the host's power and network; `ceph osd tree down` shows what is on it";
    PgAvailability = "PG_AVAILABILITY" Warn
        "requests to these PGs wait"
        "bring OSDs of these PGs back: `ceph osd tree down` shows who is away";
    PgDegraded = "PG_DEGRADED" Warn
        "a further failure may make this data unavailable, or lose it"
        "nothing while `ceph -s` shows recovery; else bring OSDs back (`ceph osd tree down`) or add some";
    PgRecoveryFull = "PG_RECOVERY_FULL" Error
        "lacking copies of objects are not made"
        "add OSDs or delete data: those that lack copies have no room for them (`ceph osd df`)";
    PgBackfillFull = "PG_BACKFILL_FULL" Warn
        "lacking copies of objects are not made, or stay where they should not be"
        "add OSDs or delete data: those that are to be filled have no room (`ceph osd df`)";
    ObjectUnfound = "OBJECT_UNFOUND" Error
        "requests to these objects wait: no OSD that is up has their newest version"
        "bring back the OSD that has the newest version: `ceph osd tree down` shows who is away; if it is lost for \
         good, give that version up: `ceph osd lost N --yes-i-really-mean-it`, then `ceph tell OSD \
         mark_unfound_lost PG revert` at the PG's first OSD";
    TooFewOsds = "TOO_FEW_OSDS" Warn
        "new pools can't have as many copies as they are to have"
        "add OSDs (`nacre osd create`), or run `ceph config set global osd_pool_default_size N`";
    PoolNoRedundancy = "POOL_NO_REDUNDANCY" Warn
        "the loss of one disk loses data of the pool"
        "run `ceph osd pool set POOL size 3` to keep more than one copy";
    PoolAppNotEnabled = "POOL_APP_NOT_ENABLED" Warn
        "nothing yet: keys that are restricted to an application can't use the pool"
        "run `ceph osd pool application enable POOL cephfs|rbd|rgw|NAME`";
    PoolTooFewPgs = "POOL_TOO_FEW_PGS" Warn
        "the pool's data is spread unevenly, and few OSDs work on it at once"
        "run `ceph osd pool set POOL pg_autoscale_mode on`, or set pg_num as `ceph osd pool autoscale-status` says";
    PoolTooManyPgs = "POOL_TOO_MANY_PGS" Warn
        "OSDs use more memory and time than they need to"
        "run `ceph osd pool set POOL pg_autoscale_mode on`, or set pg_num as `ceph osd pool autoscale-status` says";
    TooManyPgs = "TOO_MANY_PGS" Warn
        "OSDs use more memory and time than they need to"
        "add OSDs, or let pools have fewer PGs: `ceph osd pool set POOL pg_num N`, for which \
         `ceph osd pool autoscale-status` has numbers";
    PoolFull = "POOL_FULL" Warn
        "writes to the pool fail"
        "raise the quota (`ceph osd pool set-quota POOL max_bytes|max_objects N`) or delete data: \
         `rados -p POOL rm OBJECT --force-full`, or files";
    OsdmapFlags = "OSDMAP_FLAGS" Warn
        "what the flags switch off does not happen: see `ceph osd dump`"
        "clear with `ceph osd unset FLAG` when the work is done";
    OsdFlags = "OSD_FLAGS" Warn
        "what the flags switch off does not happen on these OSDs"
        "clear with `ceph osd unset-group FLAGS WHO` when the work is done";
    OsdFull = "OSD_FULL" Error
        "writes to all pools on these OSDs wait or fail"
        "add OSDs or delete data (`rados -p POOL rm OBJECT --force-full`, or files): `ceph osd df` shows how \
         full each is";
    OsdBackfillFull = "OSD_BACKFILLFULL" Warn
        "no data moves to these OSDs"
        "add OSDs or delete data: `ceph osd df` shows how full each is";
    OsdNearFull = "OSD_NEARFULL" Warn
        "nothing yet; at 95 % writes stop"
        "add OSDs or delete data before writes are blocked: `ceph osd df` shows how full each is";
    MdsAllDown = "MDS_ALL_DOWN" Error
        "the file system can't be used"
        "start a metadata server: `nacre mds --conf CONF --id NAME`";
    FsWithFailedMds = "FS_WITH_FAILED_MDS" Warn
        "requests to directories of that rank wait until another metadata server takes over"
        "start a metadata server: `nacre mds --conf CONF --id NAME`";
    MdsUpLessThanMax = "MDS_UP_LESS_THAN_MAX" Warn
        "fewer metadata servers share the load than you wanted"
        "start another metadata server: `nacre mds --conf CONF --id NAME`; or ask for fewer: \
         `ceph fs set NAME max_mds N`";
    FsDegraded = "FS_DEGRADED" Warn
        "requests to directories of that server wait"
        "wait until it is active (`ceph fs status` shows how far it is); if no server has the rank, start one: \
         `nacre mds --conf CONF --id NAME`";
    MdsDamage = "MDS_DAMAGE" Error
        "the damaged directories and files can't be used; others can"
        "see `ceph tell mds.NAME damage ls`; `ceph tell mds.NAME scrub start / recursive,repair` puts right what \
         it can, and docs/damage.md says how to go on; `ceph tell mds.NAME damage rm ID` forgets an item";
    MdsClientLateRelease = "MDS_CLIENT_LATE_RELEASE" Warn
        "others wait for files or directories that this client does not give back; after 5 minutes it is evicted"
        "look at the client's host, and kill what hangs there; or end its session: \
         `ceph tell mds.NAME client evict id=ID`";
    MdsTrim = "MDS_TRIM" Warn
        "changes of files and directories wait until what others changed before is written back"
        "see what writes to the metadata pool wait for: `ceph health detail` names PGs and OSDs that do not answer, \
         `ceph osd perf` OSDs that are slow";
    MdsClientOldestTid = "MDS_CLIENT_OLDEST_TID" Warn
        "the metadata server keeps in memory what it has done for this client"
        "if others keep a request of that client waiting, see `ceph tell mds.NAME ops`; otherwise the client is at \
         fault: mount again there, or end its session: `ceph tell mds.NAME client evict id=ID`";
    MdsInsufficientStandby = "MDS_INSUFFICIENT_STANDBY" Warn
        "if a metadata server fails, nobody takes over"
        "start another metadata server: `nacre mds --conf CONF --id NAME`; or do without: \
         `ceph fs set NAME standby_count_wanted 0`";
    MgrDown = "MGR_DOWN" Warn
        "commands about subvolumes and snapshot schedules wait; files are not concerned"
        "start a metadata server, whose process has a manager: `nacre mds --conf CONF --id NAME`";
    MonDown = "MON_DOWN" Warn
        "when half of the monitors are missing, nothing in the cluster can change"
        "start the missing monitors: `nacre mon --conf CONF --id NAME`";
    MonDiskCrit = "MON_DISK_CRIT" Error
        "once a monitor's store is full, commands that bring something are refused"
        "remove what fills the store (`ceph config-key ls` shows what programs keep there), or give it a larger \
         device or file, which it takes when it starts";
    MonDiskLow = "MON_DISK_LOW" Warn
        "nothing yet; once a monitor's store is full, commands that bring something are refused"
        "remove what fills the store (`ceph config-key ls` shows what programs keep there), or give it a larger \
         device or file, which it takes when it starts";
    MonClockSkew = "MON_CLOCK_SKEW" Warn
        "leases of monitors and stamps of files may be wrong"
        "synchronize the monitors' clocks; `ceph time-sync-status` shows the differences";
    RecentCrash = "RECENT_CRASH" Warn
        "nothing now: the daemon was started again"
        "see `ceph crash info ID`; `ceph crash archive-all` when the cause is known";
    DaemonOldVersion = "DAEMON_OLD_VERSION" Warn
        "nothing that is new in the later version is used until all daemons have it"
        "install the later version on their hosts and give `nacre upgrade`, or start them: `nacre osd --conf CONF --id N`";
    OsdUpgradeFinished = "OSD_UPGRADE_FINISHED" Warn
        "nothing that is new in this version is used yet, and daemons may go back to the former one"
        "`nacre finalize` once you are content with this version: there is no way back from there";
    PgDamaged = "PG_DAMAGED" Error
        "reads of damaged copies are answered from others while there are any"
        "see `rados list-inconsistent-obj PG`, then run `ceph pg repair PG`; what no copy has whole must be restored from elsewhere";
    OsdScrubErrors = "OSD_SCRUB_ERRORS" Error
        "copies of objects differ, which a device with errors causes most often"
        "see `rados list-inconsistent-obj PG` of the PGs that are inconsistent, then run `ceph pg repair PG`";
    DeviceHealth = "DEVICE_HEALTH" Warn
        "its data was copied to other OSDs"
        "replace the device; if it is sound after all, `ceph osd in OSD`";
    OsdTooManyRepairs = "OSD_TOO_MANY_REPAIRS" Warn
        "nothing yet: each wrong copy was replaced by a right one"
        "the device gives wrong data: look at its health and replace it, or run `ceph tell OSD clear_shards_repaired`";
    PgNotScrubbed = "PG_NOT_SCRUBBED" Warn
        "differences between copies would be found late"
        "is `noscrub` set, or a PG never clean? else run `ceph pg scrub PG`";
    PgNotDeepScrubbed = "PG_NOT_DEEP_SCRUBBED" Warn
        "data that has rotted on a device would be found late"
        "is `nodeep-scrub` set, or a PG never clean? else run `ceph pg deep-scrub PG`";
    OsdSlowPingTimeBack = "OSD_SLOW_PING_TIME_BACK" Warn
        "writes take longer, and OSDs that are busy may be taken for dead"
        "look at the network between the hosts of these OSDs (`ceph osd tree` shows which they are), and at what \
         keeps these hosts busy";
    OsdSlowPingTimeFront = "OSD_SLOW_PING_TIME_FRONT" Warn
        "clients of these OSDs wait longer"
        "look at the network between the hosts of these OSDs (`ceph osd tree` shows which they are), and at what \
         keeps these hosts busy";
    SlowOps = "SLOW_OPS" Warn
        "clients wait for these requests"
        "see `ceph daemon NAME ops` of the named daemons";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_code_has_its_own_name_and_says_what_to_do() {
        let names: BTreeSet<_> = Code::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        assert!(Code::ALL.iter().all(|c| c.advice().contains('`') && c.effect().len() > 10));
    }
}

//! Options of daemons with type, default and meaning. Names and defaults are Ceph's if Ceph has the option.

use serde_json::{Value, json};
use std::time::Duration;

/// The type of an option's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionType {
    /// A whole number, not negative.
    Uint,
    /// A decimal number.
    Float,
    /// Decimal number of seconds.
    Secs,
    /// `true` or `false`.
    Bool,
    /// Bytes, with an optional K, M, G or T.
    Size,
    /// Any text value.
    Str,
}

/// The declaration of an option.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OptionDecl {
    /// Name of the option.
    pub name: &'static str,
    /// Type of its value.
    pub ty: OptionType,
    /// Its default, as text.
    pub default: &'static str,
    /// `basic`, `advanced`, `dev`.
    pub level: &'static str,
    /// Meaning in one sentence.
    pub help: &'static str,
    /// True if a running daemon adopts a new value.
    pub runtime: bool,
}

/// Options that are read once, when a daemon starts or a cluster is made.
const READ_ONCE: &[&str] = &[
    "auth_cluster_required",
    "auth_service_required",
    "auth_client_required",
    "mds_journal_limit",
    "mds_log_warn_factor",
    "mon_osd_full_ratio",
    "mon_osd_backfillfull_ratio",
    "mon_osd_nearfull_ratio",
    "osd_crush_chooseleaf_type",
    "osd_max_object_size",
];

/// True if `list` contains `name`; usable in constants.
const fn is_in(list: &[&str], name: &str) -> bool {
    let mut i = 0;
    while i < list.len() {
        if same(list[i].as_bytes(), name.as_bytes()) {
            return true;
        }
        i += 1;
    }
    false
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

macro_rules! options {
    ($($name:literal $ty:ident $default:literal $level:literal $help:literal;)*) => {
        /// All declared options.
        pub const ALL: &[OptionDecl] = &[ $( OptionDecl {
            name: $name, ty: OptionType::$ty, default: $default, level: $level, help: $help,
            runtime: !is_in(READ_ONCE, $name),
        } ),* ];
    };
}

options! {
    "auth_mon_ticket_ttl" Secs "259200" "advanced" "life of a session with the monitors before its key is renewed";
    "auth_service_ticket_ttl" Secs "3600" "advanced" "life of a ticket for OSDs or metadata servers; also how often service keys rotate";
    "auth_cluster_required" Str "cephx" "advanced" "how daemons prove who they are: cephx or none";
    "auth_service_required" Str "cephx" "advanced" "how clients prove to daemons who they are: cephx or none";
    "auth_client_required" Str "cephx" "advanced" "how daemons prove to clients who they are: cephx or none";
    "mon_clock_drift_allowed" Float "0.05" "advanced" "seconds by which monitors' clocks may differ before that is a warning";
    "mon_data_avail_warn" Uint "30" "advanced" "per cent of the device of a monitor's store that must be free, or that is a warning; 0 for never";
    "mon_data_avail_crit" Uint "5" "advanced" "the same, for an error";
    "mon_allow_pool_delete" Bool "false" "advanced" "whether pools can be removed";
    "mon_max_pg_per_osd" Uint "250" "advanced" "most PG copies for each OSD that a new pool may lead to";
    "mon_target_pg_per_osd" Uint "100" "advanced" "PG copies that each OSD is to have where pools' numbers of PGs follow what is in them";
    "mon_osd_down_out_interval" Secs "600" "advanced" "how long an OSD is down before its data is copied elsewhere";
    "mon_osd_down_out_subtree_limit" Str "rack" "advanced" "OSDs that are down with all of a CRUSH bucket of this type, or of a larger one, are not marked out";
    "mon_osd_min_down_reporters" Uint "2" "advanced" "how many OSDs must report another one before it is marked down";
    "mon_osd_map_told_at_once" Uint "16" "advanced" "OSDs that each monitor tells of a new map; they tell the others";
    "mon_osd_report_timeout" Secs "900" "advanced" "an OSD that reports nothing for so long is marked down";
    "mon_osd_min_in_ratio" Float "0.75" "advanced" "no OSD is marked out by itself where fewer than this part would stay in";
    "mon_osd_full_ratio" Float "0.95" "advanced" "use of an OSD at which writes stop; for new clusters";
    "mon_osd_backfillfull_ratio" Float "0.90" "advanced" "use of an OSD at which it takes no more backfill; for new clusters";
    "mon_osd_nearfull_ratio" Float "0.85" "advanced" "use of an OSD at which a warning appears; for new clusters";
    "mgr/balancer/active" Bool "true" "advanced" "whether placement groups are spread evenly by exceptions to CRUSH";
    "mgr/balancer/mode" Str "upmap" "advanced" "how: upmap, or none";
    "mgr/balancer/upmap_max_optimizations" Uint "10" "advanced" "placement groups that the balancer changes at a time";
    "mgr/dashboard/server_addr" Str "" "basic" "address on which monitors serve the dashboard; none is 127.0.0.1, or with a certificate all addresses";
    "mgr/dashboard/server_port" Uint "8080" "basic" "port of the dashboard without a certificate";
    "mgr/dashboard/ssl_server_port" Uint "8443" "basic" "port of the dashboard with a certificate";
    "mgr/pg_autoscaler/noautoscale" Bool "false" "advanced" "whether the numbers of PGs of all pools are left as they are";
    "mgr/pg_autoscaler/sleep_interval" Secs "60" "advanced" "time between two looks at how many PGs pools should have";
    "mgr/pg_autoscaler/threshold" Float "3.0" "advanced" "by which factor a pool's number of PGs must be wrong to be changed; 1 at least";
    "mgr/prometheus/server_addr" Str "" "basic" "address on which monitors serve metrics; none is all addresses";
    "mgr/prometheus/server_port" Uint "9283" "basic" "port of the metrics";
    "exporter_addr" Str "" "basic" "address on which hosts serve the counters of their daemons; none is nowhere, or all addresses once the module prometheus is enabled";
    "exporter_http_port" Uint "9926" "basic" "port of those counters";
    "exporter_prio_limit" Uint "5" "advanced" "counters of a lower priority are not served";
    "target_max_misplaced_ratio" Float "0.05" "basic" "part of all objects that may be misplaced while the balancer goes on";
    "mgr_crash_warn_recent_interval" Secs "1209600" "advanced" "how long a crash that nobody has archived is a health warning";
    "mon_log_max" Uint "10000" "advanced" "lines of the cluster log that are kept";
    "mon_min_osdmap_epochs" Uint "500" "advanced" "OSD map epochs kept";
    "mon_warn_on_pool_no_app" Bool "true" "advanced" "whether a pool in use without an application is a warning";
    "mon_warn_on_pool_no_redundancy" Bool "true" "advanced" "whether a pool of size 1 is a warning";
    "mds_beacon_interval" Secs "0.5" "advanced" "how often a metadata server reports itself";
    "mon_mgr_beacon_grace" Secs "30" "advanced" "a manager that reports nothing for so long is replaced";
    "mds_beacon_grace" Secs "3" "advanced" "a metadata server that reports nothing for so long is replaced";
    "mds_cache_memory_limit" Size "256M" "basic" "memory for a metadata server's cache, an inode takes about 0.8K; if it is not set, more where the host has memory to spare";
    "mds_bal_interval" Uint "5" "advanced" "seconds between two looks at the loads of metadata servers; what is uneven twice is balanced";
    "mds_bal_replicate_threshold" Uint "0" "advanced" "requests a second (changes count four times) in a directory from which other metadata servers answer for it too, if that is more than each has in the mean";
    "mds_bal_min_start" Uint "100" "advanced" "requests a second (changes count four times) above the mean at which a metadata server gives directories to others";
    "mds_bal_split_size" Uint "10000" "advanced" "entries of a directory fragment at which it is split into eight";
    "mds_bal_merge_size" Uint "50" "advanced" "entries below which the parts of a directory fragment are joined; half of mds_bal_split_size if that is less; 0 joins none";
    "mds_cache_max_inodes" Uint "0" "advanced" "most inodes in a metadata server's cache; 0 leaves it to the memory limit";
    "mds_log_warn_factor" Float "2" "advanced" "a metadata server's journal that is longer by this factor than what is kept of it, half of mds_journal_limit, is a warning";
    "mds_max_completed_requests" Uint "100000" "advanced" "requests whose answers a client does not confirm, before that is a warning";
    "mds_max_completed_flushes" Uint "100000" "advanced" "the same for what clients write back to a metadata server";
    "mds_journal_limit" Size "64M" "advanced" "bytes of a metadata server's journal before it is trimmed";
    "osd_crush_chooseleaf_type" Uint "1" "dev" "CRUSH type that copies are spread over in the first rule: 1 hosts, 0 OSDs; for new clusters";
    "osd_crush_initial_weight" Float "-1" "advanced" "CRUSH weight of a new OSD; negative takes its size in TiB";
    "osd_crush_update_on_start" Bool "true" "advanced" "whether an OSD moves itself to its host in the CRUSH map when it starts";
    "osd_heartbeat_interval" Secs "1" "advanced" "how often OSDs look whether others are alive; 0.1 to 1.5, other values count as the nearest of these: reads need an answer every 3 s";
    "osd_heartbeat_grace" Secs "4" "advanced" "an OSD that gives no sign for so long is reported, and clients wait as long; at least 2, and twice osd_heartbeat_interval. Monitors go by it if no OSD is left to report another: set it for global";
    "osd_max_object_size" Size "128M" "advanced" "largest object";
    "osd_memory_target" Size "48M" "basic" "memory that an OSD aims at; its caches take all of that but 32M, or a quarter of it where that is more, and messages may take more with it from the next start on; less than 16M counts as not set. If it is not set, what was read stays in memory that nobody else needs";
    "osd_pool_default_size" Uint "3" "advanced" "copies in a new pool";
    "osd_pool_default_min_size" Uint "0" "advanced" "copies that a write needs in a new pool; 0 is more than half of them";
    "osd_pool_default_pg_num" Uint "32" "advanced" "PGs of a new pool";
    "osd_pool_default_crush_rule" Str "-1" "advanced" "rule of a new pool; -1 is the first one";
    "osd_pool_default_pg_autoscale_mode" Str "on" "advanced" "whether the number of PGs of a new pool follows what is in it: on, warn (people are told) or off";
    "mon_warn_on_slow_ping_time" Float "0" "advanced" "pings between OSDs that take longer in the mean are a warning, in milliseconds; 0 leaves it to mon_warn_on_slow_ping_ratio";
    "mon_warn_on_slow_ping_ratio" Float "0.25" "advanced" "the same, as part of osd_heartbeat_grace: 1 s, as in Ceph, whose grace is five times as long";
    "mon_osd_warn_num_repaired" Uint "10" "advanced" "an OSD that has replaced so many damaged objects of its own is a warning";
    "mon_warn_pg_not_scrubbed_ratio" Float "0.5" "advanced" "a PG that was not scrubbed for longer than osd_scrub_max_interval by this part of it is a warning; 0 for never";
    "mon_warn_pg_not_deep_scrubbed_ratio" Float "0.75" "advanced" "a PG that was not deep-scrubbed for longer than osd_deep_scrub_interval by this part of it is a warning; 0 for never";
    "osd_deep_scrub_interval" Secs "604800" "advanced" "how often the data of all copies of a PG are compared";
    "osd_deep_scrub_stride" Size "512K" "advanced" "bytes that a deep scrub reads at once";
    "osd_max_scrubs" Uint "1" "advanced" "PGs that one OSD scrubs at a time as their primary";
    "osd_scrub_auto_repair" Bool "true" "advanced" "whether copies that scrub finds damaged are replaced by one that is right";
    "osd_scrub_auto_repair_num_errors" Uint "5" "advanced" "a scrub that finds more damaged objects than this replaces no further ones by itself";
    "osd_scrub_chunk_max" Uint "25" "advanced" "objects that scrub compares at a time";
    "osd_scrub_interval_randomize_ratio" Float "0.5" "advanced" "scrubs are spread over this part of their interval";
    "osd_scrub_max_interval" Secs "604800" "advanced" "a PG is to be scrubbed at least so often";
    "osd_scrub_min_interval" Secs "86400" "advanced" "how often a PG is scrubbed";
    "osd_scrub_sleep" Secs "0" "advanced" "pause of scrub beside as long a one as its last step took";
    "osd_max_backfills" Uint "1" "advanced" "PGs that one OSD fills at a time";
    "osd_mon_report_interval" Secs "2" "advanced" "how often an OSD reports its statistics to the monitors";
    "osd_recovery_max_active" Uint "16" "advanced" "objects that one OSD recovers at a time";
    "osd_recovery_max_chunk" Size "1M" "advanced" "bytes of one part of an object that is being recovered";
    "osd_target_pg_log_entries_per_osd" Uint "60000" "dev" "log entries that all PGs of an OSD keep together";
}

/// Names of options that belong to clients: they are stored and handed out, not interpreted.
const CLIENT_PREFIXES: &[&str] = &[
    "client_",
    "rbd_",
    "rados_",
    "rgw_",
    "ms_",
    "objecter_",
    "fuse_",
    "log_",
    "debug_",
    "librados_",
    "keyring",
];

/// The declaration of an option.
pub fn find(name: &str) -> Option<&'static OptionDecl> {
    ALL.iter().find(|o| o.name == name)
}

/// True for options of clients, which monitors pass on without knowing them.
pub fn is_clients(name: &str) -> bool {
    CLIENT_PREFIXES.iter().any(|p| name.starts_with(p))
}

/// The form of a name in which `-` and ` ` count as `_`.
pub fn normalize(name: &str) -> String {
    name.trim().chars().map(|c| if matches!(c, '-' | ' ') { '_' } else { c }).collect()
}

impl OptionDecl {
    /// The type as Ceph calls it.
    pub fn type_name(&self) -> &'static str {
        match self.ty {
            OptionType::Uint => "uint",
            OptionType::Float => "float",
            OptionType::Secs => "secs",
            OptionType::Bool => "bool",
            OptionType::Size => "size",
            OptionType::Str => "str",
        }
    }

    /// The daemons that read it, by the beginning of its name.
    pub fn services(&self) -> &'static [&'static str] {
        match self.name.split('_').next() {
            Some("mon") => &["mon"],
            Some("mds") => &["mds"],
            Some("osd") => &["mon", "osd"],
            _ => &["mon", "osd", "mds"],
        }
    }

    /// The JSON that `ceph config help -f json` prints.
    pub fn describe(&self) -> Value {
        let flags: &[&str] = if self.runtime { &["runtime"] } else { &["startup"] };
        json!({
            "name": self.name, "type": self.type_name(), "level": self.level, "desc": self.help, "long_desc": "",
            "default": self.default, "daemon_default": "", "tags": [], "services": self.services(), "see_also": [],
            "min": "", "max": "", "can_update_at_runtime": self.runtime, "flags": flags,
        })
    }

    /// Checks that `value` is one of the type; the error names what is expected.
    pub fn check(&self, value: &str) -> Result<(), String> {
        let ok = match self.ty {
            OptionType::Uint => value.trim().parse::<u64>().is_ok(),
            OptionType::Float => value.trim().parse::<f64>().is_ok_and(f64::is_finite),
            OptionType::Secs => parse_secs(value).is_some(),
            OptionType::Bool => parse_bool(value).is_some(),
            OptionType::Size => parse_size(value).is_some(),
            OptionType::Str => true,
        };
        let expected = match self.ty {
            OptionType::Uint => "a whole number",
            OptionType::Float => "a number",
            OptionType::Secs => "seconds",
            OptionType::Bool => "true or false",
            OptionType::Size => "bytes, such as 64M",
            OptionType::Str => "a text",
        };
        if ok { Ok(()) } else { Err(format!("{}: `{value}` is not {expected}", self.name)) }
    }
}

/// Parses a decimal number of seconds.
pub fn parse_secs(text: &str) -> Option<Duration> {
    let secs: f64 = text.trim().parse().ok()?;
    Duration::try_from_secs_f64(secs).ok()
}

/// `true`, `1`, `yes`, `on` and their opposites.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text.trim() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// Bytes: a number with an optional unit of 1024 (`K`, `M`, `G`, `T`, with or without `i`, `B`).
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let shift = match text[digits..].trim().trim_end_matches('B').trim_end_matches('i') {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return None,
    };
    if let Ok(whole) = text[..digits].parse::<u64>() {
        return whole.checked_mul(1 << shift);
    }
    let number: f64 = text[..digits].parse().ok()?;
    Some((number * f64::from(shift).exp2()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn defaults_are_of_their_type_and_names_are_unique() {
        let mut seen = BTreeSet::new();
        for option in ALL {
            assert_eq!(option.check(option.default), Ok(()), "{}", option.name);
            assert!(seen.insert(option.name) && normalize(option.name) == option.name, "{}", option.name);
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("4096"), Some(4096));
        assert_eq!(parse_size("64M"), Some(64 << 20));
        assert_eq!(parse_size("1.5 GiB"), Some(3 << 29));
        assert_eq!(parse_size("x"), None);
        assert_eq!(parse_size("1 parsec"), None);
    }

    #[test]
    fn refuses_values_of_the_wrong_type() {
        let option = find("osd_pool_default_size").expect("declared");
        assert!(option.check("three").expect_err("no number").contains("whole number"));
        assert!(is_clients("rbd_default_features") && !is_clients("osd_pool_default_size"));
    }
}

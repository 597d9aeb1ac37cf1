//! Flags of single OSDs, CRUSH buckets and device classes.

use maps::{OsdId, OsdMap, osd_flags, osd_state};

/// Flags that single OSDs, CRUSH buckets and device classes can have.
pub const FLAGS: [(&str, u32); 4] = [
    ("noup", osd_state::NOUP),
    ("nodown", osd_state::NODOWN),
    ("noin", osd_state::NOIN),
    ("noout", osd_state::NOOUT),
];

/// The names of flags.
pub fn flag_names(bits: u32) -> Vec<&'static str> {
    FLAGS.iter().filter(|(_, bit)| bits & bit != 0).map(|(name, _)| *name).collect()
}

/// The flags that apply to an OSD: its own, and those of the buckets around it and of its device class.
pub fn flags_of(map: &OsdMap, osd: OsdId) -> u32 {
    let own = map.osd(osd).map_or(0, |o| o.state);
    let mut bits = own & FLAGS.iter().fold(0, |all, (_, bit)| all | bit);
    if let Some(class) = map.crush.classes.get(&osd.0) {
        bits |= map.device_class_flags.get(class).copied().unwrap_or(0);
    }
    let mut at = map.crush.parent_of(osd.0).filter(|_| !map.crush_node_flags.is_empty());
    while let Some(bucket) = at {
        bits |= map.crush_node_flags.get(&bucket).copied().unwrap_or(0);
        at = map.crush.parent_of(bucket);
    }
    bits
}

/// True if a flag forbids marking an OSD down.
pub(crate) fn is_kept_up(map: &OsdMap, osd: OsdId) -> bool {
    map.has_flag(osd_flags::NODOWN) || flags_of(map, osd) & osd_state::NODOWN != 0
}

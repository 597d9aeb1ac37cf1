//! Values of options, as one entity sees them: local settings, then central ones by section and mask, then
//! defaults.

use crate::config::MonConfig;
use crate::domain::enabled_modules;
use crate::state::State;
use decl::options;
use std::collections::BTreeMap;
use std::time::Duration;

/// The entity whose options are looked up, and its location, since masks of sections (`osd/class:ssd`,
/// `osd/rack:r1`) refer to it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Target {
    /// `osd.3`, or a kind or `global` alone.
    pub entity: String,
    /// Device class of an OSD.
    pub class: String,
    /// Type and name of the places that it is in, from the innermost out.
    pub location: Vec<(String, String)>,
}

impl Target {
    /// An entity without a known location or class.
    pub fn named(entity: &str) -> Self {
        Self { entity: entity.to_owned(), ..Self::default() }
    }

    /// Specificity of a section; `None` if it does not apply to this entity. The largest wins: the entity's
    /// own section over its kind's over `global`; within each, an inner location over an outer one over none,
    /// then a device class over none.
    fn fit(&self, who: &str) -> Option<(usize, usize, bool)> {
        let mut parts = who.split('/');
        let section = parts.next().unwrap_or_default();
        let depth = sections(&self.entity).iter().position(|s| s == section)?;
        let (mut place, mut class) = (0, false);
        for mask in parts {
            let (kind, value) = mask.split_once(':')?;
            if kind == "class" {
                class = true;
                if self.class != value {
                    return None;
                }
            } else {
                let at = self.location.iter().position(|(t, n)| t == kind && n == value)?;
                place = self.location.len() - at;
            }
        }
        Some((depth, place, class))
    }
}

/// All options that are set centrally for `target`: name to value and the section that it comes from.
pub(crate) fn resolve<'a>(
    central: &'a BTreeMap<(String, String), String>,
    target: &Target,
) -> BTreeMap<&'a str, (&'a str, &'a str)> {
    let mut best: BTreeMap<&str, _> = BTreeMap::new();
    for ((who, name), value) in central {
        let Some(fit) = target.fit(who) else { continue };
        let entry = best.entry(name.as_str()).or_insert((fit, value.as_str(), who.as_str()));
        if fit >= entry.0 {
            *entry = (fit, value.as_str(), who.as_str());
        }
    }
    best.into_iter().map(|(name, (_, value, who))| (name, (value, who))).collect()
}

/// An option as one daemon sees it: local settings, then central ones, then the default.
pub(crate) fn lookup(
    local: &BTreeMap<String, String>,
    central: &BTreeMap<(String, String), String>,
    target: &Target,
    name: &str,
) -> String {
    if let Some(value) = local.get(name) {
        return value.clone();
    }
    let set = central.iter().filter(|((_, n), _)| n == name);
    let best =
        set.filter_map(|((who, _), value)| Some((target.fit(who)?, value))).max_by_key(|(fit, _)| *fit);
    match best {
        Some((_, value)) => value.clone(),
        None => options::find(name).map_or_else(String::new, |o| o.default.to_owned()),
    }
}

/// The sections that apply to an entity (`osd.3`): general first.
pub(crate) fn sections(entity: &str) -> Vec<String> {
    let ty = entity.split('.').next().unwrap_or_default();
    let mut out = vec!["global".to_owned()];
    if ty != "global" {
        out.push(ty.to_owned());
    }
    if entity.contains('.') {
        out.push(entity.to_owned());
    }
    out
}

/// An option's value, converted to its type.
pub(crate) trait FromOption: Sized {
    /// Parses a value that was checked when it was set.
    fn from_option(text: &str) -> Option<Self>;
}

impl FromOption for u64 {
    fn from_option(text: &str) -> Option<Self> {
        options::parse_size(text)
    }
}

impl FromOption for f64 {
    fn from_option(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }
}

impl FromOption for bool {
    fn from_option(text: &str) -> Option<Self> {
        options::parse_bool(text)
    }
}

impl FromOption for Duration {
    fn from_option(text: &str) -> Option<Self> {
        options::parse_secs(text)
    }
}

impl FromOption for String {
    fn from_option(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

/// An option as monitors see it.
pub fn option<T: FromOption>(config: &MonConfig, state: &State, name: &str) -> T {
    option_of(config, state, &own_target(config), name)
}

/// An option of Ceph's manager, whose work the leading monitor does.
pub(crate) fn mgr_option<T: FromOption>(config: &MonConfig, state: &State, name: &str) -> T {
    option_of(config, state, &Target::named("mgr"), name)
}

fn option_of<T: FromOption>(config: &MonConfig, state: &State, target: &Target, name: &str) -> T {
    let text = lookup(&config.options, &state.config, target, name);
    let default = || decl::options::find(name).and_then(|o| T::from_option(o.default));
    T::from_option(&text).or_else(default).expect("a declared option has a default of its type")
}

/// The options that are set for an entity: the most specific value of each.
pub(crate) fn config_for(state: &State, entity: &str) -> BTreeMap<String, String> {
    // Only masks need the entity's location, and finding it is slow on a large map.
    let masked = state.config.keys().any(|(who, _)| who.contains('/'));
    let target = if masked { target_of(state, entity) } else { Target::named(entity) };
    let mut out: BTreeMap<String, String> = resolve(&state.config, &target)
        .into_iter()
        .map(|(name, (value, _))| (name.to_owned(), value.to_owned()))
        .collect();
    // Once metrics are wanted, hosts serve their daemons' as well.
    if !entity.starts_with("client.") && enabled_modules::enabled(&state.kv).contains(&"prometheus") {
        out.entry("exporter_addr".to_owned()).or_insert_with(|| "::".to_owned());
    }
    out
}

/// An entity with its location as the maps and its metadata tell.
pub(crate) fn target_of(state: &State, entity: &str) -> Target {
    let mut target = Target::named(entity);
    let name = wire::EntityName::parse(entity);
    if let Some(osd) = entity.strip_prefix("osd.").and_then(|id| id.parse::<i32>().ok()) {
        let crush = &state.osdmap().crush;
        target.class = crate::crush_edit::class(crush, osd).to_owned();
        target.location = crate::crush_edit::location(crush, osd);
    }
    let host = name.and_then(|n| state.metadata.get(&n)?.get("hostname").cloned());
    if let Some(host) = host.filter(|_| !target.location.iter().any(|(ty, _)| ty == "host")) {
        target.location.insert(0, ("host".into(), host));
    }
    target
}

/// This monitor as a target of options.
fn own_target(config: &MonConfig) -> Target {
    Target {
        entity: format!("mon.{}", config.name),
        class: String::new(),
        location: vec![("host".into(), config.hostname.clone())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_wins_over_the_specific_section_over_the_general_one() {
        let name = "osd_pool_default_size";
        let key = |section: &str| (section.to_owned(), name.to_owned());
        let mut central = BTreeMap::from([(key("global"), "2".to_owned())]);
        let mut local = BTreeMap::new();
        let mon = Target::named("mon.a");
        assert_eq!(lookup(&local, &BTreeMap::new(), &mon, name), "3");
        assert_eq!(lookup(&local, &central, &mon, name), "2");
        central.insert(key("mon.a"), "4".to_owned());
        assert_eq!(lookup(&local, &central, &mon, name), "4");
        local.insert(name.to_owned(), "5".to_owned());
        assert_eq!(lookup(&local, &central, &mon, name), "5");
    }

    #[test]
    fn masks_narrow_a_section_and_the_innermost_place_wins() {
        let mut central = BTreeMap::new();
        let mut set = |who: &str, value: &str| {
            central.insert((who.to_owned(), "osd_max_backfills".to_owned()), value.to_owned());
        };
        set("osd", "1");
        set("osd/class:ssd", "2");
        set("osd/rack:r1", "3");
        set("osd/host:h1", "4");
        let place = |class: &str, pairs: &[(&str, &str)]| Target {
            entity: "osd.0".into(),
            class: class.into(),
            location: pairs.iter().map(|(t, n)| ((*t).to_owned(), (*n).to_owned())).collect(),
        };
        let value = |target: &Target| resolve(&central, target)["osd_max_backfills"].0.to_owned();
        assert_eq!(value(&place("hdd", &[("host", "h9")])), "1");
        assert_eq!(value(&place("ssd", &[("host", "h9")])), "2");
        assert_eq!(value(&place("ssd", &[("host", "h9"), ("rack", "r1")])), "3");
        assert_eq!(value(&place("hdd", &[("host", "h1"), ("rack", "r1")])), "4");
        central.insert(("osd.0".into(), "osd_max_backfills".into()), "5".into());
        let own = place("hdd", &[("host", "h1")]);
        assert_eq!(resolve(&central, &own)["osd_max_backfills"], ("5", "osd.0"));
        assert_eq!(lookup(&BTreeMap::new(), &central, &own, "osd_max_backfills"), "5");
    }

    #[test]
    fn sections_go_from_general_to_specific() {
        assert_eq!(super::sections("osd.3"), ["global", "osd", "osd.3"]);
        assert_eq!(super::sections("client"), ["global", "client"]);
        assert_eq!(super::sections("global"), ["global"]);
    }
}

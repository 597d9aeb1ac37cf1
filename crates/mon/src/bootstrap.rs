//! The first entry of a new cluster's log: its maps, keys and global ids.

use crate::config::MonConfig;
use crate::crush_edit;
use crate::entry::Change;
use crate::options::option;
use crate::state::State;
use auth::{EntityAuth, RotatingKeys};
use maps::{Epoch, FsMap, MonMap, NacreMap, OsdMap, OsdMapIncremental};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Now, Rng};
use wire::{EntityType, Writer};

/// Services that tickets are made for.
pub const SERVICES: [EntityType; 5] =
    [EntityType::AUTH, EntityType::MON, EntityType::MDS, EntityType::OSD, EntityType::MGR];
/// Global ids that are committed at a time.
pub const GLOBAL_ID_STEP: u64 = 1 << 16;

/// The changes that make a cluster.
pub fn changes(config: &MonConfig, now: Now, rng: &mut Rng) -> Result<Vec<Change>, String> {
    let mut out =
        vec![Change::MonMap(Box::new(MonMap { epoch: config.monmap.epoch.max(1), ..config.monmap.clone() }))];
    out.push(osdmap(config, now));
    out.push(Change::FsMap(Box::new(FsMap { epoch: Epoch(1), ..FsMap::default() })));
    for (name, entry) in &config.keyring.0 {
        for (service, caps) in &entry.caps {
            auth::check_caps(service, caps)
                .map_err(|e| format!("keyring: {name}: caps {service} = `{caps}`: {e}"))?;
        }
        let auth = EntityAuth { key: entry.key.clone(), caps: entry.caps.clone() };
        out.push(Change::Auth(name.clone(), Some(auth)));
    }
    for service in SERVICES {
        let keys = RotatingKeys::default().rotated(now.wall, ttl(config, &State::default(), service), rng);
        out.push(Change::Rotating(service, keys));
    }
    Ok(out)
}

/// Time for which each rotating key of a service is in use.
pub fn ttl(config: &MonConfig, state: &State, service: EntityType) -> Duration {
    let name = if service == EntityType::AUTH { "auth_mon_ticket_ttl" } else { "auth_service_ticket_ttl" };
    option(config, state, name)
}

fn osdmap(config: &MonConfig, now: Now) -> Change {
    let none = State::default();
    let domain: u64 = option(config, &none, "osd_crush_chooseleaf_type");
    let profile = [("k", "2"), ("m", "2"), ("plugin", "jerasure"), ("technique", "reed_sol_van")];
    let profile: BTreeMap<_, _> = profile.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let ratio = |name| option::<f64>(config, &none, name) as f32;
    let map = OsdMap {
        fsid: config.monmap.fsid,
        epoch: Epoch(1),
        created: now.wall.into(),
        modified: now.wall.into(),
        crush: Arc::new(crush_edit::initial(u16::try_from(domain).unwrap_or(1))),
        ec_profiles: BTreeMap::from([("default".to_owned(), profile)]),
        full_ratio: ratio("mon_osd_full_ratio"),
        backfillfull_ratio: ratio("mon_osd_backfillfull_ratio"),
        nearfull_ratio: ratio("mon_osd_nearfull_ratio"),
        ..OsdMap::default()
    };
    let (fullmap, full_crc) = map.encode_with_crc();
    let inc = OsdMapIncremental {
        fsid: map.fsid,
        epoch: map.epoch,
        modified: map.modified,
        fullmap,
        full_crc,
        ..OsdMapIncremental::default()
    };
    let feature_level = config.build.levels.newest;
    let nacre = NacreMap { epoch: map.epoch, feature_level, ..NacreMap::default() };
    Change::OsdMap { inc: Writer::encode(&inc), nacre }
}

//! Scenarios of a whole cluster of the real roles.

use serde_json::json;
use sim::cluster::{Cluster, Spec};
use sim::{Crash, Faults, Profile, run_profile, run_seed, run_traced};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);

fn cluster(spec: &Spec) -> Cluster {
    let mut c = Cluster::new(11, Faults::none(), spec);
    c.bring_up().expect("a cluster without faults comes up");
    c
}

#[test]
fn an_osd_that_missed_writes_catches_up() {
    let mut c = cluster(&Spec::default());
    c.client(0).write("a", b"one");
    c.osd(1).crash(Crash::Power);
    c.client(1).write("a", b"two");
    c.client(1).write("b", b"new");
    c.osd(1).start();
    c.world.run_for(Duration::from_secs(8));
    c.wait_healthy(SOON).expect("the OSD catches up");
    c.osd(0).crash(Crash::Process);
    c.osd(2).crash(Crash::Process);
    c.osd(0).start();
    c.osd(2).start();
    assert_eq!(c.client(0).read("a").as_deref(), Some(&b"two"[..]));
    assert_eq!(c.client(0).read("b").as_deref(), Some(&b"new"[..]));
}

#[test]
fn acknowledged_writes_survive_the_whole_clusters_power() {
    let mut c = cluster(&Spec::default());
    for i in 0..20 {
        c.client(i % 2).write(&format!("o{i}"), &[i as u8; 5000]);
    }
    for host in c.daemons() {
        c.at(host).crash(Crash::Power);
    }
    c.world.run_for(Duration::from_secs(3));
    for host in c.daemons() {
        c.at(host).start();
    }
    c.wait_healthy(SOON).expect("it comes back");
    for i in 0..20 {
        assert_eq!(c.client(0).read(&format!("o{i}")), Some(vec![i as u8; 5000]), "o{i}");
    }
}

#[test]
fn writes_go_on_while_the_monitor_is_away() {
    let mut c = cluster(&Spec::default());
    c.mon(0).crash(Crash::Process);
    c.client(0).write("a", b"1");
    assert_eq!(c.client(1).read("a").as_deref(), Some(&b"1"[..]));
    c.mon(0).start();
    c.wait_healthy(SOON).expect("healthy with its monitor back");
}

#[test]
fn one_seed_twice_is_one_run() {
    for seed in [1, 2, 8, 12, 16, 29] {
        let (first, lines) = run_traced(seed, Profile::Any);
        let (second, again) = run_traced(seed, Profile::Any);
        let differs = lines.iter().zip(&again).find(|(a, b)| a != b);
        assert_eq!(differs, None, "seed {seed}");
        match (first, second) {
            (Ok(a), Ok(b)) => assert_eq!(a, b, "seed {seed}"),
            (Err(a), Err(b)) => assert_eq!(a.what, b.what, "seed {seed}"),
            (a, b) => panic!("seed {seed}: {a:?} and {b:?}"),
        }
    }
    let images = |seed| run_profile(seed, Profile::Images).map(|stats| stats.hash).map_err(|f| f.what);
    (0..4).for_each(|seed| assert_eq!(images(seed), images(seed), "seed {seed} of images"));
    let hash = |seed| run_seed(seed).map(|s| s.hash).unwrap_or_default();
    assert_ne!(hash(1), hash(2));
}

/// A sample for every build, as the next one.
#[test]
fn a_sample_of_images_passes() {
    for seed in 0..20 {
        if let Err(failure) = run_profile(seed, Profile::Images) {
            panic!("{failure}");
        }
    }
}

/// A sample for every build; `cargo xtask sim` runs thousands of others.
#[test]
fn a_sample_of_seeds_passes() {
    for seed in 0..40 {
        if let Err(failure) = run_seed(seed) {
            panic!("{failure}");
        }
    }
}

#[test]
fn a_metadata_cache_without_a_limit_follows_the_hosts_memory() {
    let mut c = cluster(&Spec { fs: true, ..Spec::default() });
    let server = c.mdss()[0];
    let limit = |c: &mut Cluster, available: u64| {
        let memory = Some(node::Memory { total: 64 << 30, available: available << 30 });
        c.world.load(server, node::Load { memory, ..node::Load::default() });
        let (code, status) = c.world.admin(server, r#"{"prefix":"cache status"}"#).expect("it is up");
        assert_eq!(code, 0);
        let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        status["limit_bytes"].as_u64().expect("a number") >> 20
    };
    assert_eq!([40, 12, 5].map(|available| limit(&mut c, available)), [4096, 512, 256]);
    let set =
        json!({ "prefix": "config set", "who": "mds", "name": "mds_cache_memory_limit", "value": "300M" });
    c.command(&set).expect("it is set");
    c.world.run_for(Duration::from_secs(2));
    assert_eq!(limit(&mut c, 40), 300, "what is set counts");
}

//! `dump top`: the busiest clients, and the largest and busiest directories.

mod world;

use mds::MdsOptions;
use serde_json::Value;
use std::time::Duration;
use world::World;
use world::client::{create, getattr, mkdir};
use world::ranks::Ranks;

fn paths(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|dir| dir["path"].as_str().expect("a path")).collect()
}

#[test]
fn who_asks_most_and_where_most_is_come_first() {
    let mut w = World::new(1, MdsOptions::default());
    (1..=3).for_each(|client| w.connect(client));
    for request in [mkdir("quiet"), mkdir("busy"), mkdir("busy/below")] {
        assert_eq!(w.call(1, request).result, 0);
    }
    for n in 0..20 {
        assert_eq!(w.call(2, create(&format!("busy/below/{n}"), 2)).result, 0);
    }
    assert_eq!(w.call(3, getattr("quiet", 0)).result, 0);
    // What is in a directory is counted above it some seconds later.
    (0..5).for_each(|_| w.advance(Duration::from_secs(4)));
    let top = w.rank.top(2, 3);
    assert_eq!((&top["num_sessions"], &top["seen_all_dirs"]), (&3.into(), &true.into()), "{top}");
    let sessions = top["sessions"].as_array().expect("sessions");
    assert_eq!((sessions.len(), &sessions[0]["id"], &sessions[1]["id"]), (2, &2.into(), &1.into()));
    assert!(sessions[0]["request_load_avg"].as_f64() > Some(0.0), "{top}");
    assert_eq!(paths(&top["dirs_by_load"]), ["/", "/busy", "/busy/below"]);
    assert!(top["dirs_by_load"][2]["pop_me"].as_f64() > Some(0.0), "{top}");
    // What is nowhere else is in the root, then in what has most files in it.
    let large = &top["dirs_by_size"];
    assert_eq!((paths(large)[0], &large[0]["rfiles"]), ("/", &20.into()), "{top}");
    assert!(top["dirs_by_size"].as_array().is_some_and(|all| all.len() == 3));
    assert_eq!(w.rank.top(0, 0)["sessions"], serde_json::json!([]));
    assert_eq!(w.rank.session_list()[1]["request_load_avg"], sessions[0]["request_load_avg"]);
}

#[test]
fn a_directory_is_told_by_the_rank_that_has_it() {
    let mut r = Ranks::new(1);
    r.ok(0, mkdir("here"));
    r.ok(0, mkdir("there"));
    r.ok(0, create("there/f", 2));
    r.export(0, "/there", 1);
    r.settle();
    let told = |rank: usize| r.worlds[rank].rank.top(10, 10);
    let (left, came) = (told(0), told(1));
    assert!(!paths(&left["dirs_by_size"]).contains(&"/there"), "{left}");
    assert!(paths(&left["dirs_by_size"]).contains(&"/here"), "{left}");
    assert_eq!(paths(&came["dirs_by_size"]), ["/there"], "{came}");
}

#[test]
fn the_search_is_bounded() {
    let mut w = World::new(1, MdsOptions::default());
    w.connect(1);
    assert_eq!(w.call(1, mkdir("d")).result, 0);
    for n in 0..10_100 {
        assert_eq!(w.call(1, create(&format!("d/{n}"), 2)).result, 0);
    }
    let top = w.rank.top(1, 20);
    assert_eq!((paths(&top["dirs_by_size"]), &top["seen_all_dirs"]), (vec!["/", "/d"], &false.into()));
}

//! Keys by which hosts join: nobody has to remove them.

mod support;

use node::Output;
use std::time::Duration;
use support::Rig;

/// The second in which a rig's time began, in seconds since 1970.
const BEGAN: u64 = 1_767_225_600;

fn make(rig: &mut Rig, entity: &str) {
    rig.ok(&format!(
        r#"{{"prefix":"auth get-or-create","entity":"{entity}","caps":["mon","profile bootstrap-osd"]}}"#
    ));
}

fn is_there(rig: &mut Rig, entity: &str) -> bool {
    rig.command(&format!(r#"{{"prefix":"auth get","entity":"{entity}"}}"#)).code == 0
}

#[test]
fn a_key_ends_with_its_time_and_so_do_its_sessions() {
    let mut rig = Rig::new();
    let (early, late) =
        (format!("client.join.{}.0000000a", BEGAN + 60), format!("client.join.{}.0000000b", BEGAN + 120));
    let others = ["client.join.me", "client.joiner", "client.zeta"];
    for entity in [&early, &late].into_iter().map(String::as_str).chain(others) {
        make(&mut rig, entity);
    }
    let [conn_early, conn_late] =
        [(&early, 71), (&late, 72)].map(|(entity, id)| rig.connect(entity, "profile bootstrap-osd", id));
    rig.pass(Duration::from_secs(50));
    assert!(is_there(&mut rig, &early) && is_there(&mut rig, &late));
    rig.pass(Duration::from_secs(15));
    assert!(!is_there(&mut rig, &early) && is_there(&mut rig, &late));
    let closed = |rig: &Rig, wanted| {
        rig.outs.iter().any(|out| matches!(out, Output::Close { conn } if *conn == wanted))
    };
    assert!(closed(&rig, conn_early) && !closed(&rig, conn_late), "only the session of the key that is gone");
    rig.crash_and_restart();
    rig.pass(Duration::from_secs(70));
    assert!(!is_there(&mut rig, &late), "also by a monitor that was started since");
    assert!(others.iter().all(|entity| is_there(&mut rig, entity)), "keys of other kinds stay");
}

/// What `nacre token` gives a host: these commands and no others.
#[test]
fn a_joining_host_may_do_what_joining_takes() {
    let mut rig = Rig::new();
    let caps = "profile bootstrap-osd, \
        allow command \"auth get-or-create\" with entity prefix mds. caps_mon=\"allow profile mds\"";
    let name = format!("client.join.{}.0000000a", BEGAN + 60);
    make(&mut rig, &name);
    let conn = rig.connect(&name, caps, 73);
    let uuid = "11111111-2222-4333-8444-555555555556";
    for (command, code) in [
        (format!(r#"{{"prefix":"osd new","uuid":"{uuid}"}}"#), 0),
        (r#"{"prefix":"mon dump"}"#.to_owned(), 0),
        (
            r#"{"prefix":"auth get-or-create","entity":"mds.h2","caps":["mon","allow profile mds"]}"#
                .to_owned(),
            0,
        ),
        (r#"{"prefix":"auth get-or-create","entity":"mds.h3","caps":["mon","allow *"]}"#.to_owned(), -13),
        (
            r#"{"prefix":"auth get-or-create","entity":"client.h2","caps":["mon","allow profile mds"]}"#
                .to_owned(),
            -13,
        ),
        (r#"{"prefix":"auth get","entity":"client.admin"}"#.to_owned(), -13),
        (r#"{"prefix":"mon add","name":"x","addr":"127.0.0.9"}"#.to_owned(), -13),
        (r#"{"prefix":"osd out","ids":["0"]}"#.to_owned(), -13),
    ] {
        let answer = rig.command_on(conn, &command);
        assert_eq!(answer.code, code, "{command}: {}", answer.status);
    }
}

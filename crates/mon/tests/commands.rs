//! Commands: the keys of their JSON are Ceph's, their errors say what is wrong, capabilities hold.

mod support;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use support::{Rig, osdmap, report_clean, three_osds};

/// Recorded from a cluster of Ceph 16.2.15: command to the paths of its JSON. `*` stands for keys that are
/// data.
const REFERENCE: &str = include_str!("data/reference-keys.json");

/// Paths that only the reference has, each with the reason.
const ABSENT: &[(&str, &str)] = &[
    (".options.*", "our pools have no options set"),
    (".container_name", "only where an OSD says so"),
    (".network_ping_times[]", "heartbeat times are not reported"),
    (".blocked_by[]", "no PG waits for another OSD here"),
    (".mgr", "there is no manager"),
    (".mgr_devicehealth", "there is no manager's pool"),
    (".drained", "nothing is drained"),
];

/// Paths that are data here and were empty, or cut off, where the reference was recorded.
const DATA: &[&str] = &[".application_metadata.*.", ".blocklist.", ".*.cephfs", ".*.rados"];

/// A cluster in which every command has something to say.
fn cluster() -> Rig {
    let (mut rig, conns) = three_osds();
    let commands = [
        r#"{"prefix":"osd pool create","pool":"meta","pg_num":8}"#,
        r#"{"prefix":"osd pool create","pool":"data","pg_num":8}"#,
        r#"{"prefix":"fs new","fs_name":"cephfs","metadata":"meta","data":"data"}"#,
        r#"{"prefix":"osd pool create","pool":"single","pg_num":4,"size":1}"#,
        r#"{"prefix":"osd pool application enable","pool":"single","app":"rados"}"#,
        r#"{"prefix":"osd pool set-quota","pool":"data","field":"max_bytes","val":"1000000"}"#,
        r#"{"prefix":"osd set","key":"noout"}"#,
        r#"{"prefix":"osd blocklist","blocklistop":"add","addr":"10.0.0.1:0/123"}"#,
        r#"{"prefix":"config set","who":"global","name":"osd_max_backfills","value":"3"}"#,
        r#"{"prefix":"config set","who":"osd.0","name":"debug_osd","value":"1/5"}"#,
        r#"{"prefix":"log","logtext":["hello"]}"#,
    ];
    commands.iter().for_each(|c| drop(rig.ok(c)));
    let mds = rig.boot_mds("a", 7001);
    rig.beacon(mds, "a", 7001, 2, maps::MdsState::ACTIVE);
    let map = osdmap(&mut rig);
    report_clean(&mut rig, &conns, &map);
    rig
}

fn is_data(path: &str, names: &BTreeSet<String>) -> bool {
    let prefix = format!("{path}.*");
    names
        .iter()
        .any(|n| *n == prefix || n.starts_with(&format!("{prefix}.")) || n.starts_with(&format!("{prefix}[")))
}

fn paths(value: &Value, path: &str, reference: &BTreeSet<String>, out: &mut BTreeSet<String>) {
    out.insert(path.to_owned());
    match value {
        Value::Object(map) => {
            let data = is_data(path, reference);
            for (key, inner) in map {
                let key = if data { "*" } else { key };
                paths(inner, &format!("{path}.{key}"), reference, out);
            }
        }
        Value::Array(list) => list.iter().for_each(|v| paths(v, &format!("{path}[]"), reference, out)),
        _ => {}
    }
}

#[test]
fn json_keys_are_those_of_the_reference() {
    let reference: BTreeMap<String, BTreeSet<String>> = serde_json::from_str(REFERENCE).expect("a map");
    let mut rig = cluster();
    let mut wrong = Vec::new();
    for (command, theirs) in &reference {
        let mut ours = BTreeSet::new();
        paths(&rig.json(command), "", theirs, &mut ours);
        let excused = |p: &&String| ABSENT.iter().any(|(part, _)| p.contains(part));
        let missing: Vec<_> = theirs.difference(&ours).filter(|p| !excused(p)).collect();
        let extra: Vec<_> = ours
            .difference(theirs)
            .filter(|p| !p.ends_with("[]") && !excused(p) && !DATA.iter().any(|d| p.contains(d)))
            .collect();
        if !missing.is_empty() || !extra.is_empty() {
            wrong.push(format!("{command}: missing {missing:?}, extra {extra:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), reference.len(), wrong.join("\n"));
}

#[test]
fn every_reading_command_answers_in_both_forms_without_panic() {
    let mut rig = cluster();
    for cmd in decl::Cmd::ALL {
        let text = |format: &str| {
            format!(
                r#"{{"prefix":"{}","format":"{format}","id":"0","name":"default","pool":"data","object":"x","entity":"client.admin","who":"osd.0","key":"osd_max_backfills","osd":"0","poolstr":"data","pgid":"1.0","fs_name":"cephfs","ids":["0"],"var":"all"}}"#,
                cmd.prefix()
            )
        };
        if cmd.decl().perm.contains('w') {
            continue;
        }
        for format in ["plain", "json", "json-pretty"] {
            let answer = rig.command(&text(format));
            assert!(answer.code == 0 || !answer.status.is_empty(), "{cmd:?}: {answer:?}");
            assert!(answer.code != -22 || answer.status.len() > 10, "{cmd:?}: {answer:?}");
        }
    }
}

#[test]
fn tables_fit_80_columns() {
    let mut rig = cluster();
    for command in
        ["osd tree", "df", "fs status", "osd crush tree", "mds stat", "pg stat", "status", "osd pool ls"]
    {
        let text = rig.ok(&format!(r#"{{"prefix":"{command}"}}"#));
        assert!(text.lines().all(|l| l.trim_end().chars().count() <= 80), "{text}");
    }
}

fn error(rig: &mut Rig, json: &str) -> (i32, String) {
    let answer = rig.command(json);
    assert!(answer.code < 0, "{json}: {answer:?}");
    (answer.code, answer.status)
}

#[test]
fn mistakes_are_told_in_one_sentence() {
    let mut rig = cluster();
    let cases = [
        (r#"{"prefix":"osd pool create","pool":"p","pg_num":100000}"#, -34, "between 1 and"),
        (r#"{"prefix":"osd pool create","pool":"p","pg_num":20000}"#, -34, "mon_max_pg_per_osd"),
        (r#"{"prefix":"osd pool create","pool":"p","pool_type":"erasure"}"#, -95, "erasure"),
        (r#"{"prefix":"osd pool create","pool":"p","rule":"nosuch"}"#, -2, "nosuch"),
        (r#"{"prefix":"osd pool set","pool":"data","var":"min_size","val":"9"}"#, -22, "between 1 and size"),
        (r#"{"prefix":"osd pool set","pool":"nosuch","var":"size","val":"2"}"#, -2, "nosuch"),
        (r#"{"prefix":"osd pool set","pool":"data","var":"size","val":"1"}"#, -1, "--yes-i-really-mean-it"),
        (r#"{"prefix":"osd pool rm","pool":"data"}"#, -1, "name twice"),
        (r#"{"prefix":"fs new","fs_name":"b","metadata":"meta","data":"data"}"#, -22, "already in use"),
        (r#"{"prefix":"fs set","fs_name":"cephfs","var":"max_mds","val":"0"}"#, -22, "at least one"),
        (r#"{"prefix":"auth get-or-create","entity":"client.t","caps":["mon","alow r"]}"#, -22, "alow r"),
        (r#"{"prefix":"auth get-or-create","entity":"client.t","caps":["mon"]}"#, -22, "pairs"),
        (r#"{"prefix":"auth get-or-create","entity":"t"}"#, -22, "TYPE.ID"),
        (r#"{"prefix":"auth get","entity":"client.none"}"#, -2, "client.none"),
        (r#"{"prefix":"config set","who":"osd","name":"nosuch","value":"1"}"#, -22, "unrecognized"),
        (
            r#"{"prefix":"config set","who":"osd","name":"osd_max_backfills","value":"x"}"#,
            -22,
            "whole number",
        ),
        (r#"{"prefix":"osd lost","id":0}"#, -1, "--yes-i-really-mean-it"),
        (r#"{"prefix":"osd find","id":9}"#, -2, "osd.9"),
        (r#"{"prefix":"osd purge","id":0,"yes_i_really_mean_it":true}"#, -16, "pgs currently mapped"),
        (r#"{"prefix":"pg map","pgid":"9.0"}"#, -2, "pg '9.0' does not exist"),
        (r#"{"prefix":"osd dump","epoch":999}"#, -2, "not kept"),
        (r#"{"prefix":"nosuch"}"#, -22, "not known"),
        ("rubbish", -22, "JSON"),
    ];
    for (json, code, part) in cases {
        let (found, text) = error(&mut rig, json);
        assert!(found == code && text.contains(part), "{json}: {found} {text}");
    }
}

#[test]
fn a_capability_that_is_not_enforced_is_refused_and_no_key_is_made() {
    let mut rig = Rig::new();
    let bad = r#"{"prefix":"auth get-or-create","entity":"client.t","caps":["mon","allow r","osd","allow rw pool_of_mine=x"]}"#;
    let (code, text) = error(&mut rig, bad);
    assert!(code == -22 && text.contains("expected"), "{text}");
    assert_eq!(rig.command(r#"{"prefix":"auth get","entity":"client.t"}"#).code, -2);
}

#[test]
fn monitor_capabilities_hold_for_commands() {
    let mut rig = cluster();
    let reader = rig.connect("client.r", "allow r", 8000);
    assert_eq!(rig.command_on(reader, r#"{"prefix":"osd tree"}"#).code, 0);
    for forbidden in [
        r#"{"prefix":"osd out","ids":["0"]}"#,
        r#"{"prefix":"auth ls"}"#,
        r#"{"prefix":"auth get","entity":"client.admin"}"#,
        r#"{"prefix":"osd pool create","pool":"x"}"#,
    ] {
        assert_eq!(rig.command_on(reader, forbidden).code, -13, "{forbidden}");
    }
    let nobody = rig.connect("client.n", "", 8001);
    assert_eq!(rig.command_on(nobody, r#"{"prefix":"status"}"#).code, -13);
    let rbd = rig.connect("client.rbd", "profile rbd", 8002);
    let block = r#"{"prefix":"osd blocklist","blocklistop":"add","addr":"10.0.0.2:0/1"}"#;
    assert_eq!(rig.command_on(rbd, block).code, 0);
    let unblock = r#"{"prefix":"osd blocklist","blocklistop":"rm","addr":"10.0.0.2:0/1"}"#;
    assert_eq!(rig.command_on(rbd, unblock).code, -13);
}

#[test]
fn a_subscriber_without_the_right_gets_no_map() {
    let mut rig = cluster();
    let nobody = rig.connect("client.n", "", 8001);
    let mut want = msgs::MonSubscribe::default();
    for what in ["osdmap", "mdsmap", "config", "monmap", "mgrmap"] {
        want.what.insert(what.into(), msgs::SubscribeItem { start: 0, flags: 0 });
    }
    rig.send(nobody, 0, msgs::Body::from(want));
    let kinds: Vec<_> = rig.sent(nobody).iter().map(|m| m.to_raw().kind).collect();
    assert_eq!(kinds, [62, 0x704, 4], "config, mgrmap, monmap");
}

#[test]
fn options_reach_those_they_are_for() {
    let mut rig = Rig::new();
    let client = rig.connect("client.x", "allow r", 8000);
    let mut want = msgs::MonSubscribe::default();
    want.what.insert("config".into(), msgs::SubscribeItem::default());
    rig.send(client, 0, msgs::Body::from(want));
    let config = |msg: &node::Msg| match &msg.body {
        node::Body::Client(msgs::Body::Config(c)) => c.config.clone(),
        other => panic!("{other:?}"),
    };
    assert!(config(&rig.sent(client)[0]).is_empty(), "empty, but sent");
    rig.ok(r#"{"prefix":"config set","who":"osd","name":"osd_max_backfills","value":"9"}"#);
    assert!(rig.sent(client).is_empty(), "not for clients");
    rig.ok(r#"{"prefix":"config set","who":"client","name":"rbd_cache","value":"false"}"#);
    rig.ok(r#"{"prefix":"config set","who":"client.x","name":"rbd_cache","value":"true"}"#);
    let last = config(rig.sent(client).last().expect("told"));
    assert_eq!(last["rbd_cache"], "true", "the most specific one");
}

#[test]
fn pools_and_snapshots_of_librados_are_answered_with_their_epoch() {
    let mut rig = cluster();
    let conn = rig.admin();
    let ask = |rig: &mut Rig, pool: u32, op: u32, snapid: u64, name: &str| {
        let m = msgs::PoolOp {
            fsid: support::fsid(),
            pool,
            op,
            snapid: maps::SnapId(snapid),
            name: name.into(),
            crush_rule: -1,
            ..msgs::PoolOp::default()
        };
        rig.send(conn, 1, msgs::Body::from(m));
        match rig.sent(conn).pop().expect("an answer").body {
            node::Body::Client(msgs::Body::PoolOpReply(r)) => (r.code, r.epoch, r.data.clone()),
            other => panic!("{other:?}"),
        }
    };
    let before = osdmap(&mut rig).epoch;
    let (code, epoch, data) = ask(&mut rig, 2, msgs::pool_op::CREATE_UNMANAGED_SNAP, 0, "");
    assert_eq!((code, epoch, data), (0, before.next(), Some(2u64.to_le_bytes().to_vec())));
    let (code, epoch, _) = ask(&mut rig, 2, msgs::pool_op::DELETE_UNMANAGED_SNAP, 2, "");
    assert_eq!((code, epoch), (0, before.next().next()));
    assert!(osdmap(&mut rig).removed_snaps_queue[&2].contains(2));
    assert_eq!(ask(&mut rig, 2, msgs::pool_op::CREATE_SNAP, 0, "s").0, -22, "clients manage them");
    assert_eq!(ask(&mut rig, 0, msgs::pool_op::CREATE, 0, "data").0, -17);
    assert_eq!(ask(&mut rig, 77, msgs::pool_op::DELETE, 0, "").0, -2);
}

#[test]
fn a_removed_snapshot_leaves_the_map_when_all_pgs_have_trimmed_it() {
    let (mut rig, conns) = three_osds();
    rig.ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    rig.ok(r#"{"prefix":"osd pool mksnap","pool":"p","snap":"one"}"#);
    rig.ok(r#"{"prefix":"osd pool mksnap","pool":"p","snap":"two"}"#);
    rig.ok(r#"{"prefix":"osd pool rmsnap","pool":"p","snap":"one"}"#);
    let map = osdmap(&mut rig);
    let pool = &map.pools[&1];
    assert_eq!(pool.snaps.values().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["two"]);
    assert_eq!(pool.snap_seq, maps::SnapId(3), "the removal has a number too");
    assert!(map.removed_snaps_queue[&1].contains(1) && map.new_removed_snaps[&1].contains(1));
    report_clean(&mut rig, &conns[..2], &map);
    rig.pass(std::time::Duration::from_secs(2));
    assert!(osdmap(&mut rig).removed_snaps_queue.contains_key(&1), "one OSD's PGs may still have it");
    report_clean(&mut rig, &conns, &map);
    rig.pass(std::time::Duration::from_secs(2));
    assert_eq!(osdmap(&mut rig).removed_snaps_queue, BTreeMap::new());
}

#[test]
fn a_purged_osd_is_gone_with_its_key_and_its_number_is_used_again() {
    let (mut rig, conns) = three_osds();
    rig.close(conns[2]);
    rig.ok(r#"{"prefix":"osd down","ids":["2"],"definitely_dead":true}"#);
    rig.ok(r#"{"prefix":"osd purge","id":2,"yes_i_really_mean_it":true}"#);
    let map = osdmap(&mut rig);
    assert!(!map.exists(maps::OsdId(2)) && map.crush.id_of("osd.2").is_none());
    assert_eq!(rig.command(r#"{"prefix":"auth get","entity":"osd.2"}"#).code, -2);
    let key = auth::Key::generate(stdx::Wall(1), &mut stdx::Rng::from_seed(8)).to_base64();
    let conn = rig.admin();
    let new = r#"{"prefix":"osd new","uuid":"aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"}"#;
    rig.send_command(conn, 1, new, format!(r#"{{"cephx_secret":"{key}"}}"#).as_bytes());
    assert_eq!(rig.answer(conn).expect("answered").data, "2\n");
    assert_eq!(rig.ok(r#"{"prefix":"auth print-key","entity":"osd.2"}"#), key);
    rig.send_command(conn, 1, new, format!(r#"{{"cephx_secret":"{key}"}}"#).as_bytes());
    assert_eq!(rig.answer(conn).expect("answered").data, "2\n", "the same again for the same uuid");
}

#[test]
fn health_says_what_is_wrong_and_what_to_do() {
    let (mut rig, conns) = three_osds();
    rig.ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":4}"#);
    let detail = r#"{"prefix":"health","detail":"detail"}"#;
    assert!(rig.ok(detail).contains("PG_AVAILABILITY"), "nobody reported the PGs");
    let map = osdmap(&mut rig);
    report_clean(&mut rig, &conns, &map);
    assert_eq!(rig.ok(detail), "HEALTH_OK\n");
    for (slow_ops, oldest_slow_s) in [(2, 42), (0, 0)] {
        let stats =
            peer::PgStats { osd: maps::OsdId(1), slow_ops, oldest_slow_s, ..peer::PgStats::default() };
        rig.send(conns[1], 0, peer::Body::from(stats));
        let text = rig.ok(detail);
        let said = "[WRN] SLOW_OPS: 2 slow ops, oldest one blocked for 42 sec, osd.1 has slow ops";
        assert_eq!(text.contains(said), slow_ops > 0, "{text}");
    }
    rig.ok(r#"{"prefix":"osd down","ids":["2"]}"#);
    let text = rig.ok(detail);
    assert!(text.starts_with("HEALTH_WARN") && text.contains("[WRN] OSD_DOWN: 1 osds down"), "{text}");
    assert!(
        text.contains("osd.2 (root=default,host=host1) is down") && text.contains("to do: start the OSD"),
        "{text}"
    );
    rig.ok(r#"{"prefix":"osd down","ids":["0","1"]}"#);
    // Hosts have shadows, for the class of their devices.
    let text = rig.ok(detail);
    assert!(text.contains("OSD_HOST_DOWN: 1 host down"), "{text}");
}

#[test]
fn scrubs_are_ordered_at_primaries_and_what_they_find_is_told() {
    let (mut rig, conns) = three_osds();
    rig.ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":4}"#);
    let map = osdmap(&mut rig);
    report_clean(&mut rig, &conns, &map);
    let (pool, _) = map.pool_by_name("p").expect("just made");
    let pg = maps::PgId::new(pool, 1);
    let primary = map.pg_up_acting(pg).acting_primary.expect("three are up");
    let orders = |rig: &mut support::Rig, conn: usize| -> Vec<peer::OsdScrub> {
        let sent = rig.sent(conns[conn]).into_iter();
        sent.filter_map(|msg| match msg.body {
            node::Body::Peer(peer::Body::OsdScrub(m)) => Some(*m),
            _ => None,
        })
        .collect()
    };
    (0..3).for_each(|osd| drop(orders(&mut rig, osd)));
    let answer = rig.command(&format!(r#"{{"prefix":"pg repair","pgid":"{pg}"}}"#));
    assert_eq!(answer.status, format!("instructing pg {pg} on osd.{primary} to repair"));
    let order = peer::OsdScrub { pgs: vec![pg], deep: true, repair: true };
    assert_eq!(orders(&mut rig, primary.0 as usize), [order]);
    let answer = rig.command(r#"{"prefix":"osd scrub","who":"all"}"#);
    assert_eq!(answer.status, "instructed osd(s) 0,1,2 to scrub");
    let all: Vec<peer::OsdScrub> = (0..3).flat_map(|osd| orders(&mut rig, osd)).collect();
    assert_eq!(all.iter().map(|m| m.pgs.len()).sum::<usize>(), 4);
    assert!(all.iter().all(|m| !m.deep && !m.repair));
    for (command, code) in [
        (r#"{"prefix":"pg scrub","pgid":"9.0"}"#, -2),
        (r#"{"prefix":"osd scrub","who":"x"}"#, -22),
        (r#"{"prefix":"osd scrub","who":"7"}"#, -11),
    ] {
        assert_eq!(rig.command(command).code, code, "{command}");
    }

    let acting = map.pg_up_acting(pg).acting;
    let long_ago = wire::Utime { sec: 1_000, nsec: 0 };
    let mut stat = peer::PgStat {
        pgid: pg,
        state: peer::pg_state::ACTIVE | peer::pg_state::CLEAN | peer::pg_state::INCONSISTENT,
        reported_epoch: map.epoch,
        reported_seq: 99,
        acting: acting.clone(),
        up: acting,
        last_scrub: long_ago,
        last_deep_scrub: long_ago,
        ..peer::PgStat::default()
    };
    stat.stats.num_scrub_errors = 3;
    let report = peer::PgStats { osd: primary, pgs: vec![stat], repaired: 11, ..peer::PgStats::default() };
    rig.send(conns[primary.0 as usize], 0, peer::Body::from(report));
    let text = rig.ok(r#"{"prefix":"health","detail":"detail"}"#);
    for said in [
        "HEALTH_ERR",
        "[ERR] OSD_SCRUB_ERRORS: 3 scrub errors",
        "[ERR] PG_DAMAGED: Possible data damage: 1 pg inconsistent",
        "is active+clean+inconsistent, acting [",
        "[WRN] OSD_TOO_MANY_REPAIRS: Too many repaired reads on 1 OSDs",
        "had 11 reads repaired",
        "[WRN] PG_NOT_SCRUBBED: 1 pgs not scrubbed in time",
        "[WRN] PG_NOT_DEEP_SCRUBBED: 1 pgs not deep-scrubbed in time",
        "not deep-scrubbed since 1970-01-01T00:16:40",
    ] {
        assert!(text.contains(said), "no `{said}` in {text}");
    }
}

#[test]
fn tell_and_the_admin_socket_answer() {
    let mut rig = cluster();
    let conn = rig.admin();
    for (command, part) in [
        (r#"{"prefix":"version"}"#, "nacre version"),
        (r#"{"prefix":"mon_status"}"#, "leader"),
        (r#"{"prefix":"osd ls"}"#, "0"),
        (r#"{"prefix":"get_command_descriptions"}"#, r#""sig":["mon_status"]"#),
    ] {
        let m =
            msgs::Command { fsid: support::fsid(), cmd: vec![command.into()], ..msgs::Command::default() };
        rig.send(conn, 4, msgs::Body::from(m));
        let reply = rig.sent(conn).pop().expect("an answer");
        let node::Body::Client(msgs::Body::CommandReply(r)) = reply.body else { panic!("a reply") };
        assert!(r.r == 0 && String::from_utf8_lossy(&r.data.to_vec()).contains(part), "{command}: {r:?}");
    }
    rig.outs.clear();
    rig.input(node::Input::Admin { id: node::AdminId(1), command: r#"{"prefix":"config show"}"#.into() });
    let node::Output::AdminReply { code, output, .. } = &rig.outs[0] else { panic!("an answer") };
    assert!(*code == 0 && output.contains("mon_max_pg_per_osd"));
}

#[test]
fn the_cluster_log_tells_what_became_wrong_and_right() {
    let (mut rig, _) = three_osds();
    rig.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    rig.pass(std::time::Duration::from_secs(3));
    assert!(
        rig.ok(r#"{"prefix":"log last"}"#).contains("Health check failed: noout flag(s) set (OSDMAP_FLAGS)")
    );
    rig.ok(r#"{"prefix":"osd unset","key":"noout"}"#);
    rig.pass(std::time::Duration::from_secs(3));
    assert!(rig.ok(r#"{"prefix":"log last"}"#).contains("Health check cleared: OSDMAP_FLAGS"));
}

#[test]
fn blocklist_entries_end_by_themselves() {
    let mut rig = Rig::new();
    rig.ok(r#"{"prefix":"osd blocklist","blocklistop":"add","addr":"10.0.0.1:0/5","expire":10}"#);
    rig.pass(std::time::Duration::from_secs(9));
    assert_eq!(osdmap(&mut rig).blocklist.len(), 1);
    rig.pass(std::time::Duration::from_secs(3));
    assert!(osdmap(&mut rig).blocklist.is_empty());
}

#[test]
fn rotating_keys_move_on_before_the_current_one_ends() {
    let mut rig = Rig::with(&[("auth_service_ticket_ttl", "60")]);
    rig.outs.clear();
    rig.pass(std::time::Duration::from_secs(300));
    let published = rig.outs.iter().filter(|o| matches!(o, node::Output::Keys(_))).count();
    assert!((3..8).contains(&published), "{published} sets of keys in five minutes");
}

#[test]
fn lives_of_tickets_are_set_in_the_cluster() {
    let mut rig = Rig::new();
    let secs = std::time::Duration::from_secs;
    let lives = |rig: &Rig| (published(rig).auth_ticket_ttl, published(rig).service_ticket_ttl);
    assert_eq!(lives(&rig), (secs(72 * 3600), secs(3600)));
    rig.ok(r#"{"prefix":"config set","who":"mon","name":"auth_mon_ticket_ttl","value":"120"}"#);
    rig.ok(r#"{"prefix":"config set","who":"mon","name":"auth_service_ticket_ttl","value":"60"}"#);
    assert_eq!(lives(&rig), (secs(120), secs(60)));
    rig.ok(r#"{"prefix":"config rm","who":"mon","name":"auth_service_ticket_ttl"}"#);
    assert_eq!(lives(&rig), (secs(120), secs(3600)));
}

fn published(rig: &Rig) -> std::sync::Arc<auth::ServerKeys> {
    let keys = rig.outs.iter().rev().find_map(|o| match o {
        node::Output::Keys(keys) => Some(keys.clone()),
        _ => None,
    });
    keys.expect("published at the start")
}

/// With a clock that jumps, current and next key end at once: daemons, who can't know what comes after, are
/// called back for it.
#[test]
fn daemons_are_called_back_where_they_do_not_know_the_current_key() {
    let (mut rig, conns) = three_osds();
    let closed = |rig: &Rig| {
        let of = |o: &node::Output<node::Never>| match o {
            node::Output::Close { conn } => conns.iter().position(|c| c == conn),
            _ => None,
        };
        rig.outs.iter().filter_map(of).collect::<Vec<_>>()
    };
    let old = published(&rig);
    for _ in 0..5 {
        rig.pass(std::time::Duration::from_secs(1800));
    }
    assert_eq!(closed(&rig), Vec::<usize>::new(), "in turn they fetch keys themselves");
    let newest = |keys: &auth::ServerKeys| keys.rotating[&wire::EntityType::OSD].max_ver;
    assert_eq!(newest(&published(&rig)), newest(&old) + 1);
    rig.jump(std::time::Duration::from_secs(100_000));
    assert_eq!(newest(&published(&rig)), newest(&old) + 3);
    assert_eq!(closed(&rig), [0, 1, 2]);
}

//! What administrators do to a running cluster: mutes, crash reports, options with masks and history, CRUSH
//! editing, flags of single OSDs, watching the cluster log.

mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use support::{Rig, osdmap, three_osds};

fn config_of(msg: &node::Msg) -> BTreeMap<String, String> {
    match &msg.body {
        node::Body::Client(msgs::Body::Config(c)) => c.config.clone(),
        other => panic!("{other:?}"),
    }
}

fn subscribe(rig: &mut Rig, conn: node::ConnId, what: &str) {
    let mut want = msgs::MonSubscribe::default();
    want.what.insert(what.into(), msgs::SubscribeItem::default());
    rig.send(conn, 0, msgs::Body::from(want));
}

fn input(rig: &mut Rig, json: &str, data: &str) -> support::Answer {
    let conn = rig.admin();
    rig.send_command(conn, 1, json, data.as_bytes());
    rig.answer(conn).expect("answered")
}

#[test]
fn a_mute_ends_with_its_time_or_when_it_gets_worse_unless_sticky() {
    let (mut rig, _) = three_osds();
    rig.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    let mute = r#"{"prefix":"health mute","code":"OSDMAP_FLAGS","ttl":"10s"}"#;
    rig.ok(mute);
    assert_eq!(rig.ok(r#"{"prefix":"health"}"#), "HEALTH_OK (muted: OSDMAP_FLAGS)\n");
    let json = rig.json(r#"{"prefix":"health"}"#);
    assert_eq!(
        (&json["checks"]["OSDMAP_FLAGS"]["muted"], &json["mutes"][0]["code"]),
        (&true.into(), &"OSDMAP_FLAGS".into())
    );
    rig.pass(Duration::from_secs(13));
    assert!(rig.ok(r#"{"prefix":"health"}"#).starts_with("HEALTH_WARN noout"), "its time is over");
    rig.ok(r#"{"prefix":"health mute","code":"OSDMAP_FLAGS"}"#);
    rig.ok(r#"{"prefix":"osd set","key":"nobackfill"}"#);
    rig.pass(Duration::from_secs(3));
    assert!(rig.ok(r#"{"prefix":"health"}"#).starts_with("HEALTH_WARN"), "it got worse");
    rig.ok(r#"{"prefix":"health mute","code":"OSDMAP_FLAGS","sticky":true}"#);
    rig.ok(r#"{"prefix":"osd unset","key":"nobackfill"}"#);
    rig.ok(r#"{"prefix":"osd unset","key":"noout"}"#);
    rig.pass(Duration::from_secs(3));
    rig.crash_and_restart();
    rig.ok(r#"{"prefix":"osd set","key":"noscrub"}"#);
    assert!(
        rig.ok(r#"{"prefix":"health"}"#).contains("muted: OSDMAP_FLAGS"),
        "a sticky one stays, also over a restart"
    );
    rig.ok(r#"{"prefix":"health unmute"}"#);
    assert!(!rig.ok(r#"{"prefix":"health"}"#).contains("muted"));
    assert_eq!(rig.command(r#"{"prefix":"health mute","code":"SLOW_OPS"}"#).code, -2, "is not raised");
}

#[test]
fn a_crash_is_a_warning_until_somebody_archives_it() {
    let (mut rig, _) = three_osds();
    let report = r#"{"crash_id":"2025-12-31T23:00:00.5Z_abc","timestamp":"2025-12-31T23:00:00.5Z","entity_name":"osd.1","utsname_hostname":"h1","backtrace":["a","b"]}"#;
    assert_eq!(input(&mut rig, r#"{"prefix":"crash post"}"#, report).code, 0);
    assert_eq!(input(&mut rig, r#"{"prefix":"crash post"}"#, "{}").code, -22);
    let detail = rig.ok(r#"{"prefix":"health","detail":"detail"}"#);
    assert!(detail.contains("RECENT_CRASH") && detail.contains("osd.1 crashed on host h1"), "{detail}");
    let info = rig.ok(r#"{"prefix":"crash info","id":"2025-12-31T23:00:00.5Z_abc"}"#);
    let info: Value = serde_json::from_str(&info).expect("JSON");
    assert_eq!(info["backtrace"][1], "b");
    assert_eq!(rig.json(r#"{"prefix":"crash ls-new"}"#).as_array().map(Vec::len), Some(1));
    rig.ok(r#"{"prefix":"crash archive","id":"2025-12-31T23:00:00.5Z_abc"}"#);
    assert_eq!(rig.json(r#"{"prefix":"crash ls-new"}"#).as_array().map(Vec::len), Some(0));
    assert!(!rig.ok(r#"{"prefix":"health"}"#).contains("crashed"));
    assert_eq!(rig.ok(r#"{"prefix":"crash stat"}"#), "1 crashes recorded\n");
    rig.ok(r#"{"prefix":"crash prune","keep":"0"}"#);
    assert_eq!(rig.json(r#"{"prefix":"crash ls"}"#).as_array().map(Vec::len), Some(0));
    assert_eq!(rig.command(r#"{"prefix":"crash info","id":"nosuch"}"#).code, -2);
}

#[test]
fn options_with_masks_reach_the_osds_that_they_are_for() {
    let (mut rig, conns) = three_osds();
    subscribe(&mut rig, conns[0], "config");
    assert!(config_of(rig.sent(conns[0]).last().expect("told")).is_empty());
    rig.ok(r#"{"prefix":"config set","who":"osd","name":"osd_max_backfills","value":"2"}"#);
    rig.ok(r#"{"prefix":"config set","who":"osd/host:host1","name":"osd_max_backfills","value":"3"}"#);
    rig.ok(r#"{"prefix":"config set","who":"osd/host:host9","name":"osd_max_backfills","value":"4"}"#);
    assert_eq!(config_of(rig.sent(conns[0]).last().expect("told"))["osd_max_backfills"], "3");
    let all = rig.json(r#"{"prefix":"config dump"}"#);
    assert_eq!(
        (&all[1]["section"], &all[1]["mask"], &all[1]["location_value"]),
        (&"osd".into(), &"host:host1".into(), &"host1".into())
    );
    rig.ok(r#"{"prefix":"osd crush rm-device-class","ids":["0"]}"#);
    rig.ok(r#"{"prefix":"osd crush set-device-class","class":"fast","ids":["0"]}"#);
    rig.ok(r#"{"prefix":"config set","who":"osd/class:fast","name":"osd_recovery_max_active","value":"7"}"#);
    assert_eq!(config_of(rig.sent(conns[0]).last().expect("told"))["osd_recovery_max_active"], "7");
    rig.ok(r#"{"prefix":"osd crush rm-device-class","ids":["0"]}"#);
    let last = config_of(rig.sent(conns[0]).last().expect("told of what the map changes"));
    assert!(!last.contains_key("osd_recovery_max_active"));
    assert_eq!(
        rig.command(r#"{"prefix":"config set","who":"osd/fast","name":"osd_max_backfills","value":"1"}"#)
            .code,
        -22
    );
}

#[test]
fn changes_of_options_are_noted_and_can_be_taken_back() {
    let mut rig = Rig::new();
    let set = |rig: &mut Rig, value: &str| {
        rig.ok(&format!(
            r#"{{"prefix":"config set","who":"osd","name":"osd_max_backfills","value":"{value}"}}"#
        ));
    };
    set(&mut rig, "2");
    set(&mut rig, "3");
    set(&mut rig, "3");
    rig.ok(r#"{"prefix":"config set","who":"mon","name":"mon_max_pg_per_osd","value":"99"}"#);
    let log = rig.json(r#"{"prefix":"config log"}"#);
    assert_eq!(log.as_array().map(Vec::len), Some(3), "what changes nothing is not noted: {log}");
    assert_eq!((&log[1]["version"], &log[1]["changes"][0]["previous_value"]), (&2.into(), &"2".into()));
    rig.ok(r#"{"prefix":"config reset","num":1}"#);
    assert_eq!(rig.ok(r#"{"prefix":"config get","who":"osd","key":"osd_max_backfills"}"#), "2\n");
    assert_eq!(rig.ok(r#"{"prefix":"config get","who":"mon","key":"mon_max_pg_per_osd"}"#), "250\n");
    assert_eq!(rig.json(r#"{"prefix":"config log"}"#).as_array().map(Vec::len), Some(4), "that too is noted");
    assert_eq!(rig.command(r#"{"prefix":"config-key set","key":"config-history/1/","val":"x"}"#).code, -1);
    let file = "[global]\nfsid = x\n[osd]\nosd max backfills = 8\nnonsense = 1\n";
    let rest = input(&mut rig, r#"{"prefix":"config assimilate-conf"}"#, file);
    assert!(rest.data.contains("nonsense = 1") && rest.data.contains("fsid = x"), "{rest:?}");
    assert_eq!(rig.ok(r#"{"prefix":"config get","who":"osd","key":"osd_max_backfills"}"#), "8\n");
}

#[test]
fn the_hierarchy_is_edited_and_rules_follow_device_classes() {
    let (mut rig, _) = three_osds();
    rig.ok(r#"{"prefix":"osd crush add-bucket","name":"r1","type":"rack","args":["root=default"]}"#);
    rig.ok(r#"{"prefix":"osd crush set","id":0,"weight":2.0,"args":["host=h7","rack=r1","root=default"]}"#);
    rig.ok(r#"{"prefix":"osd crush reweight","name":"osd.1","weight":2.0}"#);
    let map = osdmap(&mut rig);
    let place: Vec<(String, String)> = map.crush.location(0);
    assert_eq!(place.last(), Some(&("host".to_owned(), "h7".to_owned())));
    assert_eq!(map.crush.weight_of(map.crush.id_of("r1").expect("made")), 2 << 16);
    rig.ok(r#"{"prefix":"osd crush rm-device-class","ids":["all"]}"#);
    rig.ok(r#"{"prefix":"osd crush set-device-class","class":"fast","ids":["0","1"]}"#);
    let rule = r#"{"prefix":"osd crush rule create-replicated","name":"fast","root":"default","type":"osd","class":"fast"}"#;
    rig.ok(rule);
    assert_eq!(rig.command(rule).code, 0, "the same again");
    rig.ok(r#"{"prefix":"osd pool create","pool":"f","pg_num":8,"size":2,"rule":"fast"}"#);
    let map = osdmap(&mut rig);
    let (id, pool) = map.pool_by_name("f").expect("made");
    for pg in pool.pgs(id) {
        let mut osds = map.pg_up_acting(pg).up;
        osds.sort();
        assert_eq!(osds, [maps::OsdId(0), maps::OsdId(1)], "only devices of the class");
    }
    assert_eq!(rig.command(r#"{"prefix":"osd crush rule rm","name":"fast"}"#).code, -16, "a pool uses it");
    assert_eq!(rig.command(r#"{"prefix":"osd crush rm","name":"r1"}"#).code, -39, "it is not empty");
    assert_eq!(rig.command(r#"{"prefix":"osd crush move","name":"r1","args":["host=h7"]}"#).code, -22);
    let binary = wire::Writer::encode(&*map.crush);
    let conn = rig.admin();
    rig.send_command(conn, 1, r#"{"prefix":"osd setcrushmap"}"#, &binary);
    assert_eq!(rig.answer(conn).expect("answered").code, 0);
    let without = crush::CrushMap { rules: Vec::new(), ..(*map.crush).clone() };
    rig.send_command(conn, 2, r#"{"prefix":"osd setcrushmap"}"#, &wire::Writer::encode(&without));
    let answer = rig.answer(conn).expect("answered");
    assert!(answer.code == -22 && answer.status.contains("rule"), "{answer:?}");
}

#[test]
fn weight_sets_replace_weights_for_a_pool_or_for_all() {
    let (mut rig, _) = three_osds();
    let set = |command: &str| format!(r#"{{"prefix":"osd crush weight-set {command}}}"#);
    let reweight = |what: &str, weights: &str| {
        format!(r#"{{"prefix":"osd crush weight-set {what},"weight":{weights}}}"#)
    };
    rig.ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":8,"size":2}"#);
    let none = rig.command(&reweight(r#"reweight-compat","item":"osd.1""#, "[1.0]"));
    assert_eq!((none.code, &*none.status), (-2, "no backward-compatible weight-set"));
    assert_eq!(rig.ok(&set(r#"rm-compat""#)), "", "that there is none is no error");
    rig.ok(&set(r#"create-compat""#));
    let again = rig.command(&set(r#"create-compat""#));
    assert_eq!((again.code, &*again.status), (0, "compat weight-set already created"));
    rig.ok(&set(r#"create","pool":"p","mode":"positional""#));
    assert_eq!(rig.command(&set(r#"create","pool":"nosuch","mode":"flat""#)).code, -2);
    assert_eq!(rig.command(&set(r#"create","pool":"p","mode":"other""#)).code, -22);
    assert_eq!(rig.ok(&set(r#"ls""#)), "(compat)\np\n");

    let one = rig.command(&reweight(r#"reweight","pool":"p","item":"osd.1""#, "[1.0]"));
    assert_eq!((one.code, &*one.status), (-22, "must specify exact 2 weight values"));
    rig.ok(&reweight(r#"reweight","pool":"p","item":"osd.1""#, "[0.5, 0.25]"));
    rig.ok(&reweight(r#"reweight-compat","item":"osd.2""#, "[3.0]"));
    for (what, weights) in [
        (r#"reweight-compat","item":"osd.2""#, "[1.0, 2.0]"),
        (r#"reweight-compat","item":"nosuch""#, "[1.0]"),
        (r#"reweight-compat","item":"default""#, "[1.0]"),
        (r#"reweight","pool":"nosuch","item":"osd.1""#, "[1.0]"),
    ] {
        assert_eq!(rig.command(&reweight(what, weights)).code, -2, "{what} {weights}");
    }
    let map = osdmap(&mut rig);
    let (pool, _) = map.pool_by_name("p").expect("made");
    let crush = &map.crush;
    let weights = |set: i64, bucket: &str| {
        let id = crush.id_of(bucket).expect("is there");
        crush.choose_args[&set][&((-1 - id) as u32)].weight_set.clone()
    };
    let own = crush.weight_of(0);
    assert_eq!(weights(pool, "host1"), [[own, 0x8000, own], [own, 0x4000, own]]);
    assert_eq!(weights(pool, "default"), [[2 * own + 0x8000], [2 * own + 0x4000]], "sums follow");
    assert_eq!(weights(pool, "default~ssd"), weights(pool, "default"), "and those of the class");
    assert_eq!(weights(crush::DEFAULT_CHOOSE_ARGS, "default"), [[2 * own + 0x3_0000]]);
    assert_eq!(crush.weight_of(2), own, "the hierarchy has its own weights still");
    let dump = rig.json(&set(r#"dump","format":"json""#));
    assert_eq!(dump["-1"][0]["bucket_id"], -1, "by numbers of pools: {dump}");
    assert_eq!(dump[pool.to_string()][0]["weight_set"].as_array().map(Vec::len), Some(2), "{dump}");
    let bytes = wire::Writer::encode(&**crush);
    assert_eq!(wire::Reader::new(&bytes).get::<crush::CrushMap>().as_ref(), Ok(&**crush));

    rig.ok(&set(r#"rm","pool":"p""#));
    rig.ok(&set(r#"rm-compat""#));
    assert_eq!(rig.ok(&set(r#"ls""#)), "");
}

#[test]
fn flags_of_single_osds_hold() {
    let (mut rig, _) = three_osds();
    rig.ok(r#"{"prefix":"config set","who":"mon","name":"mon_osd_min_in_ratio","value":"0.1"}"#);
    rig.ok(r#"{"prefix":"osd set-group","flags":"noout,noup","who":["0","host1"]}"#);
    let map = osdmap(&mut rig);
    assert_eq!(map.osd(maps::OsdId(0)).expect("exists").state & maps::osd_state::NOUP, maps::osd_state::NOUP);
    let detail = rig.ok(r#"{"prefix":"health","detail":"detail"}"#);
    assert!(detail.contains("osd.0 has flags noup,noout") && detail.contains("host1 has flags"), "{detail}");
    rig.ok(r#"{"prefix":"osd down","ids":["1"]}"#);
    rig.pass(Duration::from_secs(700));
    assert!(osdmap(&mut rig).is_in(maps::OsdId(1)), "the host is not to be marked out");
    rig.ok(r#"{"prefix":"osd unset-group","flags":"noout,noup","who":["0","host1"]}"#);
    rig.pass(Duration::from_secs(700));
    assert!(!osdmap(&mut rig).is_in(maps::OsdId(1)));
    assert_eq!(rig.command(r#"{"prefix":"osd set-group","flags":"noup","who":["nosuch"]}"#).code, -22);
}

#[test]
fn a_destroyed_osd_keeps_its_number_and_place() {
    let (mut rig, conns) = three_osds();
    rig.close(conns[2]);
    assert_eq!(
        rig.command(r#"{"prefix":"osd destroy","id":2,"yes_i_really_mean_it":true}"#).code,
        -16,
        "it is up"
    );
    rig.ok(r#"{"prefix":"osd down","ids":["2"],"definitely_dead":true}"#);
    assert_eq!(rig.command(r#"{"prefix":"osd destroy","id":2}"#).code, -1);
    rig.ok(r#"{"prefix":"osd destroy","id":2,"yes_i_really_mean_it":true}"#);
    let map = osdmap(&mut rig);
    assert!(map.exists(maps::OsdId(2)) && map.crush.id_of("osd.2").is_some());
    assert_eq!(rig.command(r#"{"prefix":"auth get","entity":"osd.2"}"#).code, -2, "its key is gone");
    assert!(rig.ok(r#"{"prefix":"osd tree"}"#).contains("destroyed"));
    let new = r#"{"prefix":"osd new","uuid":"aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee","id":2}"#;
    assert_eq!(rig.command(new).code, 0);
    assert!(!rig.ok(r#"{"prefix":"osd tree"}"#).contains("destroyed"));
}

#[test]
fn who_watches_the_cluster_log_gets_its_new_lines() {
    let (mut rig, _) = three_osds();
    let conn = rig.admin();
    subscribe(&mut rig, conn, "log-info");
    assert!(rig.sent(conn).is_empty(), "nothing of the past");
    rig.ok(r#"{"prefix":"log","logtext":["hello","there"]}"#);
    let lines: Vec<String> = rig
        .sent(conn)
        .iter()
        .filter_map(|m| match &m.body {
            node::Body::Client(msgs::Body::Log(log)) => {
                Some(log.entries.iter().map(|e| e.msg.clone()).collect::<Vec<_>>())
            }
            _ => None,
        })
        .flatten()
        .collect();
    assert!(lines.iter().any(|l| l == "hello there"), "{lines:?}");
    let nobody = rig.connect("client.n", "", 8001);
    subscribe(&mut rig, nobody, "log-info");
    rig.ok(r#"{"prefix":"log","logtext":["secret"]}"#);
    assert!(rig.sent(nobody).is_empty());
}

#[test]
fn options_of_this_process_are_set_by_tell_and_shown() {
    let mut rig = Rig::with(&[("mon_max_pg_per_osd", "111")]);
    let mut tell = |command: &str| {
        rig.outs.clear();
        rig.input(node::Input::Admin { id: node::AdminId(1), command: command.into() });
        let node::Output::AdminReply { code, output, .. } = &rig.outs[0] else { panic!("an answer") };
        (*code, output.clone())
    };
    assert!(tell(r#"{"prefix":"config get","var":"mon_max_pg_per_osd"}"#).1.contains("111"));
    assert_eq!(tell(r#"{"prefix":"config set","var":"mon_max_pg_per_osd","val":["3"]}"#).0, 0);
    let diff: Value = serde_json::from_str(&tell(r#"{"prefix":"config diff"}"#).1).expect("JSON");
    let one = &diff["diff"]["mon_max_pg_per_osd"];
    assert_eq!((&one["file"], &one["override"], &one["final"]), (&"111".into(), &"3".into(), &"3".into()));
    assert_eq!(tell(r#"{"prefix":"config set","var":"mon_max_pg_per_osd","val":["x"]}"#).0, -22);
    let answer = rig.command(r#"{"prefix":"osd pool create","pool":"p","pg_num":32}"#);
    assert_eq!(answer.code, -34, "it holds at once: {answer:?}");
}

//! What keys allow at a monitor, and what is done with them.

mod support;

use node::{Body, ConnId};
use support::{Rig, three_osds};

fn with(rig: &mut Rig, caps: &str) -> ConnId {
    rig.connect("client.x", caps, 7777)
}

/// Capabilities, a command, the errno of its answer.
const COMMANDS: &[(&str, &str, i32)] = &[
    ("allow r", r#"{"prefix":"osd dump"}"#, 0),
    ("allow r", r#"{"prefix":"osd set","key":"noout"}"#, -13),
    ("allow rw", r#"{"prefix":"osd set","key":"noout"}"#, 0),
    ("allow r", r#"{"prefix":"auth ls"}"#, -13),
    ("allow rw", r#"{"prefix":"auth get","entity":"client.admin"}"#, -13),
    ("allow rwx", r#"{"prefix":"auth get","entity":"client.admin"}"#, 0),
    ("allow rwx", r#"{"prefix":"config-key ls"}"#, -13),
    ("allow *", r#"{"prefix":"config-key ls"}"#, 0),
    ("allow service config-key r", r#"{"prefix":"config-key ls"}"#, 0),
    ("allow service osd rw", r#"{"prefix":"osd unset","key":"noout"}"#, 0),
    ("allow service osd rw", r#"{"prefix":"mon dump"}"#, -13),
    ("allow command \"osd set\" with key=noout", r#"{"prefix":"osd set","key":"noout"}"#, 0),
    ("allow command \"osd set\" with key=noout", r#"{"prefix":"osd set","key":"pause"}"#, -13),
    ("profile rbd", r#"{"prefix":"osd blocklist","blocklistop":"add","addr":"10.0.0.9:0/4"}"#, 0),
    ("profile rbd", r#"{"prefix":"osd blocklist","blocklistop":"rm","addr":"10.0.0.9:0/4"}"#, -13),
    ("profile rbd", r#"{"prefix":"osd pool create","pool":"p"}"#, -13),
    ("allow profile osd", r#"{"prefix":"auth ls"}"#, -13),
    ("allow r network 127.0.0.0/8", r#"{"prefix":"osd dump"}"#, 0),
    ("allow r network 10.0.0.0/8", r#"{"prefix":"osd dump"}"#, -13),
    ("nonsense", r#"{"prefix":"mon dump"}"#, -13),
    ("", r#"{"prefix":"get_command_descriptions"}"#, 0),
];

#[test]
fn commands_run_where_the_key_allows_them() {
    let (mut rig, _) = three_osds();
    for (caps, command, expected) in COMMANDS {
        let conn = with(&mut rig, caps);
        let answer = rig.command_on(conn, command);
        assert_eq!(answer.code, *expected, "`{caps}`: {command}: {}", answer.status);
    }
}

fn subscribed(rig: &mut Rig, conn: ConnId, what: &str) -> Vec<Body> {
    rig.sent(conn);
    let mut want = msgs::MonSubscribe::default();
    want.what.insert(what.into(), msgs::SubscribeItem::default());
    rig.send(conn, 0, msgs::Body::from(want));
    rig.sent(conn).into_iter().map(|m| m.body).collect()
}

#[test]
fn maps_are_told_where_the_key_allows_them() {
    let (mut rig, _) = three_osds();
    for (caps, what, told) in [
        ("allow r", "osdmap", true),
        ("allow service mon r", "osdmap", false),
        ("allow service mon r", "monmap", true),
        ("profile rbd", "osdmap", true),
        ("profile rbd", "mdsmap", false),
        ("profile rbd", "fsmap", false),
        ("profile fs-client", "mdsmap", true),
        ("profile crash", "osdmap", false),
        ("allow r network 10.0.0.0/8", "osdmap", false),
        ("allow r fsname=a", "fsmap.user", true),
    ] {
        let conn = with(&mut rig, caps);
        assert_eq!(!subscribed(&mut rig, conn, what).is_empty(), told, "`{caps}`: {what}");
    }
}

#[test]
fn numbers_and_pools_are_for_those_whose_key_says_so() {
    let (mut rig, _) = three_osds();
    rig.ok(r#"{"prefix":"osd pool create","pool":"p"}"#);
    rig.ok(r#"{"prefix":"auth get-or-create","entity":"client.x","caps":["mon","allow r","osd","allow rw pool=p namespace=n"]}"#);
    for (caps, answered) in [("allow r", true), ("profile rbd", true), ("profile crash", false)] {
        let conn = with(&mut rig, caps);
        rig.send(conn, 5, msgs::Body::from(msgs::Statfs::default()));
        assert_eq!(!rig.sent(conn).is_empty(), answered, "{caps}");
    }
    let mut pool_op = |caps: &str, pool: u32, op: u32| {
        let conn = with(&mut rig, caps);
        let name = "snap".to_owned();
        rig.send(conn, 6, msgs::Body::from(msgs::PoolOp { pool, op, name, ..msgs::PoolOp::default() }));
        match rig.sent(conn).pop().map(|m| m.body) {
            Some(Body::Client(msgs::Body::PoolOpReply(reply))) => reply.code,
            other => panic!("{other:?}"),
        }
    };
    use msgs::pool_op::{CREATE_SNAP, CREATE_UNMANAGED_SNAP, DELETE};
    // The key of client.x may write to a part of pool 1 and to nothing of the others.
    assert_eq!(pool_op("allow r", 1, CREATE_UNMANAGED_SNAP), 0);
    assert_eq!(pool_op("allow r", 9, CREATE_UNMANAGED_SNAP), -1);
    assert_eq!(pool_op("allow r", 1, CREATE_SNAP), -1);
    assert_eq!(pool_op("allow r", 1, DELETE), -1);
    assert_eq!(
        pool_op("allow command \"osd pool op unmanaged-snap\" with poolname=q", 9, CREATE_UNMANAGED_SNAP),
        -1
    );
}

/// Two file systems, and a client whose key names one of them.
#[test]
fn a_key_for_one_file_system_sees_and_changes_no_other() {
    let (mut rig, _) = three_osds();
    for fs in ["one", "two"] {
        for pool in ["meta", "data"] {
            rig.ok(&format!(r#"{{"prefix":"osd pool create","pool":"{fs}_{pool}"}}"#));
        }
        rig.ok(&format!(
            r#"{{"prefix":"fs new","fs_name":"{fs}","metadata":"{fs}_meta","data":"{fs}_data"}}"#
        ));
    }
    let reader = with(&mut rig, "allow r fsname=one");
    let listed = rig.command_on(reader, r#"{"prefix":"fs ls","format":"json"}"#).data;
    assert!(listed.contains("\"one\"") && !listed.contains("\"two\""), "{listed}");
    let dump = rig.command_on(reader, r#"{"prefix":"fs dump","format":"json"}"#).data;
    assert!(dump.contains("\"one\"") && !dump.contains("\"two\""), "{dump}");
    assert_eq!(rig.command_on(reader, r#"{"prefix":"fs get","fs_name":"two"}"#).code, -2);
    assert_eq!(rig.command_on(reader, r#"{"prefix":"fs get","fs_name":"one"}"#).code, 0);
    let names = |bodies: Vec<Body>| match bodies.as_slice() {
        [Body::Client(msgs::Body::FsMapUser(m))] => {
            m.map.filesystems.iter().map(|f| f.name.clone()).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(names(subscribed(&mut rig, reader, "fsmap.user")), ["one"]);
    let all = with(&mut rig, "allow r");
    assert_eq!(names(subscribed(&mut rig, all, "fsmap.user")), ["one", "two"]);
    for (conn, fs, seen) in [(reader, 1, true), (reader, 2, false), (all, 2, true)] {
        let bodies = subscribed(&mut rig, conn, &format!("mdsmap.{fs}"));
        let [Body::Client(msgs::Body::MdsMap(m))] = bodies.as_slice() else { panic!("{bodies:?}") };
        assert_eq!(!m.fs_name.is_empty(), seen, "{fs}");
    }
    for (caps, fs, code) in [
        ("allow rw fsname=one", "one", 0),
        ("allow rw fsname=one", "two", -2),
        ("allow rw fsname=one, allow r", "two", -1),
        ("allow rw fsname=one, allow rw fsname=two", "two", 0),
        ("allow r fsname=one", "one", -13),
        ("allow rw", "two", 0),
    ] {
        let conn = with(&mut rig, caps);
        let set = format!(r#"{{"prefix":"fs set","fs_name":"{fs}","var":"session_timeout","val":"90"}}"#);
        let answer = rig.command_on(conn, &set);
        assert_eq!(answer.code, code, "`{caps}`: {fs}: {}", answer.status);
    }
}

#[test]
fn fs_authorize_gives_what_it_is_asked_for_once() {
    let (mut rig, _) = three_osds();
    rig.ok(r#"{"prefix":"osd pool create","pool":"m"}"#);
    rig.ok(r#"{"prefix":"osd pool create","pool":"d"}"#);
    rig.ok(r#"{"prefix":"fs new","fs_name":"one","metadata":"m","data":"d"}"#);
    let mut n = 0;
    let mut caps_of = |fs: &str, words: &str| {
        n += 1;
        let words: Vec<String> = words.split(' ').map(|w| format!("{w:?}")).collect();
        let ask = format!(
            r#"{{"prefix":"fs authorize","filesystem":"{fs}","entity":"client.c{n}","caps":[{}],"format":"json"}}"#,
            words.join(",")
        );
        let answer = rig.command(&ask);
        match answer.code {
            0 => {
                let json: serde_json::Value = serde_json::from_str(&answer.data).expect("json");
                let caps = &json[0]["caps"];
                Ok(["mon", "mds", "osd"].map(|s| caps[s].as_str().unwrap_or_default().to_owned()).join(" | "))
            }
            code => Err((code, answer.status)),
        }
    };
    for (fs, words, caps) in [
        ("one", "/ r", "allow r fsname=one | allow r fsname=one | allow r tag cephfs data=one"),
        ("one", "/ rw", "allow r fsname=one | allow rw fsname=one | allow rw tag cephfs data=one"),
        (
            "one",
            "/ r /a rwps root_squash",
            "allow r fsname=one | allow r fsname=one, allow rwps fsname=one path=/a root_squash | allow rw tag cephfs data=one",
        ),
        ("*", "/x rw", "allow r | allow rw path=/x | allow rw tag cephfs data=*"),
    ] {
        assert_eq!(caps_of(fs, words).as_deref(), Ok(caps), "{fs} {words}");
    }
    for (fs, words, why) in [
        ("none", "/ r", "does not exist"),
        ("one", "/", "pairs"),
        ("one", "/ w", "must start"),
        ("one", "/ rwsp", "alphabetical"),
        ("one", "/ rwx", "Unknown permission"),
    ] {
        let (code, text) = caps_of(fs, words).expect_err(words);
        assert!(code == -22 && text.contains(why), "{words}: {text}");
    }
    let again = |rig: &mut Rig, perm: &str| {
        let ask = format!(
            r#"{{"prefix":"fs authorize","filesystem":"one","entity":"client.c1","caps":["/","{perm}"]}}"#
        );
        rig.command(&ask)
    };
    assert_eq!(again(&mut rig, "r").code, 0, "the same is simply shown");
    assert!(again(&mut rig, "rw").status.contains("already has fs capabilities that differ"));
    rig.ok(r#"{"prefix":"auth caps","entity":"client.c1","caps":["mon","allow r"]}"#);
    assert_eq!(again(&mut rig, "r").code, -22, "it lacks what is asked for");
}

#[test]
fn keys_are_made_shown_changed_and_removed() {
    let (mut rig, _) = three_osds();
    let make = r#"{"prefix":"auth get-or-create","entity":"client.k","caps":["mon","allow r","osd","allow rw pool=a namespace=b"]}"#;
    let ring = rig.ok(make);
    assert!(ring.starts_with("[client.k]\n\tkey = ") && !ring.contains("caps"), "{ring}");
    assert_eq!(rig.ok(make), ring, "it is there already");
    let other = r#"{"prefix":"auth get-or-create","entity":"client.k","caps":["mon","allow *"]}"#;
    assert_eq!(rig.command(other).code, -22);
    let exported = rig.ok(r#"{"prefix":"auth export","entity":"client.k"}"#);
    assert!(exported.contains("caps osd = \"allow rw pool=a namespace=b\""), "{exported}");
    rig.ok(r#"{"prefix":"auth rm","entity":"client.k"}"#);
    assert_eq!(rig.command(r#"{"prefix":"auth get","entity":"client.k"}"#).code, -2);
    let conn = rig.admin();
    rig.send_command(conn, 9, r#"{"prefix":"auth import"}"#, exported.as_bytes());
    assert_eq!(rig.answer(conn).expect("answered").code, 0);
    assert_eq!(rig.ok(r#"{"prefix":"auth export","entity":"client.k"}"#), exported);
    rig.ok(r#"{"prefix":"auth caps","entity":"client.k","caps":["mon","profile rbd"]}"#);
    let got = rig.ok(r#"{"prefix":"auth get","entity":"client.k"}"#);
    assert!(got.contains("caps mon = \"profile rbd\"") && !got.contains("osd"), "all are replaced: {got}");
    for bad in ["allow rw network nowhere", "allow rwz", "profile nosuch", "allow command x with y regex .*"]
    {
        let caps = format!(r#"{{"prefix":"auth caps","entity":"client.k","caps":["mon","{bad}"]}}"#);
        assert_eq!(rig.command(&caps).code, -22, "{bad}");
    }
    assert_eq!(
        rig.ok(r#"{"prefix":"auth get","entity":"client.k"}"#),
        got,
        "what was refused changed nothing"
    );
}

#[test]
fn keys_of_ceph_20_are_taken_over_and_made_on_demand_only() {
    const KEY: &str = "AgC/ZQxrrdByISAAuUtY5jSCHyOMAbXV6zHFKFs3EQGL6l0ZeJEp9qMbuc4=";
    let (mut rig, _) = three_osds();
    let conn = rig.admin();
    let import = |rig: &mut Rig, tid, key: &str| {
        let ring = format!("[client.k]\n\tkey = {key}\n\tcaps mon = \"allow r\"\n");
        rig.send_command(conn, tid, r#"{"prefix":"auth import"}"#, ring.as_bytes());
        rig.answer(conn).expect("answered")
    };
    assert_eq!(import(&mut rig, 8, KEY).code, 0);
    assert_eq!(rig.ok(r#"{"prefix":"auth print-key","entity":"client.k"}"#), KEY);
    let unknown = import(&mut rig, 9, &KEY.replacen("Ag", "Aw", 1));
    assert_eq!(unknown.code, -22);
    assert!(unknown.status.contains("a key of type 3"), "{}", unknown.status);

    rig.ok(r#"{"prefix":"osd pool create","pool":"m"}"#);
    rig.ok(r#"{"prefix":"osd pool create","pool":"d"}"#);
    rig.ok(r#"{"prefix":"fs new","fs_name":"one","metadata":"m","data":"d"}"#);
    for (n, prefix) in
        ["auth get-or-create", "auth get-or-create-key", "auth add", "fs authorize"].iter().enumerate()
    {
        for (kind, start) in [("", "AQ"), (r#","key_type":"aes""#, "AQ"), (r#","key_type":"aes256k""#, "Ag")]
        {
            let entity = format!("client.{n}{}", kind.len());
            let fs = if *prefix == "fs authorize" { r#","filesystem":"one","caps":["/","r"]"# } else { "" };
            rig.ok(&format!(r#"{{"prefix":"{prefix}","entity":"{entity}"{fs}{kind}}}"#));
            let key = rig.ok(&format!(r#"{{"prefix":"auth print-key","entity":"{entity}"}}"#));
            assert!(key.starts_with(start), "{prefix}{kind}: {key}");
        }
    }
    let unknown = r#"{"prefix":"auth get-or-create","entity":"client.x","key_type":"des"}"#;
    assert_eq!(rig.command(unknown).code, -22);
}

/// As in Ceph: `x` on `osd`, which `profile osd` has, and nothing less.
#[test]
fn what_osds_and_metadata_servers_report_needs_x() {
    let refused = |rig: &Rig, name: &str| {
        let is = |o: &&node::Output<node::Never>| matches!(o, node::Output::Event(e) if e.name == name && e.detail.contains("127.0.0.1"));
        rig.outs.iter().filter(is).count()
    };
    for (caps, up) in
        [("allow profile osd", true), ("allow *", true), ("allow service osd x", true), ("allow rw", false)]
    {
        let mut rig = Rig::new();
        let conn = rig.connect("osd.0", caps, 100);
        rig.outs.clear();
        rig.send(conn, 0, peer::Body::from(support::boot(0, 1)));
        rig.pass(std::time::Duration::from_secs(1));
        assert_eq!(refused(&rig, "osd_boot_refused"), usize::from(!up), "`{caps}`");
        assert_eq!(support::osdmap(&mut rig).is_up(maps::OsdId(0)), up, "`{caps}`");
    }
    let mut rig = Rig::new();
    let conn = rig.connect("mds.a", "allow rw", 100);
    rig.outs.clear();
    rig.beacon(conn, "a", 100, 1, maps::MdsState::BOOT);
    assert_eq!(refused(&rig, "mds_beacon_refused"), 1);
}

/// Each refusal is an event, by which it is counted, with who and from where.
#[test]
fn refusals_name_who_and_from_where() {
    let (mut rig, _) = three_osds();
    let conn = with(&mut rig, "allow r");
    rig.outs.clear();
    rig.command_on(conn, r#"{"prefix":"auth ls"}"#);
    let said: Vec<_> = rig
        .outs
        .iter()
        .filter_map(|o| match o {
            node::Output::Event(e) if e.name == "command_denied" => Some(e),
            _ => None,
        })
        .collect();
    assert_eq!(said.len(), 1);
    assert!(
        said[0].may_flood && said[0].detail.contains("client.x") && said[0].detail.contains("127.0.0.1"),
        "{:?}",
        said[0]
    );
}

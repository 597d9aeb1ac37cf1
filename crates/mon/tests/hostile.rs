//! What authenticated strangers may send: well-formed messages and commands with any values. None of them
//! ends a monitor, and what they leave is a state that can be stored, loaded and shown. `NACRE_HOSTILE=20000
//! cargo test -p mon --test hostile` sends more of them.

mod support;

use serde_json::{Value, json};
use stdx::{Rng, test_seeds};
use support::{Rig, osdmap, three_osds};

/// Who sends, and with what capabilities of the monitor.
const SENDERS: [(&str, &str); 5] = [
    ("client.admin", "allow *"),
    ("client.x", "allow r"),
    ("client.none", ""),
    ("osd.1", "allow profile osd"),
    ("mds.a", "allow profile mds"),
];

#[test]
fn messages_with_any_content_end_no_monitor() {
    for seed in test_seeds("NACRE_HOSTILE", 40) {
        let mut rng = Rng::from_seed(seed);
        let (mut rig, _) = three_osds();
        for _ in 0..4 {
            let (who, caps) = SENDERS[rng.below(SENDERS.len() as u64) as usize];
            let conn = rig.connect(who, caps, 7000 + rng.below(9));
            for body in msgs::Body::samples(&mut rng) {
                rig.send(conn, rng.below(5), body);
            }
            // Daemons hold keys of the cluster; a client's messages of their kinds are refused whatever is in
            // them.
            if who.starts_with("client") {
                for body in peer::Body::samples(&mut rng) {
                    rig.send(conn, rng.below(5), body);
                }
            }
            rig.pass(std::time::Duration::from_millis(rng.below(3000)));
        }
        check(&mut rig, &format!("seed {seed}"));
    }
}

/// It shows everything, and is the same after a crash.
fn check(rig: &mut Rig, what: &str) {
    rig.commit();
    rig.outs.clear();
    for line in [
        "status",
        "health",
        "osd tree",
        "osd df",
        "pg dump",
        "fs dump",
        "mon dump",
        "auth ls",
        "osd crush dump",
        "log last",
    ] {
        let answer = rig.command(&json!({ "prefix": line, "format": "json" }).to_string());
        assert_eq!(answer.code, 0, "{what}: {line}: {}", answer.status);
        serde_json::from_str::<Value>(&answer.data).unwrap_or_else(|e| panic!("{what}: {line}: {e}"));
    }
    let before = osdmap(rig);
    rig.crash_and_restart();
    assert_eq!(osdmap(rig), before, "{what}: after a crash");
}

/// Values that mean something to somebody.
const WORDS: [&str; 44] = [
    "",
    "a",
    "p",
    "0",
    "1",
    "2",
    "99",
    "-1",
    "2147483647",
    "-2147483648",
    "9223372036854775807",
    "18446744073709551616",
    "osd.0",
    "osd.1",
    "osd.99",
    "osd.-1",
    "mon.a",
    "mon.b",
    "mds.a",
    "client.admin",
    "client.x",
    "client.",
    "host1",
    "default",
    "replicated_rule",
    "cephfs",
    "cephfs_data",
    "all",
    "any",
    "*",
    "1.0",
    "1.ffffffff",
    "99.0",
    "1.x",
    "root=default",
    "host=host1",
    "rack=",
    "=",
    "v2:127.0.0.1:3300/0",
    "127.0.0.1:0/0",
    "10.0.0.0/8",
    "11111111-2222-4333-8444-555555555555",
    "allow *",
    "ünïcödé \u{0}\n\"",
];

fn word(rng: &mut Rng) -> &'static str {
    WORDS[rng.below(WORDS.len() as u64) as usize]
}

fn value(rng: &mut Rng, param: &Value) -> Value {
    let one = |rng: &mut Rng| match param["type"].as_str().unwrap_or_default() {
        _ if rng.chance(1, 12) => {
            [json!(null), json!({}), json!([[]]), json!(1e300), json!(true)][rng.below(5) as usize].clone()
        }
        "CephChoices" if rng.chance(9, 10) => {
            let choices: Vec<&str> = param["strings"].as_str().unwrap_or_default().split('|').collect();
            json!(choices[rng.below(choices.len() as u64) as usize])
        }
        "CephInt" => match rng.below(8) {
            0 => json!(i64::MIN),
            1 => json!(i64::MAX),
            2 => json!(u64::MAX),
            3 => json!(rng.u32()),
            4 => json!(word(rng)),
            _ => json!(rng.below(40) as i64 - 3),
        },
        "CephFloat" => match rng.below(6) {
            0 => json!(-1.5),
            1 => json!(f64::MAX),
            2 => json!(word(rng)),
            _ => json!(rng.below(300) as f64 / 100.0),
        },
        "CephPoolname" if rng.chance(2, 3) => json!("p"),
        "CephOsdName" if rng.chance(2, 3) => json!(rng.below(4)),
        "CephBool" => json!(rng.chance(1, 2)),
        _ => json!(word(rng)),
    };
    if param["n"] == "N" || rng.chance(1, 40) {
        return (0..rng.below(4)).map(|_| one(rng)).collect();
    }
    one(rng)
}

#[test]
fn commands_with_any_arguments_end_no_monitor() {
    let table = decl::describe::descriptions(false);
    let table: Vec<&Value> = table.as_object().expect("an object").values().collect();
    for seed in test_seeds("NACRE_HOSTILE", 40) {
        let mut rng = Rng::from_seed(seed);
        let (mut rig, _) = three_osds();
        rig.ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":4}"#);
        rig.ok(r#"{"prefix":"config set","who":"mon","name":"mon_allow_pool_delete","value":"true"}"#);
        let mut said = Vec::new();
        for tid in 0..60 {
            let command = table[rng.below(table.len() as u64) as usize];
            let (mut words, mut map) = (Vec::new(), serde_json::Map::new());
            for part in command["sig"].as_array().expect("a list") {
                match part.as_str() {
                    Some(literal) => words.push(literal),
                    None if part["req"] == "false" && rng.chance(1, 2) => {}
                    None if rng.chance(1, 30) => {}
                    None => {
                        map.insert(part["name"].as_str().expect("a name").to_owned(), value(&mut rng, part));
                    }
                }
            }
            map.insert("prefix".into(), words.join(" ").into());
            if rng.chance(1, 3) {
                map.insert("format".into(), json!(if rng.chance(2, 3) { "json" } else { word(&mut rng) }));
            }
            let line = Value::Object(map).to_string();
            let input: Vec<u8> = if rng.chance(1, 4) {
                (0..rng.below(200)).map(|_| rng.u32() as u8).collect()
            } else {
                vec![]
            };
            said.push(line.clone());
            let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let admin = rig.admin();
                rig.send_command(admin, tid, &line, &input);
                rig.commit();
                rig.outs.clear();
            }));
            assert!(told.is_ok(), "seed {seed}: after {said:#?}");
        }
        check(&mut rig, &format!("seed {seed}: {said:#?}"));
    }
}

#[test]
fn names_that_a_map_cannot_hold_are_refused() {
    let (mut rig, _) = three_osds();
    rig.ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":4}"#);
    for line in [
        r#"{"prefix":"osd crush rule rename","srcname":"replicated_rule","dstname":""}"#,
        r#"{"prefix":"osd crush rename-bucket","srcname":"host1","dstname":""}"#,
        r#"{"prefix":"osd crush class rename","srcname":"ssd","dstname":"a~b"}"#,
        r#"{"prefix":"osd crush class rename","srcname":"ssd","dstname":""}"#,
        r#"{"prefix":"osd pool rename","srcpool":"p","destpool":""}"#,
    ] {
        let answer = rig.command(line);
        assert_eq!(answer.code, -22, "{line}: {}", answer.status);
    }
    check(&mut rig, "after refusals");
}

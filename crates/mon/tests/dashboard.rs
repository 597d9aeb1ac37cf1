//! The commands behind the dashboard and the metrics: modules, users, certificates, sums of PGs.

mod support;

use serde_json::{Value, json};
use support::{Answer, Rig, osdmap, report_clean, three_osds};

fn input(rig: &mut Rig, json: &Value, data: &str) -> Answer {
    let conn = rig.admin();
    rig.send_command(conn, 1, &json.to_string(), data.as_bytes());
    rig.answer(conn).expect("answered")
}

fn create(rig: &mut Rig, name: &str, role: &str, password: &str) -> Answer {
    let command = json!({ "prefix": "dashboard ac-user-create", "username": name, "rolename": role });
    input(rig, &command, password)
}

fn to_serve(rig: &mut Rig) -> Value {
    let command = r#"{"prefix":"mgr module serve"}"#.to_owned();
    rig.input(node::Input::Admin { id: node::AdminId(1), command });
    let mut answers = rig.outs.drain(..).filter_map(|out| match out {
        node::Output::AdminReply { output, .. } => Some(output),
        _ => None,
    });
    serde_json::from_str(&answers.next_back().expect("answered")).expect("JSON")
}

#[test]
fn nothing_is_served_before_it_is_enabled() {
    let mut rig = Rig::new();
    assert_eq!(to_serve(&mut rig), json!({ "name": "a", "leads": true }));
    rig.ok(r#"{"prefix":"mgr module enable","module":"prometheus"}"#);
    rig.ok(r#"{"prefix":"mgr module enable","module":"dashboard"}"#);
    let served = to_serve(&mut rig);
    assert_eq!(served["prometheus"], json!({ "scheme": "http", "addr": "", "port": 9283 }));
    assert_eq!(served["dashboard"], json!({ "scheme": "http", "addr": "127.0.0.1", "port": 8080 }));
    let services = rig.json(r#"{"prefix":"mgr services"}"#);
    assert_eq!(services["prometheus"], "http://127.0.0.1:9283/");
    assert_eq!(
        rig.json(r#"{"prefix":"mgr module ls"}"#)["enabled_modules"],
        json!(["dashboard", "prometheus"])
    );
    rig.ok(r#"{"prefix":"mgr module disable","module":"dashboard"}"#);
    assert_eq!(to_serve(&mut rig)["dashboard"], Value::Null);
    assert!(
        rig.command(r#"{"prefix":"mgr module enable","module":"balancer"}"#).status.contains("always-on")
    );
    for bad in [
        r#"{"prefix":"mgr module enable","module":"zabbix"}"#,
        r#"{"prefix":"mgr module disable","module":"balancer"}"#,
        r#"{"prefix":"config-key set","key":"mgr/modules","val":"[]"}"#,
    ] {
        assert!(rig.command(bad).code < 0, "{bad}");
    }
}

/// An option that a daemon is sent.
fn option_of(rig: &mut Rig, option: &str) -> Value {
    let command = json!({ "prefix": "config get", "var": option }).to_string();
    rig.input(node::Input::Admin { id: node::AdminId(1), command });
    let mut answers = rig.outs.drain(..).filter_map(|out| match out {
        node::Output::AdminReply { output, .. } => Some(output),
        _ => None,
    });
    let answer: Value = serde_json::from_str(&answers.next_back().expect("answered")).expect("JSON");
    answer[option].clone()
}

#[test]
fn hosts_export_their_daemons_counters_once_metrics_are_enabled() {
    let mut rig = Rig::new();
    assert_eq!(option_of(&mut rig, "exporter_addr"), "");
    rig.ok(r#"{"prefix":"mgr module enable","module":"prometheus"}"#);
    assert_eq!(option_of(&mut rig, "exporter_addr"), "::");
    assert_eq!(option_of(&mut rig, "exporter_http_port"), "9926");
    rig.ok(r#"{"prefix":"config set","who":"global","name":"exporter_addr","value":"10.0.0.1"}"#);
    assert_eq!(option_of(&mut rig, "exporter_addr"), "10.0.0.1");
    rig.ok(r#"{"prefix":"mgr module disable","module":"prometheus"}"#);
    rig.ok(r#"{"prefix":"config rm","who":"global","name":"exporter_addr"}"#);
    assert_eq!(option_of(&mut rig, "exporter_addr"), "");
}

#[test]
fn a_certificate_turns_tls_on_and_opens_the_dashboard_to_other_hosts() {
    let mut rig = Rig::new();
    rig.ok(r#"{"prefix":"mgr module enable","module":"dashboard"}"#);
    let set = |rig: &mut Rig, what: &str, pem: &str| {
        input(rig, &json!({ "prefix": format!("dashboard set-ssl-certificate{what}") }), pem).code
    };
    assert!(set(&mut rig, "", "hello") < 0 && set(&mut rig, "-key", "hello") < 0);
    assert_eq!(set(&mut rig, "", "-----BEGIN CERTIFICATE-----"), 0);
    assert_eq!(to_serve(&mut rig)["dashboard"]["scheme"], "http", "the key is lacking");
    assert_eq!(set(&mut rig, "-key", "-----BEGIN PRIVATE KEY-----"), 0);
    let served = to_serve(&mut rig)["dashboard"].clone();
    assert_eq!(
        (&served["scheme"], &served["addr"], &served["port"]),
        (&json!("https"), &json!(""), &json!(8443))
    );
    assert_eq!(set(&mut rig, "", "-----BEGIN CERTIFICATE----- another"), 0);
    assert_ne!(to_serve(&mut rig)["dashboard"], served, "the server is to notice");
}

#[test]
fn users_have_roles_and_passwords_that_nobody_is_shown() {
    let mut rig = Rig::new();
    let made = create(&mut rig, "kim", "administrator", "long enough\n");
    assert_eq!(made.code, 0, "{made:?}");
    assert!(!made.data.contains("pbkdf2") && !made.data.contains("long enough"), "{made:?}");
    assert_eq!(create(&mut rig, "kim", "administrator", "long enough").code, -17);
    assert!(create(&mut rig, "jo", "administrator", "short").status.contains("fewer than 8"));
    assert!(create(&mut rig, "jo", "king", "long enough").status.contains("administrator and read-only"));
    assert!(create(&mut rig, "jo", "read-only", "").status.contains("-i"));
    let stored = rig.ok(r#"{"prefix":"config-key get","key":"mgr/dashboard/accessdb_v2"}"#);
    let hash = |text: &str| -> String {
        let all: Value = serde_json::from_str(text).expect("JSON");
        all["users"]["kim"]["password"].as_str().expect("a hash").to_owned()
    };
    assert!(auth::is_password(&hash(&stored), "long enough"), "the newline of the file is not part of it");
    input(&mut rig, &json!({ "prefix": "dashboard ac-user-set-password", "username": "kim" }), "another one");
    let stored = rig.ok(r#"{"prefix":"config-key get","key":"mgr/dashboard/accessdb_v2"}"#);
    assert!(auth::is_password(&hash(&stored), "another one"));
    rig.ok(r#"{"prefix":"dashboard ac-user-set-roles","username":"kim","roles":["read-only"]}"#);
    rig.ok(r#"{"prefix":"dashboard ac-user-disable","username":"kim"}"#);
    let kim = rig.json(r#"{"prefix":"dashboard ac-user-show","username":"kim"}"#);
    assert_eq!(
        (&kim["roles"], &kim["enabled"], &kim["password"]),
        (&json!(["read-only"]), &json!(false), &Value::Null)
    );
    rig.ok(r#"{"prefix":"dashboard ac-user-delete","username":"kim"}"#);
    assert_eq!(rig.json(r#"{"prefix":"dashboard ac-user-show"}"#), json!([]));
}

#[test]
fn the_summary_counts_each_pools_pgs_by_state() {
    let (mut rig, conns) = three_osds();
    rig.ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    let states = |rig: &mut Rig| rig.json(r#"{"prefix":"pg summary"}"#)["pools"][0]["states"].clone();
    assert_eq!(states(&mut rig), json!({ "unknown": 8 }));
    let map = osdmap(&mut rig);
    report_clean(&mut rig, &conns, &map);
    assert_eq!(states(&mut rig), json!({ "active+clean": 8 }));
    let osds = rig.json(r#"{"prefix":"pg summary"}"#)["osds"].clone();
    let pgs: Vec<u64> = (0..3).map(|osd| osds[osd]["num_pgs"].as_u64().expect("a number")).collect();
    assert_eq!(pgs.iter().sum::<u64>(), 8, "each PG was reported on its primary only: {osds}");
}

//! The exporter beside daemons that are not there: sockets that answer as those would.

use super::{ExportedHost, ask_all, asok, counters};
use decl::Mean;
use decl::perf::Groups;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;

/// A directory of its own, removed at the end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("nacre-exporter-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        Self(dir)
    }

    /// A socket whose daemon answers a command by what `answer` says of its prefix; `None` is no answer.
    fn daemon(&self, name: &str, answer: impl Fn(&Value) -> Option<Value> + Send + 'static) {
        let listener = UnixListener::bind(self.0.join(format!("{name}.asok"))).expect("a socket");
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut command = Vec::new();
                while stream.read_u8().await.map(|byte| command.push(byte)).is_ok() {
                    if command.ends_with(b"\0") {
                        break;
                    }
                }
                command.pop();
                match answer(&serde_json::from_slice(&command).expect("JSON")) {
                    Some(answer) => {
                        let answer = answer.to_string();
                        stream.write_u32(answer.len() as u32).await.expect("writes");
                        stream.write_all(answer.as_bytes()).await.expect("writes");
                    }
                    None => open.push(stream),
                }
            }
        });
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What an OSD with some counters answers.
fn osd(command: &Value) -> Option<Value> {
    let mut groups = Groups::default();
    let latency = Mean { count: 4, sum: Duration::from_millis(100) };
    groups.group("osd").count("op_r", 7, "Requests \"that\" read").gauge("numpg", 3, "PGs").mean(
        "op_r_latency",
        latency,
        "Time",
    );
    let prefix = command["prefix"].as_str().expect("a prefix");
    if prefix == "config get" {
        let value = match command["var"].as_str().expect("an option") {
            "exporter_addr" => "::",
            "exporter_http_port" => "9926",
            _ => "5",
        };
        return Some(json!({ (command["var"].as_str().expect("an option")): value }));
    }
    groups.command(prefix).map(Value::Object)
}

#[tokio::test]
async fn counters_of_all_daemons_are_told_under_cephs_names() {
    let dir = Dir::new("names");
    dir.daemon("ceph-osd.0", osd);
    dir.daemon("osd.1", osd);
    dir.daemon("client.admin", |_| panic!("it is no daemon"));
    let told = ask_all(&dir.0).await;
    let lines = [
        "# HELP ceph_daemon_socket_up Daemons that answer on their admin sockets",
        "# TYPE ceph_daemon_socket_up gauge",
        r#"ceph_daemon_socket_up{ceph_daemon="osd.0",hostname="h"} 1"#,
        r#"ceph_daemon_socket_up{ceph_daemon="osd.1",hostname="h"} 1"#,
        "# HELP ceph_osd_op_r Requests \"that\" read",
        "# TYPE ceph_osd_op_r counter",
        r#"ceph_osd_op_r{ceph_daemon="osd.0",hostname="h"} 7"#,
        r#"ceph_osd_op_r{ceph_daemon="osd.1",hostname="h"} 7"#,
        "# HELP ceph_osd_op_r_latency_count Time",
        "# TYPE ceph_osd_op_r_latency_count counter",
        r#"ceph_osd_op_r_latency_count{ceph_daemon="osd.0",hostname="h"} 4"#,
        r#"ceph_osd_op_r_latency_count{ceph_daemon="osd.1",hostname="h"} 4"#,
        "# HELP ceph_osd_op_r_latency_sum Time",
        "# TYPE ceph_osd_op_r_latency_sum counter",
        r#"ceph_osd_op_r_latency_sum{ceph_daemon="osd.0",hostname="h"} 0.1"#,
        r#"ceph_osd_op_r_latency_sum{ceph_daemon="osd.1",hostname="h"} 0.1"#,
    ];
    let text = counters::exposition("h", &told, 5);
    assert_eq!(text.lines().collect::<Vec<_>>(), lines, "numpg is told by monitors");
    assert_eq!(counters::exposition("h", &told, 6).lines().count(), 4, "none has such a priority");
}

#[tokio::test]
async fn a_daemon_that_hangs_does_not_keep_others_from_being_told() {
    let dir = Dir::new("hangs");
    dir.daemon("mds.a", |_| None);
    dir.daemon("mon.a", |_| Some(json!(["nonsense"])));
    dir.daemon("osd.2", osd);
    std::fs::write(dir.0.join("osd.3.asok"), "no socket").expect("writes");
    let began = Instant::now();
    let text = counters::exposition("h", &ask_all(&dir.0).await, 5);
    assert!(began.elapsed() < 3 * asok::PATIENCE);
    let up = |daemon: &str, up: u8| {
        text.contains(&format!("ceph_daemon_socket_up{{ceph_daemon=\"{daemon}\",hostname=\"h\"}} {up}\n"))
    };
    assert!(up("mds.a", 0) && up("mon.a", 1) && up("osd.2", 1) && up("osd.3", 0), "{text}");
    assert!(text.contains("ceph_osd_op_r{ceph_daemon=\"osd.2\""));
}

#[tokio::test]
async fn where_it_serves_is_what_the_options_of_daemons_say() {
    let dir = Dir::new("options");
    let host = ExportedHost { sockets: dir.0.clone(), hostname: "h".into() };
    assert_eq!(host.wanted().await, Value::Null, "there is no daemon");
    dir.daemon("osd.5", osd);
    assert_eq!(host.wanted().await, json!({ "addr": "", "port": 9926, "prio": 5 }));
    dir.daemon("mon.a", |command| Some(json!({ (command["var"].as_str().expect("an option")): "" })));
    assert_eq!(host.wanted().await, Value::Null, "metrics are not wanted");
    assert_eq!(asok::sockets(&dir.0).len(), 2);
}

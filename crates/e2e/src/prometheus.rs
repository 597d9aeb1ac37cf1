//! A real Prometheus on the loopback address, with data of its own.

use crate::cluster::Cluster;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a test waits for may take so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A port of 127.0.0.1 that nobody has at present.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// A running Prometheus; ended when dropped.
pub struct Prometheus {
    process: Child,
    port: u16,
}

/// A program that a test runs beside Prometheus; ended when dropped.
pub struct Beside(Child);

impl Beside {
    /// Starts it without input and output.
    pub fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}")))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Prometheus {
    /// Scrapes each job's port every second, and evaluates rules: pairs of a name and an expression.
    pub fn start(cluster: &Cluster, jobs: &[(&str, u16)], rules: &[(&str, &str)]) -> Self {
        let dir = cluster.dir().join("prometheus");
        std::fs::create_dir_all(&dir).expect("a directory");
        let uname = rustix::system::uname();
        let host = uname.nodename().to_string_lossy();
        let job = |(name, port): &(&str, u16)| {
            format!(
                "- job_name: {name}\n  honor_labels: true\n  static_configs:\n\
                 \x20 - targets: ['127.0.0.1:{port}']\n    labels: {{ cluster: c }}\n\
                 \x20 relabel_configs:\n  - target_label: instance\n    replacement: {host}\n"
            )
        };
        let jobs: String = jobs.iter().map(job).collect();
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [rules.yml]\n\
             scrape_configs:\n{jobs}"
        );
        let rule = |(name, expr): &(&str, &str)| format!("  - alert: {name}\n    expr: |\n      {expr}\n");
        let rules: String = rules.iter().map(rule).collect();
        let rules = if rules.is_empty() {
            "groups: []\n".to_owned()
        } else {
            format!("groups:\n- name: all\n  rules:\n{rules}")
        };
        std::fs::write(dir.join("prometheus.yml"), config).expect("writes");
        std::fs::write(dir.join("rules.yml"), rules).expect("writes");
        let port = free_port();
        let log = std::fs::File::create(dir.join("log")).expect("a log");
        let mut command = Command::new("prometheus");
        command
            .current_dir(&dir)
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=warn"])
            .arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("starts");
        let started = Self { process, port };
        let began = Instant::now();
        while started.get("/-/ready").is_none_or(|(status, _)| status != 200) {
            let said = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
            assert!(began.elapsed() < PATIENCE, "Prometheus does not start: {said}");
            std::thread::sleep(Duration::from_millis(100));
        }
        started
    }

    /// Status and body of a page. By HTTP 1.0, in which bodies come whole.
    fn get(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }

    /// The samples that a query gives: labels and value. Panics if Prometheus refuses the query.
    pub fn query(&self, query: &str) -> Vec<(Value, f64)> {
        let encoded: String = query.bytes().map(|b| format!("%{b:02x}")).collect();
        let (_, body) = self.get(&format!("/api/v1/query?query={encoded}")).expect("an answer");
        let answer: Value = serde_json::from_str(&body).unwrap_or_else(|e| panic!("{query}: {e}: {body}"));
        assert_eq!(answer["status"], "success", "{query}: {body}");
        let samples = answer["data"]["result"].as_array().expect("samples");
        let value =
            |sample: &Value| sample["value"][1].as_str().and_then(|v| v.parse().ok()).expect("a value");
        samples.iter().map(|sample| (sample["metric"].clone(), value(sample))).collect()
    }

    /// Waits until a query gives something. Returns the query if it never does.
    pub fn wait(&self, query: &str, patience: Duration) -> Result<(), String> {
        let began = Instant::now();
        while self.query(query).is_empty() {
            if began.elapsed() >= patience {
                return Err(query.to_owned());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

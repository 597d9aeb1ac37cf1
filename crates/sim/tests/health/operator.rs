//! Somebody who runs a simulated cluster: looks at its health, and does what that says.

use crate::descriptions;
use fsclient::{Answer, ObjectRequest, Request, SnapContext};
use maps::SnapId;
use peer::level::Build;
use serde_json::{Value, json};
use sim::cluster::{Cluster, Spec};
use sim::{Faults, HostId};
use std::time::Duration;

/// The longest time until a condition is seen or gone, if no other one is said.
const SOON: Duration = Duration::from_secs(120);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);

/// A request to an object of any pool.
pub fn request(pool: &str, name: &str, op: msgs::Op, flags: u32) -> Request {
    Request::Object(ObjectRequest {
        pool: pool.into(),
        namespace: Vec::new(),
        name: name.as_bytes().to_vec(),
        ops: vec![op],
        snap: SnapId::HEAD,
        snapc: SnapContext::default(),
        flags,
    })
}

/// Replaces an object by one of so many bytes.
pub fn write(len: usize) -> msgs::Op {
    msgs::Op::WriteFull { extent: msgs::Extent::new(0, len as u64), data: vec![1; len].into() }
}

/// The beginning and the end of a long text.
fn short(text: &str) -> String {
    match (text.get(..200), text.get(text.len().saturating_sub(200)..)) {
        (Some(begin), Some(end)) if text.len() > 400 => format!("{begin} … {end}"),
        _ => text.to_owned(),
    }
}

/// An administrator with a cluster.
pub struct Operator {
    pub c: Cluster,
}

impl Operator {
    /// A cluster that is healthy.
    pub fn of(spec: &Spec) -> Self {
        Self::of_build(spec, Build::default())
    }

    /// The same of another build.
    pub fn of_build(spec: &Spec, build: Build) -> Self {
        let mut c = Cluster::new(27, Faults::none(), spec);
        c.builds.install(build);
        c.bring_up().expect("a cluster without faults comes up");
        Self { c }
    }

    /// Three OSDs, one monitor, and a pool for objects.
    pub fn new() -> Self {
        Self::of(&Spec::default())
    }

    /// `ceph health detail`.
    pub fn health(&mut self) -> String {
        self.ceph("health detail")
    }

    /// The lines of a code in `ceph health detail`.
    fn lines(&mut self, code: &str) -> Option<Vec<String>> {
        let head = format!("] {code}: ");
        let text = self.health();
        let mut lines = text.lines().skip_while(|line| !line.contains(&head));
        let first = lines.next()?.to_owned();
        let detail = lines.take_while(|line| line.starts_with(' ')).map(str::to_owned);
        Some(std::iter::once(first).chain(detail).collect())
    }

    /// Waits until `ceph health detail` shows the code, and returns its lines.
    pub fn sees(&mut self, code: &str) -> String {
        self.sees_within(code, SOON)
    }

    pub fn sees_within(&mut self, code: &str, limit: Duration) -> String {
        let until = self.c.world.now() + limit;
        loop {
            if let Some(lines) = self.lines(code) {
                return lines.join("\n");
            }
            assert!(self.c.world.now() < until, "no {code} within {limit:?}: {}", self.health());
            self.c.world.run_for(LOOK);
        }
    }

    /// Waits until it does not any more.
    pub fn sees_no(&mut self, code: &str) {
        self.sees_no_within(code, SOON);
    }

    pub fn sees_no_within(&mut self, code: &str, limit: Duration) {
        let until = self.c.world.now() + limit;
        while self.lines(code).is_some() {
            assert!(self.c.world.now() < until, "still {code} after {limit:?}: {}", self.health());
            self.c.world.run_for(LOOK);
        }
    }

    /// Waits until nothing is left to be done.
    pub fn sees_health_ok(&mut self) {
        self.c.wait_healthy(SOON).expect("all that was said was done");
    }

    /// Does what the code's line `to do:` says in backticks, with values for its words in capitals. Returns
    /// what is printed.
    pub fn follows(&mut self, code: &str, quoted: &str, values: &[(&str, &str)]) -> String {
        let lines = self.lines(code).unwrap_or_else(|| panic!("{code} is not raised"));
        let to_do = lines.last().and_then(|line| line.trim().strip_prefix("to do: ")).expect("advice");
        assert!(to_do.split('`').skip(1).step_by(2).any(|q| q == quoted), "{code} says: {to_do}");
        let value = |word: &str| {
            let found = values.iter().find(|(name, _)| *name == word);
            found.map_or_else(|| word.to_owned(), |(_, value)| (*value).to_owned())
        };
        // `mds.NAME` and `id=ID` are words with another in them.
        let word = |word: &str| match word.find(['.', '=']) {
            Some(at) => format!("{}{}", &word[..=at], value(&word[at + 1..])),
            None => value(word),
        };
        let line: Vec<String> = quoted.split(' ').map(word).collect();
        let is_open = |word: &&String| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase());
        assert_eq!(line.iter().find(is_open), None, "`{quoted}` has a word without a value");
        self.runs(&line.join(" "))
    }

    /// Runs a command line.
    pub fn runs(&mut self, line: &str) -> String {
        match line.split_once(' ') {
            Some(("ceph", rest)) => self.ceph(rest),
            Some(("nacre", "finalize")) => self.ceph("finalize"),
            Some(("nacre", rest)) => {
                let words: Vec<&str> = rest.split(' ').collect();
                let [role @ ("mon" | "osd" | "mds"), "--conf", _, "--id", id] = words[..] else {
                    panic!("`{line}` starts no daemon")
                };
                let host = self.host(&format!("{role}.{id}"));
                self.c.at(host).start();
                String::new()
            }
            _ => panic!("nobody here can run `{line}`"),
        }
    }

    /// The host of a daemon.
    pub fn host(&self, daemon: &str) -> HostId {
        let found = self.c.daemons().into_iter().find(|host| self.c.world.name(*host) == daemon);
        found.unwrap_or_else(|| panic!("there is no {daemon}"))
    }

    /// Runs `ceph` with these words, which must succeed.
    pub fn ceph(&mut self, line: &str) -> String {
        let line = if line == "-s" { "status" } else { line };
        let words: Vec<&str> = line.split(' ').collect();
        if let ["tell" | "daemon", daemon, rest @ ..] = &words[..] {
            return self.daemon(daemon, rest);
        }
        let all = self.c.command(&json!({ "prefix": "get_command_descriptions" })).expect("described");
        let all = serde_json::from_slice(&all).expect("JSON");
        let command = descriptions::read(&all, &words).unwrap_or_else(|| panic!("no command `ceph {line}`"));
        let printed =
            self.c.command(&command).unwrap_or_else(|why| panic!("ceph {}: {}", short(line), short(&why)));
        String::from_utf8(printed).expect("text")
    }

    /// The same as JSON.
    pub fn json(&mut self, line: &str) -> Value {
        let printed = self.ceph(&format!("{line} --format=json"));
        serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{line}: {printed}"))
    }

    fn daemon(&mut self, daemon: &str, words: &[&str]) -> String {
        let host = self.host(daemon);
        let mut ask = |command: &str| match self.c.world.admin(host, command) {
            Some((0, printed)) => printed,
            other => panic!("{daemon}: {command}: {other:?}"),
        };
        let all = serde_json::from_str(&ask(r#"{"prefix":"get_command_descriptions"}"#)).expect("JSON");
        let command =
            descriptions::read(&all, words).unwrap_or_else(|| panic!("{daemon} has no command {words:?}"));
        ask(&command.to_string())
    }

    /// A client's request, which must succeed.
    pub fn asks(&mut self, request: Request) {
        let answer = self.c.ask(self.c.clients[0], request, Duration::from_secs(60));
        assert!(matches!(answer, Some(Ok(Answer::Object { result: Ok(_), .. }))), "{answer:?}");
    }

    /// The OSDs of an object of the pool, the primary first.
    pub fn acting(&mut self, pool: &str, object: &str) -> Vec<usize> {
        let found = self.json(&format!("osd map {pool} {object}"));
        found["acting"]
            .as_array()
            .expect("OSDs")
            .iter()
            .filter_map(Value::as_u64)
            .map(|n| n as usize)
            .collect()
    }
}

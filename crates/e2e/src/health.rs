//! What an administrator does about a cluster's health: looks at a code, does what its line `to do:` says in
//! backticks, and sees the code go.

use crate::cluster::{Cluster, Daemon};
use crate::member::Member;
use crate::run::Ran;
use std::time::{Duration, Instant};

/// The longest time until a code is seen or gone.
const PATIENCE: Duration = Duration::from_secs(60);

/// Somebody who can run clients of a cluster.
pub trait Administrator {
    /// Runs a client, such as `ceph`.
    fn runs(&self, tool: &str, args: &[&str]) -> Ran;

    /// The lines of a code in `ceph health detail`, the advice last; `None` while it is not raised.
    fn health_lines(&self, code: &str) -> Option<Vec<String>> {
        let (head, text) = (format!("] {code}: "), self.runs("ceph", &["health", "detail"]).ok());
        let mut lines = text.lines().skip_while(|line| !line.contains(&head));
        let first = lines.next()?.to_owned();
        let detail = lines.take_while(|line| line.starts_with(' ')).map(str::to_owned);
        Some(std::iter::once(first).chain(detail).collect())
    }

    /// Waits until `ceph health detail` shows the code, and returns its lines.
    fn sees(&self, code: &str) -> String {
        let began = Instant::now();
        loop {
            if let Some(lines) = self.health_lines(code) {
                return lines.join("\n");
            }
            let late = began.elapsed() > PATIENCE;
            assert!(!late, "no {code}: {}", self.runs("ceph", &["health", "detail"]).stdout);
        }
    }

    /// Waits until it does not any more.
    fn sees_no(&self, code: &str) {
        let began = Instant::now();
        while let Some(lines) = self.health_lines(code) {
            assert!(began.elapsed() < PATIENCE, "still {}", lines.join("\n"));
        }
    }

    /// The command line that the code's advice quotes, with values for its words in capitals.
    fn advised(&self, code: &str, quoted: &str, values: &[(&str, &str)]) -> Vec<String> {
        let lines = self.health_lines(code).unwrap_or_else(|| panic!("{code} is not raised"));
        let to_do = lines.last().and_then(|line| line.trim().strip_prefix("to do: ")).expect("advice");
        assert!(to_do.split('`').skip(1).step_by(2).any(|q| q == quoted), "{code} says: {to_do}");
        let value = |word: &str| {
            let found = values.iter().find(|(name, _)| *name == word);
            found.map_or_else(|| word.to_owned(), |(_, value)| (*value).to_owned())
        };
        // `mds.NAME` is a word with another in it.
        let whole = |word: &str| match word.split_once('.') {
            Some((role, name)) => format!("{role}.{}", value(name)),
            None => value(word),
        };
        quoted.split(' ').map(whole).collect()
    }

    /// Runs the client's command that the code's advice quotes, and returns what it prints.
    fn follows(&self, code: &str, quoted: &str, values: &[(&str, &str)]) -> String {
        let line = self.advised(code, quoted, values);
        let [tool, args @ ..] = &line[..] else { panic!("`{quoted}` is no command") };
        self.runs(tool, &args.iter().map(String::as_str).collect::<Vec<_>>()).ok()
    }
}

impl Administrator for Cluster {
    fn runs(&self, tool: &str, args: &[&str]) -> Ran {
        self.client(tool, args)
    }
}

impl Administrator for Member {
    fn runs(&self, tool: &str, args: &[&str]) -> Ran {
        self.client(tool, args)
    }
}

impl Cluster {
    /// Starts the daemon that the code's advice says is to be started.
    pub fn follows_and_starts(&self, code: &str, quoted: &str, values: &[(&str, &str)]) -> Daemon {
        let line = self.advised(code, quoted, values);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let ["nacre", role, "--conf", _, "--id", id] = line[..] else { panic!("`{quoted}` starts nothing") };
        self.start_daemon(&format!("{role}.{id}"))
    }
}

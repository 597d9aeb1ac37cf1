//! `cargo xtask upgrade`: a cluster goes from a former build to this one, back and forth, while clients
//! verify what they write and daemons are killed.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this is about real processes and time"
)]

use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "upgrade FORMER [--minutes N] [--seed S] [--pause SECONDS]
  FORMER is the program of another build, such as target/debug/nacre of another commit";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(former) = args.next().filter(|arg| !arg.starts_with('-')) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let (time, pause) = (Duration::from_secs(600), Duration::from_secs(10));
    let mut plan = e2e::UpgradePlan { former: former.into(), seed: 1, time, pause };
    while let Some(arg) = args.next() {
        let number = args.next().and_then(|n| n.parse::<u64>().ok());
        match (arg.as_str(), number) {
            ("--minutes", Some(n)) => plan.time = Duration::from_secs(n * 60),
            ("--seed", Some(n)) => plan.seed = n,
            ("--pause", Some(n)) => plan.pause = Duration::from_secs(n),
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    match e2e::upgrade(plan) {
        Ok(done) => {
            println!("{}", done.line());
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

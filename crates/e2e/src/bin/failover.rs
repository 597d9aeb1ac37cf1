//! `cargo xtask failover`: kills or stops the active metadata server under a mount, again and again, and
//! prints how long the next answer takes, stage by stage.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this is about real processes and time"
)]

use std::process::ExitCode;

const USAGE: &str = "failover [--files N] [--rounds N] [--cache-mib N] [--stop] [--follows]";

fn main() -> ExitCode {
    let mut plan = e2e::FailOver { files: 1000, rounds: 4, stop: false, follows: false, cache: 64 << 20 };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|n| n.parse::<usize>().ok());
        let taken = match arg.as_str() {
            "--files" => number().map(|n| plan.files = n),
            "--rounds" => number().map(|n| plan.rounds = n),
            "--cache-mib" => number().map(|n| plan.cache = (n as u64) << 20),
            "--stop" | "--follows" => {
                plan.stop |= arg == "--stop";
                plan.follows |= arg == "--follows";
                Some(())
            }
            _ => None,
        };
        if taken.is_none() {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    match e2e::fail_over(&plan) {
        Ok(table) => {
            print!("{table}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

//! `cargo xtask thrash`: injects faults into a cluster of real processes for minutes, while clients verify
//! what they wrote.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this is about real processes and time"
)]

use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "thrash [--minutes N] [--seed S] [--mons N] [--osds N] [--splits] [--flips]
  NACRE_THRASH_KEEP=DIR keeps the cluster's directory where a run fails";

fn main() -> ExitCode {
    let mut plan = e2e::Plan { time: Duration::from_secs(300), ..e2e::Plan::default() };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|n| n.parse::<u64>().ok());
        let taken = match arg.as_str() {
            "--minutes" => number().map(|n| plan.time = Duration::from_secs(n * 60)),
            "--seed" => number().map(|n| plan.seed = n),
            "--mons" => number().map(|n| plan.mons = n as u32),
            "--osds" => number().map(|n| plan.osds = n as u32),
            "--splits" | "--flips" => {
                plan.splits |= arg == "--splits";
                plan.flips |= arg == "--flips";
                Some(())
            }
            _ => None,
        };
        if taken.is_none() {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    match e2e::thrash(plan) {
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

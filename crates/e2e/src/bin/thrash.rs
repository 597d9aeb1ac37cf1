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
thrash --files [--minutes N] [--seed S] [--ranks N] [--pause SECONDS] [--beside PROGRAM]
  NACRE_THRASH_KEEP=DIR keeps the cluster's directory where a run fails";

fn main() -> ExitCode {
    let mut plan = e2e::Plan { time: Duration::from_secs(300), ..e2e::Plan::default() };
    let (mut files, mut is_of_files) = (e2e::FilesPlan::default(), false);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        if arg == "--beside"
            && let Some(program) = args.next()
        {
            files.beside = Some(program.into());
            continue;
        }
        let mut number = || args.next().and_then(|n| n.parse::<u64>().ok());
        let taken = match arg.as_str() {
            "--minutes" => number().map(|n| {
                plan.time = Duration::from_secs(n * 60);
                files.time = plan.time;
            }),
            "--seed" => number().map(|n| (plan.seed, files.seed) = (n, n)),
            "--ranks" => number().map(|n| files.ranks = n as u32),
            "--pause" => number().map(|n| files.pause = Duration::from_secs(n)),
            "--files" => {
                is_of_files = true;
                Some(())
            }
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
    let line = match is_of_files {
        true => e2e::thrash_files(files).map(|done| done.line()),
        false => e2e::thrash(plan).map(|done| done.line()),
    };
    match line {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

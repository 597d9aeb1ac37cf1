//! `cargo xtask flood`: many connections with a large write in flight on each; says what memory the daemons used.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this is about real processes and time"
)]

use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "flood [--connections N] [--mib N] [--objects N]";

fn main() -> ExitCode {
    let mut plan =
        e2e::Flood { connections: 1000, bytes: 64 << 20, objects: 12, patience: Duration::from_secs(300) };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let Some(number) = args.next().and_then(|n| n.parse::<usize>().ok()) else { return usage() };
        match arg.as_str() {
            "--connections" => plan.connections = number,
            "--mib" => plan.bytes = number << 20,
            "--objects" => plan.objects = number,
            _ => return usage(),
        }
    }
    match e2e::flood(plan) {
        Ok(done) => {
            print!("{}", done.text());
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

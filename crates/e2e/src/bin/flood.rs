//! `cargo xtask flood`: many connections with a large write in flight on each, or a large read whose answer
//! nobody reads. Prints the memory of the daemons.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this is about real processes and time"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "flood [--reads] [--connections N] [--mib N] [--objects N]";

fn main() -> ExitCode {
    let mut plan =
        e2e::Flood { connections: 1000, bytes: 64 << 20, objects: 12, patience: Duration::from_secs(300) };
    let mut args = std::env::args().skip(1);
    let (mut reads, mut readers_of) = (false, None);
    while let Some(arg) = args.next() {
        if arg == "--reads" {
            reads = true;
            continue;
        }
        if arg == "--read-for-ever" {
            readers_of = args.next().map(PathBuf::from);
            continue;
        }
        let Some(number) = args.next().and_then(|n| n.parse::<usize>().ok()) else { return usage() };
        match arg.as_str() {
            "--connections" => plan.connections = number,
            "--mib" => plan.bytes = number << 20,
            "--objects" => plan.objects = number,
            _ => return usage(),
        }
    }
    if let Some(conf) = readers_of {
        let ended = e2e::read_for_ever(plan, &conf);
        return ended.map_or_else(
            |why| {
                eprintln!("{why}");
                ExitCode::FAILURE
            },
            |()| ExitCode::SUCCESS,
        );
    }
    let flooded = match std::env::current_exe() {
        Ok(program) if reads => e2e::flood_reads(plan, &program),
        Err(error) if reads => Err(error.to_string()),
        _ => e2e::flood(plan),
    };
    match flooded {
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

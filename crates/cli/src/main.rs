//! `nacre`: one binary that starts clusters, runs daemons and is their tool.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the program around the runtime: its own files and child processes"
)]

mod cluster;
mod cmd;
mod logging;
mod signals;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = match cmd::Args::try_parse() {
        Ok(args) => args,
        Err(error) => return usage(&error),
    };
    match cmd::run(args.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nacre: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Help and version go out whole; a mistake is one line that says what to do.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A reader that went away is its own affair.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    let what: Vec<&str> = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty())
        .collect();
    eprintln!("nacre: {}; see `nacre --help`", what.join(" ").trim_start_matches("error: "));
    ExitCode::from(2)
}

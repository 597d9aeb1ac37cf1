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

/// Blocks of 4 KiB come and go with each request: see ADR 0012.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

unsafe extern "C" {
    /// Of mimalloc: what has been free for a while goes back to the host (all of it where `force` is set).
    fn mi_collect(force: bool);
    /// Of mimalloc: the value of an option, unless the environment sets it.
    fn mi_option_set_default(option: std::ffi::c_int, value: std::ffi::c_long);
}

/// Of mimalloc 2 and 3: after how many milliseconds what is free goes back to the host (`MIMALLOC_PURGE_DELAY`).
const PURGE_DELAY: std::ffi::c_int = 15;

fn main() -> ExitCode {
    raise_file_limit();
    // SAFETY: an option of the allocator, set before there are threads. Its own second lets bursts add up.
    unsafe { mi_option_set_default(PURGE_DELAY, 10) };
    // SAFETY: it is thread-safe, and concerns only memory that is free.
    runtime::give_back_by(|| unsafe { mi_collect(false) });
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

/// A daemon holds a descriptor for each connection: take as many as the host allows.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // The old limit is enough to say what is wrong when it is reached.
    let _ = setrlimit(Resource::Nofile, limit);
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

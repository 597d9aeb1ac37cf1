//! `nacre`: one binary that starts clusters, runs daemons and administers them.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the program around the runtime: its own files and child processes"
)]

#[macro_use]
mod output;
mod block;
mod cluster;
mod cmd;
mod device;
mod host;
mod logging;
mod signals;

use clap::Parser;
use std::process::ExitCode;

/// Each request allocates and frees blocks of 4 KiB: see ADR 0012.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

unsafe extern "C" {
    /// mimalloc: gives memory that has been free for a while back to the host, with `force` all free memory.
    fn mi_collect(force: bool);
    /// mimalloc: sets an option, unless the environment does.
    fn mi_option_set_default(option: std::ffi::c_int, value: std::ffi::c_long);
}

/// mimalloc 2 and 3: the option for the time in milliseconds after which free memory goes back to the host
/// (`MIMALLOC_PURGE_DELAY`).
const PURGE_DELAY: std::ffi::c_int = 15;

fn main() -> ExitCode {
    raise_file_limit();
    // SAFETY: the option is set before there are threads. The default of one second lets bursts add up.
    unsafe { mi_option_set_default(PURGE_DELAY, 10) };
    // SAFETY: it is thread-safe, and concerns only memory that is free.
    runtime::give_back_by(|| unsafe { mi_collect(false) });
    if let Some(helper) = cmd::mount::called_helper() {
        return helper();
    }
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

/// Raises the limit of open files: a daemon holds a descriptor for each connection.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // On failure the old limit stays, and the error at reaching it is clear enough.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Prints help and version in full, a mistake as one line that says what to do.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Nobody misses the output if its reader is gone.
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

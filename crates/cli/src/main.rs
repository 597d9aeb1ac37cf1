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
    raise_file_limit();
    keep_memory_low();
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

/// Large buffers go back to the host as soon as they are free, instead of staying in arenas of which there would be one
/// for nearly every thread: after a burst of 4 MiB writes a process otherwise keeps all that was ever in flight.
fn keep_memory_low() {
    #[cfg(target_env = "gnu")]
    // SAFETY: called before there are other threads, with parameters that glibc documents.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 2);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 256 << 10);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 1 << 20);
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

//! `cargo xtask guest`: a Debian guest of QEMU on an image, whose disk is cloned while it writes.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this is about real processes and time"
)]

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "guest [--seconds N] [--clones N] [--dir DIR]";

fn main() -> ExitCode {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guest");
    let mut plan = e2e::GuestPlan { seconds: 60, clones: 4, dir: target };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let value = args.next().unwrap_or_default();
        let taken = match arg.as_str() {
            "--seconds" => value.parse().map(|n| plan.seconds = n).is_ok(),
            "--clones" => value.parse().map(|n| plan.clones = n).is_ok(),
            "--dir" => {
                plan.dir = value.into();
                true
            }
            _ => false,
        };
        if !taken {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    match e2e::guest(&plan) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

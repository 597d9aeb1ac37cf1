//! `cargo xtask golden`: makes a golden cluster in `crates/e2e/tests/golden`, for later builds to open.

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(name) = std::env::args().nth(1).filter(|name| !name.starts_with('-')) else {
        eprintln!("golden NAME");
        return ExitCode::from(2);
    };
    e2e::golden::make(&e2e::golden::dir(), &name);
    ExitCode::SUCCESS
}

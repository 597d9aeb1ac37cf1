//! `cargo xtask package`: the one binary as a `.deb`, an `.rpm` and an OCI image, from one list of files.
//!
//! The formats are left to the tools of their distributions, the contents are decided here (ADR 0028).

mod build;
mod deb;
mod files;
mod job;
mod licences;
mod oci;
mod rpm;
mod symbols;
mod tools;

use anyhow::{Context, Result};
use build::Target;
use clap::{Args, ValueEnum};
use files::Program;
use job::{Job, Version};
use std::path::{Path, PathBuf};
use symbols::Needs;

#[derive(Args)]
pub struct PackageArgs {
    /// What to make [default: all].
    #[arg(value_enum)]
    kinds: Vec<Kind>,
    /// The target to build for [default: x86_64-unknown-linux-gnu; for an image x86_64-unknown-linux-musl].
    #[arg(long)]
    target: Option<String>,
    /// Package this program instead of building one.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// A program of the same version that runs here and writes the manual, if the packaged one does not.
    #[arg(long)]
    native: Option<PathBuf>,
    /// Take a program that needs a newer glibc than 2.31.
    #[arg(long)]
    any_glibc: bool,
    /// The version, instead of the one that the program tells.
    #[arg(long)]
    package_version: Option<String>,
    /// Compress little and fast, for tests.
    #[arg(long)]
    fast: bool,
    /// Where the packages go.
    #[arg(long, default_value = "target/packages")]
    out: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// For Debian, Ubuntu and their like.
    Deb,
    /// For Fedora, RHEL, SUSE and their like.
    Rpm,
    /// An image for container engines, as an archive of the OCI layout.
    Oci,
    All,
}

pub fn run(root: &Path, args: &PackageArgs) -> Result<()> {
    let all = args.kinds.is_empty() || args.kinds.contains(&Kind::All);
    let out = root.join(&args.out);
    std::fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    for kind in [Kind::Deb, Kind::Rpm, Kind::Oci] {
        if all || args.kinds.contains(&kind) {
            let path = make(root, &out, kind, args)?;
            println!("{}", path.display());
        }
    }
    Ok(())
}

fn make(root: &Path, out: &Path, kind: Kind, args: &PackageArgs) -> Result<PathBuf> {
    let target = match (&args.target, &args.binary) {
        (Some(triple), _) => Target::parse(triple)?,
        (None, Some(binary)) => Target::of(binary)?,
        (None, None) => Target::x86_64(if kind == Kind::Oci { "musl" } else { "gnu" }),
    };
    let binary = match &args.binary {
        Some(path) => path.canonicalize().with_context(|| format!("there is no {}", path.display()))?,
        None => build::build(root, &target, args.any_glibc)?,
    };
    let needs = Needs::of(&binary)?;
    if !args.any_glibc {
        needs.check()?;
    }
    let epoch = tools::epoch(root)?;
    let program = Program::describe(root, &target, &binary, args.native.as_deref(), epoch)?;
    let version = Version::new(args.package_version.as_deref().unwrap_or(&program.version));
    let job = Job { target, version, needs, program, epoch, fast: args.fast, out: out.to_owned() };
    match kind {
        Kind::Rpm => rpm::write(root, &job),
        Kind::Oci => oci::write(root, &job),
        Kind::Deb | Kind::All => deb::write(root, &job),
    }
}

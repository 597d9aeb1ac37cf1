//! The program that is packaged: built with zig as the linker, so that it asks for symbols of the glibc that
//! the packages are meant for, whatever glibc this machine has.

use super::symbols::OLDEST;
use super::tools::output;
use crate::commands::cargo;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A target of rustc, and what it is called elsewhere.
pub struct Target {
    pub triple: String,
    /// `x86_64`, `aarch64`: for RPM.
    pub rpm: &'static str,
    /// `amd64`, `arm64`: for Debian and OCI.
    pub deb: &'static str,
}

/// What readelf and rustc, RPM, and Debian and OCI call a machine.
const MACHINES: [(&str, &str, &str); 2] =
    [("Advanced Micro Devices X86-64", "x86_64", "amd64"), ("AArch64", "aarch64", "arm64")];

impl Target {
    pub fn parse(triple: &str) -> Result<Self> {
        let machine = triple.split('-').next().unwrap_or_default();
        let Some(&(_, rpm, deb)) = MACHINES.iter().find(|(_, rpm, _)| *rpm == machine) else {
            bail!("packages are made for x86_64 and aarch64, not for {machine}");
        };
        Ok(Self { triple: triple.to_owned(), rpm, deb })
    }

    /// That of a program that is built already.
    pub fn of(binary: &Path) -> Result<Self> {
        let mut command = Command::new("readelf");
        command.args(["--wide", "--file-header"]).arg(binary).env("LC_ALL", "C");
        let header = output(&mut command, "binutils")?;
        let machine = header.lines().find_map(|line| line.trim().strip_prefix("Machine:")).map(str::trim);
        let known = MACHINES.iter().find(|(elf, ..)| Some(*elf) == machine);
        let Some((_, rpm, _)) = known else {
            bail!("packages are made for x86_64 and aarch64, not for {}", machine.unwrap_or("this file"));
        };
        Self::parse(&format!("{rpm}-unknown-linux-gnu"))
    }

    /// The usual one, with `gnu` or `musl` as its libc.
    pub fn x86_64(libc: &str) -> Self {
        Self { triple: format!("x86_64-unknown-linux-{libc}"), rpm: "x86_64", deb: "amd64" }
    }
}

/// Builds the program, optimised and without data for debuggers, and returns its path. Zig drops the names
/// of functions too; the message of a panic still has its file and line.
pub fn build(root: &Path, target: &Target, any_glibc: bool) -> Result<PathBuf> {
    let mut command = cargo(&[]);
    command.current_dir(root).env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    if any_glibc {
        command.args(["build", "--target", &target.triple]);
    } else {
        let zig = cargo(&["zigbuild", "--help"]).output();
        if !zig.is_ok_and(|ran| ran.status.success()) {
            bail!("cargo-zigbuild is not installed (pip install cargo-zigbuild ziglang)");
        }
        let is_glibc = target.triple.ends_with("-gnu");
        let triple = if is_glibc { format!("{}.{OLDEST}", target.triple) } else { target.triple.clone() };
        command.args(["zigbuild", "--target", &triple]);
    }
    command.args(["--release", "--locked", "-p", "nacre"]);
    let line = format!("{command:?}").replace('"', "");
    let status = command.status().with_context(|| format!("cannot run {line}"))?;
    if !status.success() {
        bail!("the build failed; repeat it with: {line} (rustup target add {})", target.triple);
    }
    let dir = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(root.join(dir).join(&target.triple).join("release/nacre"))
}

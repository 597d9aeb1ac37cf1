//! A Debian guest of QEMU whose disk is an image, by QEMU's own driver (librbd): it writes with verification
//! while its disk is snapshotted and cloned; then each clone is booted, and verifies what it has.

mod machine;

use crate::cluster::{Cluster, Options};
use crate::run::run;
use machine::Machine;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What is to be done.
#[derive(Clone, Debug)]
pub struct GuestPlan {
    /// Seconds for which the guest writes.
    pub seconds: u64,
    /// Snapshots and clones while it does.
    pub clones: usize,
    /// The directory for the installed system, which the next run uses again.
    pub dir: PathBuf,
}

/// Where the disk's only partition begins.
const PARTITION: u64 = 1 << 20;

/// Runs a program that may take minutes.
fn long(command: &mut Command) -> Result<(), String> {
    let status = command.stdin(Stdio::null()).status().map_err(|e| format!("{command:?}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}

/// The disk of a new guest.
fn make_disk(plan: &GuestPlan) -> Result<PathBuf, String> {
    let root = plan.dir.join("debian");
    std::fs::create_dir_all(&plan.dir).map_err(|e| format!("{}: {e}", plan.dir.display()))?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/guest");
    let disk = plan.dir.join("disk.raw");
    let mut make = Command::new("sh");
    make.arg(source.join("make_image.sh")).arg(&root).arg(&disk).arg(source.join("check.sh"));
    long(make.arg(plan.seconds.to_string()))?;
    Ok(disk)
}

/// A cluster with images.
struct Images {
    cluster: Cluster,
}

impl Images {
    fn new(disk: &Path) -> Result<Self, String> {
        let cluster = Cluster::start(Options { separate: true, osd_size: "12G", ..Options::default() });
        cluster.client("ceph", &["osd", "pool", "create", "rbd", "32"]).ok();
        cluster.client("rbd", &["pool", "init", "rbd"]).ok();
        let began = Instant::now();
        let target = format!("rbd:rbd/root:conf={}", cluster.conf().display());
        long(Command::new("qemu-img").args(["convert", "-f", "raw", "-O", "raw"]).arg(disk).arg(target))?;
        println!("disk copied into an image: {:.1?}", began.elapsed());
        let images = Self { cluster };
        images.clone_of("root", "new", "killed");
        Ok(images)
    }

    fn rbd(&self, args: &[&str]) -> String {
        self.cluster.client("rbd", args).ok()
    }

    fn clone_of(&self, image: &str, snap: &str, clone: &str) {
        let snap = format!("{image}@{snap}");
        self.rbd(&["snap", "create", "--no-progress", &snap]);
        self.rbd(&["clone", "--rbd-default-clone-format", "2", &snap, clone]);
    }

    fn boot(&self, image: &str) -> Result<Machine, String> {
        Machine::start(&self.cluster.conf(), image)
    }

    /// The guest writes, and its disk is cloned meanwhile. Returns what each clone has noted at least.
    fn clone_while_it_writes(&self, clones: usize) -> Result<Vec<u64>, String> {
        let mut guest = self.boot("root")?;
        guest.wait_for("filled")?;
        let mut noted = Vec::new();
        for n in 1..=clones {
            let known = guest.wait_for_note(guest.noted() + 5)?;
            let began = Instant::now();
            self.clone_of("root", &format!("s{n}"), &format!("clone{n}"));
            let seen = guest.wait_for_note(known + 1)?;
            println!(
                "snapshot and clone {n} in {:.1?}, {known} noted before and {seen} behind",
                began.elapsed()
            );
            noted.push(known);
        }
        let wrote = guest.wait_for("wrote and verified")?;
        let last = guest.wait_for_end()?;
        println!("root {wrote}, {last} noted");
        Ok(noted)
    }

    /// The guest is killed while it writes into a clone. Returns what it had noted.
    fn kill_while_it_writes(&self) -> Result<u64, String> {
        let mut guest = self.boot("killed")?;
        guest.wait_for("filled")?;
        let noted = guest.wait_for_note(20)?;
        guest.kill();
        println!("killed with {noted} noted");
        Ok(noted)
    }

    /// The image boots, and has everything that was noted.
    fn verify(&self, image: &str, noted: u64) -> Result<(), String> {
        let began = Instant::now();
        let mut guest = self.boot(image)?;
        let said = guest.wait_for("verified")?;
        guest.wait_for_end()?;
        let found = said.rsplit(' ').next().and_then(|n| n.parse::<u64>().ok());
        if found.is_none_or(|found| found < noted) {
            return Err(format!("{image}: {noted} were noted, and it has {found:?}"));
        }
        self.check(image)?;
        println!("{image}: {said} of {noted} at least, its file system is clean: {:.0?}", began.elapsed());
        Ok(())
    }

    /// Its file system and its object map are right.
    fn check(&self, image: &str) -> Result<(), String> {
        let file = self.cluster.dir().join("export");
        // It does not replace a file.
        let _ = std::fs::remove_file(&file);
        let mut export = Command::new("rbd");
        long(export.arg("-c").arg(self.cluster.conf()).args(["export", "--no-progress", image]).arg(&file))?;
        let partition = format!("{}?offset={PARTITION}", file.display());
        let checked = run(Command::new("e2fsck").args(["-fn", &partition]));
        let map = self.cluster.client("rbd", &["object-map", "check", "--no-progress", image]);
        for ran in [checked, map] {
            let said = format!("{}{}", ran.stdout, ran.stderr);
            if ran.code != 0 || said.contains("error") {
                return Err(format!("{image}: {}: {said}", ran.line));
            }
        }
        Ok(())
    }
}

/// Does all of it, and prints what happens.
pub fn guest(plan: &GuestPlan) -> Result<(), String> {
    let images = Images::new(&make_disk(plan)?)?;
    let noted = images.clone_while_it_writes(plan.clones)?;
    let killed = images.kill_while_it_writes()?;
    images.verify("killed", killed)?;
    for (n, noted) in noted.into_iter().enumerate() {
        images.verify(&format!("clone{}", n + 1), noted)?;
    }
    images.check("root")?;
    images.cluster.check_logs()
}

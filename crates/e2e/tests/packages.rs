//! Packages as `cargo xtask package` makes them: what is in them, that they install beside Ceph's, that an
//! upgrade keeps configuration and a removal keeps data.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real files and processes"
)]

use e2e::{Ran, has, nacre_bin, run, xtask_bin};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that this tree has.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// A former one.
const FORMER: &str = "0.0.9";

/// What packages have besides the manual and documents.
const FILES: [&str; 7] = [
    "/usr/bin/nacre",
    "/usr/lib/systemd/system/nacre.service",
    "/usr/sbin/mount.fuse.nacre",
    "/usr/sbin/mount.nacre",
    "/usr/sbin/umount.fuse.nacre",
    "/usr/share/bash-completion/completions/nacre",
    "/usr/share/fish/vendor_completions.d/nacre.fish",
];

/// A program without what only debuggers read, which would be packed again and again.
struct Bench {
    dir: tempfile::TempDir,
    program: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("nacre-packages-").tempdir().expect("a directory");
        let program = dir.path().join("nacre");
        run(Command::new("strip").arg("-o").arg(&program).arg(nacre_bin())).ok();
        Self { dir, program }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes a package in the directory `out` and returns its path.
    fn make(&self, kind: &str, version: &str, out: &str) -> PathBuf {
        let mut command = Command::new(xtask_bin());
        command.args(["package", kind, "--any-glibc", "--fast", "--package-version", version]);
        command.arg("--binary").arg(&self.program).arg("--out").arg(self.path(out));
        let said = run(command.env("SOURCE_DATE_EPOCH", "1700000000")).ok();
        PathBuf::from(said.trim())
    }

    /// The present version, made twice: the same source must give the same bytes.
    fn make_twice(&self, kind: &str) -> PathBuf {
        let [one, two] = ["one", "two"].map(|out| self.make(kind, VERSION, out));
        assert_eq!(one.file_name(), two.file_name());
        run(Command::new("cmp").args([&one, &two])).ok();
        one
    }
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "needs root");
        eprintln!("skipped: needs root");
    }
    is_root
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("in a directory")).expect("makes a directory");
    fs::write(path, text).expect("writes");
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// What an administrator and the daemons have written below `root`.
struct Kept {
    root: PathBuf,
}

impl Kept {
    const PATHS: [&str; 3] = ["etc/ceph/ceph.conf", "var/lib/ceph/host.json", "var/log/ceph/mon.a.log"];

    fn write(root: &Path) -> Self {
        Self::PATHS.iter().for_each(|path| write(&root.join(path), path));
        Self { root: root.to_owned() }
    }

    fn check(&self) {
        Self::PATHS.iter().for_each(|path| assert_eq!(read(&self.root.join(path)), *path));
    }
}

/// dpkg with a root of its own, whose scripts run outside of it.
fn dpkg(root: &Path, args: &[&str], package: &Path) -> String {
    let mut command = Command::new("dpkg");
    command.arg(format!("--root={}", root.display())).arg("--log=/dev/null");
    command.args(["--force-depends", "--force-confold", "--force-script-chrootless"]).args(args).arg(package);
    run(&mut command).ok()
}

#[test]
fn a_deb_is_installed_upgraded_and_removed_and_data_stays() {
    let tools = ["dpkg-deb", "strip", "bash", "zsh", "fish", "man", "systemd-analyze"];
    if !tools.iter().all(|tool| has(tool)) || !is_root() {
        return;
    }
    let bench = Bench::new();
    let root = bench.path("root");
    for dir in ["info", "updates"] {
        fs::create_dir_all(root.join("var/lib/dpkg").join(dir)).expect("makes a directory");
    }
    write(&root.join("var/lib/dpkg/status"), "");
    let (former, present) = (bench.make("deb", FORMER, "former"), bench.make_twice("deb"));
    dpkg(&root, &["--install"], &former);
    let kept = Kept::write(&root);
    let conf = root.join("etc/needrestart/conf.d/nacre.conf");
    write(&conf, "# mine\n");
    dpkg(&root, &["--install"], &present);
    kept.check();
    assert_eq!(read(&conf), "# mine\n", "a changed configuration file is kept");
    let changed = run(Command::new("dpkg").arg(format!("--root={}", root.display())).args(["-V", "nacre"]));
    assert!(changed.stdout.lines().all(|line| line.ends_with("/nacre.conf")), "{changed:?}");

    let listed =
        listed(run(Command::new("dpkg").arg(format!("--root={}", root.display())).args(["-L", "nacre"])));
    let own = ["/etc/needrestart/conf.d/nacre.conf", "/usr/share/zsh/vendor-completions/_nacre"];
    check_list(&listed, &own);
    check_beside_ceph(&listed);
    check_installed(&root);

    dpkg(&root, &["--remove"], Path::new("nacre"));
    assert!(!root.join("usr/bin/nacre").exists() && conf.exists());
    kept.check();
    let said = dpkg(&root, &["--purge"], Path::new("nacre"));
    assert!(said.contains("/var/lib/ceph and /var/log/ceph are kept") && !conf.exists(), "{said}");
    kept.check();
}

/// A list of files and directories, as dpkg and rpm print it, without `/.`.
fn listed(ran: Ran) -> BTreeSet<String> {
    ran.ok().lines().filter(|line| *line != "/.").map(str::to_owned).collect()
}

/// Compares what a package has with what it is to have: `FILES` and `own`, a manual and documents.
fn check_list(listed: &BTreeSet<String>, own: &[&str]) {
    let folders = ["/usr/share/man/man8/", "/usr/share/doc/nacre/", "/usr/share/licenses/nacre/"];
    let (of_folders, others): (Vec<_>, Vec<_>) =
        listed.iter().partition(|path| folders.iter().any(|folder| path.starts_with(folder)));
    // A directory is one that something else is below.
    let is_dir = |path: &str| listed.iter().any(|other| other.starts_with(&format!("{path}/")));
    let files: BTreeSet<&str> = others.into_iter().map(String::as_str).filter(|path| !is_dir(path)).collect();
    assert_eq!(files, FILES.iter().chain(own).copied().collect());
    for page in ["nacre", "nacre-mount", "nacre-block-map", "mount.nacre", "umount.fuse.nacre"] {
        assert!(listed.contains(&format!("/usr/share/man/man8/{page}.8.gz")), "{page} in {of_folders:?}");
    }
    assert!(of_folders.iter().any(|path| path.ends_with("/LICENSE")), "{of_folders:?}");
    let data = ["/etc/ceph", "/var", "/run"];
    assert!(!listed.iter().any(|path| data.iter().any(|d| path.starts_with(d))), "{listed:?}");
}

/// Ceph's packages and this one are installed side by side: they have directories in common, but no file.
fn check_beside_ceph(ours: &BTreeSet<String>) {
    let packages = [
        ("ceph", "ceph-common"),
        ("ceph-fuse", "ceph-fuse"),
        ("crushtool", "ceph-base"),
        ("ceph-osd", "ceph-osd"),
    ];
    for (_, package) in packages.into_iter().filter(|(program, _)| has(program)) {
        let theirs = listed(run(Command::new("dpkg").args(["-L", package])));
        let both: Vec<_> = theirs.intersection(ours).filter(|path| !Path::new(path).is_dir()).collect();
        assert!(theirs.len() > 3 && both.is_empty(), "{package}: {both:?}");
    }
}

/// Runs what was installed below `root`.
fn check_installed(root: &Path) {
    let program = root.join("usr/bin/nacre");
    let said = run(Command::new(&program).arg("--version")).ok();
    assert_eq!(said.trim(), format!("nacre {VERSION}"));
    let helper = run(&mut Command::new(root.join("usr/sbin/mount.nacre")));
    assert!(helper.code == 1 && helper.stderr.contains("usage: mount.nacre"), "{helper:?}");
    check_unit(root, &program);
    check_completions(&root.join("usr/share"));
    check_manual(&root.join("usr/share/man"));
}

fn check_unit(root: &Path, program: &Path) {
    let unit = read(&root.join("usr/lib/systemd/system/nacre.service"));
    // A verification looks for the program.
    let there = root.join("nacre.service");
    write(&there, &unit.replace("/usr/bin/nacre", program.to_str().expect("text")));
    let verified = run(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&there));
    assert!(verified.code == 0 && !verified.stderr.contains("nacre.service"), "{verified:?}");
}

fn check_completions(share: &Path) {
    let bash = share.join("bash-completion/completions/nacre");
    run(Command::new("bash").arg("-n").arg(&bash)).ok();
    let complete = "source $0; complete -p nacre; COMP_WORDS=(nacre blo) COMP_CWORD=1; \
                    _nacre nacre blo nacre; echo ${COMPREPLY[@]}";
    let said = run(Command::new("bash").args(["--norc", "-ec", complete]).arg(&bash)).ok();
    assert!(said.contains(" -F _nacre ") && said.ends_with("\nblock\n"), "{said}");
    run(Command::new("zsh").arg("-n").arg(share.join("zsh/vendor-completions/_nacre"))).ok();
    let fish = format!(
        "source {}; complete -C 'nacre blo'",
        share.join("fish/vendor_completions.d/nacre.fish").display()
    );
    let said = run(Command::new("fish").args(["--no-config", "-c", &fish])).ok();
    assert!(said.starts_with("block\t"), "{said}");
}

/// No page may draw a warning; each is found by its name and by `.so`.
fn check_manual(man: &Path) {
    let pages = fs::read_dir(man.join("man8")).expect("lists").map(|page| page.expect("an entry").path());
    for page in pages {
        let mut command = Command::new("man");
        command.args(["--warnings", "--local-file", "-Tutf8", "-Z"]).arg(&page).current_dir(man);
        let ran = run(command.env("LC_ALL", "C.UTF-8").env("MANWIDTH", "80"));
        let said = format!("{}: {}", ran.line, ran.stderr);
        // One that cannot be found by `.so` has nothing but a header.
        assert!(ran.code == 0 && ran.stderr.is_empty() && ran.stdout.len() > 1000, "{said}");
    }
}

#[test]
fn an_rpm_has_the_same_files_and_is_upgraded_and_removed_likewise() {
    if !["rpmbuild", "rpm", "strip"].iter().all(|tool| has(tool)) || !is_root() {
        return;
    }
    let bench = Bench::new();
    let root = bench.path("root");
    fs::create_dir_all(&root).expect("makes a directory");
    let (former, present) = (bench.make("rpm", FORMER, "former"), bench.make_twice("rpm"));
    let ask = |args: &[&str]| run(Command::new("rpm").args(["-q", "-p"]).args(args).arg(&present));
    check_list(&listed(ask(&["--list"])), &["/usr/share/zsh/site-functions/_nacre"]);
    let needs = ask(&["--requires"]).ok();
    assert!(needs.contains("libc.so.6(GLIBC_") && needs.contains("util-linux"), "{needs}");
    let scripts = ask(&["--scripts"]).ok();
    assert!(!["start", "enable ", "rm "].iter().any(|word| scripts.contains(word)), "{scripts}");

    // There is no shell below `root` for the scripts.
    let rpm = |args: &[&str], package: &Path| {
        let mut command = Command::new("rpm");
        command.arg("--root").arg(&root).args(args).args(["--nodeps", "--noscripts"]);
        run(command.arg(package)).ok()
    };
    rpm(&["--install"], &former);
    let kept = Kept::write(&root);
    rpm(&["--upgrade"], &present);
    let said = run(Command::new(root.join("usr/bin/nacre")).arg("--version")).ok();
    assert_eq!(said.trim(), format!("nacre {VERSION}"));
    rpm(&["--verify"], Path::new("nacre"));
    rpm(&["--erase"], Path::new("nacre"));
    assert!(!root.join("usr/bin/nacre").exists());
    kept.check();
}

#[test]
fn an_image_has_the_digests_that_it_names_and_its_program_starts() {
    if !["skopeo", "strip", "tar", "gzip", "sha256sum"].iter().all(|tool| has(tool)) || !is_root() {
        return;
    }
    let bench = Bench::new();
    let archive = bench.make_twice("oci");
    let layout = bench.path("layout");
    unpack(&archive, &layout);
    let parse = |path: &Path| serde_json::from_str::<Value>(&read(path)).expect("JSON");
    assert_eq!(parse(&layout.join("oci-layout"))["imageLayoutVersion"], "1.0.0");
    let index = parse(&layout.join("index.json"));
    let manifest = parse(&blob(&layout, &index["manifests"][0]));
    let config = parse(&blob(&layout, &manifest["config"]));
    assert_eq!(config["config"]["Entrypoint"], json!(["/usr/bin/nacre"]));
    let layers = manifest["layers"].as_array().expect("a list");
    let root = bench.path("root");
    for (number, layer) in layers.iter().enumerate() {
        let packed = blob(&layout, layer);
        let plain = format!("gzip -dc {} | sha256sum", packed.display());
        let sum = run(Command::new("bash").args(["-ec", &plain])).ok();
        let diff_id = config["rootfs"]["diff_ids"][number].as_str().expect("a digest");
        assert_eq!(diff_id, format!("sha256:{}", &sum[..64]));
        unpack(&packed, &root);
    }
    let said = run(Command::new("chroot").arg(&root).args(["/usr/bin/nacre", "--version"])).ok();
    assert_eq!(said.trim(), format!("nacre {VERSION}"));

    let image = format!("oci-archive:{}", archive.display());
    let said = run(Command::new("skopeo").args(["--insecure-policy", "inspect", &image])).ok();
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said["Labels"]["org.opencontainers.image.version"], VERSION);
    let copy = format!("dir:{}", bench.path("copy").display());
    run(Command::new("skopeo").args(["--insecure-policy", "copy", "--quiet", &image, &copy])).ok();
}

fn unpack(archive: &Path, dir: &Path) {
    fs::create_dir_all(dir).expect("makes a directory");
    run(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(dir)).ok();
}

/// The file of a descriptor, which has the size and the digest that this names.
fn blob(layout: &Path, descriptor: &Value) -> PathBuf {
    let digest = descriptor["digest"].as_str().and_then(|d| d.strip_prefix("sha256:")).expect("a digest");
    let path = layout.join("blobs/sha256").join(digest);
    let sum = run(Command::new("sha256sum").arg(&path)).ok();
    assert!(sum.starts_with(digest), "{sum}");
    assert_eq!(fs::metadata(&path).expect("is there").len(), descriptor["size"].as_u64().expect("a size"));
    path
}

#[test]
fn a_program_that_needs_a_newer_glibc_is_refused() {
    if !["getconf", "readelf"].iter().all(|tool| has(tool)) {
        return;
    }
    let glibc = run(Command::new("getconf").arg("GNU_LIBC_VERSION")).ok();
    let minor = glibc.trim().rsplit('.').next().and_then(|minor| minor.parse::<u32>().ok());
    let mut command = Command::new(xtask_bin());
    let ran = run(command.args(["package", "deb", "--binary"]).arg(nacre_bin()).env("RUST_BACKTRACE", "0"));
    if minor.expect("a version") >= 34 {
        assert!(ran.code == 1 && ran.stderr.contains("__libc_start_main (GLIBC_2.34)"), "{ran:?}");
    }
}

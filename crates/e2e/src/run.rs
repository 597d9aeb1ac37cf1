//! Programs that tests run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The exit of a program.
#[derive(Debug)]
pub struct Ran {
    /// The command line.
    pub line: String,
    /// Exit status; -1 if a signal ended it.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    /// Its standard output; panics with all output if it failed.
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}\n{}{}", self.line, self.stdout, self.stderr);
        self.stdout
    }
}

/// No program of a test may take longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a program to its end, and kills it after a timeout.
pub fn run(command: &mut Command) -> Ran {
    let line = format!("{command:?}").replace('"', "");
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap_or_else(|e| panic!("{line}: {e}"));
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a process id");
    let (tx, done) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        let began = Instant::now();
        if done.recv_timeout(PATIENCE).is_err() && began.elapsed() >= PATIENCE {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    });
    let Output { status, stdout, stderr } =
        child.wait_with_output().unwrap_or_else(|e| panic!("{line}: {e}"));
    drop(tx);
    watch.join().expect("the watcher only waits");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ran { line, code: status.code().unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) }
}

/// The `nacre` program: `$NACRE_BIN`, or that of this tree, built once.
pub fn nacre_bin() -> &'static Path {
    static BIN: OnceLock<PathBuf> = OnceLock::new();
    BIN.get_or_init(|| match std::env::var_os("NACRE_BIN") {
        Some(bin) => bin.into(),
        None => build("nacre"),
    })
}

/// The program of developers' commands of this tree. Who gives `$NACRE_BIN` has built it too.
pub fn xtask_bin() -> PathBuf {
    match std::env::var_os("NACRE_BIN") {
        Some(_) => beside_test("xtask"),
        None => build("xtask"),
    }
}

fn build(package: &str) -> PathBuf {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "-p", package]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let built = cargo.output().expect("cargo runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    beside_test(package)
}

/// A program that was built with this one.
fn beside_test(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    // `target/debug/deps/TEST`, or `target/debug/PROGRAM`.
    let dir = test.parent().expect("in a directory");
    let dir = if dir.ends_with("deps") { dir.parent().expect("of a target") } else { dir };
    let bin = dir.join(name);
    assert!(bin.is_file(), "{} is missing", bin.display());
    bin
}

/// `nacre` with arguments.
pub fn nacre(args: &[&str]) -> Ran {
    run(Command::new(nacre_bin()).args(args))
}

/// True if `tool` is installed. Otherwise prints that the test is skipped, or fails it if `CI=true`.
pub fn has(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(tool).is_file());
    if !found {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{tool} is not installed");
        eprintln!("skipped: {tool} not installed");
    }
    found
}

//! A cluster with images, the commands that use them, and served images.

use e2e::{Cluster, Options, Ran, has, nacre_bin, run};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub(super) const MIB: usize = 1 << 20;
pub(super) const ALL: &str = "layering,exclusive-lock,object-map,fast-diff,deep-flatten";
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn has_tools() -> bool {
    ["ceph", "rbd", "qemu-io", "qemu-img"].into_iter().all(has)
}

/// A cluster with the pool `rbd`.
pub(super) struct Images {
    pub(super) cluster: Cluster,
}

impl Images {
    pub(super) fn start() -> Self {
        Self::start_with(Options { separate: false, ..Options::default() })
    }

    pub(super) fn start_with(options: Options) -> Self {
        let cluster = Cluster::start(options);
        let images = Self { cluster };
        images.pool("rbd");
        images
    }

    pub(super) fn pool(&self, name: &str) {
        self.cluster.client("ceph", &["osd", "pool", "create", name, "8"]).ok();
        self.rbd(&["pool", "init", name]);
    }

    pub(super) fn rbd(&self, args: &[&str]) -> String {
        self.cluster.client("rbd", args).ok()
    }

    pub(super) fn rbd_json(&self, args: &[&str]) -> Value {
        let text = self.rbd(&[args, &["--format", "json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?}: {e}: {text}"))
    }

    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(nacre_bin());
        command
            .arg("block")
            .arg("--conf")
            .arg(self.cluster.conf())
            .arg("--run-dir")
            .arg(self.path("run-block"));
        command.args(args).current_dir(self.cluster.dir());
        command
    }

    pub(super) fn try_block(&self, args: &[&str]) -> Ran {
        run(&mut self.command(args))
    }

    pub(super) fn block(&self, args: &[&str]) -> String {
        self.try_block(args).ok()
    }

    pub(super) fn block_json(&self, args: &[&str]) -> Value {
        let text = self.block(&[args, &["--format", "json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?}: {e}: {text}"))
    }

    /// Fails, and says this.
    pub(super) fn refuses(&self, args: &[&str], words: &str) {
        let ran = self.try_block(args);
        assert!(ran.code == 1 && ran.stderr.contains(words), "{}\n{}{}", ran.line, ran.stdout, ran.stderr);
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.cluster.dir().join(name)
    }

    /// Serves an image in the foreground.
    pub(super) fn map(&self, image: &str) -> Mapped {
        let socket = self.path(&format!("{}.sock", image.replace(['/', '@'], "-")));
        self.map_at(image, socket)
    }

    pub(super) fn map_at(&self, image: &str, socket: PathBuf) -> Mapped {
        self.map_with(image, &["--socket", socket.to_str().expect("text")])
    }

    /// With other options.
    pub(super) fn map_with(&self, image: &str, options: &[&str]) -> Mapped {
        let mut command = self.command(&[&["map", image], options].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("text");
        if line.is_empty() {
            let mut said = String::new();
            child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
            panic!("{image} is not mapped: {said}");
        }
        Mapped { child, url: line.trim().to_owned() }
    }

    pub(super) fn export(&self, spec: &str) -> Vec<u8> {
        let path = self.path("export");
        // It does not replace a file.
        let _ = std::fs::remove_file(&path);
        self.rbd(&["export", "--no-progress", spec, path.to_str().expect("text")]);
        std::fs::read(path).expect("reads")
    }

    /// Makes an image of these bytes.
    pub(super) fn import(&self, data: &[u8], image: &str) {
        let path = self.path("import");
        std::fs::write(&path, data).expect("writes");
        self.rbd(&["import", "--no-progress", path.to_str().expect("text"), image]);
    }

    /// The same bytes for `rbd`, and its object map agrees with the objects.
    pub(super) fn check(&self, image: &str, wanted: &[u8]) {
        let found = self.export(image);
        assert_eq!(found.len(), wanted.len());
        let differs = found.iter().zip(wanted).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{image}: the first byte that differs");
        let features = self.rbd_json(&["info", image])["features"].to_string();
        if features.contains("object-map") {
            let checked = self.cluster.client("rbd", &["object-map", "check", "--no-progress", image]);
            let said = format!("{}{}", checked.stdout, checked.stderr);
            assert!(checked.code == 0 && !said.contains("error"), "{image}: {said}");
            assert_eq!(self.rbd_json(&["info", image])["flags"], json!([]), "{image}: the map is believed");
        }
    }

    /// QEMU's driver for images, without NBD.
    pub(super) fn qemu_rbd(&self, image: &str, commands: &[&str]) -> Ran {
        let spec = format!("rbd:{image}:conf={}", self.cluster.conf().display());
        qemu_io(&spec, commands)
    }
}

pub(super) fn qemu_io(what: &str, commands: &[&str]) -> Ran {
    qemu_io_with("-n", what, commands)
}

/// With one option more.
pub(super) fn qemu_io_with(option: &str, what: &str, commands: &[&str]) -> Ran {
    let mut command = Command::new("qemu-io");
    command.args(["-f", "raw", "-t", "none", option, what]);
    for c in commands {
        command.args(["-c", c]);
    }
    run(&mut command)
}

/// A served image.
pub(super) struct Mapped {
    pub(super) child: Child,
    pub(super) url: String,
}

impl Mapped {
    pub(super) fn io(&self, commands: &[&str]) {
        self.io_with("-n", commands);
    }

    pub(super) fn io_with(&self, option: &str, commands: &[&str]) {
        let said = qemu_io_with(option, &self.url, commands).ok();
        assert!(!said.contains("failed") && !said.contains("error"), "{commands:?}: {said}");
    }

    pub(super) fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_raw(self.child.id() as i32).expect("a process id")
    }

    /// Ends it as `nacre block unmap` does.
    pub(super) fn end(mut self) {
        rustix::process::kill_process(self.pid(), rustix::process::Signal::TERM).expect("it runs");
        let status = self.child.wait().expect("it ends");
        let mut said = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        assert!(status.success(), "{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn fill(data: &mut [u8], from: usize, len: usize, byte: u8) {
    data[from..from + len].fill(byte);
}

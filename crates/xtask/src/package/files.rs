//! The files of a package. No path may be one of `ceph-common`'s or of Ceph's other packages: both are
//! installed side by side. Directories of the cluster's data belong to no package: `nacre init` makes them.

use super::build::Target;
use super::licences;
use super::tools::{self, Scratch, output};
use anyhow::{Context, Result, bail};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program, and what it says about itself.
pub struct Program {
    pub binary: PathBuf,
    pub version: String,
    /// Pages of man(1), by file name.
    pages: Vec<(String, Vec<u8>)>,
    /// Completions of bash, zsh and fish.
    completions: [String; 3],
    /// The licences of what is linked into it.
    pub notices: String,
}

/// Where distributions differ.
pub struct Layout {
    pub zsh: &'static str,
    pub licence: &'static str,
    pub notices: &'static str,
    /// Settings for needrestart, which exists on Debian only.
    pub needrestart: bool,
}

/// What a file of a package is.
pub enum Content {
    File { mode: u32, bytes: Vec<u8> },
    Copy { mode: u32, of: PathBuf },
    Link(&'static str),
}

/// A file with its path below the root, without a slash at the start.
pub struct Entry {
    pub path: String,
    pub content: Content,
}

/// The programs that mount(8) and umount(8) look for, see docs/mount.md.
const HELPERS: [&str; 3] = ["mount.nacre", "mount.fuse.nacre", "umount.fuse.nacre"];
/// Documents for administrators, of docs/.
const DOCUMENTS: [&str; 8] =
    ["install", "packages", "mount", "block", "commands", "dashboard", "damage", "posix"];

impl Program {
    /// Asks `native`, or the program itself if it runs here, for its manual and completions.
    pub fn describe(
        root: &Path,
        target: &Target,
        binary: &Path,
        native: Option<&Path>,
        epoch: u64,
    ) -> Result<Self> {
        let native = native.unwrap_or(binary);
        let ask = |args: &[&str]| output(Command::new(native).args(args), "nacre");
        let version = ask(&["--version"])
            .context("the program does not run here: give --native with one of the same version that does")?;
        let version = version.trim().strip_prefix("nacre ").unwrap_or(version.trim()).to_owned();
        let scratch = Scratch::new(&std::env::temp_dir(), "nacre-manual")?;
        let dir = scratch.0.to_str().context("the directory's name is no text")?;
        ask(&["manual", dir, "--date", &tools::date(epoch, "%Y-%m-%d")?])?;
        let mut pages = Vec::new();
        for entry in std::fs::read_dir(dir).context("cannot list the manual")? {
            let entry = entry.context("cannot list the manual")?;
            let text = std::fs::read(entry.path()).context("cannot read the manual")?;
            pages.push((entry.file_name().to_string_lossy().into_owned(), text));
        }
        let helper = root.join("packaging/mount.nacre.8");
        pages.push(("mount.nacre.8".into(), read(&helper)?));
        pages.extend(
            HELPERS[1..].iter().map(|name| (format!("{name}.8"), b".so man8/mount.nacre.8\n".to_vec())),
        );
        pages.sort();
        let [bash, zsh, fish] = ["bash", "zsh", "fish"].map(|shell| ask(&["completions", shell]));
        let completions = [bash?, zsh?, fish?];
        let notices = licences::notices(root, &target.triple)?;
        Ok(Self { binary: binary.to_owned(), version, pages, completions, notices })
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

impl Entry {
    pub fn file(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), content: Content::File { mode: 0o644, bytes: bytes.into() } }
    }

    /// The program.
    pub fn program(binary: &Path) -> Self {
        Self { path: "usr/bin/nacre".into(), content: Content::Copy { mode: 0o755, of: binary.to_owned() } }
    }

    /// What it takes on a disk, in KiB.
    pub fn kib(&self) -> Result<u64> {
        let bytes = match &self.content {
            Content::Link(_) => 0,
            Content::File { bytes, .. } => bytes.len() as u64,
            Content::Copy { of, .. } => {
                std::fs::metadata(of).with_context(|| format!("cannot look at {}", of.display()))?.len()
            }
        };
        Ok(bytes.div_ceil(1024).max(1))
    }

    /// Its path, unless it is a link.
    pub fn regular(&self) -> Option<&str> {
        (!matches!(self.content, Content::Link(_))).then_some(self.path.as_str())
    }

    fn link(path: String, to: &'static str) -> Self {
        Self { path, content: Content::Link(to) }
    }
}

/// The files of a package with the distribution's layout; those in `etc` are configuration.
pub fn entries(root: &Path, program: &Program, layout: &Layout) -> Result<Vec<Entry>> {
    let mut out = vec![Entry::program(&program.binary)];
    out.extend(HELPERS.map(|name| Entry::link(format!("usr/sbin/{name}"), "../bin/nacre")));
    out.push(Entry::file(
        "usr/lib/systemd/system/nacre.service",
        read(&root.join("packaging/nacre.service"))?,
    ));
    let [bash, zsh, fish] = &program.completions;
    out.push(Entry::file("usr/share/bash-completion/completions/nacre", bash.as_str()));
    out.push(Entry::file(layout.zsh, zsh.as_str()));
    out.push(Entry::file("usr/share/fish/vendor_completions.d/nacre.fish", fish.as_str()));
    for (name, text) in &program.pages {
        out.push(Entry::file(format!("usr/share/man/man8/{name}.gz"), gzip(text)?));
    }
    for name in DOCUMENTS {
        let text = read(&root.join(format!("docs/{name}.md")))?;
        out.push(Entry::file(format!("usr/share/doc/nacre/{name}.md"), text));
    }
    out.push(Entry::file("usr/share/doc/nacre/changelog.gz", gzip(&read(&root.join("CHANGELOG.md"))?)?));
    out.push(Entry::file("usr/share/doc/nacre/examples/fstab", read(&root.join("packaging/fstab"))?));
    out.push(Entry::file(layout.licence, read(&root.join("LICENSE"))?));
    out.push(Entry::file(layout.notices, gzip(program.notices.as_bytes())?));
    if layout.needrestart {
        out.push(Entry::file(
            "etc/needrestart/conf.d/nacre.conf",
            read(&root.join("packaging/needrestart.conf"))?,
        ));
    }
    out.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(out)
}

/// Compressed without a name and a time, which would differ from run to run.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let scratch = Scratch::new(&std::env::temp_dir(), "nacre-gzip")?;
    let path = scratch.0.join("file");
    std::fs::write(&path, bytes).context("cannot write a file to compress")?;
    output(Command::new("gzip").args(["-9", "-n"]).arg(&path), "gzip")?;
    read(&path.with_extension("gz"))
}

/// Writes files below `dir`.
pub fn stage(dir: &Path, entries: &[Entry]) -> Result<()> {
    for entry in entries {
        let path = dir.join(&entry.path);
        let Some(parent) = path.parent() else { bail!("`{}` is no path of a file", entry.path) };
        std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        put(&path, &entry.content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    // Packages tell modes of directories too, which follow the umask of whoever makes them.
    directories(dir, &mut |path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)))
        .context("cannot set modes of directories")
}

fn put(path: &Path, content: &Content) -> std::io::Result<()> {
    let mode = match content {
        Content::Link(to) => return symlink(to, path),
        Content::File { mode, bytes } => {
            std::fs::write(path, bytes)?;
            mode
        }
        Content::Copy { mode, of } => {
            std::fs::copy(of, path)?;
            mode
        }
    };
    std::fs::set_permissions(path, PermissionsExt::from_mode(*mode))
}

/// Calls `each` for a directory and all below it.
fn directories(dir: &Path, each: &mut impl FnMut(&Path) -> std::io::Result<()>) -> std::io::Result<()> {
    each(dir)?;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            directories(&entry.path(), each)?;
        }
    }
    Ok(())
}

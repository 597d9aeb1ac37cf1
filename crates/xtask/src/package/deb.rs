//! The `.deb`, by dpkg-deb.

use super::files::{self, Entry, Layout};
use super::job::{DESCRIPTION, Job, MAINTAINER, REVISION, SUMMARY};
use super::tools::{Scratch, date, output};
use anyhow::{Context, Result};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const LAYOUT: Layout = Layout {
    zsh: "usr/share/zsh/vendor-completions/_nacre",
    licence: "usr/share/doc/nacre/LICENSE",
    notices: "usr/share/doc/nacre/third-party.gz",
    needrestart: true,
};

/// Debian's packages of the libraries that the program may need.
const LIBRARIES: [(&str, &str); 1] = [("libgcc_s.so.1", "libgcc-s1")];
/// What dpkg runs, and it never starts a daemon or removes data.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

pub fn write(root: &Path, job: &Job) -> Result<PathBuf> {
    let scratch = Scratch::new(&job.out, "deb")?;
    let stage = &scratch.0;
    let mut entries = files::entries(root, &job.program, &LAYOUT)?;
    let copyright = root.join("packaging/deb/copyright");
    let copyright =
        std::fs::read(&copyright).with_context(|| format!("cannot read {}", copyright.display()))?;
    entries.push(Entry::file("usr/share/doc/nacre/copyright", copyright));
    entries.push(Entry::file(
        "usr/share/doc/nacre/changelog.Debian.gz",
        files::gzip(changelog(job)?.as_bytes())?,
    ));
    std::fs::create_dir_all(stage.join("DEBIAN")).context("cannot make DEBIAN")?;
    files::stage(stage, &entries)?;
    describe(root, stage, job, &entries)?;
    let path = job.out.join(format!("nacre_{}-{REVISION}_{}.deb", job.version.0, job.target.deb));
    let mut command = Command::new("dpkg-deb");
    // Debian 11's dpkg reads no zstd.
    command.args(["--root-owner-group", "-Zxz", if job.fast { "-z0" } else { "-z6" }, "--build"]);
    command.arg(stage).arg(&path).env("SOURCE_DATE_EPOCH", job.epoch.to_string());
    output(&mut command, "dpkg")?;
    Ok(path)
}

/// What Debian's tools read the time and the version of a package from.
fn changelog(job: &Job) -> Result<String> {
    Ok(format!(
        "nacre ({}-{REVISION}) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- {}  {}\n",
        job.version.0,
        MAINTAINER,
        date(job.epoch, "%a, %d %b %Y %H:%M:%S +0000")?
    ))
}

/// Writes what is about the package.
fn describe(root: &Path, stage: &Path, job: &Job, entries: &[Entry]) -> Result<()> {
    let dir = stage.join("DEBIAN");
    let mut sums = Command::new("md5sum");
    sums.args(entries.iter().filter_map(Entry::regular)).current_dir(stage);
    let put = |name: &str, text: &[u8], mode: u32| {
        let path = dir.join(name);
        std::fs::write(&path, text)
            .and_then(|()| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)))
            .with_context(|| format!("cannot write {}", path.display()))
    };
    put("md5sums", output(&mut sums, "coreutils")?.as_bytes(), 0o644)?;
    put("control", control(job, entries)?.as_bytes(), 0o644)?;
    let conf = entries.iter().filter(|entry| entry.path.starts_with("etc/"));
    let conf: String = conf.map(|entry| format!("/{}\n", entry.path)).collect();
    put("conffiles", conf.as_bytes(), 0o644)?;
    for script in SCRIPTS {
        let path = root.join("packaging/deb").join(script);
        let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        put(script, &text, 0o755)?;
    }
    Ok(())
}

fn control(job: &Job, entries: &[Entry]) -> Result<String> {
    let size = entries.iter().map(Entry::kib).sum::<Result<u64>>()?;
    let mut depends: Vec<String> =
        job.needs.glibc().map(|glibc| format!("libc6 (>= {glibc})")).into_iter().collect();
    let packaged = LIBRARIES.iter().filter(|(library, _)| job.needs.libraries.iter().any(|l| l == library));
    depends.extend(packaged.map(|(_, package)| (*package).to_owned()));
    depends.push("mount".into());
    Ok(format!(
        "Package: nacre\nVersion: {}-{REVISION}\nArchitecture: {}\nMaintainer: {}\nInstalled-Size: {size}\n\
         Depends: {}\nRecommends: fuse3\nSuggests: ceph-common\nSection: admin\nPriority: optional\n\
         Description: {}\n{}",
        job.version.0,
        job.target.deb,
        MAINTAINER,
        depends.join(", "),
        SUMMARY,
        DESCRIPTION.map(|line| format!(" {line}\n")).concat(),
    ))
}

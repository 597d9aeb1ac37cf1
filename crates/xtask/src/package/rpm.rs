//! The `.rpm`, by rpmbuild, which finds out by itself what libraries the program needs.

use super::files::{self, Entry, Layout};
use super::job::{DESCRIPTION, Job, MAINTAINER, REVISION, SUMMARY};
use super::tools::{Scratch, output};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

const LAYOUT: Layout = Layout {
    zsh: "usr/share/zsh/site-functions/_nacre",
    licence: "usr/share/licenses/nacre/LICENSE",
    notices: "usr/share/licenses/nacre/third-party.gz",
    needrestart: false,
};

pub fn write(root: &Path, job: &Job) -> Result<PathBuf> {
    let scratch = Scratch::new(&job.out, "rpm")?;
    let (stage, top) = (scratch.0.join("stage"), scratch.0.join("top"));
    let entries = files::entries(root, &job.program, &LAYOUT)?;
    files::stage(&stage, &entries)?;
    let template = root.join("packaging/nacre.spec");
    let template =
        std::fs::read_to_string(&template).with_context(|| format!("cannot read {}", template.display()))?;
    let spec = scratch.0.join("nacre.spec");
    std::fs::write(&spec, fill(&template, job, &stage, &entries)).context("cannot write the spec file")?;
    let mut command = Command::new("rpmbuild");
    command.args(["-bb", "--quiet", "--target", &format!("{}-linux", job.target.rpm)]);
    command.args(["--define", &format!("_topdir {}", top.display())]);
    command.arg(&spec).env("SOURCE_DATE_EPOCH", job.epoch.to_string());
    output(&mut command, "rpm")?;
    let name = format!("nacre-{}-{REVISION}.{}.rpm", job.version.0, job.target.rpm);
    let path = job.out.join(&name);
    let made = top.join("RPMS").join(&name);
    std::fs::rename(&made, &path).with_context(|| format!("rpmbuild has not made {}", made.display()))?;
    Ok(path)
}

fn fill(template: &str, job: &Job, stage: &Path, entries: &[Entry]) -> String {
    let listed: String = entries.iter().map(line).collect();
    // xz, which every rpm reads.
    let payload = if job.fast { "w1.gzdio" } else { "w6.xzdio" };
    template
        .replace("@VERSION@", &job.version.0)
        .replace("@REVISION@", &REVISION.to_string())
        .replace("@MAINTAINER@", MAINTAINER)
        .replace("@SUMMARY@", SUMMARY)
        .replace("@DESCRIPTION@", &DESCRIPTION.join("\n"))
        .replace("@PAYLOAD@", payload)
        .replace("@STAGE@", &stage.display().to_string())
        .replace("@FILES@", &listed)
}

/// A line of `%files`.
fn line(entry: &Entry) -> String {
    let kind = match entry.path.as_str() {
        path if path.starts_with("etc/") => "%config(noreplace) ",
        path if path.starts_with("usr/share/licenses/") => "%license ",
        path if path.starts_with("usr/share/doc/") || path.starts_with("usr/share/man/") => "%doc ",
        _ => "",
    };
    format!("{kind}/{}\n", entry.path)
}

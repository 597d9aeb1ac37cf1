//! An image for container engines, made without one: an archive of the OCI image layout with one layer, which
//! has the program and what it expects to find. The program is static in a release. With another one the
//! libraries of this machine come along, which is for trying only.

use super::files::{self, Content, Entry};
use super::job::{Job, REVISION, SUMMARY};
use super::tools::{Scratch, date, output};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// What `nacre init` and `nacre run` write to, and what a mount point may be below.
const DIRECTORIES: [&str; 7] =
    ["etc/ceph", "mnt", "run/ceph", "tmp", "var/lib/ceph", "var/log/ceph", "var/tmp"];
/// The port of monitors.
const PORT: &str = "3300/tcp";

pub fn write(root: &Path, job: &Job) -> Result<PathBuf> {
    let scratch = Scratch::new(&job.out, "oci")?;
    let (stage, layout) = (scratch.0.join("stage"), scratch.0.join("layout"));
    let blobs = layout.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).with_context(|| format!("cannot make {}", blobs.display()))?;
    for dir in DIRECTORIES {
        std::fs::create_dir_all(stage.join(dir)).with_context(|| format!("cannot make {dir}"))?;
    }
    files::stage(&stage, &entries(root, job)?)?;
    let (diff_id, layer) = layer(&stage, &blobs, job)?;
    let config = blob(&blobs, CONFIG, &config(job, &diff_id)?)?;
    let manifest = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer] });
    let mut top = blob(&blobs, MANIFEST, &manifest)?;
    top["platform"] = json!({ "architecture": job.target.deb, "os": "linux" });
    top["annotations"] = json!({ "org.opencontainers.image.ref.name": job.version.0 });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [top],
    });
    put(&layout.join("index.json"), index.to_string().as_bytes())?;
    put(&layout.join("oci-layout"), json!({ "imageLayoutVersion": "1.0.0" }).to_string().as_bytes())?;
    let path = job.out.join(format!("nacre-{}-{REVISION}-{}.oci.tar", job.version.0, job.target.deb));
    tar(&layout, &path, job.epoch)?;
    Ok(path)
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// The files of the image.
fn entries(root: &Path, job: &Job) -> Result<Vec<Entry>> {
    let licence = std::fs::read(root.join("LICENSE")).context("cannot read LICENSE")?;
    let mut out = vec![
        Entry::program(&job.program.binary),
        Entry::file("etc/passwd", "root:x:0:0:root:/root:/usr/bin/nacre\n"),
        Entry::file("etc/group", "root:x:0:\n"),
        Entry::file("usr/share/licenses/nacre/LICENSE", licence),
        Entry::file("usr/share/licenses/nacre/third-party", job.program.notices.as_bytes()),
    ];
    if !job.needs.is_static() {
        let libraries = libraries(&job.program.binary)?;
        out.extend(libraries.into_iter().map(|path| Entry {
            path: path.trim_start_matches('/').to_owned(),
            content: Content::Copy { mode: 0o755, of: path.into() },
        }));
    }
    Ok(out)
}

/// This machine's libraries that the program needs, and the loader: lines like `libc.so.6 => /lib/libc.so.6
/// (0x7f)` and `/lib64/ld-linux-x86-64.so.2 (0x7f)`.
fn libraries(binary: &Path) -> Result<Vec<String>> {
    let said = output(Command::new("ldd").arg(binary), "libc-bin")?;
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(str::to_owned);
    Ok(said.lines().filter_map(path).collect())
}

/// Packs the layer. Returns the digest of its content, and its descriptor.
fn layer(stage: &Path, blobs: &Path, job: &Job) -> Result<(String, Value)> {
    let plain = blobs.join("layer.tar");
    tar(stage, &plain, job.epoch)?;
    let (diff_id, _) = digest(&plain)?;
    let level = if job.fast { "-1" } else { "-9" };
    output(Command::new("gzip").args([level, "-n"]).arg(&plain), "gzip")?;
    let packed = plain.with_extension("tar.gz");
    let (digest, size) = digest(&packed)?;
    let name = blobs.join(digest.trim_start_matches("sha256:"));
    std::fs::rename(&packed, &name).with_context(|| format!("cannot write {}", name.display()))?;
    Ok((diff_id, json!({ "mediaType": LAYER, "digest": digest, "size": size })))
}

/// Packs a directory: the same files give the same bytes, whoever packs them and when.
fn tar(dir: &Path, path: &Path, epoch: u64) -> Result<()> {
    let mut command = Command::new("tar");
    command.args(["--create", "--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    command.arg(format!("--mtime=@{epoch}")).arg("--file").arg(path).arg("--directory").arg(dir);
    // Names without `./` at the start, which some readers of archives look for in vain.
    let names = std::fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut names: Vec<_> = names.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    output(command.args(names), "tar").map(drop)
}

/// What engines need to know to start it.
fn config(job: &Job, diff_id: &str) -> Result<Value> {
    let created = date(job.epoch, "%Y-%m-%dT%H:%M:%SZ")?;
    Ok(json!({
        "created": created,
        "architecture": job.target.deb,
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/nacre"],
            "Cmd": ["--help"],
            "Env": ["PATH=/usr/bin"],
            "WorkingDir": "/",
            "ExposedPorts": { PORT: {} },
            "Volumes": { "/etc/ceph": {}, "/var/lib/ceph": {} },
            "Labels": {
                "org.opencontainers.image.title": "nacre",
                "org.opencontainers.image.description": SUMMARY,
                "org.opencontainers.image.version": job.version.0,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [diff_id] },
        "history": [{ "created": created, "created_by": "cargo xtask package oci" }],
    }))
}

/// Writes JSON as a blob and returns its descriptor.
fn blob(blobs: &Path, media_type: &str, value: &Value) -> Result<Value> {
    let text = value.to_string();
    let name = hex(&Sha256::digest(text.as_bytes()));
    put(&blobs.join(&name), text.as_bytes())?;
    Ok(json!({ "mediaType": media_type, "digest": format!("sha256:{name}"), "size": text.len() }))
}

/// The digest of a file as descriptors have it, and its size.
fn digest(path: &Path) -> Result<(String, u64)> {
    let mut file = std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut hash = Sha256::new();
    let size =
        std::io::copy(&mut file, &mut hash).with_context(|| format!("cannot read {}", path.display()))?;
    Ok((format!("sha256:{}", hex(&hash.finalize())), size))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        // Writing to a string does not fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

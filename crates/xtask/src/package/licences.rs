//! The notices that the licences of linked packages ask for.

use super::tools::output;
use crate::commands::cargo;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// File names that hold a licence or a notice.
const NAMES: [&str; 5] = ["licen", "copying", "copyright", "notice", "unlicense"];

/// The texts of all packages that are linked into `nacre` for a target, each text once.
pub fn notices(root: &Path, triple: &str) -> Result<String> {
    let mut command = cargo(&["metadata", "--format-version", "1", "--locked", "--filter-platform", triple]);
    let all: Value = serde_json::from_str(&output(command.current_dir(root), "cargo")?)?;
    let linked = linked(&all).context("cargo metadata has not said what nacre is made of")?;
    let mut list = String::from("nacre contains these packages:\n\n");
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in array(&all["packages"]) {
        let is_ours = package["source"].is_null();
        let id = text(&package["id"]);
        if is_ours || !linked.contains(id) {
            continue;
        }
        let name = format!("{} {}", text(&package["name"]), text(&package["version"]));
        writeln!(list, "{name}: {}", package["license"].as_str().unwrap_or("see its text below"))?;
        let manifest = Path::new(text(&package["manifest_path"]));
        for path in files(manifest.parent().unwrap_or(root)) {
            let text = std::fs::read_to_string(&path);
            let text = text.with_context(|| format!("cannot read {}", path.display()))?;
            texts.entry(text.trim().replace('\r', "")).or_default().push(name.clone());
        }
    }
    for (text, of) in texts {
        write!(list, "\n{}\n{}\n\n{text}\n", "-".repeat(79), of.join(", "))?;
    }
    Ok(list)
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The ids of packages that `nacre` is linked of: those for builds and tests are left out.
fn linked(all: &Value) -> Option<BTreeSet<&str>> {
    let nodes: BTreeMap<&str, &Value> =
        array(&all["resolve"]["nodes"]).map(|n| (text(&n["id"]), n)).collect();
    let is_nacre = |package: &&Value| package["name"] == "nacre" && package["source"].is_null();
    let mut open = vec![array(&all["packages"]).find(is_nacre)?["id"].as_str()?];
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !found.insert(id) {
            continue;
        }
        for dep in array(&nodes.get(id)?["deps"]) {
            if array(&dep["dep_kinds"]).any(|kind| kind["kind"].is_null()) {
                open.push(text(&dep["pkg"]));
            }
        }
    }
    Some(found)
}

/// A package's files with licences, those of C sources below it too.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().to_lowercase();
            let is_code = [".rs", ".c", ".h", ".py"].iter().any(|end| name.ends_with(end));
            if entry.path().is_dir() {
                open.push(entry.path());
            } else if !is_code && NAMES.iter().any(|start| name.starts_with(start)) {
                out.push(entry.path());
            }
        }
    }
    out.sort();
    out
}

//! The files of a source tree that the guards look at.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// A file with its path from the root of the tree.
pub struct SourceFile {
    /// Path from the root, with `/`.
    pub path: String,
    /// The content.
    pub text: String,
}

/// All files below `root` that have one of these endings, in order of their paths; build output and hidden
/// folders are left out.
pub fn read(root: &Path, endings: &[&str]) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    for path in list(root)? {
        if endings.iter().any(|ending| path.ends_with(ending)) {
            let text = std::fs::read(root.join(&path)).with_context(|| format!("cannot read {path}"))?;
            files.push(SourceFile { path, text: String::from_utf8_lossy(&text).into_owned() });
        }
    }
    Ok(files)
}

/// The paths of all files below `root`, in order.
pub fn list(root: &Path) -> Result<Vec<String>> {
    let mut out = Vec::new();
    walk(root, root, &mut out)?;
    out.sort();
    Ok(out)
}

fn walk(root: &Path, dir: &Path, out: &mut Vec<String>) -> Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name == "target" || name == "nacre-data" || (name.starts_with('.') && name != ".ci") {
            continue;
        }
        if path.is_dir() {
            walk(root, &path, out)?;
        } else if let Ok(inside) = path.strip_prefix(root) {
            out.push(inside.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

/// The crates below `crates/`: name and folder, in order.
pub fn crates(root: &Path) -> Result<Vec<(String, PathBuf)>> {
    let dir = root.join("crates");
    let mut out = Vec::new();
    for entry in std::fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        if path.join("Cargo.toml").is_file() {
            out.push((path.file_name().unwrap_or_default().to_string_lossy().into_owned(), path));
        }
    }
    out.sort();
    Ok(out)
}

/// The files that a crate's module trees start at.
pub fn roots(dir: &Path) -> Vec<PathBuf> {
    let src = dir.join("src");
    let mut out: Vec<_> = ["lib.rs", "main.rs"].iter().map(|name| src.join(name)).collect();
    let programs = std::fs::read_dir(src.join("bin")).into_iter().flatten().flatten();
    out.extend(programs.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "rs")));
    out.retain(|path| path.is_file());
    out.sort();
    out
}

/// True for files that hold nothing but tests, benchmarks or what they share.
pub fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.contains("/benches/") || path.ends_with("tests.rs")
}

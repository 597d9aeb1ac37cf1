//! `cargo xtask figures`: the structure in numbers, to compare one tree with another.

use super::{Texts, circles, clones, roles, tree};
use anyhow::Result;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// The figures of one tree.
pub struct Figures {
    /// Sizes of the circles of files, by crate; crates without any are left out.
    circles: BTreeMap<String, Vec<Vec<String>>>,
    /// The structs of [`roles::ROLES`] that exist: crate and name, and what was counted.
    roles: Vec<(String, roles::Struct)>,
    /// The structs with `impl` blocks in most files: crate and name, number of files, in descending order.
    spread: Vec<(String, usize)>,
    /// `.clone()` on the paths of [`clones::PATHS`].
    clones: Vec<clones::Count>,
    /// Lines over the width, by crate or folder.
    wide: BTreeMap<String, usize>,
    /// Citations of what is not there: `path:line: cited`.
    dead: Vec<String>,
}

impl Figures {
    /// Measures the tree at `root`.
    pub fn measure(root: &Path) -> Result<Self> {
        let texts = Texts::read(root)?;
        let mut by_crate: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
        for circle in circles(root)? {
            by_crate.entry(circle.package).or_default().push(circle.files);
        }
        let (mut roles, mut spread) = (Vec::new(), Vec::new());
        for (package, _) in tree::crates(root)? {
            let folder = format!("crates/{package}/src/");
            let structs = roles::structs(texts.rust().filter(|file| file.path.starts_with(&folder)));
            let name = |name: &str| format!("{package}::{name}");
            for (_, names) in roles::ROLES.iter().filter(|(of, _)| *of == package) {
                let known = names.iter().find_map(|n| structs.get(*n).map(|found| (name(n), found.clone())));
                roles.push(known.unwrap_or_else(|| (name(names[0]), roles::Struct::default())));
            }
            let wide = structs.iter().filter(|(_, s)| s.impls.len() > 2);
            spread.extend(wide.map(|(n, found)| (name(n), found.impls.len())));
        }
        spread.sort_by_key(|(name, files)| (std::cmp::Reverse(*files), name.clone()));
        let mut wide: BTreeMap<String, usize> = BTreeMap::new();
        for (path, lines) in texts.wide() {
            *wide.entry(path.split('/').take(2).collect::<Vec<_>>().join("/")).or_default() += lines.len();
        }
        let clones = clones::PATHS.iter().map(|path| clones::count(path, texts.rust())).collect();
        let dead = texts.dead().iter().map(|d| format!("{}:{}: {}", d.path, d.line, d.cited)).collect();
        Ok(Figures { circles: by_crate, roles, spread, clones, wide, dead })
    }

    /// As JSON, with the files of each circle.
    pub fn json(&self) -> Value {
        let role = |(name, s): &(String, roles::Struct)| {
            let counted = json!({"file": s.file, "fields": s.fields, "public": s.public, "impls": s.impls});
            (name.clone(), counted)
        };
        let clones = |count: &clones::Count| {
            (count.name.to_owned(), json!({"clones": count.clones, "files": count.files}))
        };
        json!({
            "circles": self.circles,
            "roles": self.roles.iter().map(role).collect::<serde_json::Map<_, _>>(),
            "impl_files": self.spread.iter().cloned().collect::<BTreeMap<_, _>>(),
            "clones": self.clones.iter().map(clones).collect::<serde_json::Map<_, _>>(),
            "wide_lines": self.wide,
            "dead_references": self.dead,
        })
    }

    /// As text for people; with `details` every circle's files and every dead reference.
    pub fn text(&self, details: bool) -> String {
        let mut out = vec!["circles of files (sizes):".to_owned()];
        for (package, circles) in &self.circles {
            let sizes: Vec<_> = circles.iter().map(|circle| circle.len().to_string()).collect();
            out.push(format!("  {package:10} {}", sizes.join(" ")));
            if details {
                out.extend(circles.iter().map(|circle| format!("    {}", circle.join(" "))));
            }
        }
        out.push("role structs (fields, of these public, files with an impl):".to_owned());
        for (name, s) in &self.roles {
            let counted = format!("{:4} {:4} {:4}  {}", s.fields, s.public, s.impls.len(), s.file);
            out.push(if s.file.is_empty() {
                format!("  {name:20} gone")
            } else {
                format!("  {name:20} {counted}")
            });
        }
        out.push("structs with impl blocks in most files:".to_owned());
        out.extend(self.spread.iter().take(12).map(|(name, files)| format!("  {name:28} {files}")));
        out.push("`.clone()` on the path of an operation (in files):".to_owned());
        let line = |c: &clones::Count| format!("  {:20} {:4} {:4}", c.name, c.clones, c.files.len());
        out.extend(self.clones.iter().map(line));
        out.push(format!(
            "lines over {} columns: {}",
            super::columns::COLUMNS,
            self.wide.values().sum::<usize>()
        ));
        out.extend(self.wide.iter().map(|(package, lines)| format!("  {package:20} {lines}")));
        out.push(format!("dead references: {}", self.dead.len()));
        if details {
            out.extend(self.dead.iter().map(|dead| format!("  {dead}")));
        }
        out.join("\n")
    }
}

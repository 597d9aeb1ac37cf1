//! Guards that keep the structure and the documents as they are meant to be, and the figures behind them.
//!
//! Each guard is a pure function over the texts of a tree (see [`tree`]); this file runs them. Most work on
//! tokens rather than on a syntax tree (see [`lexer`]); each says what it cannot see.

mod allowed;
mod citations;
mod clones;
mod columns;
mod figures;
mod health;
mod imports;
mod lexer;
mod modules;
mod paths;
mod roles;
mod tree;

pub use figures::Figures;

use anyhow::{Result, bail};
use columns::Wide;
use std::collections::BTreeSet;
use std::path::Path;
use tree::SourceFile;

/// A circle of files inside a crate: paths below the crate's `src/`.
pub struct Circle {
    /// The crate.
    pub package: String,
    /// Its files that reach one another.
    pub files: Vec<String>,
}

/// The circles of all crates below `root`, the largest of each crate first.
pub fn circles(root: &Path) -> Result<Vec<Circle>> {
    let mut out: Vec<Circle> = Vec::new();
    for (package, dir) in tree::crates(root)? {
        for start in tree::roots(&dir) {
            let tree = modules::Tree::read(&start);
            for circle in imports::circles(tree.files.len(), &imports::edges(&tree)) {
                let name = |&file: &usize| {
                    let path = &tree.files[file];
                    path.strip_prefix(dir.join("src")).unwrap_or(path).to_string_lossy().into_owned()
                };
                out.push(Circle { package: package.clone(), files: circle.iter().map(name).collect() });
            }
        }
    }
    Ok(out)
}

/// The edges inside the circles of one crate, a line `file -> file: name, name` each: what to cut.
pub fn edges_of(root: &Path, package: &str) -> Result<Vec<String>> {
    let mut out = Vec::new();
    for (_, dir) in tree::crates(root)?.into_iter().filter(|(name, _)| name == package) {
        for start in tree::roots(&dir) {
            let tree = modules::Tree::read(&start);
            let edges = imports::edges(&tree);
            let name = |file: usize| {
                let path = &tree.files[file];
                path.strip_prefix(dir.join("src")).unwrap_or(path).display()
            };
            for circle in imports::circles(tree.files.len(), &edges) {
                for (from, to) in edges.iter().filter(|(from, _)| circle.contains(from)) {
                    for (to, names) in to.iter().filter(|(to, _)| circle.contains(to)) {
                        let names: Vec<_> = names.iter().map(String::as_str).collect();
                        out.push(format!("{} -> {}: {}", name(*from), name(*to), names.join(", ")));
                    }
                }
            }
        }
    }
    Ok(out)
}

/// The texts that guards read.
pub struct Texts {
    /// Every path of the tree.
    pub paths: Vec<String>,
    /// Its `.rs` and `.md` files.
    pub files: Vec<SourceFile>,
}

impl Texts {
    /// Reads the tree below `root`.
    pub fn read(root: &Path) -> Result<Self> {
        Ok(Texts { paths: tree::list(root)?, files: tree::read(root, &[".rs", ".md"])? })
    }

    fn rust(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// Too wide lines of each file that has any.
    fn wide(&self) -> Vec<(String, Wide)> {
        let files = self.rust().map(|file| (file.path.clone(), Wide::of(file)));
        files.filter(|(_, wide)| wide.len() > 0).collect()
    }

    fn dead(&self) -> Vec<citations::Dead> {
        citations::dead(&self.files, &paths::Paths::new(&self.paths, &self.files))
    }
}

/// Runs all guards on the tree at `root`, and fails with every breach of every one of them.
pub fn check(root: &Path) -> Result<()> {
    let texts = Texts::read(root)?;
    let mut breaches = unexpected_circles(&circles(root)?, &allowed::read(root, "circles.txt")?);
    breaches.extend(unexpected_width(&texts.wide(), &allowed::read(root, "wide.txt")?));
    let dead = texts.dead();
    breaches.extend(dead.iter().map(|d| format!("{}:{}: there is no `{}`", d.path, d.line, d.cited)));
    breaches.extend(health::missing(&texts.files));
    if breaches.is_empty() {
        return Ok(());
    }
    bail!("{}\n{} breaches; see CONTRIBUTING.md, \"Guards\"", breaches.join("\n"), breaches.len())
}

/// Circles that no entry (`crate file file …`) covers, and entries that cover none.
fn unexpected_circles(circles: &[Circle], entries: &[allowed::Entry]) -> Vec<String> {
    let covers = |entry: &allowed::Entry, circle: &Circle| {
        let listed: BTreeSet<_> = entry.words.iter().skip(1).collect();
        entry.words.first() == Some(&circle.package) && circle.files.iter().all(|f| listed.contains(f))
    };
    let new = circles.iter().filter(|circle| !entries.iter().any(|entry| covers(entry, circle)));
    let stale = entries.iter().filter(|entry| !circles.iter().any(|circle| covers(entry, circle)));
    let new = new.map(|c| format!("crates/{}: files in a circle: {}", c.package, c.files.join(" ")));
    new.chain(stale.map(|e| format!("allowed/circles.txt: no longer needed: {}", e.words.join(" "))))
        .collect()
}

/// Wide comments; wide code of files that no entry (paths of files) names; and entries that nothing needs.
fn unexpected_width(wide: &[(String, Wide)], entries: &[allowed::Entry]) -> Vec<String> {
    let names = |entry: &allowed::Entry, path: &str| entry.words.iter().any(|word| word == path);
    let mut out = Vec::new();
    for (path, wide) in wide {
        let is_listed = entries.iter().any(|entry| names(entry, path));
        let code = wide.code.iter().filter(|_| !is_listed);
        let lines = wide.comments.iter().chain(code);
        out.extend(lines.map(|line| format!("{path}:{line}: over {} columns", columns::COLUMNS)));
    }
    let needs = |word: &String| wide.iter().any(|(path, wide)| path == word && !wide.code.is_empty());
    let stale = entries.iter().filter(|entry| !entry.words.iter().all(needs));
    out.extend(stale.map(|e| format!("allowed/wide.txt: no longer needed: {}", e.words.join(" "))));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use allowed::Entry;

    fn entry(words: &[&str]) -> Entry {
        Entry { words: words.iter().map(|w| (*w).to_owned()).collect(), reason: "a reason".into() }
    }

    #[test]
    fn new_circles_and_stale_entries_are_breaches() {
        let circle = |files: &[&str]| Circle {
            package: "osd".into(),
            files: files.iter().map(|f| (*f).to_owned()).collect(),
        };
        let listed = [entry(&["osd", "a.rs", "b.rs", "c.rs"])];
        assert!(unexpected_circles(&[circle(&["a.rs", "c.rs"])], &listed).is_empty());
        assert_eq!(unexpected_circles(&[circle(&["a.rs", "d.rs"])], &listed).len(), 2);
        assert_eq!(
            unexpected_circles(&[circle(&["a.rs", "b.rs"])], &[entry(&["mds", "a.rs", "b.rs"])]).len(),
            2
        );
        assert_eq!(unexpected_circles(&[], &listed).len(), 1);
    }

    #[test]
    fn wide_lines_and_stale_entries_are_breaches() {
        let wide = |comments, code| [("crates/osd/src/a.rs".to_owned(), Wide { comments, code })];
        let listed = [entry(&["crates/osd/src/a.rs"])];
        assert!(unexpected_width(&wide(vec![], vec![3, 5]), &listed).is_empty());
        assert_eq!(unexpected_width(&wide(vec![4], vec![3]), &listed).len(), 1, "comments have no exception");
        assert_eq!(unexpected_width(&wide(vec![4], vec![]), &listed).len(), 2);
        assert_eq!(unexpected_width(&wide(vec![], vec![3, 5]), &[entry(&["crates/osd/"])]).len(), 3);
    }
}

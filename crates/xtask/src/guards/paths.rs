//! Everything that a citation may name: the files of a tree, and the numbered parts of its documents.

use super::tree::SourceFile;
use std::collections::BTreeSet;

/// Everything that can be cited.
pub struct Paths<'t> {
    paths: &'t [String],
    files: &'t [SourceFile],
    sections: BTreeSet<String>,
}

impl<'t> Paths<'t> {
    /// From all paths of the tree, and the texts of its `.rs` and `.md` files.
    pub fn new(paths: &'t [String], files: &'t [SourceFile]) -> Self {
        let mut sections = BTreeSet::new();
        let text = |path: &str| files.iter().find(|file| file.path == path).map_or("", |file| &file.text);
        // Sections are headings (`### 5.4 Operations`) or entries of a list (`- **7.1** …`).
        let numbered = |line: &&str| line.starts_with('#') || line.starts_with("- **");
        for line in text("docs/protocol.md").lines().filter(numbered) {
            let number = line.trim_start_matches(['#', ' ', '-', '*']).split([' ', '*']).next();
            sections.insert(format!("protocol {}", number.unwrap_or_default().trim_end_matches('.')));
        }
        for line in text("docs/design.md").lines() {
            if let Some((number, rest)) = line.trim_start_matches(['#', ' ']).split_once(". ")
                && number.chars().all(|c| c.is_ascii_digit())
                && (rest.starts_with("**") || line.starts_with('#'))
            {
                sections.insert(format!("decision {number}"));
            }
        }
        for path in paths.iter().filter_map(|path| path.strip_prefix("docs/adr/")) {
            sections.insert(format!("ADR {}", path.split('-').next().unwrap_or_default()));
        }
        Paths { paths, files, sections }
    }

    /// True if the section (`protocol 5.4`), decision (`decision 7`) or ADR (`ADR 0012`) exists.
    pub fn has_section(&self, section: &str) -> bool {
        self.sections.contains(section)
    }

    /// True if a link from `file` leads to a file or a folder.
    pub fn has_link(&self, file: &str, target: &str) -> bool {
        let mut at: Vec<&str> = file.split('/').collect();
        at.pop();
        for step in target.trim_end_matches('/').split('/') {
            match step {
                ".." => drop(at.pop()),
                "." => {}
                step => at.push(step),
            }
        }
        let target = at.join("/");
        self.paths.iter().any(|path| *path == target || path.starts_with(&format!("{target}/")))
    }

    /// True if `path` exists, seen from `file`.
    pub fn has(&self, file: &str, path: &str) -> bool {
        alternatives(path).iter().all(|path| !self.find(file, path).is_empty())
    }

    /// True if the contents of a pair of backticks, `path` or `path: name, name`, exist.
    pub fn has_span(&self, file: &str, span: &str) -> bool {
        let Some((path, names)) = span.split_once(':') else { return self.has(file, span) };
        let found = self.find(file, path);
        let texts = || found.iter().filter_map(|path| self.files.iter().find(|file| file.path == **path));
        let names = names.split([',', ':', ' ', '(', ')']).filter(|name| !name.is_empty());
        !found.is_empty() && names.into_iter().all(|name| texts().any(|file| defines(&file.text, name)))
    }

    fn find(&self, file: &str, cited: &str) -> Vec<&'t String> {
        let cited = cited.trim_end_matches('/');
        let inside = |path: &str| {
            let rooted = format!("/{path}");
            match cited.split_once('*') {
                Some((head, tail)) => {
                    let head = format!("/{head}");
                    rooted.ends_with(tail) && rooted.contains(&head)
                }
                None => rooted.ends_with(&format!("/{cited}")) || rooted.contains(&format!("/{cited}/")),
            }
        };
        let own = crate_of(file, self.paths).filter(|_| !cited.contains('/'));
        let near =
            |path: &&String| own.as_ref().is_none_or(|own| path.starts_with(own) || !path.contains('/'));
        self.paths.iter().filter(near).filter(|path| inside(path)).collect()
    }
}

/// The folder of the crate that a file belongs to, or that a page of docs/internals is about.
fn crate_of(file: &str, paths: &[String]) -> Option<String> {
    let name = match file.strip_prefix("crates/") {
        Some(rest) => rest.split('/').next()?,
        None => file.strip_prefix("docs/internals/")?.strip_suffix(".md")?,
    };
    let folder = format!("crates/{name}/");
    paths.iter().any(|path| path.starts_with(&folder)).then_some(folder)
}

/// Expands a group in braces: a, then b or c, gives two paths.
fn alternatives(path: &str) -> Vec<String> {
    match path.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?))) {
        Some((head, (inner, tail))) => inner.split(',').map(|part| format!("{head}{part}{tail}")).collect(),
        None => vec![path.to_owned()],
    }
}

/// True if the text defines an item, a method, a field or a variant of this name; numbers are lines.
fn defines(text: &str, name: &str) -> bool {
    const KINDS: [&str; 9] =
        ["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "macro_rules!"];
    if name.chars().all(|c| c.is_ascii_digit()) {
        return name.parse::<usize>().is_ok_and(|line| line <= text.lines().count());
    }
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].trim_end();
        ends(&text[at + name.len()..])
            && (KINDS.iter().any(|kind| before.ends_with(kind) && before.len() < at)
                || (text[..at].ends_with("    ") && text[at + name.len()..].starts_with([',', '(', ' '])))
    })
}

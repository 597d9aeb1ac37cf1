//! Every file that a comment or a document cites exists, as does the section, decision or function.
//!
//! The guard reads the comments of `.rs` files and all `.md` files. A citation is
//! - a Markdown link to a file,
//! - a path in backticks: `crates/osd/src/qos.rs`, `pg/info.rs` (the end of a path is enough), `docs/adr/`;
//!   a path with a folder may have any ending,
//! - a path, a colon and the name of a definition in that file,
//! - a bare `docs/…` or `crates/…` path with an ending,
//! - a section or decision: docs/protocol.md 5.4, docs/design.md, decision 7; ADR 0012, docs/adr/0012.
//!
//! A file name without a folder must lie in the crate that cites it, so that a moved file is noticed.
//! `lib.rs`, `main.rs` and `mod.rs` alone name no file.

use super::lexer;
use super::paths::Paths;
use super::tree::SourceFile;

/// A citation of something that is not there.
#[derive(Debug, PartialEq)]
pub struct Dead {
    /// The file that cites.
    pub path: String,
    /// Its line, from 1.
    pub line: usize,
    /// The citation.
    pub cited: String,
}

/// The dead citations of `files`, the texts of a tree whose files are all known to `paths`.
pub fn dead(files: &[SourceFile], paths: &Paths<'_>) -> Vec<Dead> {
    let mut out = Vec::new();
    for file in files {
        let markdown = file.path.ends_with(".md");
        let text = if markdown { without_fences(&file.text) } else { lexer::split(&file.text).comments };
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            // A citation may be broken between the file and the section.
            let next = lines.get(at + 1).map_or("", |next| next.trim_start_matches(['/', '!', ' ', '>']));
            let mut cited = Vec::new();
            if markdown {
                cited.extend(links(line).filter(|link| !paths.has_link(&file.path, link)));
            }
            cited.extend(in_backticks(line).filter(|span| !paths.has_span(&file.path, span)));
            cited.extend(bare_paths(line).filter(|path| !paths.has(&file.path, path)));
            cited.extend(sections(line, next).filter(|section| !paths.has_section(section)));
            out.extend(cited.into_iter().map(|cited| Dead { path: file.path.clone(), line: at + 1, cited }));
        }
    }
    out
}

/// Blanks fenced code blocks: what stands there are commands and examples.
fn without_fences(text: &str) -> String {
    let mut inside = false;
    let keep = |line: &str| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        if inside || fence { String::new() } else { line.to_owned() }
    };
    text.lines().map(keep).collect::<Vec<_>>().join("\n")
}

/// Targets of Markdown links to files, without anchors.
fn links(line: &str) -> impl Iterator<Item = String> + '_ {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', '#', ' ']).next().unwrap_or_default();
        (!target.is_empty() && !target.contains(':')).then(|| target.to_owned())
    })
}

fn in_backticks(line: &str) -> impl Iterator<Item = String> + '_ {
    line.split('`').skip(1).step_by(2).filter(|span| is_path(path_of(span))).map(str::to_owned)
}

/// The path of `path` or `path: name`.
fn path_of(span: &str) -> &str {
    span.split(':').next().unwrap_or_default()
}

fn is_path(word: &str) -> bool {
    let ordinary = |c: char| c.is_ascii_alphanumeric() || "_./-*{},".contains(c);
    let general = ["lib.rs", "main.rs", "mod.rs"].contains(&word) || word.contains("NNNN");
    if !word.chars().all(ordinary) || word.starts_with(['/', '*', '.', '{']) || general {
        return false;
    }
    let file = [".rs", ".md"].iter().any(|ending| word.ends_with(ending));
    let Some((folder, name)) = word.trim_end_matches('/').rsplit_once('/') else { return file };
    // What stands for any name: `tests/golden/NAME.txt`, `images/N.blocks`.
    let stands_for_any = |part: &str| {
        let stem = part.split('.').next().unwrap_or_default();
        !stem.is_empty() && stem.chars().all(|c| c.is_ascii_uppercase())
    };
    let has_ending = name.rsplit_once('.').is_some_and(|(stem, ending)| {
        !stem.is_empty() && ending.starts_with(|c: char| c.is_ascii_lowercase())
    });
    let ours = ["docs", "crates"].contains(&folder.split('/').next().unwrap_or_default());
    file || ((has_ending || ours || word.ends_with('/')) && !word.split('/').any(stands_for_any))
}

/// Paths of our own folders outside backticks, where they end like a file.
fn bare_paths(line: &str) -> impl Iterator<Item = String> + '_ {
    line.split('`').step_by(2).flat_map(|text| text.split([' ', '(', ')', '[', ']', '"'])).filter_map(
        |word| {
            let word =
                word.trim_end_matches(['.', ',', ';', ':', '!', '?']).split('#').next().unwrap_or_default();
            let ours = word.starts_with("docs/") || word.starts_with("crates/");
            (ours && word.contains('.') && is_path(word)).then(|| word.to_owned())
        },
    )
}

/// Sections, decisions and ADRs: `protocol 5.4`, `decision 7`, `ADR 0012`; and files that are no more.
fn sections(line: &str, next: &str) -> impl Iterator<Item = String> {
    let both = format!("{line} {next}");
    let mut out = Vec::new();
    for (at, _) in line.match_indices("docs/protocol.md") {
        let rest = both[at + "docs/protocol.md".len()..].trim_start_matches(['`', ',', ')', ' ']);
        out.extend(numbers(rest).map(|n| format!("protocol {n}")));
    }
    for (at, _) in line.match_indices("docs/design.md") {
        let rest = both[at + "docs/design.md".len()..].trim_start_matches(['`', ',', ')', ' ']);
        if let Some(rest) = rest.strip_prefix("decision") {
            out.extend(numbers(rest.trim_start_matches(['s', ' '])).map(|n| format!("decision {n}")));
        }
    }
    for (at, _) in line.match_indices("ADR ") {
        out.extend(numbers(&both[at + 4..]).map(|n| format!("ADR {n:0>4}")));
    }
    for (at, found) in line.match_indices("docs/adr/") {
        let rest = &line[at + found.len()..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits > 0 && !rest[digits..].starts_with('-') {
            out.push(format!("ADR {}", &rest[..digits]));
        }
    }
    for gone in ["PROTOCOL.md", "DESIGN"] {
        let whole = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "/_".contains(c));
        out.extend(line.match_indices(gone).filter(|(at, _)| whole(*at)).map(|_| gone.to_owned()));
    }
    out.into_iter()
}

/// The numbers that a text starts with: `5`, `3.3, 4 and 6.1`, `9 to 11`.
fn numbers(text: &str) -> impl Iterator<Item = String> {
    let mut out = Vec::new();
    for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
        let number = word.trim_end_matches(|c: char| !c.is_ascii_digit());
        match number.starts_with(|c: char| c.is_ascii_digit()) {
            true if number.chars().all(|c| c.is_ascii_digit() || c == '.') => out.push(number.to_owned()),
            false if matches!(word, "and" | "to" | "or") => continue,
            _ => break,
        }
        if word.ends_with([')', '.', ':', ';']) {
            break;
        }
    }
    out.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.into(), text: text.into() }
    }

    fn dead_in(path: &str, text: &str) -> Vec<String> {
        let files = [
            file("crates/osd/src/qos.rs", "pub struct Qos; fn admit() {}"),
            file("crates/osd/src/pg/log.rs", ""),
            file("crates/mds/src/rank.rs", ""),
            file("docs/protocol.md", "## 5. OSD\n### 5.4 Operations\n"),
            file("docs/design.md", "## Decisions\n7. **Time.** Text.\n"),
            file("docs/adr/0012-allocator.md", ""),
            file(path, text),
        ];
        let listed: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
        dead(&files, &Paths::new(&listed, &files)).into_iter().map(|dead| dead.cited).collect()
    }

    #[test]
    fn paths_in_backticks_exist() {
        let text =
            "//! `qos.rs`, `pg/log.rs`, `crates/osd/src/pg/`, `pg/{log,qos}.rs`, `pg/*.rs`, `Vec<u8>`.";
        assert_eq!(dead_in("crates/osd/src/a.rs", text), ["pg/{log,qos}.rs"]);
        assert_eq!(
            dead_in("crates/osd/src/a.rs", "// `rank.rs` is of another crate, `mds/src/rank.rs` named"),
            ["rank.rs"]
        );
        assert_eq!(
            dead_in("crates/osd/src/a.rs", "let a = \"`gone.rs`\"; // docs/gone.md."),
            ["docs/gone.md"]
        );
    }

    #[test]
    fn paths_with_a_folder_exist_whatever_their_ending() {
        let text = "`crates/osd/src/gone`, `pg/gone/`, `tests/gone.json`, `docs/adr`, `src/pg/`, `a/b`, \
                    `images/N.blocks`, `crates/NAME/`, `10.0.0.0/8`";
        assert_eq!(dead_in("docs/a.md", text), ["crates/osd/src/gone", "pg/gone/", "tests/gone.json"]);
    }

    #[test]
    fn cited_definitions_exist() {
        let text = "`qos.rs: admit`, `osd/src/qos.rs: Qos`, `qos.rs: Qos::admit, gone`";
        assert_eq!(dead_in("docs/internals/osd.md", text), ["qos.rs: Qos::admit, gone"]);
    }

    #[test]
    fn links_exist() {
        let text =
            "[a](protocol.md#x) [b](../README.md) [c](https://example.org) [d](#here)\n```\n[e](f)\n```";
        assert_eq!(dead_in("docs/a.md", text), ["../README.md"]);
    }

    #[test]
    fn sections_decisions_and_adrs_exist() {
        assert_eq!(
            dead_in("crates/osd/src/a.rs", "// (docs/protocol.md 5.4, 5.5); docs/protocol.md 5."),
            ["protocol 5.5"]
        );
        assert_eq!(
            dead_in("a.md", "docs/design.md, decisions 7 and 8; ADR 12, ADR 0013"),
            ["decision 8", "ADR 0013"]
        );
        assert_eq!(dead_in("a.md", "docs/adr/0012, (docs/adr/0013), `docs/adr/NNNN`"), ["ADR 0013"]);
        assert_eq!(dead_in("a.md", "as docs/protocol.md\n9.1 says"), ["protocol 9.1"]);
        assert_eq!(dead_in("a.md", "DESIGN, decision 7; PROTOCOL.md 5"), ["PROTOCOL.md", "DESIGN"]);
    }
}

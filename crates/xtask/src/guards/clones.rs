//! Counts `.clone()` in the files that an operation passes through.

use super::lexer::{self, Token};
use super::tree::{self, SourceFile};

/// The files of one operation's path.
pub struct Passed {
    /// The operation.
    pub name: &'static str,
    /// Files, and folders with `/`.
    paths: &'static [&'static str],
}

/// The paths that are followed. A file that is no more counts for nothing: put its successor here.
pub const PATHS: [Passed; 2] = [
    Passed {
        name: "osd: write",
        paths: &[
            "crates/osd/src/pg/client/",
            "crates/osd/src/pg/replicate.rs",
            "crates/osd/src/pg/local/growth.rs",
            "crates/osd/src/pg/replica.rs",
        ],
    },
    Passed {
        name: "mds: create",
        paths: &[
            "crates/mds/src/ops/draft.rs",
            "crates/mds/src/ops/make.rs",
            "crates/mds/src/ops/mod.rs",
            "crates/mds/src/ops/context.rs",
            "crates/mds/src/ops/open.rs",
            "crates/mds/src/cache/apply.rs",
            "crates/mds/src/cache/dir.rs",
            "crates/mds/src/cache/inode.rs",
            "crates/mds/src/rank/ops/run.rs",
            "crates/mds/src/rank/commit.rs",
            "crates/mds/src/rank/write_back/",
            "crates/mds/src/journal.rs",
        ],
    },
];

/// What was counted on one path.
pub struct Count {
    /// The operation.
    pub name: &'static str,
    /// Calls of `.clone()`, tests left out.
    pub clones: usize,
    /// The files that exist.
    pub files: Vec<String>,
}

/// Counts on one path, among the files of a tree.
pub fn count<'a>(passed: &Passed, files: impl Iterator<Item = &'a SourceFile>) -> Count {
    let is_passed = |path: &str| {
        let covers = |part: &str| path == part || (part.ends_with('/') && path.starts_with(part));
        passed.paths.iter().any(|part| covers(part)) && !tree::is_test(path)
    };
    let mut out = Count { name: passed.name, clones: 0, files: Vec::new() };
    for file in files.filter(|file| is_passed(&file.path)) {
        out.clones += clones(&file.text);
        out.files.push(file.path.clone());
    }
    out
}

/// Calls of `.clone()` before the tests at the end of a file.
fn clones(text: &str) -> usize {
    let code = lexer::split(text).code;
    let code = code.split("#[cfg(test)]").next().unwrap_or_default();
    let tokens: Vec<Token<'_>> = lexer::tokens(code).into_iter().map(|(_, token)| token).collect();
    let call = [Token::Punct(b'.'), Token::Word("clone"), Token::Punct(b'('), Token::Punct(b')')];
    tokens.windows(call.len()).filter(|window| *window == call).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_outside_of_comments_strings_and_tests_count() {
        let text = "fn f() { a.clone(); b\n  .clone().c(); Rc::clone(&d); \"x.clone()\" } // e.clone()\n\
                    #[cfg(test)] mod tests { fn t() { a.clone() } }";
        let file = |path: &str| SourceFile { path: path.into(), text: text.into() };
        let files = [file("a/b.rs"), file("a/b_tests.rs"), file("c.rs"), file("d.rs")];
        let counted = count(&Passed { name: "x", paths: &["a/", "c.rs"] }, files.iter());
        assert_eq!((counted.clones, counted.files.len()), (4, 2));
    }
}

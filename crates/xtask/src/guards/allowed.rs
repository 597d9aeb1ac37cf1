//! Lists of what a guard lets pass for the time being, one entry a line, each with its reason.
//!
//! The lists lie in `crates/xtask/allowed/`. An entry that nothing needs any more is an error too, so that a
//! list can only become shorter.

use anyhow::{Result, bail};
use std::path::Path;

/// One entry: `WORD WORD … # reason`.
#[derive(Debug, PartialEq)]
pub struct Entry {
    /// What is let pass.
    pub words: Vec<String>,
    /// The reason.
    pub reason: String,
}

/// Reads a list of the tree at `root`; a list that does not exist is empty.
pub fn read(root: &Path, name: &str) -> Result<Vec<Entry>> {
    parse(&std::fs::read_to_string(root.join("crates/xtask/allowed").join(name)).unwrap_or_default())
}

fn parse(text: &str) -> Result<Vec<Entry>> {
    let mut out = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let Some((words, reason)) = line.split_once(" # ") else { bail!("no reason after ` # `: {line}") };
        let words = words.split_whitespace().map(str::to_owned).collect();
        out.push(Entry { words, reason: reason.trim().to_owned() });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_needs_a_reason() {
        let entries = parse("# heading\n\nosd a.rs b.rs # they are one\n").unwrap();
        assert_eq!(
            entries,
            [Entry {
                words: ["osd", "a.rs", "b.rs"].map(str::to_owned).to_vec(),
                reason: "they are one".into()
            }]
        );
        assert!(parse("osd a.rs\n").is_err());
    }
}

//! What a cluster of Ceph gave, case by case, and what Nacre gives.
//!
//! A recording has one line a case, `name: result`, as a reference cluster gave it. Where Nacre differs, the
//! line behind it says so: `  nacre: RESULT -- REASON`. To record again, start a reference cluster with 3
//! OSDs and run the test with `NACRE_REFERENCE=/path/to/its/ceph.conf`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// A case's name and result.
pub type Case = (String, String);

/// Lines of `name: result`.
pub fn cases(printed: &str) -> Vec<Case> {
    let split = |line: &str| line.split_once(": ").map(|(a, b)| (a.to_owned(), b.to_owned()));
    printed.lines().map(|line| split(line).unwrap_or_else(|| panic!("no case: {line}"))).collect()
}

/// The reference cluster to record, if there is one.
pub fn reference() -> Option<PathBuf> {
    std::env::var_os("NACRE_REFERENCE").map(PathBuf::from)
}

/// The result of a case at the reference, and in Nacre if that differs.
struct Expected {
    name: String,
    reference: String,
    ours: Option<String>,
}

impl Expected {
    fn wanted(&self) -> &str {
        self.ours.as_deref().and_then(|o| o.split_once(" -- ")).map_or(self.reference.as_str(), |o| o.0)
    }
}

fn read(text: &str) -> Vec<Expected> {
    let mut out: Vec<Expected> = Vec::new();
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        if let Some(ours) = line.strip_prefix("  nacre: ") {
            assert!(ours.contains(" -- "), "a difference needs a reason: {line}");
            out.last_mut().expect("behind a case").ours = Some(ours.to_owned());
        } else {
            let (name, result) = line.split_once(": ").unwrap_or_else(|| panic!("no case: {line}"));
            out.push(Expected { name: name.to_owned(), reference: result.to_owned(), ours: None });
        }
    }
    out
}

/// Compares Nacre's results with a recording of at least `at_least` cases. Panics with every difference for
/// which the recording gives no reason.
pub fn compare(file: &Path, at_least: usize, results: Vec<Case>) {
    let expected = read(&std::fs::read_to_string(file).expect("the recording"));
    let results: BTreeMap<String, String> = results.into_iter().collect();
    let mut wrong = String::new();
    for case in &expected {
        let got = results.get(&case.name).map_or("nothing", String::as_str);
        if got != case.wanted() {
            let _ = writeln!(wrong, "{}: {got}\n  expected {}", case.name, case.wanted());
        }
        if case.ours.is_some() && case.wanted() == case.reference {
            let _ = writeln!(wrong, "{}: no difference any more", case.name);
        }
    }
    let names: BTreeSet<&String> = expected.iter().map(|case| &case.name).collect();
    for name in results.keys().filter(|name| !names.contains(name)) {
        let _ = writeln!(wrong, "{name}: not recorded");
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(expected.len() >= at_least, "{} cases", expected.len());
}

/// Nacre's differences as rows of the table in docs/operations.md.
pub fn differences(file: &Path) -> Vec<String> {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let cases = read(&std::fs::read_to_string(file).expect("the recording"));
    let row = |case: Expected| {
        let (ours, why) = case.ours.as_deref()?.split_once(" -- ")?;
        Some(format!("| `{name}` {} | `{}` | `{ours}` | {why} |", case.name, case.reference))
    };
    cases.into_iter().filter_map(row).collect()
}

/// Writes a recording again; its head and Nacre's differences stay.
pub fn record(file: &Path, results: Vec<Case>) {
    let before = std::fs::read_to_string(file).unwrap_or_default();
    let known: BTreeMap<String, Expected> =
        read(&before).into_iter().map(|case| (case.name.clone(), case)).collect();
    let head = before.lines().filter(|l| l.starts_with('#'));
    let mut out: String = head.map(|l| format!("{l}\n")).collect();
    for (name, result) in results {
        let _ = writeln!(out, "{name}: {result}");
        if let Some(ours) = known.get(&name).and_then(|case| case.ours.as_ref()) {
            let _ = writeln!(out, "  nacre: {ours}");
        }
    }
    std::fs::write(file, out).expect("writes");
}

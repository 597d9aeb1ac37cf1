//! Every health code has a test that raises it from its real cause, follows its advice and sees it go.
//!
//! The table in docs/health.md names the tests of each code of `crates/decl/src/health.rs`. A test counts if
//! it is one (`#[test]`), names the code as a literal, follows advice (`follows(`) and waits until the code
//! is gone (`sees_no`). The guard can't see whether the cause is real: that is for reviewers.

use super::tree::SourceFile;

/// The file that declares the codes.
const CODES: &str = "crates/decl/src/health.rs";
/// The file with the table.
const TABLE: &str = "docs/health.md";

/// What is missing, a line each.
pub fn missing(files: &[SourceFile]) -> Vec<String> {
    let text = |path: &str| files.iter().find(|file| file.path == path).map_or("", |file| file.text.as_str());
    let (codes, rows) = (declared(text(CODES)), rows(text(TABLE)));
    let mut out = Vec::new();
    for code in &codes {
        match rows.iter().filter(|row| row.code == *code).count() {
            1 => {}
            count => out.push(format!("{TABLE}: {code} has {count} rows instead of one")),
        }
    }
    for row in &rows {
        if !codes.contains(&row.code) {
            out.push(format!("{TABLE}: {} is no code of {CODES}", row.code));
        }
        if row.tests.is_empty() {
            out.push(format!("{TABLE}: {} names no test as `crates/…/file.rs: name`", row.code));
        }
        for (path, name) in &row.tests {
            let fault =
                body(text(path), name).map_or(Some("there is no such test"), |body| fault(&body, row.code));
            out.extend(fault.map(|fault| format!("{TABLE}: {}: {path}: {name}: {fault}", row.code)));
        }
    }
    out
}

/// The names of the codes: the first literal of the lines `Name = "NAME" Severity`.
fn declared(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| {
            let (_, rest) = line.trim().split_once(" = \"")?;
            let (code, rest) = rest.split_once('"')?;
            let is_code = code.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
            (is_code && ["Warn", "Error"].contains(&rest.trim())).then_some(code)
        })
        .collect()
}

struct Row<'a> {
    code: &'a str,
    tests: Vec<(&'a str, &'a str)>,
}

/// The rows of the table: the code in the first column, its tests in the last one.
fn rows(text: &str) -> Vec<Row<'_>> {
    text.lines()
        .filter_map(|line| {
            let code = line.strip_prefix("| `")?.split('`').next()?;
            let last = line.trim_end().trim_end_matches('|').rsplit(" | ").next()?;
            let spans = last.split('`').skip(1).step_by(2);
            Some(Row { code, tests: spans.filter_map(|span| span.split_once(": ")).collect() })
        })
        .collect()
}

/// The text of a test; `None` if the file has none of this name.
fn body(text: &str, name: &str) -> Option<String> {
    let at = text.find(&format!("\nfn {name}() {{"))?;
    let before: Vec<&str> = text[..at].lines().rev().take_while(|line| line.starts_with("#[")).collect();
    let is_test = before.contains(&"#[test]") && !before.iter().any(|line| line.starts_with("#[ignore"));
    let end = text[at..].find("\n}\n").unwrap_or(text.len() - at);
    is_test.then(|| text[at..at + end].to_owned())
}

fn fault(body: &str, code: &str) -> Option<&'static str> {
    if !body.contains(&format!("\"{code}\"")) {
        return Some("it does not name the code");
    }
    if !body.contains(".follows") {
        return Some("it does not follow its advice (`follows`)");
    }
    (!body.contains(".sees_no")).then_some("it does not see the code go (`sees_no`)")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &str =
        "codes! {\n    OsdDown = \"OSD_DOWN\" Warn\n        \"effect\"\n        \"advice\";\n}\n";
    const TEST: &str = "use a;\n\n#[test]\nfn it_is_back() {\n    op.sees(\"OSD_DOWN\");\n    \
                        op.follows(\"OSD_DOWN\", \"nacre\", &[]);\n    op.sees_no(\"OSD_DOWN\");\n}\n";

    fn missing_in(table: &str, test: &str) -> Vec<String> {
        let file = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
        missing(&[file(CODES, DECLARED), file(TABLE, table), file("crates/sim/tests/a.rs", test)])
    }

    #[test]
    fn a_code_needs_a_row_with_a_test_that_raises_and_clears_it() {
        let table = "| code | when | test |\n|---|---|---|\n\
                     | `OSD_DOWN` | it `is: down` | `crates/sim/tests/a.rs: it_is_back` |\n";
        assert_eq!(missing_in(table, TEST), [] as [String; 0]);
        for (from, to, fault) in [
            ("\"OSD_DOWN\"", "\"OSD_UP\"", "does not name"),
            (".follows", ".asks", "does not follow"),
            (".sees_no", ".waits", "does not see"),
            ("#[test]", "#[test]\n#[ignore = \"slow\"]", "no such test"),
            ("#[test]\n", "", "no such test"),
            ("it_is_back", "it_is_gone", "no such test"),
        ] {
            let missing = missing_in(table, &TEST.replace(from, to));
            assert!(matches!(&missing[..], [one] if one.contains(fault)), "{to}: {missing:?}");
        }
        assert_eq!(missing_in("", TEST).len(), 1);
        assert_eq!(
            missing_in(&table.replace("OSD_DOWN", "OSD_UP"), TEST).len(),
            3,
            "and no row, and no code"
        );
        assert_eq!(missing_in(&table.replace("crates/sim/tests/a.rs: ", ""), TEST).len(), 1);
    }
}

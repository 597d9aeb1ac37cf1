//! One finding of a health check.

use decl::Code;

/// A finding of a health check.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Check {
    /// Its health code.
    pub code: Code,
    /// Summary in one line.
    pub summary: String,
    /// Number of affected items.
    pub count: usize,
    /// A line each.
    pub detail: Vec<String>,
}

/// Maximum lines of detail for each check of PGs.
const MAX_DETAIL: usize = 50;

pub(crate) fn push_pgs(out: &mut Vec<Check>, code: Code, summary: String, mut detail: Vec<String>) {
    let count = detail.len();
    if count > MAX_DETAIL {
        detail.truncate(MAX_DETAIL);
        detail.push(format!("and {} more", count - MAX_DETAIL));
    }
    out.push(Check { code, summary, count, detail });
}

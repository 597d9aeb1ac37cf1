//! Results as tables for people.

use super::args::BenchArgs;
use super::summary::{CACHES, Measured};
use comfy_table::{CellAlignment, Table, presets};

/// A table of results, and how they were measured.
pub(super) fn results(args: &BenchArgs, file_system: &str, results: &[Measured]) -> String {
    let header = ["", "", "median", "min..max", "", "p50 ms", "p99 ms", "p99.9 ms"];
    let mut shape = "";
    let rows = results.iter().map(|m| {
        let first = if shape == m.shape.name() { "" } else { m.shape.name() };
        shape = m.shape.name();
        let ms = |part| format!("{:.3}", m.percentile_us(part) / 1e3);
        let spread = format!("{}..{}", number(m.min()), number(m.max()));
        let (name, unit) = (m.name.clone(), m.unit.name().to_owned());
        vec![first.to_owned(), name, number(m.median()), spread, unit, ms(0.5), ms(0.99), ms(0.999)]
    });
    let table = table(&header, rows);
    format!(
        "{} ({file_system}), {} threads, {} rounds, seed {}\n{table}\n{CACHES}\n",
        args.dir.display(),
        args.threads,
        args.rounds,
        args.seed
    )
}

/// A table whose first two columns are text and the others numbers.
pub(super) fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header.iter().copied()).add_rows(rows);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Three digits at least, and no more than are of use.
pub(super) fn number(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

//! Results as a bar chart: one chart for each unit, a bar for each median, a line from the slowest round to
//! the fastest.

use super::round::Unit;
use super::summary::Measured;
use super::table::number;
use std::fmt::Write;

/// Pixels.
const WIDTH: f64 = 960.0;
const LABELS: f64 = 360.0;
const VALUES: f64 = 110.0;
const ROW: f64 = 20.0;
const TITLE: f64 = 34.0;

/// An SVG image of results; `title` is its heading.
pub(super) fn chart(title: &str, results: &[Measured]) -> String {
    let mut body = String::new();
    let mut y = TITLE;
    text(&mut body, (10.0, 22.0), "start", title, 15);
    for unit in [Unit::Bytes, Unit::Operations] {
        let rows: Vec<&Measured> = results.iter().filter(|m| m.unit == unit).collect();
        if rows.is_empty() {
            continue;
        }
        text(&mut body, (LABELS, y + 22.0), "start", unit.name(), 13);
        y += TITLE;
        let most = rows.iter().map(|m| m.max()).fold(f64::MIN_POSITIVE, f64::max);
        for row in rows {
            bar(&mut body, y, row, (WIDTH - LABELS - VALUES) / most);
            y += ROW;
        }
    }
    let height = y + 10.0;
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

/// A bar with its name and value; `scale` is pixels for each unit.
fn bar(out: &mut String, y: f64, row: &Measured, scale: f64) {
    let (middle, width) = (y + ROW / 2.0, row.median() * scale);
    text(out, (LABELS - 8.0, middle + 4.0), "end", &format!("{}: {}", row.shape.name(), row.name), 12);
    let (top, height) = (y + 3.0, ROW - 6.0);
    let (from, to) = (LABELS + row.min() * scale, LABELS + row.max() * scale);
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "<rect x=\"{LABELS}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"#4c78a8\"/>\n\
         <line x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\" stroke=\"#222222\" \
         stroke-width=\"1.5\"/>"
    );
    text(out, (to.max(LABELS + width) + 6.0, middle + 4.0), "start", &number(row.median()), 12);
}

fn text(out: &mut String, (x, y): (f64, f64), anchor: &str, text: &str, size: u32) {
    let text = escaped(text);
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\">{text}</text>"
    );
}

/// Text as XML has it: no markup, and no characters that XML forbids.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

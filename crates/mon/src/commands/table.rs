//! Tables in text: columns as wide as their widest cell, two spaces between.

/// Alignment of a cell's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// To the left.
    L,
    /// To the right.
    R,
}

/// A table being filled.
pub struct Table {
    columns: Vec<(String, Align, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Columns: heading, where it stands, where its cells stand.
    pub fn new(columns: &[(&str, Align, Align)]) -> Self {
        Self {
            columns: columns.iter().map(|(h, a, b)| ((*h).to_owned(), *a, *b)).collect(),
            rows: Vec::new(),
        }
    }

    /// Appends a row.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// The text, a newline after each row.
    pub fn render(&self) -> String {
        let width = |i: usize| {
            let cells = self.rows.iter().map(|r| r[i].chars().count());
            cells.chain([self.columns[i].0.chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut out = String::new();
        let headings = self.columns.iter().map(|(h, align, _)| (h, *align)).collect();
        line(&mut out, headings, &widths);
        for row in &self.rows {
            line(&mut out, row.iter().zip(&self.columns).map(|(c, (_, _, a))| (c, *a)).collect(), &widths);
        }
        out
    }
}

fn line(out: &mut String, cells: Vec<(&String, Align)>, widths: &[usize]) {
    let cells: Vec<String> = cells
        .into_iter()
        .zip(widths)
        .map(|((text, align), width)| match align {
            Align::L => format!("{text:<width$}"),
            Align::R => format!("{text:>width$}"),
        })
        .collect();
    out.push_str(&cells.join("  "));
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_needed() {
        let mut t = Table::new(&[("ID", Align::L, Align::R), ("NAME", Align::L, Align::L)]);
        t.row(vec!["-1".into(), "default".into()]);
        t.row(vec!["100".into(), "x".into()]);
        assert_eq!(t.render(), "ID   NAME   \n -1  default\n100  x      \n");
    }
}

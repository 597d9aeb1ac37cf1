//! Prometheus' text format, version 0.0.4.

use std::collections::BTreeSet;
use std::fmt::Write;

/// The `Content-Type` of the text.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text being written.
#[derive(Default)]
pub(crate) struct Exposition {
    out: String,
    names: BTreeSet<String>,
}

/// The samples of one metric. Its head is written with the first of them.
pub(crate) struct Family<'a> {
    out: &'a mut String,
    name: &'a str,
    head: Option<String>,
    seen: BTreeSet<String>,
}

impl Exposition {
    /// Begins a metric: `gauge`, `counter` or `untyped`. Each name comes once.
    pub fn family<'a>(&'a mut self, name: &'a str, kind: &str, help: &str) -> Family<'a> {
        assert!(self.names.insert(name.to_owned()), "{name} comes twice");
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let head = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Family { out: &mut self.out, name, head: Some(head), seen: BTreeSet::new() }
    }

    /// A metric with one sample and no labels.
    pub fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.family(name, kind, help).add(&[], value);
    }

    /// The whole text.
    pub fn finish(self) -> String {
        self.out
    }
}

impl Family<'_> {
    /// Adds a sample. A second one with the same labels is left out: the reader would refuse all.
    pub fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        let mut text = String::new();
        for (i, (name, value)) in labels.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(text, "{comma}{name}=\"{value}\"");
        }
        if let Some(head) = self.head.take() {
            self.out.push_str(&head);
        }
        let labels = if text.is_empty() { String::new() } else { format!("{{{text}}}") };
        if self.seen.insert(text) {
            let value = match value {
                v if v.is_nan() => "NaN".to_owned(),
                v if v.is_infinite() => if v > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
                // The sum of nothing is -0.
                v => (v + 0.0).to_string(),
            };
            let _ = writeln!(self.out, "{}{labels} {value}", self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_samples_are_not_repeated() {
        let mut all = Exposition::default();
        let mut family = all.family("ceph_x", "gauge", "a\nb");
        family.add(&[("name", "q\"\\\n"), ("id", "1")], 1.5);
        family.add(&[("name", "q\"\\\n"), ("id", "1")], 2.0);
        family.add(&[], f64::NAN);
        all.family("ceph_empty", "gauge", "nothing");
        all.one("ceph_y", "counter", "y", 12_345_678_901_234.0);
        assert_eq!(
            all.finish(),
            "# HELP ceph_x a\\nb\n# TYPE ceph_x gauge\nceph_x{name=\"q\\\"\\\\\\n\",id=\"1\"} 1.5\n\
             ceph_x NaN\n\
             # HELP ceph_y y\n# TYPE ceph_y counter\nceph_y 12345678901234\n"
        );
    }
}

//! `nacre fs compare`: two results side by side.

use super::super::terminal::Format;
use super::args::CompareArgs;
use super::table::{number, table};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

pub(super) fn run(args: &CompareArgs) -> Result<()> {
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let pairs = pairs(&before, &after)?;
    let mut out = std::io::stdout();
    if args.format == Format::Json {
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&pairs)?)?);
    }
    for key in ["threads", "files", "size", "ops", "seed"].into_iter().filter(|key| before[key] != after[key])
    {
        writeln!(out, "not the same load: {key} {} and {}", before[key], after[key])?;
    }
    let rows = pairs.iter().map(|pair| {
        let text = |key: &str| pair[key].as_str().unwrap_or_default().to_owned();
        let rate = |key: &str| pair[key].as_f64().map_or_else(String::new, number);
        let ratio = pair["ratio"].as_f64().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        let apart = if pair["ranges_overlap"] == false { "apart" } else { "" };
        vec![
            text("shape"),
            text("name"),
            rate("before"),
            rate("after"),
            text("unit"),
            ratio,
            apart.to_owned(),
        ]
    });
    let header = ["", "", "before", "after", "", "ratio", "ranges"];
    Ok(writeln!(out, "{}", table(&header, rows))?)
}

fn read(path: &Path) -> Result<Value> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let value: Value =
        serde_json::from_slice(&text).with_context(|| format!("{} is no JSON", path.display()))?;
    if !value["results"].is_array() {
        bail!("{} is no result of `nacre fs bench --format json`", path.display());
    }
    Ok(value)
}

/// What both have measured: medians and their ratio, above 1 where `after` is faster.
fn pairs(before: &Value, after: &Value) -> Result<Vec<Value>> {
    let list = |value: &Value| value["results"].as_array().cloned().unwrap_or_default();
    let olds = list(before);
    let mut out = Vec::new();
    for new in list(after) {
        let Some(old) = olds.iter().find(|old| ["shape", "name"].iter().all(|k| old[k] == new[k])) else {
            continue;
        };
        let rate = |value: &Value, key: &str| value[key].as_f64();
        let (Some(was), Some(is)) = (rate(old, "median"), rate(&new, "median")) else {
            bail!("{} {} has no median", new["shape"], new["name"]);
        };
        let overlap = rate(old, "min") <= rate(&new, "max") && rate(&new, "min") <= rate(old, "max");
        out.push(json!({
            "shape": new["shape"],
            "name": new["name"],
            "unit": new["unit"],
            "before": was,
            "after": is,
            "ratio": (was > 0.0).then(|| is / was),
            "ranges_overlap": overlap,
        }));
    }
    if out.is_empty() {
        bail!("the two have measured nothing in common");
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(name: &str, median: f64, min: f64, max: f64) -> Value {
        json!({ "shape": "fio", "name": name, "unit": "MiB/s", "median": median, "min": min, "max": max })
    }

    #[test]
    fn what_both_have_is_compared() {
        let before = json!({ "results": [result("a", 2.0, 1.0, 3.0), result("b", 2.0, 1.0, 3.0)] });
        let news = [("c", 1.0, 1.0, 1.0), ("b", 5.0, 4.0, 6.0), ("a", 3.0, 3.0, 9.0)];
        let news = news.map(|(name, median, min, max)| result(name, median, min, max));
        let after = json!({ "results": news });
        let found = pairs(&before, &after).expect("in common");
        let short: Vec<_> = found
            .iter()
            .map(|p| (p["name"].clone(), p["ratio"].clone(), p["ranges_overlap"].clone()))
            .collect();
        assert_eq!(short, [(json!("b"), json!(2.5), json!(false)), (json!("a"), json!(1.5), json!(true))]);
        assert!(pairs(&json!({ "results": [] }), &after).is_err(), "nothing in common");
        assert!(pairs(&json!({ "results": [{ "shape": "fio", "name": "a" }] }), &after).is_err());
    }
}

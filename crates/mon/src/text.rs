//! Numbers, addresses and JSON as Ceph prints them.

use serde_json::{Value, json};
use wire::{AddrVec, EntityAddr, Utime};

/// JSON indented by four spaces, with a newline at its end.
pub fn pretty(json: &Value) -> String {
    let mut out = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
    serde::Serialize::serialize(json, &mut serializer).expect("memory does not fail");
    out.push(b'\n');
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// Prints a number without a fraction if it has none: `1`, not `1.0`.
pub fn number(x: f64) -> Value {
    if x.fract() == 0.0 && x.abs() < 9e15 { Value::from(x as i64) } else { Value::from(x) }
}

/// Bytes with a unit of 1024 and at most three characters of number: `871 MiB`, `2.3 KiB`.
pub fn bytes(n: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (text, unit) = scaled(n, 1024, units.len());
    format!("{text} {}", units[unit])
}

/// A count with a unit of 1000: `12k`.
pub fn count(n: u64) -> String {
    let units = ["", "k", "M", "G", "T", "P", "E"];
    let (text, unit) = scaled(n, 1000, units.len());
    format!("{text}{}", units[unit])
}

fn scaled(n: u64, base: u64, units: usize) -> (String, usize) {
    let mut unit = 0;
    let mut divisor = 1u64;
    while n / divisor >= base && unit + 1 < units {
        divisor *= base;
        unit += 1;
    }
    if n.is_multiple_of(divisor) {
        return ((n / divisor).to_string(), unit);
    }
    let value = n as f64 / divisor as f64;
    let fits = |precision: &usize| format!("{value:.precision$}").len() <= 3;
    let precision = (0..=2).rev().find(fits).unwrap_or(0);
    (format!("{value:.precision$}"), unit)
}

/// Percent of a whole with two decimals, 0 of nothing.
pub fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

/// A decimal number as Ceph's streams print it: six significant digits, no trailing zeros.
pub fn float(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return "0".into();
    }
    let digits = (5 - x.abs().log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{x:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A duration in the coarse form of `status`: `29s`, `3m`, `2h`, `5d`.
pub fn age(secs: u64) -> String {
    match secs {
        0..120 => format!("{secs}s"),
        120..7200 => format!("{}m", secs / 60),
        7200..172_800 => format!("{}h", secs / 3600),
        172_800..1_209_600 => format!("{}d", secs / 86_400),
        _ => format!("{}w", secs / 604_800),
    }
}

/// An address vector in JSON.
pub fn addrvec(addrs: &AddrVec) -> Value {
    let one = |a: &EntityAddr| {
        let kind = match a.ty {
            wire::AddrType::NONE => "none",
            wire::AddrType::LEGACY => "v1",
            wire::AddrType::MSGR2 => "v2",
            _ => "any",
        };
        let addr = a.addr.map_or_else(|| "(unrecognized address family 0)".to_owned(), |s| s.to_string());
        json!({ "type": kind, "addr": addr, "nonce": a.nonce })
    };
    json!({ "addrvec": addrs.0.iter().map(one).collect::<Vec<_>>() })
}

/// The single address that Ceph prints for an address list.
pub fn legacy_addr(addrs: &AddrVec) -> String {
    addrs.0.last().map_or_else(|| ":/0".into(), EntityAddr::legacy_string)
}

/// An address vector as text, always in brackets as Ceph prints those of daemons.
pub fn addrs(addrs: &AddrVec) -> String {
    let list: Vec<String> = addrs.0.iter().map(ToString::to_string).collect();
    format!("[{}]", list.join(","))
}

/// A stamp with `Z`, as monitors' maps print it.
pub fn stamp_z(stamp: Utime) -> String {
    stamp.iso8601().replace("+0000", "Z")
}

/// OSD numbers as `[0,1,2]`; holes as Ceph prints them.
pub fn osds(list: &[maps::OsdId]) -> String {
    let names: Vec<String> =
        list.iter().map(|o| if o.is_some() { o.to_string() } else { "NONE".to_owned() }).collect();
    format!("[{}]", names.join(","))
}

/// A count with its noun.
pub(crate) fn plural(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// A text of at most `max` bytes.
pub(crate) fn cut(mut text: String, max: usize) -> String {
    if text.len() > max {
        let end = (0..=max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

/// The version as `ceph version` prints it and daemons report it.
pub fn version() -> String {
    version_of(env!("CARGO_PKG_VERSION"))
}

/// The same of another version.
pub fn version_of(version: &str) -> String {
    format!("nacre version {version}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_look_as_in_ceph() {
        let expect = [(0, "0 B"), (2306, "2.3 KiB"), (913_244_160, "871 MiB"), (64_424_509_440, "60 GiB")];
        for (n, text) in expect {
            assert_eq!(bytes(n), text);
        }
        assert_eq!(bytes(1_000_000), "977 KiB");
        assert_eq!(bytes(63_511_265_280), "59 GiB");
        assert_eq!((count(22), count(12_340), count(1000)), ("22".into(), "12k".into(), "1k".into()));
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("abc".into(), 3), "abc");
        assert_eq!(cut("aäb".into(), 2), "a");
    }

    #[test]
    fn floats_have_six_digits_at_most() {
        assert_eq!(float(0.95), "0.95");
        assert_eq!(float(10.3602), "10.3602");
        assert_eq!(float(f64::from(0.85f32)), "0.85");
        assert_eq!(float(0.0), "0");
        assert_eq!(number(1.0).to_string(), "1");
        assert_eq!(number(0.5).to_string(), "0.5");
    }

    #[test]
    fn pretty_json_is_indented_by_four() {
        assert_eq!(pretty(&json!({"a": 1})), "{\n    \"a\": 1\n}\n");
    }
}

//! The form of output: JSON and times as Ceph's Python modules print them.

use serde::Serialize as _;
use serde_json::{Map, Value};
use stdx::Wall;
use wire::Utime;

/// JSON in lines indented by four, keys in order.
pub(crate) fn json(value: &Value) -> String {
    let mut out = Vec::new();
    let form = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, form);
    match sorted(value).serialize(&mut serializer) {
        Ok(()) => String::from_utf8(out).unwrap_or_default(),
        Err(_) => value.to_string(),
    }
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            Value::Object(keys.into_iter().map(|key| (key.clone(), sorted(&map[key]))).collect::<Map<_, _>>())
        }
        Value::Array(list) => list.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// A list of names, each an object.
pub(crate) fn names(names: impl IntoIterator<Item = String>) -> String {
    let list: Value = names.into_iter().map(|name| serde_json::json!({ "name": name })).collect();
    json(&list)
}

/// `2026-11-26 10:48:41`, in UTC.
pub(crate) fn time(at: Wall) -> String {
    let (sec, _) = at.split();
    let text = Utime { sec: u32::try_from(sec).unwrap_or(u32::MAX), nsec: 0 }.iso8601();
    text[..19].replace('T', " ")
}

/// The same with microseconds, of the text `SECONDS.NANOSECONDS` of an xattr.
pub(crate) fn time_of_xattr(text: &str) -> String {
    let (sec, nsec) = text.split_once('.').unwrap_or((text, "0"));
    let (sec, nsec): (u32, u32) = (sec.parse().unwrap_or(0), nsec.parse().unwrap_or(0));
    Utime { sec, nsec }.iso8601()[..26].replace('T', " ")
}

/// Used bytes in percent of a quota.
pub(crate) fn percent(used: u64, quota: Option<u64>) -> String {
    quota.map_or("undefined".to_owned(), |quota| format!("{:.2}", used as f64 * 100.0 / quota as f64))
}

/// A number of bytes in at most five characters and a unit.
pub(crate) fn bytes(n: u64) -> String {
    let units = [" ", "k", "M", "G", "T", "P", "E"];
    let (mut value, mut unit) = (n as f64, 0);
    while value >= 1000.0 && unit + 1 < units.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    match unit {
        0 => n.to_string(),
        _ => format!("{value:.2}{}i", units[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json as value;

    #[test]
    fn prints_as_python_does() {
        let found = json(&value!({ "b": [{ "z": 1, "a": "x" }], "a": {}, "c": [] }));
        let lines = [
            "{",
            "    \"a\": {},",
            "    \"b\": [",
            "        {",
            "            \"a\": \"x\",",
            "            \"z\": 1",
            "        }",
            "    ],",
            "    \"c\": []",
            "}",
        ];
        assert_eq!(found, lines.join("\n"));
        assert_eq!(names(Vec::new()), "[]");
        assert_eq!(time(Wall(1_700_000_000_123_456_789)), "2023-11-14 22:13:20");
        assert_eq!(time_of_xattr("1700000000.123456789"), "2023-11-14 22:13:20.123456");
    }
}

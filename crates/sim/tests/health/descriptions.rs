//! Command lines as Ceph's clients read them: by the descriptions that a daemon gives of its commands.

use serde_json::{Map, Value};

/// The JSON of the command that `words` are, by the answer to `get_command_descriptions`.
pub fn read(descriptions: &Value, words: &[&str]) -> Option<Value> {
    let all = descriptions.as_object()?.values();
    // The one with the longest prefix, as `osd pool set` beside `osd pool set threshold`.
    let literals = |sig: &[Value]| sig.iter().filter(|word| word.is_string()).count();
    let read = all.filter_map(|one| {
        let sig = one["sig"].as_array()?;
        Some((literals(sig), read_one(sig, words)?))
    });
    read.max_by_key(|(literals, _)| *literals).map(|(_, command)| command)
}

fn read_one(sig: &[Value], words: &[&str]) -> Option<Value> {
    let (flags, words): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with("--"));
    let mut named: Map<String, Value> = flags.iter().map(|flag| named(flag)).collect();
    let (mut out, mut prefix, mut words) = (Map::new(), Vec::new(), words.into_iter().peekable());
    for part in sig {
        if let Some(literal) = part.as_str() {
            prefix.push(words.next_if_eq(&literal)?);
            continue;
        }
        let name = part["name"].as_str()?;
        let is_optional = part["req"] == "false" || part["req"] == false;
        if let Some(given) = named.remove(name) {
            out.insert(name.to_owned(), given);
        } else if part["n"] == "N" {
            let list: Option<Vec<Value>> = words.by_ref().map(|word| value(part, word)).collect();
            out.insert(name.to_owned(), list?.into());
        } else if let Some(given) = words.peek().and_then(|word| value(part, word)) {
            words.next();
            out.insert(name.to_owned(), given);
        } else if !is_optional && part["type"] != "CephBool" {
            return None;
        }
    }
    out.extend(named.remove("format").map(|format| ("format".to_owned(), format)));
    out.insert("prefix".to_owned(), prefix.join(" ").into());
    (words.next().is_none() && named.is_empty()).then_some(Value::Object(out))
}

/// `--name=value`, or `--name` for a flag.
fn named(flag: &str) -> (String, Value) {
    let (name, value) = flag[2..].split_once('=').map_or((&flag[2..], true.into()), |(n, v)| (n, v.into()));
    (name.replace('-', "_"), value)
}

fn value(part: &Value, word: &str) -> Option<Value> {
    match part["type"].as_str()? {
        "CephBool" => None,
        "CephInt" => word.parse::<i64>().ok().map(Value::from),
        "CephFloat" => word.parse::<f64>().ok().map(Value::from),
        "CephChoices" => part["strings"].as_str()?.split('|').any(|s| s == word).then(|| word.into()),
        _ => Some(word.into()),
    }
}

//! Keyring files: `[entity]` sections with `key` and `caps SERVICE` lines.

use crate::{AuthError, Key};
use std::collections::BTreeMap;
use std::fmt;
use wire::EntityName;

/// One section.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyringEntry {
    /// The secret.
    pub key: Key,
    /// Capability strings by service (`mon`, `osd`, `mds`, `mgr`).
    pub caps: BTreeMap<String, String>,
}

/// The entities of a keyring file. Displays as the file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Keyring(pub BTreeMap<EntityName, KeyringEntry>);

impl Keyring {
    /// Parses a file. Keys and values that are not known (`auid`) are skipped.
    pub fn parse(text: &str) -> Result<Self, AuthError> {
        let mut out = Self::default();
        let mut section: Option<EntityName> = None;
        for (i, line) in text.lines().enumerate() {
            let fail = |what: String| AuthError::Keyring { line: i + 1, what };
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                let name = EntityName::parse(name.trim()).ok_or_else(|| {
                    fail(format!("`{name}` is no entity; expected TYPE.ID such as client.admin"))
                })?;
                out.0.entry(name.clone()).or_default();
                section = Some(name);
                continue;
            }
            let Some((field, value)) = line.split_once('=') else {
                return Err(fail("expected [entity] or name = value".into()));
            };
            let entry = section.as_ref().and_then(|s| out.0.get_mut(s));
            let entry = entry.ok_or_else(|| fail("a value before the first [entity]".into()))?;
            let value = unquote(value);
            match field.split_whitespace().collect::<Vec<_>>()[..] {
                ["key"] => entry.key = Key::from_base64(&value).map_err(|e| fail(e.to_string()))?,
                ["caps", service] => {
                    entry.caps.insert(service.to_owned(), value);
                }
                _ => {}
            }
        }
        Ok(out)
    }

    /// The key of `name`.
    pub fn key(&self, name: &EntityName) -> Option<&Key> {
        self.0.get(name).map(|e| &e.key).filter(|k| !k.is_none())
    }
}

/// The text between double quotes, `\"` and `\\` undone; unquoted, the text up to a comment.
fn unquote(value: &str) -> String {
    let value = value.trim();
    let Some(inner) = value.strip_prefix('"') else {
        return value.split(['#', ';']).next().unwrap_or_default().trim().to_owned();
    };
    let (mut out, mut chars) = (String::new(), inner.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            '"' => break,
            c => out.push(c),
        }
    }
    out
}

impl fmt::Display for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, entry) in &self.0 {
            writeln!(f, "[{name}]\n\tkey = {}", entry.key.to_base64())?;
            for (service, caps) in &entry.caps {
                let caps = caps.replace('\\', "\\\\").replace('"', "\\\"");
                writeln!(f, "\tcaps {service} = \"{caps}\"")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[mon.]\n\tkey = AQCZdYhnAAAAABAAAQIDBAUGBwgJCgsMDQ4PEA==\n\tcaps mon = \"allow *\"\n\
        [client.admin]\n\tkey = AQCZdYhnAAAAABAAAQIDBAUGBwgJCgsMDQ4PEA==\n\tcaps mds = \"allow *\"\n\tcaps osd = \"allow rw pool=a\"\n\
        \tcaps mon = \"allow command \\\"osd dump\\\"\" ; end\n";

    #[test]
    fn prints_what_it_parsed() {
        let ring = Keyring::parse(FILE).expect("parses");
        assert_eq!(ring.0.len(), 2);
        assert_eq!(ring.0[&EntityName::parse("client.admin").expect("name")].caps["osd"], "allow rw pool=a");
        assert_eq!(
            ring.0[&EntityName::parse("client.admin").expect("name")].caps["mon"],
            "allow command \"osd dump\""
        );
        let mut sorted = Keyring::parse(&ring.to_string()).expect("parses");
        assert_eq!(sorted, ring);
        sorted.0.pop_first();
        assert_ne!(sorted, ring);
    }

    #[test]
    fn keys_of_type_2_round_trip_and_unknown_types_are_named() {
        let key = "AgC/ZQxrrdByISAAuUtY5jSCHyOMAbXV6zHFKFs3EQGL6l0ZeJEp9qMbuc4=";
        let ring = Keyring::parse(&format!("[client.admin]\n\tkey = {key}\n")).expect("parses");
        assert_eq!(ring.to_string(), format!("[client.admin]\n\tkey = {key}\n"));
        let text = format!("[client.admin]\n\tkey = {}\n", key.replacen("Ag", "Aw", 1));
        let error = Keyring::parse(&text).expect_err("no such type").to_string();
        assert!(
            error.starts_with("keyring, line 2: unusable key: a key of type 3 with 32 bytes;"),
            "{error}"
        );
    }

    #[test]
    fn says_which_line_is_wrong() {
        for (text, line) in
            [("\nkey = x", 2), ("[client.a]\nkey = zz!", 2), ("[nobody]", 1), ("[client.a]\nfoo", 2)]
        {
            assert!(
                matches!(Keyring::parse(text), Err(AuthError::Keyring { line: l, .. }) if l == line),
                "{text}"
            );
        }
        assert!(Keyring::parse("# note\n[client.a]\n auid = 0 ; old\n").is_ok());
    }
}

//! The answer to `get_command_descriptions`: what clients validate a command line with before they send it.

use crate::commands::{Cmd, Command};
use crate::sig::{Kind, Param, Word, parse, prefix};
use serde_json::{Map, Value, json};

/// Flag of a command that clients hide from their help.
const FLAG_HIDDEN: u32 = 4;

/// All commands as one JSON object.
pub fn descriptions() -> Value {
    let mut out = Map::new();
    for (i, cmd) in Cmd::ALL.iter().enumerate() {
        out.insert(format!("cmd{i:03}"), describe(cmd.decl()));
    }
    Value::Object(out)
}

/// Commands of a daemon itself (admin socket, `ceph tell`): signatures in the notation of [`crate::sig`], and
/// help. After the monitors' own table where `with_table`, as far as that has no command of the same name.
pub fn local_descriptions(commands: &[(&'static str, &str)], module: &str, with_table: bool) -> Value {
    let mut out = Map::new();
    let own: Vec<String> = commands.iter().map(|(signature, _)| prefix(signature)).collect();
    for cmd in Cmd::ALL.iter().filter(|c| with_table && !own.contains(&c.prefix())) {
        out.insert(format!("cmd{:03}", out.len()), describe(cmd.decl()));
    }
    for (signature, help) in commands {
        let signature = signature_json(signature);
        let one = json!({ "sig": signature, "help": help, "module": module, "perm": "r", "flags": 0 });
        out.insert(format!("cmd{:03}", out.len()), one);
    }
    Value::Object(out)
}

/// The same commands by prefix, with help alone: what `help` on an admin socket shows.
pub fn local_help(commands: &[(&'static str, &str)]) -> Value {
    commands.iter().map(|(signature, help)| (prefix(signature), Value::from(*help))).collect()
}

fn signature_json(signature: &'static str) -> Vec<Value> {
    let word = |word| match word {
        Word::Literal(text) => Value::from(text),
        Word::Param(param) => describe_param(&param),
    };
    parse(signature).into_iter().map(word).collect()
}

fn describe(command: &Command) -> Value {
    json!({
        "sig": signature_json(command.signature),
        "help": command.help,
        "module": command.module,
        "perm": command.perm,
        "flags": if command.hidden { FLAG_HIDDEN } else { 0 },
    })
}

fn describe_param(param: &Param) -> Value {
    let mut out = Map::new();
    if let Some(chars) = param.chars {
        out.insert("goodchars".into(), chars.into());
    }
    if param.many {
        out.insert("n".into(), "N".into());
    }
    out.insert("name".into(), param.name.into());
    if let Some(range) = param.range {
        out.insert("range".into(), range.into());
    }
    if param.optional || param.kind == Kind::Bool {
        out.insert("req".into(), "false".into());
    }
    if let Some(choices) = param.choices {
        out.insert("strings".into(), choices.into());
    }
    out.insert("type".into(), param.kind.ceph_name().into());
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn describes_a_command_in_the_clients_form() {
        let all = descriptions();
        let create = all.as_object().expect("an object").values().find(|d| {
            let words: Vec<_> =
                d["sig"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
            words == ["osd", "pool", "create"]
        });
        let create = create.expect("is declared");
        assert_eq!(create["sig"][3], json!({"name": "pool", "type": "CephPoolname"}));
        assert_eq!(
            create["sig"][4],
            json!({"name": "pg_num", "range": "0", "req": "false", "type": "CephInt"})
        );
        assert_eq!(
            (&create["module"], &create["perm"], &create["flags"]),
            (&json!("osd"), &json!("rw"), &json!(0))
        );
    }

    #[test]
    fn no_command_asks_the_client_for_a_manager() {
        for (name, command) in descriptions().as_object().expect("an object") {
            assert_eq!(command["flags"].as_u64().expect("a number") & 8, 0, "{name}");
        }
    }

    #[test]
    fn signatures_parse_and_are_unique() {
        let mut seen = BTreeSet::new();
        for cmd in Cmd::ALL {
            assert!(seen.insert(cmd.decl().signature), "{} twice", cmd.decl().signature);
            assert!(!cmd.decl().help.is_empty() && !cmd.prefix().is_empty(), "{cmd:?}");
        }
    }
}

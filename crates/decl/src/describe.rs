//! The answer to `get_command_descriptions`: what clients validate a command line with before they send it.

use crate::commands::Cmd;
use crate::manager::MgrCmd;
use crate::sig::{Kind, Param, Word, parse, prefix};
use crate::table::Command;
use serde_json::{Map, Value, json};

/// Flag of a command that clients hide from their help.
const FLAG_HIDDEN: u32 = 4;

/// Flag of a command that clients send to the active manager.
const FLAG_MGR: u32 = 8;

/// The monitors' commands as one JSON object, and the manager's if there is one for them.
pub fn descriptions(with_manager: bool) -> Value {
    let mut out = Map::new();
    for cmd in Cmd::ALL {
        out.insert(format!("cmd{:03}", out.len()), describe(cmd.decl(), 0));
    }
    for cmd in MgrCmd::ALL.iter().filter(|_| with_manager) {
        out.insert(format!("cmd{:03}", out.len()), describe(cmd.decl(), FLAG_MGR));
    }
    Value::Object(out)
}

/// The commands that a manager carries out, and those that it passes on to the monitors.
pub fn manager_descriptions(passes_on: impl Fn(Cmd) -> bool) -> Value {
    let own = MgrCmd::ALL.iter().map(|cmd| cmd.decl());
    let passed = Cmd::ALL.iter().filter(|cmd| passes_on(**cmd)).map(|cmd| cmd.decl());
    let all = own.chain(passed).enumerate();
    Value::Object(all.map(|(i, decl)| (format!("cmd{i:03}"), describe(decl, 0))).collect())
}

/// Commands of a daemon itself (admin socket, `ceph tell`): signatures in the notation of [`crate::sig`], and
/// help. After the monitors' own table where `with_table`, as far as that has no command of the same name.
pub fn local_descriptions(commands: &[(&'static str, &str)], module: &str, with_table: bool) -> Value {
    let mut out = Map::new();
    let own: Vec<String> = commands.iter().map(|(signature, _)| prefix(signature)).collect();
    for cmd in Cmd::ALL.iter().filter(|c| with_table && !own.contains(&c.prefix())) {
        out.insert(format!("cmd{:03}", out.len()), describe(cmd.decl(), 0));
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

fn describe(command: &Command, flags: u32) -> Value {
    json!({
        "sig": signature_json(command.signature),
        "help": command.help,
        "module": command.module,
        "perm": command.perm,
        "flags": flags | if command.hidden { FLAG_HIDDEN } else { 0 },
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
        let all = descriptions(true);
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
    fn clients_send_the_managers_commands_to_it_and_only_those() {
        let flags = |with_manager| -> Vec<u64> {
            let all = descriptions(with_manager);
            all.as_object().expect("an object").values().filter_map(|c| c["flags"].as_u64()).collect()
        };
        assert!(flags(false).iter().all(|flags| flags & 8 == 0));
        assert_eq!(flags(true).iter().filter(|flags| *flags & 8 != 0).count(), MgrCmd::ALL.len());
    }

    #[test]
    fn signatures_parse_and_are_unique() {
        let mut seen = BTreeSet::new();
        let monitors = Cmd::ALL.iter().map(|cmd| cmd.decl());
        for decl in monitors.chain(MgrCmd::ALL.iter().map(|cmd| cmd.decl())) {
            assert!(seen.insert(decl.signature), "{} twice", decl.signature);
            assert!(!decl.help.is_empty() && !decl.prefix().is_empty(), "{decl:?}");
        }
    }
}

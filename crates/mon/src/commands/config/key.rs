//! The `config-key` store of small values.

use crate::commands::reply::{Outcome, Reply, output, said, structured};
use crate::domain::config_log;
use crate::edit::Edit;
use crate::failure::{Failure, missing};
use crate::text::pretty;
use crate::view::View;
use decl::Args;
use serde_json::{Value, json};
use wire::Errno;

pub fn key_get(view: &View<'_>, args: &Args) -> Outcome {
    match view.state.kv.get(args.str("key")) {
        Some(value) => Ok(Reply { status: format!("obtained '{}'", args.str("key")), data: value.clone() }),
        None => missing(format!("error obtaining '{}': no such key", args.str("key"))),
    }
}

/// Longest stored value.
const MAX_VALUE: usize = 65_536;

/// Refuses keys that the monitors use themselves.
fn check_key(key: &str) -> Result<(), Failure> {
    match [
        config_log::PREFIX,
        crate::health::mute::MUTES,
        crate::health::mute::RAISED,
        crate::domain::devices::PREFIX,
        crate::domain::modules::KEY,
    ]
    .iter()
    .any(|prefix| key.starts_with(prefix))
    {
        true => Err(Failure::new(Errno::EPERM, format!("'{key}' is the monitors' own: they alone write it"))),
        false => Ok(()),
    }
}

pub fn key_set(edit: &mut Edit<'_>, args: &Args, input: &[u8]) -> Outcome {
    let key = args.str("key");
    check_key(key)?;
    let value = args.opt_str("val").map_or_else(|| input.to_vec(), |v| v.as_bytes().to_vec());
    if value.len() > MAX_VALUE {
        let text = format!("error: entry size limited to {MAX_VALUE} bytes, this one has {}", value.len());
        return Err(Failure::new(Errno::EFBIG, text));
    }
    edit.push(crate::entry::Change::Kv(key.to_owned(), Some(value)));
    said(format!("set {key}"))
}

pub fn key_rm(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let key = args.str("key");
    check_key(key)?;
    if !edit.base.kv.contains_key(key) {
        return said(format!("no such key '{key}'"));
    }
    edit.push(crate::entry::Change::Kv(key.to_owned(), None));
    said("key deleted")
}

pub fn key_exists(view: &View<'_>, args: &Args) -> Outcome {
    let key = args.str("key");
    match view.state.kv.contains_key(key) {
        true => said(format!("key '{key}' exists")),
        false => missing(format!("key '{key}' doesn't exist")),
    }
}

pub fn key_ls(view: &View<'_>, args: &Args) -> Outcome {
    structured(args, &json!(view.state.kv.keys().collect::<Vec<_>>()))
}

pub fn key_dump(view: &View<'_>, args: &Args) -> Outcome {
    let prefix = args.str("key");
    let shown = |value: &Vec<u8>| match std::str::from_utf8(value) {
        Ok(text) if !text.contains('\0') => text.to_owned(),
        _ => format!("<<< binary blob of length {} >>>", value.len()),
    };
    let all = view.state.kv.iter().filter(|(k, _)| k.starts_with(prefix));
    let json: Value = Value::Object(all.map(|(k, v)| (k.clone(), shown(v).into())).collect());
    match args.format() {
        "json" => output(json.to_string()),
        _ => output(pretty(&json)),
    }
}

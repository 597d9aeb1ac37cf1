//! A command as clients send it, one JSON object, checked against its declaration.

use crate::commands::Cmd;
use crate::manager::MgrCmd;
use crate::sig::{Kind, Param, Word, parse};
use crate::table::Command;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use wire::Uuid;

/// The reason why a command line was refused: one sentence for its author.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArgError(pub String);

impl fmt::Display for ArgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ArgError {}

/// The arguments of a known command. Types, ranges, choices and presence were checked; getters may be
/// trusted.
#[derive(Clone, PartialEq, Debug)]
pub struct Args {
    values: Map<String, Value>,
}

impl Args {
    /// Parses and checks the text of a monitor's command.
    pub fn parse(text: &str) -> Result<(Cmd, Self), ArgError> {
        let values = object(text)?;
        let found = choose(&values, Cmd::ALL, Cmd::decl);
        found.unwrap_or_else(|| Err(unknown(&values)))
    }

    /// Parses and checks the text of a manager's command. `None` if it is none of these.
    pub fn parse_for_manager(text: &str) -> Result<Option<(MgrCmd, Self)>, ArgError> {
        choose(&object(text)?, MgrCmd::ALL, MgrCmd::decl).transpose()
    }

    /// Arguments without a declaration, for tests and internal callers.
    pub fn from_map(values: Map<String, Value>) -> Self {
        Self { values }
    }

    /// `plain` where the client asks for nothing else.
    pub fn format(&self) -> &str {
        self.opt_str("format").unwrap_or("plain")
    }

    /// A text argument, if given.
    pub fn opt_str(&self, name: &str) -> Option<&str> {
        self.values.get(name).and_then(Value::as_str)
    }

    /// A text that the declaration demands.
    pub fn str(&self, name: &str) -> &str {
        self.opt_str(name).unwrap_or_default()
    }

    /// A text that the declaration demands; numbers as they are written.
    pub fn text(&self, name: &str) -> String {
        self.values.get(name).map(text_of).unwrap_or_default()
    }

    /// All arguments as texts, lists joined: what a capability's conditions look at. Capabilities that come
    /// as pairs (`caps`: service, capability, …) also appear as `caps_SERVICE`.
    pub fn texts(&self) -> BTreeMap<String, String> {
        let mut out: BTreeMap<_, _> =
            self.values.keys().map(|name| (name.clone(), self.list(name).join(" "))).collect();
        for pair in self.list("caps").chunks_exact(2) {
            out.insert(format!("caps_{}", pair[0]), pair[1].clone());
        }
        out
    }

    /// A list of texts; a single one counts as a list.
    pub fn list(&self, name: &str) -> Vec<String> {
        match self.values.get(name) {
            Some(Value::Array(items)) => items.iter().map(text_of).collect(),
            Some(Value::Null) | None => Vec::new(),
            Some(one) => vec![text_of(one)],
        }
    }

    /// A whole number.
    pub fn int(&self, name: &str) -> Option<i64> {
        self.values.get(name).and_then(as_int)
    }

    /// A decimal number.
    pub fn float(&self, name: &str) -> Option<f64> {
        self.values.get(name).and_then(as_float)
    }

    /// True if a flag is given. Old clients send it as a text.
    pub fn flag(&self, name: &str) -> bool {
        match self.values.get(name) {
            Some(Value::Bool(b)) => *b,
            Some(Value::String(s)) => !s.is_empty() && s != "false" && s != "no",
            _ => false,
        }
    }

    /// An OSD's number.
    pub fn osd(&self, name: &str) -> Option<i32> {
        self.values.get(name).and_then(|v| parse_osd(&text_of(v)))
    }
}

fn object(text: &str) -> Result<Map<String, Value>, ArgError> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(values)) => Ok(values),
        Ok(_) => Err(ArgError("a command must be a JSON object with a `prefix`".into())),
        Err(e) => Err(ArgError(format!("the command is not valid JSON: {e}"))),
    }
}

fn prefix(values: &Map<String, Value>) -> String {
    let prefix = values.get("prefix").and_then(Value::as_str).unwrap_or_default();
    prefix.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Checks a command against the table `all`. `None` if its prefix is not in there. A prefix may have several
/// forms (`osd crush set` has): the first that fits is meant.
fn choose<T: Copy>(
    values: &Map<String, Value>,
    all: &[T],
    decl: fn(T) -> &'static Command,
) -> Option<Result<(T, Args), ArgError>> {
    let prefix = prefix(values);
    let mut error = None;
    for cmd in all.iter().filter(|cmd| decl(**cmd).prefix() == prefix) {
        match check(decl(*cmd), values.clone()) {
            Ok(args) => return Some(Ok((*cmd, args))),
            Err(e) => error = error.or(Some(e)),
        }
    }
    error.map(Err)
}

fn unknown(values: &Map<String, Value>) -> ArgError {
    let prefix = prefix(values);
    match MgrCmd::ALL.iter().any(|cmd| cmd.prefix() == prefix) {
        true => ArgError(format!("`{prefix}` is a command for the manager: send it there")),
        false => ArgError(format!("command not known: `{prefix}` (see `ceph --help`)")),
    }
}

/// `3` or `osd.3`.
pub fn parse_osd(text: &str) -> Option<i32> {
    text.strip_prefix("osd.").unwrap_or(text).parse().ok().filter(|id: &i32| *id >= 0)
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}

fn as_int(value: &Value) -> Option<i64> {
    match value {
        Value::String(s) => s.trim().parse().ok(),
        Value::Number(n) => n.as_i64().or_else(|| n.as_f64().filter(|f| f.fract() == 0.0).map(|f| f as i64)),
        _ => None,
    }
}

fn as_float(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(s) => s.trim().parse().ok(),
        other => other.as_f64(),
    };
    number.filter(|f| f.is_finite())
}

fn check(command: &'static Command, mut values: Map<String, Value>) -> Result<Args, ArgError> {
    for word in parse(command.signature) {
        let Word::Param(param) = word else { continue };
        values.retain(|_, v| !v.is_null());
        let Some(value) = values.get(param.name) else {
            if param.optional || param.kind == Kind::Bool {
                continue;
            }
            let usage = command.usage();
            return Err(ArgError(format!("missing required argument `{}` ({usage})", param.name)));
        };
        match value {
            Value::Array(items) if param.many => {
                if items.is_empty() && !param.optional {
                    return Err(ArgError(format!("`{}` needs at least one value", param.name)));
                }
                items.iter().try_for_each(|item| check_value(&param, item))?;
            }
            one => check_value(&param, one)?,
        }
    }
    Ok(Args { values })
}

fn check_value(param: &Param, value: &Value) -> Result<(), ArgError> {
    let bad = |what: &str| Err(ArgError(format!("{}: `{}` is not {what}", param.name, text_of(value))));
    match param.kind {
        Kind::Int => match as_int(value) {
            Some(n) => check_range(param, n as f64),
            None => bad("a whole number"),
        },
        Kind::Float => match as_float(value) {
            Some(n) => check_range(param, n),
            None => bad("a number"),
        },
        Kind::Osd
            if parse_osd(&text_of(value)).is_none() && !matches!(&*text_of(value), "any" | "all" | "*") =>
        {
            bad("an OSD (write 0 or osd.0)")
        }
        Kind::Uuid if Uuid::parse(&text_of(value)).is_none() => bad("a uuid"),
        Kind::Choices => {
            let choices = param.choices.unwrap_or_default();
            match choices.split('|').any(|c| c == text_of(value)) {
                true => Ok(()),
                false => bad(&format!("one of {}", choices.replace('|', ", "))),
            }
        }
        Kind::Bool => match value {
            Value::Bool(_) | Value::String(_) => Ok(()),
            _ => bad("a flag"),
        },
        _ => match value {
            Value::String(s) => check_chars(param, s),
            Value::Number(_) => Ok(()),
            _ => bad("a text"),
        },
    }
}

fn check_range(param: &Param, n: f64) -> Result<(), ArgError> {
    let Some(range) = param.range else { return Ok(()) };
    let (low, high) = range.split_once('|').unwrap_or((range, ""));
    let below = low.parse::<f64>().is_ok_and(|low| n < low);
    let above = high.parse::<f64>().is_ok_and(|high| n > high);
    match (below, above) {
        (true, _) => Err(ArgError(format!("{}: {n} is less than {low}", param.name))),
        (_, true) => Err(ArgError(format!("{}: {n} is more than {high}", param.name))),
        _ => Ok(()),
    }
}

fn check_chars(param: &Param, text: &str) -> Result<(), ArgError> {
    let Some(chars) = param.chars else { return Ok(()) };
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c) || c == '=' && chars.contains('=');
    match text.chars().find(|c| !allowed(*c)) {
        Some(c) => Err(ArgError(format!("{}: `{c}` is not allowed, only {chars}", param.name))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Args::parse(text).expect_err("is wrong").0
    }

    #[test]
    fn checks_presence_types_ranges_and_choices() {
        let (cmd, args) =
            Args::parse(r#"{"prefix":"osd pool create","pool":"p","pg_num":32}"#).expect("right");
        assert_eq!((cmd, args.str("pool"), args.int("pg_num")), (Cmd::OsdPoolCreate, "p", Some(32)));
        assert!(error(r#"{"prefix":"osd pool create"}"#).contains("`pool`"));
        assert!(error(r#"{"prefix":"osd pool create","pool":"p","pg_num":-1}"#).contains("less than 0"));
        assert!(error(r#"{"prefix":"osd pool create","pool":"p","pg_num":"x"}"#).contains("whole number"));
        assert!(error(r#"{"prefix":"osd set","key":"foo"}"#).contains("one of"));
        assert!(error(r#"{"prefix":"osd find","id":"mon.0"}"#).contains("an OSD"));
        assert!(error(r#"{"prefix":"nosuch"}"#).contains("not known"));
        assert!(error("[1]").contains("JSON object"));
        assert!(error("{").contains("not valid JSON"));
    }

    #[test]
    fn the_managers_commands_are_apart_from_the_monitors() {
        let create = r#"{"prefix":"fs subvolume create","vol_name":"v","sub_name":"s","size":1024}"#;
        let (cmd, args) = Args::parse_for_manager(create).expect("right").expect("is the manager's");
        assert_eq!((cmd, args.int("size")), (MgrCmd::SubvolumeCreate, Some(1024)));
        assert_eq!(Args::parse_for_manager(r#"{"prefix":"status"}"#), Ok(None));
        assert!(Args::parse_for_manager(r#"{"prefix":"fs subvolume create","vol_name":"v"}"#).is_err());
        assert!(error(create).contains("for the manager"));
    }

    #[test]
    fn reads_lists_and_flags_as_old_and_new_clients_send_them() {
        let (_, args) = Args::parse(r#"{"prefix":"osd out","ids":["1","osd.2"]}"#).expect("right");
        assert_eq!(args.list("ids"), ["1", "osd.2"]);
        for flag in ["true", r#""--yes-i-really-mean-it""#] {
            let text = format!(r#"{{"prefix":"osd lost","id":0,"yes_i_really_mean_it":{flag}}}"#);
            let (_, args) = Args::parse(&text).expect("right");
            assert!(args.flag("yes_i_really_mean_it"));
            assert_eq!(args.osd("id"), Some(0));
        }
    }
}

//! Answers of commands, as text or JSON.

use crate::failure::Failure;
use crate::text::pretty;
use decl::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A command's answer.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Reply {
    /// Status text, shown on standard error.
    pub status: String,
    /// The output.
    pub data: Vec<u8>,
}

/// The outcome of a command.
pub(crate) type Outcome = Result<Reply, Failure>;

/// A status text alone.
pub(crate) fn said(status: impl Into<String>) -> Outcome {
    Ok(Reply { status: status.into(), data: Vec::new() })
}

/// An answer that consists of output alone.
pub(crate) fn output(data: impl Into<Vec<u8>>) -> Outcome {
    Ok(Reply { status: String::new(), data: data.into() })
}

/// Answers in JSON if the client asked for it, else as text.
pub fn answer(args: &Args, json: impl FnOnce() -> Value, plain: impl FnOnce() -> String) -> Outcome {
    match args.format() {
        "json" => output(json().to_string()),
        "json-pretty" | "xml" | "xml-pretty" | "yaml" => output(pretty(&json())),
        _ => output(plain()),
    }
}

/// For commands that have no text of their own: JSON in lines unless it is asked for in one.
pub fn structured(args: &Args, json: &Value) -> Outcome {
    match args.format() {
        "json" => output(json.to_string()),
        _ => output(pretty(json)),
    }
}

/// Counts daemons by the value of a property.
pub fn count_values(args: &Args, values: impl Iterator<Item = Option<String>>) -> Outcome {
    let mut counts = BTreeMap::<String, u64>::new();
    for value in values {
        *counts.entry(value.unwrap_or_else(|| "unknown".into())).or_default() += 1;
    }
    structured(args, &json!(counts))
}

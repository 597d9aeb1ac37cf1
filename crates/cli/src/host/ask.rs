//! Questions to the person at the terminal.

use anyhow::{Context, Result, bail};
use std::io::{BufRead, IsTerminal, Write};

/// Asks a person; without a terminal the answer is an error that names `--yes`.
pub(crate) fn agrees(question: &str, yes: bool) -> Result<bool> {
    if yes {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        bail!("there is no terminal to ask at (\"{question}\"): give --yes to agree");
    }
    let mut out = std::io::stdout().lock();
    write!(out, "{question} [y/N] ").and_then(|()| out.flush()).context("standard output")?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).context("standard input")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes"))
}

//! `nacre completions`: what a shell needs to complete command lines of `nacre`.

use anyhow::Result;
use clap::{Args, Command, ValueEnum};
use clap_complete::Shell;
use std::io::Write;

#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// The shell that will read it.
    #[arg(value_enum)]
    shell: Shells,
}

/// The shells that packages hold completions for.
#[derive(Clone, Copy, ValueEnum)]
enum Shells {
    Bash,
    Zsh,
    Fish,
}

/// Prints it for `command`.
pub(crate) fn run(args: &CompletionsArgs, mut command: Command) -> Result<()> {
    let shell = match args.shell {
        Shells::Bash => Shell::Bash,
        Shells::Zsh => Shell::Zsh,
        Shells::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "nacre", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}

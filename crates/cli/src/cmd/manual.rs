//! `nacre manual DIR`: the pages of man(1), from the same definitions as `--help`. Packages are made with it.

use crate::cluster::advise;
use anyhow::Result;
use clap::{Args, Command};
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct ManualArgs {
    /// The directory, which is made if it is missing.
    dir: PathBuf,
    /// The date that the pages show, such as 2026-11-29.
    #[arg(long)]
    date: String,
}

/// Administrators' commands are in section 8.
const SECTION: &str = "8";

/// Writes the pages of `command` and of all below it.
pub(crate) fn run(args: &ManualArgs, mut command: Command) -> Result<()> {
    std::fs::create_dir_all(&args.dir).map_err(|e| advise("create", &args.dir, e))?;
    command.build();
    write_pages(args, "nacre", &command)
}

/// Writes the page of a command and those of its subcommands: `nacre-block-map(8)` is that of `nacre block
/// map`.
fn write_pages(args: &ManualArgs, name: &str, command: &Command) -> Result<()> {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        write_pages(args, &format!("{name}-{}", sub.get_name()), sub)?;
    }
    let page = clap_mangen::Man::new(command.clone().display_name(name))
        .title(name)
        .section(SECTION)
        .date(&args.date)
        .source(format!("Nacre {}", env!("CARGO_PKG_VERSION")))
        .manual("Nacre");
    let mut text = Vec::new();
    page.render(&mut text)?;
    let path = args.dir.join(format!("{name}.{SECTION}"));
    std::fs::write(&path, &text).map_err(|e| advise("write", &path, e))
}

#[cfg(test)]
mod tests {
    use super::super::Args as Everything;
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn each_command_that_help_shows_has_a_page() {
        let dir = tempfile::tempdir().expect("a directory");
        run(&ManualArgs { dir: dir.path().join("man"), date: "2026-11-29".into() }, Everything::command())
            .expect("writes");
        let page = |name: &str| std::fs::read_to_string(dir.path().join("man").join(name)).ok();
        for sub in Everything::command().get_subcommands() {
            let found = page(&format!("nacre-{}.8", sub.get_name()));
            assert_eq!(found.is_some(), !sub.is_hide_set(), "{}", sub.get_name());
        }
        let map = page("nacre-block-map.8").expect("a page of a command of a command");
        assert!(map.contains("nacre block map"), "the synopsis says what to type: {map}");
        assert!(page("nacre.8").expect("the first page").contains("nacre\\-mount(8)"));
    }
}

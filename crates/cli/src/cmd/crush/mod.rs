//! `nacre crush`: what a CRUSH map does.

mod test;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use crush::CrushMap;
use std::io::{BufWriter, Write};
use std::path::Path;
use wire::Reader;

#[derive(Args)]
pub(crate) struct CrushArgs {
    #[command(subcommand)]
    command: CrushCommand,
}

#[derive(Subcommand)]
enum CrushCommand {
    /// Map a range of inputs by the rules of a map, as `crushtool --test` does.
    Test(test::TestArgs),
}

pub(crate) fn run(args: &CrushArgs) -> Result<()> {
    let CrushCommand::Test(args) = &args.command;
    let map = read_map(&args.infile)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    test::test(&map, args, &mut out)?;
    Ok(out.flush()?)
}

/// The map in a file, in binary form: of `ceph osd getcrushmap` or `crushtool -c`.
fn read_map(file: &Path) -> Result<CrushMap> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut r = Reader::new(&bytes);
    match r.get().and_then(|map| r.finish().map(|()| map)) {
        Ok(map) => Ok(map),
        Err(error) => bail!("{} holds no CRUSH map in binary form: {error}", file.display()),
    }
}

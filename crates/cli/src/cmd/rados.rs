//! `nacre rados`: objects from the command line.

use super::terminal::Format;
use crate::cluster::{ClientArgs, PATIENCE};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use client::{Cluster, Pool};
use std::io::{Read, Write};
use std::path::PathBuf;
use stdx::Buf;

#[derive(Args)]
pub(crate) struct RadosArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// The pool.
    #[arg(long, short = 'p')]
    pool: String,
    /// The namespace within the pool.
    #[arg(long, short = 'N', default_value = "")]
    namespace: String,
    /// The form of the output.
    #[arg(long, short = 'f', value_enum, default_value_t, global = true)]
    format: Format,
    #[command(subcommand)]
    command: RadosCommand,
}

#[derive(Subcommand)]
enum RadosCommand {
    /// Write a file (`-` is standard input) to an object.
    Put { object: String, file: PathBuf },
    /// Read an object into a file (`-` is standard output).
    Get { object: String, file: PathBuf },
    /// List objects.
    Ls,
    /// Show the size and the time of the last change.
    Stat { object: String },
    /// Remove objects.
    Rm {
        #[arg(required = true)]
        objects: Vec<String>,
    },
}

pub(crate) fn run(args: &RadosArgs) -> Result<()> {
    let cluster = Cluster::connect(&args.client.options()?, PATIENCE)?;
    let pool = cluster.pool(&args.pool).in_namespace(args.namespace.as_bytes());
    match &args.command {
        RadosCommand::Put { object, file } => put(&pool, object, file)?,
        RadosCommand::Get { object, file } => get(&pool, object, file)?,
        RadosCommand::Ls => list(&pool, args.format)?,
        RadosCommand::Stat { object } => stat(&pool, object, args)?,
        RadosCommand::Rm { objects } => {
            for object in objects {
                pool.remove(object.as_bytes())?;
            }
        }
    }
    cluster.shut_down()?;
    Ok(())
}

fn put(pool: &Pool, object: &str, file: &PathBuf) -> Result<()> {
    let mut data = Vec::new();
    if file.as_os_str() == "-" {
        std::io::stdin().lock().read_to_end(&mut data)?;
    } else {
        data = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    Ok(pool.write_full(object.as_bytes(), &Buf::copy_from(&data).into())?)
}

fn get(pool: &Pool, object: &str, file: &PathBuf) -> Result<()> {
    // The file is made once the object is known to exist: a mistyped name leaves no empty file.
    pool.stat(object.as_bytes())?;
    let mut out: Box<dyn Write> = if file.as_os_str() == "-" {
        Box::new(std::io::stdout().lock())
    } else {
        Box::new(std::fs::File::create(file).with_context(|| format!("cannot write {}", file.display()))?)
    };
    pool.read_all(object.as_bytes(), |data| data.parts().iter().try_for_each(|part| out.write_all(part)))?;
    Ok(out.flush()?)
}

fn list(pool: &Pool, format: Format) -> Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut result = Ok(());
    let mut first = true;
    if format == Format::Json {
        write!(out, "[")?;
    }
    pool.list(|name| {
        let line = match format {
            Format::Plain => out.write_all(name).and_then(|()| out.write_all(b"\n")),
            Format::Json => {
                let name = serde_json::json!({ "name": String::from_utf8_lossy(name) });
                write!(out, "{}{name}", if first { "" } else { "," })
            }
        };
        first = false;
        if result.is_ok() {
            result = line;
        }
    })?;
    if format == Format::Json {
        writeln!(out, "]")?;
    }
    result.and_then(|()| out.flush()).context("cannot write the list")
}

fn stat(pool: &Pool, object: &str, args: &RadosArgs) -> Result<()> {
    let stat = pool.stat(object.as_bytes())?;
    let mtime = stat.mtime.iso8601();
    match args.format {
        Format::Plain => println!("{}/{object} mtime {mtime}, size {}", args.pool, stat.size),
        Format::Json => {
            let value = serde_json::json!({ "name": object, "mtime": mtime, "size": stat.size });
            println!("{value}");
        }
    }
    Ok(())
}

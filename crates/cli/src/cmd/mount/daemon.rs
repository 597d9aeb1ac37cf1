//! `--fork`: a process of its own that serves the mount, and the wait until it does.

use super::args::MountArgs;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitStatus, Stdio};

/// Where the process reads the key that `secret=` gives.
pub(super) const KEY_INPUT: &str = "/dev/stdin";
/// This program. Unlike its path, this also works in another mount namespace.
const OWN: &str = "/proc/self/exe";

/// Starts the process and waits until it has mounted. Returns what it says then; or if it has ended, nothing
/// and its exit status, and its errors are on standard error.
pub(super) fn start(args: &MountArgs) -> Result<(String, Option<ExitStatus>)> {
    let (line, secret) = command_line(args);
    let mut command = Command::new(OWN);
    command.args(line).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start the mount process")?;
    let mut stdin = child.stdin.take().context("standard input is piped")?;
    // If it has ended, its exit status says more.
    let _ = stdin.write_all(secret.unwrap_or_default().as_bytes());
    drop(stdin);
    let mut said = String::new();
    let stdout = child.stdout.take().context("standard output is piped")?;
    BufReader::new(stdout).read_line(&mut said)?;
    let status = if said.is_empty() { Some(child.wait()?) } else { None };
    Ok((said, status))
}

/// The arguments of the process, and the key that it reads from standard input: everybody can see arguments.
fn command_line(args: &MountArgs) -> (Vec<OsString>, Option<String>) {
    let mut out: Vec<OsString> = vec!["mount".into(), "--detached".into()];
    let mut secret = None;
    for text in &args.options {
        let mut kept = Vec::new();
        for item in text.split(',') {
            match item.trim().strip_prefix("secret=") {
                Some(key) => {
                    secret = Some(key.to_owned());
                    kept.push(format!("secretfile={KEY_INPUT}"));
                }
                None => kept.push(item.to_owned()),
            }
        }
        out.extend(["-o".into(), kept.join(",").into()]);
    }
    let files = [("--conf", &args.client.conf), ("--keyring", &args.client.keyring), ("--log", &args.log)];
    for (option, file) in files {
        out.extend(file.iter().flat_map(|file| [option.into(), file.clone().into()]));
    }
    out.extend(["--name".into(), args.client.name.to_string().into()]);
    out.extend(["--timeout".into(), args.timeout.to_string().into()]);
    out.extend(["--dirty".into(), args.dirty.to_string().into()]);
    for (option, is_set) in
        [("--sloppy", args.sloppy), ("--read-only", args.read_only), ("--allow-other", args.allow_other)]
    {
        out.extend(is_set.then(|| option.into()));
    }
    out.push("--".into());
    out.extend(args.paths.iter().map(|path| path.clone().into()));
    (out, secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    /// `nacre mount` with these arguments, as the process that it starts understands its own.
    fn child(line: &[&str]) -> (MountArgs, Vec<OsString>, Option<String>) {
        let parse = |line: &[OsString]| {
            let all = [OsString::from("nacre")].into_iter().chain(line.iter().cloned());
            match crate::cmd::Args::try_parse_from(all).expect("arguments").command {
                crate::cmd::Command::Mount(args) => args,
                _ => panic!("another command"),
            }
        };
        let line: Vec<OsString> = [&["mount"], line].concat().iter().map(Into::into).collect();
        let (line, secret) = command_line(&parse(&line));
        (parse(&line), line, secret)
    }

    #[test]
    fn the_process_gets_all_that_was_asked_for() {
        let (args, ..) = child(&[
            "--fork",
            "me@.fs=/",
            "/mnt",
            "-o",
            "ro,nosuid",
            "-o",
            "log=/l",
            "-c",
            "/c",
            "-k",
            "/k",
            "-n",
            "client.me",
            "--log",
            "/log",
            "--timeout",
            "7",
            "--dirty",
            "1M",
            "-r",
            "--allow-other",
            "--sloppy",
        ]);
        assert!(args.detached && !args.fork && args.read_only && args.allow_other && args.sloppy);
        assert_eq!(args.options, ["ro,nosuid", "log=/l"]);
        assert_eq!((args.timeout, args.dirty), (7, 1 << 20));
        assert_eq!(args.client.name.to_string(), "client.me");
        let files = [&args.client.conf, &args.client.keyring, &args.log];
        assert_eq!(
            files.map(|file| file.as_ref().and_then(|f| f.to_str())),
            [Some("/c"), Some("/k"), Some("/log")]
        );
        assert_eq!(args.paths, ["me@.fs=/", "/mnt"].map(std::path::PathBuf::from));
    }

    #[test]
    fn a_key_is_in_no_argument() {
        let (args, line, secret) = child(&["--fork", "/mnt", "-o", "ro,secret=AQA=,noatime"]);
        assert_eq!(secret.as_deref(), Some("AQA="));
        assert_eq!(args.options, ["ro,secretfile=/dev/stdin,noatime"]);
        assert!(line.iter().all(|arg| !arg.to_string_lossy().contains("AQA")), "{line:?}");
    }
}

//! `mount.nacre`: how mount(8) mounts a file system of the type `nacre`, from `/etc/fstab` too. It returns
//! once the file system can be used, with the exit statuses of mount(8).

use super::args::MountArgs;
use super::daemon;
use super::remount;
use super::settings::Settings;
use anyhow::{Context, Result};
use clap::Parser;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: mount.nacre SOURCE DIR [-sfnvrw] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]; \
                     see docs/mount.md";

/// Exit statuses of mount(8) and umount(8): wrong arguments; no process, or no namespace; it is not done.
pub(super) const INCORRECT: u8 = 1;
pub(super) const SYSTEM: u8 = 2;
pub(super) const FAILED: u8 = 32;

/// Carries a call by mount(8) out.
pub(super) fn main() -> ExitCode {
    let fails = |status: u8, why: &str| {
        eprintln!("mount.nacre: {why}");
        ExitCode::from(status)
    };
    let call = match Call::parse(std::env::args_os().skip(1)) {
        Ok(call) => call,
        Err(why) => return fails(INCORRECT, &why),
    };
    let args = call.mount_args();
    let is_remount = remount::is_asked(&call.options);
    let settings = if is_remount { Ok(()) } else { Settings::new(&args).map(drop) };
    if let Err(why) = settings {
        return fails(INCORRECT, &why);
    }
    if call.fake {
        return ExitCode::SUCCESS;
    }
    if let Err(error) = call.namespace.iter().try_for_each(|namespace| enter(namespace)) {
        return fails(SYSTEM, &format!("{error:#}"));
    }
    if is_remount {
        let done = remount::remount(&call.point, &call.options);
        return done.map_or_else(|why| fails(FAILED, &why), |()| ExitCode::SUCCESS);
    }
    match daemon::start(&args) {
        Err(error) => fails(SYSTEM, &format!("{error:#}")),
        Ok((said, None)) => {
            if call.verbose {
                print!("{said}");
            }
            ExitCode::SUCCESS
        }
        // It has said why, unless it was killed.
        Ok((_, Some(status))) => match status.code() {
            Some(_) => ExitCode::from(FAILED),
            None => fails(FAILED, &format!("the mount process ended: {status}")),
        },
    }
}

/// The arguments that mount(8) gives its helpers.
#[derive(Debug, Default, PartialEq)]
struct Call {
    source: PathBuf,
    point: PathBuf,
    options: Vec<String>,
    /// Ignore unknown options.
    sloppy: bool,
    /// Look at the arguments only.
    fake: bool,
    verbose: bool,
    /// The mount namespace to mount in.
    namespace: Option<PathBuf>,
}

impl Call {
    fn parse(args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let (mut call, mut paths, mut args) = (Self::default(), Vec::new(), args);
        let mut only_paths = false;
        while let Some(arg) = args.next() {
            let text = arg.to_str().filter(|text| text.starts_with('-') && text.len() > 1 && !only_paths);
            match text {
                None => paths.push(PathBuf::from(arg)),
                Some("--") => only_paths = true,
                Some(text) => call.take(&text[1..], &mut args)?,
            }
        }
        let found = <[PathBuf; 2]>::try_from(paths);
        [call.source, call.point] = found.map_err(|_| USAGE.to_owned())?;
        Ok(call)
    }

    /// Takes letters after a hyphen, the last of which may have a value, there or in the next argument.
    fn take(&mut self, letters: &str, rest: &mut impl Iterator<Item = OsString>) -> Result<(), String> {
        for (at, letter) in letters.char_indices() {
            match letter {
                's' => self.sloppy = true,
                'f' => self.fake = true,
                'v' => self.verbose = true,
                // There has been no /etc/mtab for long.
                'n' => {}
                'r' => self.options.push("ro".into()),
                'w' => self.options.push("rw".into()),
                'o' | 't' | 'N' => {
                    let here = &letters[at + 1..];
                    let value = if here.is_empty() { rest.next() } else { Some(here.into()) };
                    let value = value.ok_or_else(|| format!("`-{letter}` needs a value; {USAGE}"))?;
                    return self.take_value(letter, value);
                }
                _ => return Err(format!("unknown option `-{letter}`; {USAGE}")),
            }
        }
        Ok(())
    }

    fn take_value(&mut self, letter: char, value: OsString) -> Result<(), String> {
        match letter {
            'o' => self.options.push(value.into_string().map_err(|v| format!("{} is no text", v.display()))?),
            'N' => self.namespace = Some(namespace(value)),
            // The type is known.
            _ => {}
        }
        Ok(())
    }

    /// The same as arguments of `nacre mount`.
    fn mount_args(&self) -> MountArgs {
        // In another namespace the working directory is another one.
        let point = std::path::absolute(&self.point).unwrap_or_else(|_| self.point.clone());
        let name = OsString::from("mount.nacre");
        let defaults = Mount::parse_from([name.clone(), "--fork".into(), "--".into(), name]).args;
        let paths = vec![self.source.clone(), point];
        MountArgs { paths, options: self.options.clone(), sloppy: self.sloppy, ..defaults }
    }
}

/// `nacre mount` without the name of the command.
#[derive(Parser)]
struct Mount {
    #[command(flatten)]
    args: MountArgs,
}

/// The file of a mount namespace, which is given by that or by a process.
pub(super) fn namespace(given: OsString) -> PathBuf {
    let is_pid = given.to_str().is_some_and(|text| text.chars().all(|c| c.is_ascii_digit()));
    let file_of_pid = || PathBuf::from(format!("/proc/{}/ns/mnt", given.display()));
    if is_pid { file_of_pid() } else { given.into() }
}

/// Makes the mounts of another mount namespace those of this process and its children.
pub(super) fn enter(namespace: &Path) -> Result<()> {
    let file = std::fs::File::open(namespace)
        .with_context(|| format!("cannot open the namespace {}", namespace.display()))?;
    let kind = Some(rustix::thread::LinkNameSpaceType::Mount);
    rustix::thread::move_into_link_name_space(file.as_fd(), kind)
        .with_context(|| format!("cannot enter the namespace {}", namespace.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Call, String> {
        Call::parse(line.split_whitespace().map(OsString::from))
    }

    fn call() -> Call {
        Call { source: "src".into(), point: "/mnt".into(), ..Call::default() }
    }

    #[test]
    fn calls_of_mount_are_read() {
        let options = |text: &str| vec![text.to_owned()];
        for (line, wanted) in [
            ("src /mnt", call()),
            ("src /mnt -o ro,name=a", Call { options: options("ro,name=a"), ..call() }),
            ("-o ro src -n /mnt", Call { options: options("ro"), ..call() }),
            ("src /mnt -oro", Call { options: options("ro"), ..call() }),
            ("src /mnt -r", Call { options: options("ro"), ..call() }),
            ("src /mnt -sfnv -t nacre", Call { sloppy: true, fake: true, verbose: true, ..call() }),
            ("src /mnt -vo rw", Call { verbose: true, options: options("rw"), ..call() }),
            ("src /mnt -N /run/ns", Call { namespace: Some("/run/ns".into()), ..call() }),
            ("src /mnt -N 12", Call { namespace: Some("/proc/12/ns/mnt".into()), ..call() }),
            ("-- -src /mnt", Call { source: "-src".into(), ..call() }),
        ] {
            assert_eq!(parse(line), Ok(wanted), "{line}");
        }
        let args = parse("src mnt -o ro").expect("arguments").mount_args();
        assert!(args.fork && args.paths[1].is_absolute(), "{:?}", args.paths);
        assert_eq!((&args.options[..], args.timeout), (&options("ro")[..], 60));
        for line in ["", "src", "src /mnt more", "src /mnt -o", "src /mnt -x", "src /mnt --bind"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}

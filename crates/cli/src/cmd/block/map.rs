//! `nacre block map`: an image served as a disk.

use super::args::{BlockArgs, MapArgs};
use super::images::remove_trashed;
use super::one::World;
use crate::block::tls::{self, Clients};
use crate::block::{Driver, Endpoint, News, Registration, Server};
use anyhow::{Context, Result, bail};
use block::nbd::Export;
use block::{Access, ParentSpec, Request};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;

/// What wakes the process.
enum Wake {
    News(News),
    Signal,
}

pub(super) fn run(args: &BlockArgs, map: &MapArgs) -> Result<()> {
    if let Some(addr) = map.listen
        && !addr.ip().is_loopback()
        && !map.plain
        && map.tls_certificates.is_none()
    {
        bail!(
            "{addr} can be reached by others, and whoever reaches it may read and write the image: demand \
             TLS with --tls-certificates, listen on a loopback address and tunnel it (ssh -L), or permit it \
             with --plain"
        );
    }
    if map.daemonize { start_detached(map) } else { serve(args, map) }
}

/// Starts a process of its own, and waits until it serves the image.
fn start_detached(map: &MapArgs) -> Result<()> {
    let line = std::env::args_os().skip(1).map(|arg| match arg.to_str() {
        Some("--daemonize") => "--detached".into(),
        _ => arg,
    });
    let log = match &map.log {
        Some(path) => {
            let file = std::fs::File::options().create(true).append(true).open(path);
            Stdio::from(file.with_context(|| format!("cannot write {}", path.display()))?)
        }
        None => Stdio::inherit(),
    };
    let mut command = Command::new("/proc/self/exe");
    command.args(line).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let mut child = command.spawn().context("cannot start the process that serves the image")?;
    let stdout = child.stdout.take().context("standard output is piped")?;
    let mut said = String::new();
    BufReader::new(stdout).read_line(&mut said)?;
    if said.is_empty() {
        // It has said why on standard error, or in the log.
        let status = child.wait()?;
        bail!("the image is not mapped ({status})");
    }
    say!("{}", said.trim_end());
    Ok(())
}

fn serve(args: &BlockArgs, map: &MapArgs) -> Result<()> {
    let clients = if map.tls_any_client { Clients::Any } else { Clients::Certified };
    let tls = map.tls_certificates.as_ref().map(|dir| tls::config(dir, clients)).transpose()?;
    let is_encrypted = tls.is_some();
    let world = World::connect(args)?;
    let access = if map.read_only { Access::Read } else { Access::Write };
    let (driver, opened, news) = world.open(&map.image, access)?;
    let export = Export {
        name: map.image.to_string(),
        size: opened.size,
        read_only: opened.read_only,
        preferred_block: 4096,
    };
    let run_dir = args.run_dir();
    let endpoint = choose(map, &run_dir)?;
    let server = Server::start(&endpoint, driver.clone(), export, tls)?;
    let shown = match server.endpoint() {
        Endpoint::Unix(path) => path.display().to_string(),
        Endpoint::Tcp(addr) => addr.to_string(),
    };
    let record = Registration::new(&run_dir, &map.image.to_string(), &shown, opened.read_only)?;
    let (tx, wakes) = mpsc::channel();
    watch(news, &tx)?;
    if map.detached {
        // The terminal's signals are not for it.
        let _ = rustix::process::setsid();
    }
    say!("{}", url(server.endpoint(), is_encrypted));
    if map.detached && map.log.is_none() {
        silence_errors()?;
    }
    let lost = std::thread::scope(|scope| {
        wait(&server, &wakes, |parent| {
            scope.spawn(move || release(args, &parent));
        })
    });
    server.stop();
    end(&driver, &wakes, lost.is_some())?;
    drop(record);
    if let Some(error) = lost {
        bail!("{} is lost: {error}", map.image);
    }
    world.shut_down()
}

/// Nobody reads what a process without a terminal says.
fn silence_errors() -> Result<()> {
    let null = std::fs::File::options().write(true).open("/dev/null").context("cannot open /dev/null")?;
    rustix::stdio::dup2_stderr(&null).context("cannot close standard error")
}

fn choose(map: &MapArgs, run_dir: &Path) -> Result<Endpoint> {
    if let Some(addr) = map.listen {
        return Ok(Endpoint::Tcp(addr));
    }
    if let Some(path) = &map.socket {
        return Ok(Endpoint::Unix(std::path::absolute(path)?));
    }
    std::fs::create_dir_all(run_dir).with_context(|| format!("cannot make {}", run_dir.display()))?;
    let name = map.image.to_string().replace('/', "-");
    Ok(Endpoint::Unix(run_dir.join(format!("{name}.sock"))))
}

/// The name by which QEMU and libnbd find the server.
fn url(endpoint: &Endpoint, is_encrypted: bool) -> String {
    let scheme = if is_encrypted { "nbds" } else { "nbd" };
    match endpoint {
        Endpoint::Unix(path) => format!("{scheme}+unix:///?socket={}", path.display()),
        Endpoint::Tcp(addr) => format!("{scheme}://{addr}"),
    }
}

fn watch(news: mpsc::Receiver<News>, wakes: &mpsc::Sender<Wake>) -> Result<()> {
    let (of_news, of_signals) = (wakes.clone(), wakes.clone());
    std::thread::spawn(move || {
        for told in news {
            if of_news.send(Wake::News(told)).is_err() {
                return;
            }
        }
    });
    let report = move || {
        // Nobody listens any more if the process is ending.
        let _ = of_signals.send(Wake::Signal);
    };
    ctrlc::set_handler(report).context("cannot watch for signals")
}

/// A snapshot in the trash has lost its last clone: it goes. Clusters are not shared by threads, so this has
/// a client of its own.
fn release(args: &BlockArgs, parent: &ParentSpec) {
    let removed = World::connect(args).and_then(|world| {
        remove_trashed(&world, parent)?;
        world.shut_down()
    });
    if let Err(error) = removed {
        complain!("nacre: the snapshot {} of a clone that was flattened stays: {error:#}", parent.snap);
    }
}

/// Waits for a signal to end, or until the image is lost.
fn wait(server: &Server, wakes: &mpsc::Receiver<Wake>, release: impl Fn(ParentSpec)) -> Option<block::Error> {
    loop {
        match wakes.recv() {
            Ok(Wake::News(News::Lost(error))) => return Some(error),
            Ok(Wake::News(News::Resized(size))) => server.resized(size),
            Ok(Wake::News(News::Event(text))) => complain!("nacre: {text}"),
            Ok(Wake::News(News::Unused(parent))) => release(parent),
            Ok(Wake::News(News::Opened(_) | News::Progress(..))) => {}
            Ok(Wake::Signal) | Err(_) => return None,
        }
    }
}

/// Closes the image: what was written is durable, and the lock free. A second signal ends the wait for that.
fn end(driver: &Driver, wakes: &mpsc::Receiver<Wake>, lost: bool) -> Result<()> {
    let (tx, closed) = mpsc::channel();
    driver.submit(Request::Close, move |reply| {
        // The process may be gone by then.
        let _ = tx.send(reply.map(drop));
    });
    loop {
        match closed.recv_timeout(std::time::Duration::from_millis(50)) {
            Ok(Err(error)) if !lost => bail!("the image is not closed in order: {error}"),
            Ok(_) | Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                if wakes.try_iter().any(|wake| matches!(wake, Wake::Signal)) {
                    bail!("ended by a second signal before the cluster had confirmed everything");
                }
            }
        }
    }
}

//! The manager in the process of a metadata server: the node on an event loop, and the thread that carries
//! the commands about volumes out.

use super::Daemon;
use anyhow::{Context, Result};
use mgr::{Mgr, MgrConfig, Notice, Outcome, Request};
use runtime::{EventLoop, Handle, Limits, NodeSpec};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use volumes::Volumes;
use wire::{AddrVec, EntityAddr, EntityName, EntityType, Errno};

/// Time between two looks at what is due.
const TICK: Duration = Duration::from_secs(1);

/// A way to a running manager.
pub(super) type Manager = Handle<Request, Notice>;

impl Daemon {
    /// Starts the manager beside the metadata server.
    pub(super) fn start_manager(&self, on: &EventLoop) -> Result<Manager> {
        let listener = self.listen_anywhere()?;
        let nonce = runtime::nonce();
        let credentials = self.credentials()?;
        let config = MgrConfig {
            name: self.name.id.clone(),
            addrs: AddrVec::from(EntityAddr::msgr2(listener.addr(), nonce)),
            credentials: credentials.clone(),
            methods: self.methods(),
            monitors: self.mon_addrs()?,
            hostname: self.hostname(),
            metadata: self.metadata(),
        };
        let volumes = Volumes::new(client::Options {
            fsid: Some(self.fsid()?),
            key: credentials.key,
            name: self.name.clone(),
            hostname: self.hostname(),
            ..client::Options::of_mons(self.mon_addrs()?)
        })
        .context("cannot start threads")?;
        let spec = NodeSpec {
            name: EntityName::new(EntityType::MGR, self.name.id.clone()),
            number: Some(0),
            listener: Some(listener),
            nonce,
            disks: Vec::new(),
            admin_socket: None,
            limits: Limits::default(),
            gets_load: false,
        };
        let (ends, ended) = mpsc::channel();
        let handle = on.spawn(spec, move || Mgr::new(config, runtime::rng()), ends);
        let (tx, notices) = mpsc::channel();
        // The thread ends with the node.
        handle.listen(move |notice| drop(tx.send(notice)));
        let (worker, name) = (handle.clone(), self.name.id.clone());
        std::thread::Builder::new().name("volumes".into()).spawn(move || {
            work(volumes, &notices, &worker);
            for notice in ended.try_iter() {
                if let runtime::Notice::Ended(_, Err(why)) = notice {
                    tracing::error!("mgr.{name} has ended: {why}");
                }
            }
        })?;
        Ok(handle)
    }
}

fn now() -> u64 {
    runtime::now().wall.split().0
}

/// Carries commands out until the node has ended.
fn work(mut volumes: Volumes, notices: &Receiver<Notice>, node: &Manager) {
    let (mut is_active, mut ticked, mut clients) = (false, Instant::now(), Vec::new());
    loop {
        // One that is not active has nothing to look at.
        let notice = match is_active {
            true => notices.recv_timeout(TICK.saturating_sub(ticked.elapsed())),
            false => notices.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match notice {
            Ok(Notice::Active(active)) if active == is_active => {}
            Ok(Notice::Active(active)) => {
                is_active = active;
                volumes.set_active(active, now());
            }
            Ok(Notice::Run { job, command, args }) => {
                let volumes::Outcome { code, status, output } =
                    volumes.run(command, &args, now(), &|addr, command| tell(node, addr, command));
                let outcome = Outcome { code, status, output: output.into_bytes().into() };
                node.submit(Request::Done { job, outcome }, |_| {});
            }
            Ok(Notice::Told(_)) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if ticked.elapsed() >= TICK {
            ticked = Instant::now();
            volumes.tick(now());
        }
        let now_clients = volumes.clients();
        if now_clients != clients {
            clients.clone_from(&now_clients);
            node.submit(Request::Clients(now_clients), |_| {});
        }
    }
}

/// Gives a command to a metadata server and waits for its answer.
fn tell(node: &Manager, addr: EntityAddr, command: String) -> volumes::Outcome {
    match node.call(Request::Tell { addr, command }) {
        Ok(Notice::Told(Outcome { code, status, output })) => {
            let output = String::from_utf8_lossy(&output.to_vec()).into_owned();
            volumes::Outcome { code, status, output }
        }
        _ => volumes::Outcome {
            code: Errno::ENOTCONN.to_result_code(),
            status: "the manager is stopping".to_owned(),
            output: String::new(),
        },
    }
}

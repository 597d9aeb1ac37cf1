//! The HTTP server beside a monitor: what it asks of the monitor of its process, and of all monitors as their
//! client.

use client::{Answer, Cluster, CommandReply, Error, Options, Reply, Request};
use node::Never;
use runtime::Handle;
use serde_json::Value;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use stdx::Bufs;
use web::{Local, Monitors, Refused};
use wire::{EntityAddr, Errno};

/// The time for which monitors are tried before a question fails.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time that a metadata server has for an answer: one that hangs must not keep what others say from being
/// shown.
const TELL_PATIENCE: Duration = Duration::from_secs(3);

/// The monitor of this process. It may begin anew, with another handle.
#[derive(Default)]
pub(super) struct Own(Mutex<Option<Handle<Never, Never>>>);

impl Own {
    /// Puts a monitor that was started in the place of the one before.
    pub(super) fn set(&self, handle: Handle<Never, Never>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
    }
}

impl Local for Own {
    fn to_serve(&self) -> Option<Value> {
        let handle = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let (code, output) = handle.admin(r#"{"prefix":"mgr module serve"}"#).ok()?;
        serde_json::from_str(&output).ok().filter(|_| code == 0)
    }
}

/// A connection to the monitors, made when it is first needed. One command runs at a time.
pub(super) struct Remote {
    options: Options,
    cluster: Mutex<Option<Cluster>>,
}

impl Remote {
    /// The monitors that `options` name.
    pub(super) fn new(options: Options) -> Self {
        Self { options, cluster: Mutex::default() }
    }

    /// Lets `act` use the connection. After an error the next one connects anew.
    fn with_cluster<T>(&self, act: impl FnOnce(&Cluster) -> Result<T, Error>) -> Result<T, Refused> {
        let mut kept = self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = match kept.take() {
            Some(cluster) => cluster,
            None => Cluster::connect(&self.options, PATIENCE).map_err(|error| failed(&error))?,
        };
        let done = act(&cluster).map_err(|error| failed(&error))?;
        *kept = Some(cluster);
        Ok(done)
    }
}

fn failed(error: &Error) -> Refused {
    Refused { code: Errno::ENOTCONN.to_result_code(), text: error.to_string() }
}

fn outcome(reply: CommandReply) -> Result<Vec<u8>, Refused> {
    match reply.result {
        Ok(()) => Ok(reply.output.to_vec()),
        Err(errno) => Err(Refused { code: errno.to_result_code(), text: reply.status }),
    }
}

/// What came of a command to a metadata server.
fn told(reply: Reply) -> Result<Vec<u8>, Refused> {
    let none = |errno: Errno| Refused {
        code: errno.to_result_code(),
        text: "the metadata server does not answer".to_owned(),
    };
    match reply {
        Ok(Answer::Command { result, status, output }) => outcome(CommandReply { result, status, output }),
        Ok(_) => Err(none(Errno::EIO)),
        Err(errno) => Err(none(errno)),
    }
}

impl Monitors for Remote {
    fn command(&self, command: &Value) -> Result<Vec<u8>, Refused> {
        outcome(self.with_cluster(|cluster| cluster.command(&command.to_string(), Bufs::new()))?)
    }

    fn tell(&self, commands: &[(String, Value)]) -> Vec<Result<Vec<u8>, Refused>> {
        // Servers that do not answer must not keep the monitors from being asked meanwhile.
        let requests = match self.with_cluster(|cluster| Ok(cluster.requests())) {
            Ok(requests) => requests,
            Err(refused) => return commands.iter().map(|_| Err(refused.clone())).collect(),
        };
        let begun = commands.iter().map(|(addr, command)| {
            let (tx, answer) = mpsc::channel();
            match EntityAddr::parse(addr) {
                Some(addr) => {
                    let request =
                        Request::Tell { addr, command: command.to_string(), patience: TELL_PATIENCE };
                    // Whoever waited may have gone.
                    requests.submit(request, move |reply| drop(tx.send(reply)));
                }
                None => drop(tx.send(Err(Errno::EINVAL))),
            }
            answer
        });
        let begun: Vec<Receiver<Reply>> = begun.collect();
        begun.iter().map(|answer| told(answer.recv().unwrap_or(Err(Errno::ENOTCONN)))).collect()
    }
}

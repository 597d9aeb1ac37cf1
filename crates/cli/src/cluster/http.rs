//! The HTTP server beside a monitor: what it asks of the monitor of its process, and of all monitors as their
//! client.

use client::{Cluster, Error, Options};
use node::Never;
use runtime::Handle;
use serde_json::Value;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use stdx::Bufs;
use web::{Local, Monitors, Refused};
use wire::Errno;

/// The time for which monitors are tried before a question fails.
const PATIENCE: Duration = Duration::from_secs(5);

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
}

fn failed(error: &Error) -> Refused {
    Refused { code: Errno::ENOTCONN.to_result_code(), text: error.to_string() }
}

impl Monitors for Remote {
    fn command(&self, command: &Value) -> Result<Vec<u8>, Refused> {
        let mut kept = self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = match kept.take() {
            Some(cluster) => cluster,
            None => Cluster::connect(&self.options, PATIENCE).map_err(|error| failed(&error))?,
        };
        // After an error the next command connects anew.
        let reply = cluster.command(&command.to_string(), Bufs::new()).map_err(|error| failed(&error))?;
        *kept = Some(cluster);
        match reply.result {
            Ok(()) => Ok(reply.output.to_vec()),
            Err(errno) => Err(Refused { code: errno.to_result_code(), text: reply.status }),
        }
    }
}

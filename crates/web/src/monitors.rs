//! The cluster, as this crate reaches it.

use serde_json::Value;

/// A command that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// A negative errno.
    pub code: i32,
    /// The monitors' sentence.
    pub text: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (error {})", self.text, self.code)
    }
}

/// Runs commands, of monitors and of metadata servers. Its methods block, and are called on threads that may.
pub trait Monitors: Send + Sync + 'static {
    /// Runs a command, one JSON object with `prefix`, and returns its output.
    fn command(&self, command: &Value) -> Result<Vec<u8>, Refused>;

    /// Runs commands at metadata servers, all at once: each with the server's address, `IP:PORT/NONCE`.
    /// Returns their outputs in the same order; a server that hangs answers with an error within seconds.
    fn tell(&self, commands: &[(String, Value)]) -> Vec<Result<Vec<u8>, Refused>>;

    /// Runs a command and reads its output as JSON.
    fn ask(&self, mut command: Value) -> Result<Value, Refused> {
        command["format"] = "json".into();
        parsed(&command, &self.command(&command)?)
    }
}

/// The output of a command as JSON.
pub(crate) fn parsed(command: &Value, output: &[u8]) -> Result<Value, Refused> {
    serde_json::from_slice(output).map_err(|error| Refused {
        code: -5,
        text: format!(
            "`{}` answers what is no JSON: {error}",
            command["prefix"].as_str().unwrap_or_default()
        ),
    })
}

/// The monitor in this process.
pub trait Local: Send + Sync + 'static {
    /// What it is to serve, as its command `mgr module serve` says; `None` while it does not run.
    fn to_serve(&self) -> Option<Value>;
}

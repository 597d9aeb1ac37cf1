//! A port that is open while it is wanted.

use serde_json::Value;
use tokio::task::JoinHandle;

/// See the module's comment.
#[derive(Default)]
pub(crate) struct Port {
    open: Option<Open>,
    /// Why it could not be opened last: that is logged once.
    failed: Option<String>,
}

/// A port that is served.
struct Open {
    /// What it was opened for.
    wanted: Value,
    task: JoinHandle<()>,
}

impl Port {
    /// Opens or closes it: `start` opens it for what is wanted, unless that is nothing. What could not be
    /// opened is tried again by the next call.
    pub async fn follow(
        &mut self,
        module: &str,
        wanted: &Value,
        start: impl AsyncFnOnce(&Value) -> Result<JoinHandle<()>, String>,
    ) {
        if self.open.as_ref().is_some_and(|open| open.wanted == *wanted) {
            return;
        }
        if let Some(open) = self.open.take() {
            open.task.abort();
            // Its port is free when it has ended.
            let _ = open.task.await;
            tracing::info!(module, "is no longer served here");
        }
        if wanted.is_null() {
            self.failed = None;
            return;
        }
        match start(wanted).await {
            Ok(task) => {
                tracing::info!(module, addr = %wanted["addr"], port = %wanted["port"], "is served");
                self.failed = None;
                self.open = Some(Open { wanted: wanted.clone(), task });
            }
            Err(why) if self.failed.as_ref() == Some(&why) => {}
            Err(why) => {
                tracing::warn!(module, "cannot be served: {why}");
                self.failed = Some(why);
            }
        }
    }
}

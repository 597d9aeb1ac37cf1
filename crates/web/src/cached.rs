//! A value that takes a blocking call to get, shared by all who want it.
//!
//! Invariant: at most one call is under way, and none begins before the last result is [`Cached::ttl`] old.
//! So the number of HTTP requests does not change what monitors have to do.

use crate::monitors::Refused;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

/// The time that a caller waits.
const PATIENCE: Duration = Duration::from_secs(8);

type Call<T> = dyn Fn(Option<Arc<T>>) -> Result<T, Refused> + Send + Sync;

struct Inner<T> {
    latest: Option<(Instant, Arc<T>)>,
    running: Option<JoinHandle<Result<T, Refused>>>,
}

/// See the module's comment.
pub(crate) struct Cached<T> {
    ttl: Duration,
    call: Arc<Call<T>>,
    inner: Mutex<Inner<T>>,
}

impl<T: Send + Sync + 'static> Cached<T> {
    /// A value that `call` gets, given the one before.
    pub fn new(
        ttl: Duration,
        call: impl Fn(Option<Arc<T>>) -> Result<T, Refused> + Send + Sync + 'static,
    ) -> Self {
        Self { ttl, call: Arc::new(call), inner: Mutex::new(Inner { latest: None, running: None }) }
    }

    /// The value, at most `ttl` old when this was called.
    pub async fn get(&self) -> Result<Arc<T>, Refused> {
        let late = |_| Refused { code: -110, text: "the monitors do not answer: is there a quorum?".into() };
        tokio::time::timeout(PATIENCE, self.wait()).await.map_err(late)?
    }

    /// Makes the next caller get a new value.
    pub async fn forget(&self) {
        if let Some((at, _)) = &mut self.inner.lock().await.latest {
            *at = at.checked_sub(self.ttl).unwrap_or(*at);
        }
    }

    async fn wait(&self) -> Result<Arc<T>, Refused> {
        let mut inner = self.inner.lock().await;
        let latest = inner.latest.clone();
        if let Some((_, value)) = latest.as_ref().filter(|(at, _)| at.elapsed() < self.ttl) {
            return Ok(Arc::clone(value));
        }
        // A caller that gave up has left the call running.
        let running = inner.running.get_or_insert_with(|| {
            let (call, before) = (Arc::clone(&self.call), latest.map(|(_, value)| value));
            tokio::task::spawn_blocking(move || call(before))
        });
        let result = running.await;
        inner.running = None;
        let failed = |error| Refused { code: -5, text: format!("internal error: {error}") };
        let value = Arc::new(result.map_err(failed)??);
        inner.latest = Some((Instant::now(), Arc::clone(&value)));
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test]
    async fn many_callers_cause_one_call() {
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let cached = Cached::new(Duration::from_secs(60), move |before: Option<Arc<u32>>| {
            assert!(before.is_none_or(|n| *n == 1));
            Ok(counted.fetch_add(1, Ordering::SeqCst) + 1)
        });
        let (a, b) = tokio::join!(cached.get(), cached.get());
        assert_eq!((*a.expect("a value"), *b.expect("a value")), (1, 1));
        cached.forget().await;
        assert_eq!(*cached.get().await.expect("a value"), 2);
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_failure_is_not_kept() {
        let calls = AtomicU32::new(0);
        let cached =
            Cached::new(Duration::from_secs(60), move |_| match calls.fetch_add(1, Ordering::SeqCst) {
                0 => Err(Refused { code: -1, text: "no".into() }),
                n => Ok(n),
            });
        assert!(cached.get().await.is_err());
        assert_eq!(*cached.get().await.expect("a value"), 1);
    }
}

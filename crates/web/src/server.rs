//! The thread that serves what the cluster wants to be served: it asks the monitor of its process every two
//! seconds, and opens and closes ports as the answer changes.

use crate::app::App;
use crate::cached::Cached;
use crate::facts::{Facts, TTL};
use crate::listen;
use crate::metrics::{self, Metrics};
use crate::monitors::{Local, Monitors};
use crate::routes::routes;
use crate::tls;
use crate::value::{int, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Time between two questions to the monitor.
const PERIOD: Duration = Duration::from_secs(2);
/// Threads for blocking calls: they end with the calls.
const BLOCKING: usize = 16;

/// A monitor's HTTP server.
pub struct Server {
    local: Arc<dyn Local>,
    monitors: Arc<dyn Monitors>,
    facts: Arc<Cached<Facts>>,
    leads: Arc<AtomicBool>,
    open: BTreeMap<&'static str, Open>,
    /// What was last said of a module that can't be served: it is logged once.
    failed: BTreeMap<&'static str, String>,
}

/// A port that is served.
struct Open {
    /// The answer of the monitor that it was opened for.
    wanted: Value,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts the thread. It lasts as long as the process.
    pub fn start(local: Arc<dyn Local>, monitors: Arc<dyn Monitors>) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING)
            .thread_keep_alive(Duration::from_secs(5))
            .build()?;
        let asked = Arc::clone(&monitors);
        let facts =
            Cached::new(TTL, move |before: Option<Arc<Facts>>| Facts::read(&*asked, before.as_deref()));
        let server = Self {
            local,
            monitors,
            facts: Arc::new(facts),
            leads: Arc::default(),
            open: BTreeMap::new(),
            failed: BTreeMap::new(),
        };
        let run = move || runtime.block_on(server.run());
        std::thread::Builder::new().name("web".to_owned()).spawn(run).map(drop)
    }

    async fn run(mut self) {
        loop {
            let local = Arc::clone(&self.local);
            let wanted = tokio::task::spawn_blocking(move || local.to_serve()).await.ok().flatten();
            let wanted = wanted.unwrap_or_default();
            self.leads.store(wanted["leads"] == true, Ordering::Relaxed);
            for module in ["dashboard", "prometheus"] {
                self.follow(module, &wanted[module]).await;
            }
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// Opens or closes the port of a module.
    async fn follow(&mut self, module: &'static str, wanted: &Value) {
        if self.open.get(module).is_some_and(|open| open.wanted == *wanted) {
            return;
        }
        if let Some(open) = self.open.remove(module) {
            open.task.abort();
            // Its port is free when it has ended.
            let _ = open.task.await;
            tracing::info!(module, "is no longer served here");
        }
        if wanted.is_null() {
            self.failed.remove(module);
            return;
        }
        match self.start_module(module, wanted).await {
            Ok(open) => {
                self.failed.remove(module);
                self.open.insert(module, open);
            }
            Err(why) if self.failed.get(module) == Some(&why) => {}
            Err(why) => {
                tracing::warn!(module, "cannot be served: {why}");
                self.failed.insert(module, why);
            }
        }
    }

    async fn start_module(&self, module: &str, wanted: &Value) -> Result<Open, String> {
        let port = u16::try_from(int(&wanted["port"])).map_err(|_| "its port is none".to_owned())?;
        let is_secure = wanted["scheme"] == "https";
        let monitors = Arc::clone(&self.monitors);
        let tls = match is_secure {
            true => {
                let read = tokio::task::spawn_blocking(move || tls::acceptor(&*monitors)).await;
                Some(read.map_err(|error| error.to_string())??)
            }
            false => None,
        };
        let routes = match module {
            "dashboard" => {
                let app = App::new(Arc::clone(&self.monitors), Arc::clone(&self.facts), is_secure);
                routes(&Arc::new(app.map_err(|_| "the system gives no random numbers".to_owned())?))
            }
            _ => metrics::routes(Metrics { facts: Arc::clone(&self.facts), leads: Arc::clone(&self.leads) }),
        };
        let listener = listen::bind(text(&wanted["addr"]), port).await;
        let listener = listener.map_err(|error| format!("port {port}: {error}"))?;
        let addr = listener.local_addr().map_err(|error| error.to_string())?;
        tracing::info!(module, %addr, tls = is_secure, "is served");
        let task = tokio::spawn(listen::serve(listener, tls, routes));
        Ok(Open { wanted: wanted.clone(), task })
    }
}

//! The thread that serves what the cluster wants to be served: it asks the monitor of its process every two
//! seconds, and opens and closes ports as the answer changes.

use crate::app::App;
use crate::cached::Cached;
use crate::facts::{Facts, TTL};
use crate::listen;
use crate::metrics::{self, Metrics};
use crate::monitors::{Local, Monitors};
use crate::port::Port;
use crate::routes::routes;
use crate::tls;
use crate::value::{int, text};
use serde_json::Value;
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
        let server = Self { local, monitors, facts: Arc::new(facts), leads: Arc::default() };
        let run = move || runtime.block_on(server.run());
        std::thread::Builder::new().name("web".to_owned()).spawn(run).map(drop)
    }

    async fn run(self) {
        let mut ports = ["dashboard", "prometheus"].map(|module| (module, Port::default()));
        loop {
            let local = Arc::clone(&self.local);
            let wanted = tokio::task::spawn_blocking(move || local.to_serve()).await.ok().flatten();
            let wanted = wanted.unwrap_or_default();
            self.leads.store(wanted["leads"] == true, Ordering::Relaxed);
            for (module, port) in &mut ports {
                let start = async |wanted: &Value| self.start_module(module, wanted).await;
                port.follow(module, &wanted[*module], start).await;
            }
            tokio::time::sleep(PERIOD).await;
        }
    }

    async fn start_module(&self, module: &str, wanted: &Value) -> Result<JoinHandle<()>, String> {
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
        Ok(tokio::spawn(listen::serve(listener, tls, routes)))
    }
}

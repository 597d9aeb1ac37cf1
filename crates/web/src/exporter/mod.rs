//! The counters of a host's daemons, as Ceph's `ceph-exporter` serves them: `/metrics` at port 9926, made of
//! what each daemon says on its admin socket (docs/adr/0027-exporter-of-a-host.md).
//!
//! It asks nobody but the daemons of its host, also for its own options, which monitors send them: it needs
//! no key, and goes on without a quorum.

mod asok;
mod counters;
#[cfg(test)]
mod tests;

use crate::listen;
use crate::metrics::text::CONTENT_TYPE;
use crate::port::Port;
use crate::value::{int, text};
use asok::Socket;
use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use counters::Told;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

/// Time between two looks at what is wanted.
const PERIOD: Duration = Duration::from_secs(2);
/// The time for which all who ask are shown the same.
const TTL: Duration = Duration::from_millis(500);

/// A host whose daemons are to be exported.
#[derive(Clone, Debug)]
pub struct ExportedHost {
    /// The directory of their admin sockets.
    pub sockets: PathBuf,
    /// Its name.
    pub hostname: String,
}

/// Where an exporter serves that does not ask its daemons for that.
#[derive(Clone, Debug)]
pub struct ExporterPlace {
    /// An IP address; empty for all.
    pub addr: String,
    /// The port.
    pub port: u16,
}

impl ExportedHost {
    /// Starts a thread that serves the host's metrics while its daemons' options say so. It lasts as long as
    /// the process.
    pub fn serve_if_wanted(self) -> std::io::Result<()> {
        let runtime = runtime()?;
        let run = move || runtime.block_on(self.follow_options());
        std::thread::Builder::new().name("exporter".to_owned()).spawn(run).map(drop)
    }

    /// Serves the host's metrics, on this thread; returns only if that can't begin.
    pub fn serve(self, place: &ExporterPlace) -> Result<(), String> {
        let wanted = json!({ "addr": place.addr, "port": place.port });
        let serve = async {
            start(self, &wanted).await?.await.map_err(|error| error.to_string())?;
            Ok(())
        };
        runtime().map_err(|error| error.to_string())?.block_on(serve)
    }

    async fn follow_options(self) {
        let mut port = Port::default();
        loop {
            let wanted = self.wanted().await;
            let host = self.clone();
            port.follow("exporter", &wanted, async |wanted: &Value| start(host, wanted).await).await;
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// What the options of the first daemon that answers say; `null` if nothing is to be served.
    async fn wanted(&self) -> Value {
        for socket in asok::sockets(&self.sockets) {
            let option = async |name: &str| {
                let answer = socket.ask(&json!({ "prefix": "config get", "var": name })).await?;
                Some(text(&answer[name]).to_owned())
            };
            let Some(addr) = option("exporter_addr").await else { continue };
            if addr.is_empty() {
                return Value::Null;
            }
            let (port, prio) = (option("exporter_http_port").await, option("exporter_prio_limit").await);
            let number = |value: Option<String>| value.and_then(|value| value.parse::<i64>().ok());
            let (Some(port), Some(prio)) = (number(port), number(prio)) else { continue };
            // All addresses are those of both families, where there are two.
            let addr = if addr == "::" { String::new() } else { addr };
            return json!({ "addr": addr, "port": port, "prio": prio });
        }
        Value::Null
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

async fn start(host: ExportedHost, wanted: &Value) -> Result<tokio::task::JoinHandle<()>, String> {
    let port = u16::try_from(int(&wanted["port"])).map_err(|_| "its port is none".to_owned())?;
    let listener = listen::bind(text(&wanted["addr"]), port).await;
    let listener = listener.map_err(|error| format!("port {port}: {error}"))?;
    let exporter = Arc::new(Exporter { host, prio: int(&wanted["prio"]), latest: Mutex::default() });
    Ok(tokio::spawn(listen::serve(listener, None, routes(exporter))))
}

/// What the routes use.
struct Exporter {
    host: ExportedHost,
    /// Counters of a lower priority are left out.
    prio: i64,
    latest: Mutex<Option<(Instant, Arc<str>)>>,
}

fn routes(exporter: Arc<Exporter>) -> Router {
    let page = "<!doctype html><title>Metrics</title><p><a href=\"/metrics\">Metrics</a>";
    Router::new()
        .route("/", get(move || async move { Html(page) }))
        .route("/metrics", get(answer))
        .with_state(exporter)
}

async fn answer(State(exporter): State<Arc<Exporter>>) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], exporter.text().await.to_string()).into_response()
}

impl Exporter {
    /// The metrics. At most one round of questions is under way.
    async fn text(&self) -> Arc<str> {
        let mut latest = self.latest.lock().await;
        if let Some((_, text)) = latest.as_ref().filter(|(at, _)| at.elapsed() < TTL) {
            return Arc::clone(text);
        }
        let told = ask_all(&self.host.sockets).await;
        let text: Arc<str> = counters::exposition(&self.host.hostname, &told, self.prio).into();
        *latest = Some((Instant::now(), Arc::clone(&text)));
        text
    }
}

/// Asks all daemons at once.
async fn ask_all(dir: &Path) -> Vec<Told> {
    let mut asking = JoinSet::new();
    for socket in asok::sockets(dir) {
        asking.spawn(told_by(socket));
    }
    let mut told = asking.join_all().await;
    told.sort_by(|a, b| a.daemon.cmp(&b.daemon));
    told
}

async fn told_by(socket: Socket) -> Told {
    let dump = socket.ask(&json!({ "prefix": "counter dump" })).await;
    let schema = socket.ask(&json!({ "prefix": "counter schema" })).await;
    Told { daemon: socket.daemon, answers: dump.zip(schema) }
}

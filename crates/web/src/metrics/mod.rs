//! `/metrics`: what Ceph's manager module `prometheus` exports, under its names and labels, so that its
//! Grafana dashboards and alert rules work.
//!
//! Values are those of `ceph status`, `df`, `osd dump` and their like. The monitor that leads answers; others
//! answer with nothing, as Ceph's managers that stand by do, so that a Prometheus that scrapes all has each
//! value once.

mod daemons;
mod pools;
pub(crate) mod text;

use crate::cached::Cached;
use crate::facts::Facts;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use text::Exposition;

/// What the routes use.
#[derive(Clone)]
pub(crate) struct Metrics {
    /// The cluster.
    pub facts: Arc<Cached<Facts>>,
    /// True while the monitor of this process leads.
    pub leads: Arc<AtomicBool>,
}

/// The routes of the metrics' port.
pub(crate) fn routes(metrics: Metrics) -> Router {
    let page = "<!doctype html><title>Metrics</title><p><a href=\"/metrics\">Metrics</a>";
    Router::new()
        .route("/", get(move || async move { Html(page) }))
        .route("/metrics", get(answer))
        .with_state(metrics)
}

async fn answer(State(metrics): State<Metrics>) -> Response {
    let head = [(header::CONTENT_TYPE, text::CONTENT_TYPE)];
    if !metrics.leads.load(Ordering::Relaxed) {
        return (head, String::new()).into_response();
    }
    match metrics.facts.get().await {
        Ok(facts) => (head, of(&facts)).into_response(),
        Err(refused) => (StatusCode::SERVICE_UNAVAILABLE, refused.to_string()).into_response(),
    }
}

/// All metrics.
pub(crate) fn of(facts: &Facts) -> String {
    let mut out = Exposition::default();
    daemons::health(facts, &mut out);
    daemons::monitors(facts, &mut out);
    daemons::managers(facts, &mut out);
    daemons::metadata_servers(facts, &mut out);
    daemons::osds(facts, &mut out);
    daemons::devices(facts, &mut out);
    pools::cluster(facts, &mut out);
    pools::pools(facts, &mut out);
    pools::pgs(facts, &mut out);
    let took = facts.took.as_secs_f64();
    out.one("ceph_scrape_duration_seconds", "gauge", "Time taken to ask the monitors", took);
    out.finish()
}

#[cfg(test)]
mod tests;

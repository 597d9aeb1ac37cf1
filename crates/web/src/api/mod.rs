//! `/api/…`: JSON for the page and for programs. `/api/openapi.json` describes it.

mod auth;
mod files;
mod lists;
mod request;
mod run;
mod single;

use crate::app::App;
use crate::guard::error;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};
use std::sync::Arc;

/// The routes below `/api`.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/auth", post(auth::log_in))
        .route("/auth/logout", post(auth::log_out))
        .route("/session", get(auth::session))
        .route("/summary", get(single::summary))
        .route("/health", get(single::health))
        .route("/pgs", get(single::pgs))
        .route("/filesystems", get(single::filesystems))
        .route("/clients", get(files::clients))
        .route("/directories", get(files::directories))
        .route("/monitors", get(single::monitors))
        .route("/log", get(single::log))
        .route("/hosts", get(lists::hosts))
        .route("/hosts/usage", get(lists::usage))
        .route("/osds", get(lists::osds))
        .route("/pools", get(lists::pools))
        .route("/actions", get(run::list).post(run::run))
        .route("/openapi.json", get(single::openapi))
        .fallback(|| async { error(StatusCode::NOT_FOUND, "there is no such path: see /api/openapi.json") })
}

#[cfg(test)]
mod tests;

//! Clients and directories of file systems, which metadata servers are asked for.

use super::request::number;
use crate::app::App;
use crate::files::{FileSystem, Files};
use crate::guard::{answer, error};
use crate::tables::List;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use std::sync::{Arc, PoisonError};

async fn files(app: &App) -> Result<Arc<Files>, Response> {
    app.files.get().await.map_err(|refused| error(StatusCode::SERVICE_UNAVAILABLE, &refused.to_string()))
}

/// The busiest clients of all file systems, and how many there are.
pub(super) async fn clients(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Response {
    let files = match files(&app).await {
        Ok(files) => files,
        Err(response) => return response,
    };
    let rows = || files.filesystems.iter().flat_map(|fs| fs.clients.clone()).collect();
    let mut tables = app.tables.lock().unwrap_or_else(PoisonError::into_inner);
    let mut list = tables.since(List::Clients, files.at, number(query.as_deref(), "since"), rows);
    let one = |fs: &FileSystem| {
        json!({
            "id": fs.id, "name": fs.name, "clients": fs.num_clients,
            "more": fs.num_clients.saturating_sub(fs.clients.len()), "unanswered": fs.unanswered,
        })
    };
    list["filesystems"] = files.filesystems.iter().map(one).collect();
    answer(&list)
}

/// The largest and the busiest directories of all file systems.
pub(super) async fn directories(State(app): State<Arc<App>>) -> Response {
    let files = match files(&app).await {
        Ok(files) => files,
        Err(response) => return response,
    };
    let one = |fs: &FileSystem| {
        json!({
            "id": fs.id, "name": fs.name, "by_size": fs.by_size, "by_load": fs.by_load,
            "seen_all": fs.seen_all_dirs, "unanswered": fs.unanswered,
        })
    };
    answer(&json!({ "filesystems": files.filesystems.iter().map(one).collect::<Vec<Value>>() }))
}

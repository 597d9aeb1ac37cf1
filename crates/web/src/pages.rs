//! The page itself: files within the binary, so that it works without any other host.

use crate::app::App;
use crate::guard::FIRST_USER;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::Arc;

/// The description of the API.
pub(crate) const OPENAPI: &str = include_str!("../assets/openapi.json");

/// Path, type and content.
const FILES: &[(&str, &str, &str)] = &[
    ("/", "text/html; charset=utf-8", include_str!("../assets/index.html")),
    ("/icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
    ("/style.css", "text/css; charset=utf-8", include_str!("../assets/style.css")),
    ("/app.js", "text/javascript; charset=utf-8", include_str!("../assets/app.js")),
    ("/api.js", "text/javascript; charset=utf-8", include_str!("../assets/api.js")),
    ("/chart.js", "text/javascript; charset=utf-8", include_str!("../assets/chart.js")),
    ("/dom.js", "text/javascript; charset=utf-8", include_str!("../assets/dom.js")),
    ("/filesystems.js", "text/javascript; charset=utf-8", include_str!("../assets/filesystems.js")),
    ("/hosts.js", "text/javascript; charset=utf-8", include_str!("../assets/hosts.js")),
    ("/views.js", "text/javascript; charset=utf-8", include_str!("../assets/views.js")),
    ("/actions.js", "text/javascript; charset=utf-8", include_str!("../assets/actions.js")),
];

/// The routes of the page's files.
pub(crate) fn routes() -> Router<Arc<App>> {
    let mut routes = Router::new();
    for (path, kind, content) in FILES {
        routes = routes.route(path, get(move |State(app): State<Arc<App>>| file(app, kind, content)));
    }
    routes.fallback(|| async { (StatusCode::NOT_FOUND, "there is no such page") })
}

/// A file; until there is a user, what makes one.
async fn file(app: Arc<App>, kind: &'static str, content: &'static str) -> Response {
    let text = match app.users.get().await {
        Ok(users) if !users.is_empty() => return ([(header::CONTENT_TYPE, kind)], content).into_response(),
        Ok(_) => format!(
            "There is no user of the dashboard yet.\n\nWrite a password into FILE and make one on a \
             host with the cluster's admin key:\n\n    {FIRST_USER}\n"
        ),
        Err(refused) => format!("The monitors do not answer: {refused}\n"),
    };
    let head = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    (StatusCode::SERVICE_UNAVAILABLE, head, text).into_response()
}

//! What handlers take out of a request.

use crate::app::App;
use crate::facts::Facts;
use crate::guard::error;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use serde_json::Value;
use std::sync::Arc;

/// The longest body of a request, in bytes.
const MAX_BODY: usize = 16 << 10;

/// The facts, or the answer that says why there are none.
pub(super) async fn facts(app: &App) -> Result<Arc<Facts>, Response> {
    app.facts.get().await.map_err(|refused| error(StatusCode::SERVICE_UNAVAILABLE, &refused.to_string()))
}

/// A request's body as JSON.
pub(super) async fn json(headers: &HeaderMap, body: Body) -> Result<Value, Response> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("application/json") {
        return Err(error(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send JSON as application/json"));
    }
    let too_long = |_| error(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long");
    let bytes = axum::body::to_bytes(body, MAX_BODY).await.map_err(too_long)?;
    serde_json::from_slice(&bytes).map_err(|why| error(StatusCode::BAD_REQUEST, &format!("no JSON: {why}")))
}

/// The value of a number in the query, 0 if there is none.
pub(super) fn number(query: Option<&str>, name: &str) -> u64 {
    let pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(key, _)| *key == name).find_map(|(_, value)| value.parse().ok()).unwrap_or(0)
}

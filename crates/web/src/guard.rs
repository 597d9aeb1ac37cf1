//! What stands before every request: bounds, headers for browsers, who it is, and whether a browser was made
//! to send it by somebody else's page.

use crate::app::App;
use crate::clock::now;
use crate::login::{COOKIE, Role, Session};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The header that requests which change something carry. A page of another origin can't send it without
/// being allowed to, which it is not.
pub(crate) const HEADER: &str = "x-nacre-request";
/// The time within which a request is answered.
const PATIENCE: Duration = Duration::from_secs(20);
/// The command that makes the first user.
pub(crate) const FIRST_USER: &str = "ceph dashboard ac-user-create NAME -i FILE administrator";

/// An error as the API gives it.
pub(crate) fn error(status: StatusCode, text: &str) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], json!({ "error": text }).to_string())
        .into_response()
}

/// JSON as the API gives it.
pub(crate) fn answer(json: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json.to_string()).into_response()
}

/// Adds what browsers are to know to every response, and ends what takes too long.
pub(crate) async fn everything(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let answered = tokio::time::timeout(PATIENCE, next.run(request)).await;
    let mut response = answered.unwrap_or_else(|_| error(StatusCode::GATEWAY_TIMEOUT, "that took too long"));
    let headers = response.headers_mut();
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                  img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if app.is_secure {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// The cookie of a session among all cookies.
fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = all.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value).next()
}

/// True if a request comes from our own page, or from no page.
fn is_ours(app: &App, headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let scheme = if app.is_secure { "https" } else { "http" };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    origin.as_bytes() == format!("{scheme}://{host}").as_bytes()
}

/// Lets a request of the API through to those who may make it.
pub(crate) async fn api(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let changes = request.method() != Method::GET && request.method() != Method::HEAD;
    if changes && !request.headers().contains_key(HEADER) {
        return error(StatusCode::FORBIDDEN, &format!("the header `{HEADER}: 1` is lacking"));
    }
    if changes && !is_ours(&app, request.headers()) {
        return error(StatusCode::FORBIDDEN, "the request comes from a page of another origin");
    }
    let users = match app.users.get().await {
        Ok(users) => users,
        Err(refused) => return error(StatusCode::SERVICE_UNAVAILABLE, &refused.to_string()),
    };
    if users.is_empty() {
        let text = format!("there is no user yet; make one: {FIRST_USER}");
        return error(StatusCode::SERVICE_UNAVAILABLE, &text);
    }
    // Within the nested router the path has lost its first part.
    let path = request.uri().path();
    if path == "/auth" {
        return next.run(request).await;
    }
    let session = cookie(request.headers()).and_then(|cookie| app.keys.check(cookie, &users, now()));
    let Some(session) = session else { return error(StatusCode::UNAUTHORIZED, "log in first") };
    if changes && path != "/auth/logout" && session.user.role != Role::Administrator {
        let text =
            "the role read-only may not do that: `ceph dashboard ac-user-set-roles NAME administrator`";
        return error(StatusCode::FORBIDDEN, text);
    }
    request.extensions_mut().insert::<Session>(session);
    next.run(request).await
}

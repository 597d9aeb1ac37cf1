//! Log-in and log-out.

use super::request::json;
use crate::app::App;
use crate::clock::now;
use crate::guard::{answer, error};
use crate::listen::Peer;
use crate::login::{COOKIE, Session, User};
use crate::value::text;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The time for which a log-in waits for others to be checked.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest password that is looked at, in bytes.
const MAX_PASSWORD: usize = 1024;

fn shown(user: &User) -> Value {
    json!({ "username": user.name, "role": user.role.name() })
}

fn with_cookie(app: &App, mut response: Response, value: &str) -> Response {
    let secure = if app.is_secure { "; Secure" } else { "" };
    let gone = if value.is_empty() { "; Max-Age=0" } else { "" };
    let cookie = format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{gone}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

pub(super) async fn log_in(
    State(app): State<Arc<App>>,
    Extension(Peer(from)): Extension<Peer>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let said = match json(&headers, body).await {
        Ok(said) => said,
        Err(response) => return response,
    };
    let (name, password) = (text(&said["username"]).to_owned(), text(&said["password"]).to_owned());
    if password.is_empty() || password.len() > MAX_PASSWORD || name.len() > 256 {
        return error(StatusCode::BAD_REQUEST, "give username and password");
    }
    if !app.limit.take(from, now()) {
        return error(StatusCode::TOO_MANY_REQUESTS, "too many wrong passwords: wait a minute");
    }
    let Ok(users) = app.users.get().await else {
        return error(StatusCode::SERVICE_UNAVAILABLE, "the monitors do not answer");
    };
    let turn = tokio::time::timeout(PATIENCE, Arc::clone(&app.hashing).acquire_owned()).await;
    let Ok(Ok(turn)) = turn else {
        return error(StatusCode::TOO_MANY_REQUESTS, "too many log-ins at once: try again");
    };
    // The turn lasts as long as the check, also if this client does not wait.
    let checked = tokio::task::spawn_blocking(move || {
        let user = users.check(&name, &password);
        drop(turn);
        user
    });
    let Ok(Some(user)) = checked.await else {
        tracing::warn!(%from, "a log-in to the dashboard failed");
        return error(StatusCode::UNAUTHORIZED, "wrong name or password");
    };
    app.limit.was_right(from);
    match app.keys.begin(&user, now()) {
        Ok(cookie) => with_cookie(&app, answer(&shown(&user)), &cookie),
        Err(_) => error(StatusCode::INTERNAL_SERVER_ERROR, "the system gives no random numbers"),
    }
}

pub(super) async fn log_out(State(app): State<Arc<App>>, Extension(session): Extension<Session>) -> Response {
    app.keys.end(&session, now());
    with_cookie(&app, answer(&json!({})), "")
}

pub(super) async fn session(Extension(session): Extension<Session>) -> Response {
    answer(&shown(&session.user))
}

//! Actions of administrators.

use super::request::json;
use crate::actions::{list as all, plan_of, run as run_plan};
use crate::app::App;
use crate::guard::{answer, error};
use crate::login::Session;
use crate::value::text;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::json;
use std::sync::Arc;

pub(super) async fn list() -> Response {
    answer(&all())
}

/// Says what an action would do (`"dry_run": true`), or does it. What is done must be what was shown.
pub(super) async fn run(
    State(app): State<Arc<App>>,
    Extension(session): Extension<Session>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let said = match json(&headers, body).await {
        Ok(said) => said,
        Err(response) => return response,
    };
    let plan = match plan_of(text(&said["name"]), &said["args"]) {
        Ok(plan) => plan,
        Err(why) => return error(StatusCode::BAD_REQUEST, &why),
    };
    let shown = json!({ "command": plan.text, "effect": plan.effect });
    if said["dry_run"].as_bool() == Some(true) {
        return answer(&shown);
    }
    if text(&said["command"]) != plan.text {
        return error(StatusCode::CONFLICT, "`command` must be the one that the dry run showed");
    }
    let Ok(_turn) = app.acting.try_acquire() else {
        return error(StatusCode::TOO_MANY_REQUESTS, "other actions are under way: try again");
    };
    let (monitors, user) = (Arc::clone(&app.monitors), session.user.name);
    let done = tokio::task::spawn_blocking(move || run_plan(&*monitors, &plan, &user)).await;
    app.facts.forget().await;
    app.files.forget().await;
    match done {
        Ok(Ok(output)) => answer(&json!({ "command": shown["command"], "output": output })),
        Ok(Err(refused)) => error(StatusCode::BAD_GATEWAY, &refused.to_string()),
        Err(_) => error(StatusCode::INTERNAL_SERVER_ERROR, "internal error"),
    }
}

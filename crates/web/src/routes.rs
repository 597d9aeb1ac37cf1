//! The routes of the dashboard's port.

use crate::app::App;
use crate::{api, guard, pages};
use axum::Router;
use axum::middleware::from_fn_with_state;
use std::sync::Arc;

/// All routes of the dashboard's port.
pub(crate) fn routes(app: &Arc<App>) -> Router {
    let api = api::routes().layer(from_fn_with_state(Arc::clone(app), guard::api));
    Router::new()
        .nest("/api", api)
        .merge(pages::routes())
        .layer(from_fn_with_state(Arc::clone(app), guard::everything))
        .with_state(Arc::clone(app))
}

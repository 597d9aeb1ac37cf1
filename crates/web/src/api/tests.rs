//! Requests to the dashboard's routes, without sockets.

use crate::app::App;
use crate::cached::Cached;
use crate::facts::{Facts, TTL};
use crate::fake::{Fake, PASSWORD};
use crate::listen::Peer;
use crate::monitors::Monitors;
use crate::routes::routes;
use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use tower::ServiceExt;

struct Page {
    routes: Router,
    fake: Arc<Fake>,
}

/// An answer: status, `Set-Cookie`, body.
type Answer = (StatusCode, String, String);

impl Page {
    fn of(fake: Fake) -> Self {
        let fake = Arc::new(fake);
        let monitors: Arc<dyn Monitors> = Arc::clone(&fake) as Arc<dyn Monitors>;
        let asked = Arc::clone(&monitors);
        let facts =
            Cached::new(TTL, move |before: Option<Arc<Facts>>| Facts::read(&*asked, before.as_deref()));
        let app = App::new(monitors, Arc::new(facts), false).expect("randomness");
        Self { routes: routes(&Arc::new(app)), fake }
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost:8080");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = if method == "GET" { Body::empty() } else { Body::from(body.to_string()) };
        let request = request.extension(Peer([127, 0, 0, 1].into())).body(body).expect("a request");
        let response = self.routes.clone().oneshot(request).await.expect("never fails");
        let (head, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, 16 << 20).await.expect("a body");
        let cookie = head.headers.get("set-cookie").map_or("", |c| c.to_str().expect("text")).to_owned();
        assert!(head.headers.contains_key("content-security-policy"), "{path}");
        (head.status, cookie, String::from_utf8(bytes.to_vec()).expect("text"))
    }

    async fn post(&self, path: &str, cookie: &str, body: Value) -> Answer {
        let headers = [
            ("content-type", "application/json"),
            ("x-nacre-request", "1"),
            ("cookie", cookie),
            ("origin", "http://localhost:8080"),
        ];
        self.send("POST", path, &headers, &body).await
    }

    async fn get(&self, path: &str, cookie: &str) -> (StatusCode, Value) {
        let (status, _, body) = self.send("GET", path, &[("cookie", cookie)], &Value::Null).await;
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    /// The cookie of a session.
    async fn log_in(&self, name: &str) -> String {
        let (status, cookie, body) =
            self.post("/api/auth", "", json!({ "username": name, "password": PASSWORD })).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        cookie.split(';').next().expect("a cookie").to_owned()
    }
}

#[tokio::test]
async fn nobody_sees_anything_without_a_user_or_a_log_in() {
    let mut fake = Fake::new(1, 3);
    fake.users.clear();
    let page = Page::of(fake);
    let (status, body) = page.get("/", "").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body.as_str().expect("text").contains("ceph dashboard ac-user-create"), "{body}");
    assert_eq!(page.get("/api/summary", "").await.0, StatusCode::SERVICE_UNAVAILABLE);
    let page = Page::of(Fake::new(1, 3));
    assert_eq!(page.get("/", "").await.0, StatusCode::OK);
    for path in ["summary", "health", "osds", "log", "session", "actions", "openapi.json", "nothing"] {
        assert_eq!(page.get(&format!("/api/{path}"), "").await.0, StatusCode::UNAUTHORIZED, "{path}");
        let forged = page.get(&format!("/api/{path}"), "nacre_session=AAAA.BBBB").await.0;
        assert_eq!(forged, StatusCode::UNAUTHORIZED, "{path}");
    }
}

#[tokio::test]
async fn wrong_passwords_are_refused_and_then_not_even_looked_at() {
    let page = Page::of(Fake::new(1, 3));
    for name in ["kim", "nobody"] {
        let (status, cookie, body) =
            page.post("/api/auth", "", json!({ "username": name, "password": "wrong" })).await;
        assert_eq!((status, cookie.as_str()), (StatusCode::UNAUTHORIZED, ""));
        assert!(body.contains("wrong name or password"), "{body}");
    }
    for _ in 0..3 {
        page.post("/api/auth", "", json!({ "username": "kim", "password": "wrong" })).await;
    }
    let right = page.post("/api/auth", "", json!({ "username": "kim", "password": PASSWORD })).await;
    assert_eq!(right.0, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn requests_that_other_pages_made_a_browser_send_are_refused() {
    let page = Page::of(Fake::new(1, 3));
    let cookie = page.log_in("kim").await;
    let body = json!({ "name": "flag-set", "args": { "flag": "noout" }, "command": "ceph osd set noout" });
    let json = ("content-type", "application/json");
    let send = async |headers: &[(&str, &str)]| {
        page.send("POST", "/api/actions", &[headers, &[("cookie", &cookie)]].concat(), &body).await.0
    };
    assert_eq!(send(&[json]).await, StatusCode::FORBIDDEN, "no header");
    for origin in ["http://evil.example", "https://localhost:8080", "http://localhost:8081", "null"] {
        let status = send(&[json, ("x-nacre-request", "1"), ("origin", origin)]).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{origin}");
    }
    let form = ("content-type", "application/x-www-form-urlencoded");
    assert_eq!(send(&[form, ("x-nacre-request", "1")]).await, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert!(page.fake.ran.lock().expect("nobody panicked").is_empty());
    let log_in =
        page.send("POST", "/api/auth", &[json], &json!({ "username": "kim", "password": PASSWORD })).await;
    assert_eq!(log_in.0, StatusCode::FORBIDDEN, "nobody is logged in by another page either");
}

#[tokio::test]
async fn an_action_is_shown_then_done_and_logged_and_only_for_administrators() {
    let page = Page::of(Fake::new(1, 3));
    let (kim, jo) = (page.log_in("kim").await, page.log_in("jo").await);
    let dry = json!({ "name": "osd-out", "args": { "osd": "2" }, "dry_run": true });
    assert_eq!(page.post("/api/actions", &jo, dry.clone()).await.0, StatusCode::FORBIDDEN);
    let (status, _, body) = page.post("/api/actions", &kim, dry).await;
    let plan: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((status, &plan["command"]), (StatusCode::OK, &json!("ceph osd out 2")));
    assert!(page.fake.ran.lock().expect("nobody panicked").is_empty(), "it was only shown");
    let unseen = json!({ "name": "osd-out", "args": { "osd": "1" }, "command": plan["command"] });
    assert_eq!(page.post("/api/actions", &kim, unseen).await.0, StatusCode::CONFLICT);
    let run = json!({ "name": "osd-out", "args": { "osd": "2" }, "command": plan["command"] });
    assert_eq!(page.post("/api/actions", &jo, run.clone()).await.0, StatusCode::FORBIDDEN);
    assert_eq!(page.post("/api/actions", &kim, run).await.0, StatusCode::OK);
    let ran = page.fake.ran.lock().expect("nobody panicked").clone();
    assert_eq!(ran[0], json!({ "prefix": "log", "logtext": ["dashboard: kim runs `ceph osd out 2`"] }));
    assert_eq!(ran[1], json!({ "prefix": "osd out", "ids": ["2"] }));
    let refused = json!({ "name": "osd-out", "args": { "osd": "99" }, "command": "ceph osd out 99" });
    let (status, _, body) = page.post("/api/actions", &kim, refused).await;
    assert!(status == StatusCode::BAD_GATEWAY && body.contains("osd.99 does not exist"), "{body}");
}

#[tokio::test]
async fn a_session_ends_with_a_log_out() {
    let page = Page::of(Fake::new(1, 3));
    let cookie = page.log_in("jo").await;
    assert_eq!(page.get("/api/session", &cookie).await.1, json!({ "username": "jo", "role": "read-only" }));
    assert_eq!(page.post("/api/auth/logout", &cookie, json!({})).await.0, StatusCode::OK);
    assert_eq!(page.get("/api/session", &cookie).await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn bodies_that_are_too_long_or_no_json_are_refused() {
    let page = Page::of(Fake::new(1, 3));
    let long = json!({ "username": "x".repeat(20_000), "password": "y" });
    assert_eq!(page.post("/api/auth", "", long).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    let long = json!({ "username": "kim", "password": "y".repeat(2000) });
    assert_eq!(page.post("/api/auth", "", long).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(page.post("/api/auth", "", json!("x")).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn every_path_that_is_described_answers_and_shows_no_secret() {
    let page = Page::of(Fake::new(2, 4));
    let cookie = page.log_in("kim").await;
    let (_, described) = page.get("/api/openapi.json", &cookie).await;
    let paths: Vec<String> = described["paths"].as_object().expect("paths").keys().cloned().collect();
    assert_eq!(paths.len(), 17, "{paths:?}");
    for path in &paths {
        let operations = &described["paths"][path];
        if operations.get("get").is_some() {
            let (status, body) = page.get(&format!("/api{path}"), &cookie).await;
            assert_eq!(status, StatusCode::OK, "{path}: {body}");
            assert!(!body.to_string().contains("pbkdf2"), "{path}");
        }
    }
    for path in &paths {
        let operations = &described["paths"][path];
        if operations.get("post").is_some() {
            let (status, ..) = page.post(&format!("/api{path}"), &cookie, json!({})).await;
            assert!(![StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED].contains(&status), "{path}");
        }
    }
}

#[tokio::test]
async fn health_has_cause_effect_and_what_to_do() {
    let mut fake = Fake::new(1, 3);
    let check = json!({
        "severity": "HEALTH_WARN", "summary": { "message": "1 osds down", "count": 1 }, "muted": false,
        "detail": [{ "message": "osd.1 is down" }],
    });
    fake.health = json!({ "status": "HEALTH_WARN", "checks": { "OSD_DOWN": check }, "mutes": [] });
    let page = Page::of(fake);
    let cookie = page.log_in("jo").await;
    let (_, health) = page.get("/api/health", &cookie).await;
    let check = &health["checks"][0];
    assert_eq!((&check["code"], &check["cause"]), (&json!("OSD_DOWN"), &json!(["osd.1 is down"])));
    assert!(check["effect"].as_str().expect("text").contains("copy"), "{check}");
    assert!(check["to_do"].as_str().expect("text").contains("start the OSD"), "{check}");
    let (_, summary) = page.get("/api/summary", &cookie).await;
    assert_eq!(summary["recovery"]["seconds_left"], 10.0, "30 objects at 3 a second");
}

#[tokio::test]
async fn the_log_goes_on_behind_the_last_line() {
    let page = Page::of(Fake::new(1, 3));
    let cookie = page.log_in("jo").await;
    let (_, all) = page.get("/api/log", &cookie).await;
    assert_eq!(all["lines"].as_array().map(Vec::len), Some(2));
    let key = all["lines"][0]["key"].as_str().expect("a key");
    let escaped = key.replace(':', "%3A").replace('/', "%2F").replace('+', "%2B");
    let (_, rest) = page.get(&format!("/api/log?after={escaped}"), &cookie).await;
    assert_eq!(
        (rest["lines"].as_array().map(Vec::len), &rest["lines"][0]["text"]),
        (Some(1), &json!("<b>two"))
    );
}

#[tokio::test]
async fn a_large_cluster_costs_little_once_it_is_known() {
    let page = Page::of(Fake::new(100, 1000));
    let cookie = page.log_in("jo").await;
    let (_, all) = page.get("/api/osds", &cookie).await;
    assert_eq!(all["rows"].as_object().map(serde_json::Map::len), Some(1000));
    assert!(all.to_string().len() < 300_000, "{}", all.to_string().len());
    let (_, changed) = page.get(&format!("/api/osds?since={}", all["version"]), &cookie).await;
    assert!(changed.to_string().len() < 100, "nothing has changed: {changed}");
    let (_, summary) = page.get("/api/summary", &cookie).await;
    assert!(summary.to_string().len() < 20_000);
}

#[tokio::test]
async fn a_crowd_of_clients_is_shown_in_part() {
    let mut fake = Fake::new(100, 1000);
    fake.clients = 10_000;
    let page = Page::of(fake);
    let cookie = page.log_in("jo").await;
    let (_, all) = page.get("/api/clients", &cookie).await;
    let rows = all["rows"].as_object().expect("rows");
    assert_eq!((rows.len(), &all["filesystems"][0]["more"]), (100, &json!(9900)));
    let first = &rows["1/4099"];
    assert_eq!(
        (&first["name"], &first["kind"]),
        (&json!("client.csi-cephfs-node"), &json!("Linux 6.8.0-31-generic"))
    );
    let (_, directories) = page.get("/api/directories", &cookie).await;
    let fs = &directories["filesystems"][0];
    assert_eq!((fs["by_size"].as_array().map(Vec::len), &fs["seen_all"]), (Some(20), &json!(false)));
    assert_eq!(
        page.fake.told.load(std::sync::atomic::Ordering::Relaxed),
        1,
        "servers were asked once for both"
    );
    // The page asks every 5 s. Here each row has changed.
    let updates = all.to_string().len() + directories.to_string().len();
    assert!(updates < 5 * 50_000, "{updates} bytes");
    let (_, changed) = page.get(&format!("/api/clients?since={}", all["version"]), &cookie).await;
    assert!(changed.to_string().len() < 200, "nothing has changed: {changed}");
}

#[tokio::test]
async fn servers_are_asked_only_when_somebody_looks_at_file_systems() {
    let page = Page::of(Fake::new(1, 3));
    let cookie = page.log_in("jo").await;
    for path in ["summary", "health", "hosts", "osds", "pools", "filesystems"] {
        page.get(&format!("/api/{path}"), &cookie).await;
    }
    assert_eq!(page.fake.told.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_client_is_evicted_by_its_server() {
    let page = Page::of(Fake::new(1, 3));
    let cookie = page.log_in("kim").await;
    let mut act =
        json!({ "name": "client-evict", "args": { "mds": "a", "client": "4001" }, "dry_run": true });
    let (_, _, body) = page.post("/api/actions", &cookie, act.clone()).await;
    let shown: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(shown["command"], "ceph tell mds.a client evict id=4001");
    act = json!({ "name": act["name"], "args": act["args"], "command": shown["command"] });
    let (status, _, answer) = page.post("/api/actions", &cookie, act.clone()).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let ran = page.fake.ran.lock().expect("nobody panicked").clone();
    assert_eq!(ran.last(), Some(&json!({ "prefix": "client evict", "filters": ["id=4001"] })));
    assert_eq!(ran[0]["logtext"], json!(["dashboard: kim runs `ceph tell mds.a client evict id=4001`"]));
    act["args"]["mds"] = "b".into();
    act["command"] = "ceph tell mds.b client evict id=4001".into();
    let (status, _, answer) = page.post("/api/actions", &cookie, act).await;
    assert_eq!(status, StatusCode::BAD_GATEWAY, "a standby: {answer}");
}

#[tokio::test]
async fn hosts_are_charted_beside_what_clients_get() {
    let page = Page::of(Fake::new(100, 1000));
    let cookie = page.log_in("kim").await;
    page.get("/api/hosts", &cookie).await;
    // An action makes what was read old: the next one asks reads again.
    let act = json!({ "name": "osd-out", "args": { "osd": "2" }, "command": "ceph osd out 2" });
    assert_eq!(page.post("/api/actions", &cookie, act).await.0, StatusCode::OK);
    let (_, all) = page.get("/api/hosts", &cookie).await;
    let (_, usage) = page.get("/api/hosts/usage?host=host7", &cookie).await;
    let column = |name: &str| {
        let fields = usage["sample_fields"].as_array().expect("names");
        let at = fields.iter().position(|field| field == name).expect("a column");
        usage["samples"][1][at].as_f64().expect("a number")
    };
    assert!((column("cores_used"), column("cores")) == (1.3, 4.0) && column("ops") > 0.0, "{usage}");
    assert!(column("net_in_bytes") > 0.0 && column("client_written_bytes") > 0.0, "{usage}");
    assert_eq!(usage["hosts"].as_array().map(Vec::len), Some(100));
    // The page asks for both every 5 s. Here each row has changed.
    let full = json!([usage["samples"][1]]).to_string().len() * 120;
    let updates = all.to_string().len() + usage.to_string().len() + full;
    assert!(updates < 5 * 50_000, "{updates} bytes");
}

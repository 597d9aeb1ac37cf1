//! Connections: bounded in number, in the size of what is read, and in time, whoever is at the other end.

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

/// Connections of a port.
const CONNECTIONS: usize = 200;
/// The time within which a request's head, or a TLS handshake, must be complete.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// The longest time of a connection: a reader that takes nothing is cut off then.
const LIFE: Duration = Duration::from_secs(120);
/// The most bytes of a request's head.
const HEAD_BYTES: usize = 16 << 10;

/// The address at the other end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub IpAddr);

/// Binds a port. An address without one of its own is all addresses, of both families where there are two.
pub(crate) async fn bind(addr: &str, port: u16) -> std::io::Result<TcpListener> {
    if !addr.is_empty() {
        let wrong = |_| std::io::Error::other(format!("`{addr}` is no IP address"));
        return TcpListener::bind(SocketAddr::new(addr.parse().map_err(wrong)?, port)).await;
    }
    match TcpListener::bind((std::net::Ipv6Addr::UNSPECIFIED, port)).await {
        Err(error) if error.kind() != std::io::ErrorKind::AddrInUse => {
            TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, port)).await
        }
        bound => bound,
    }
}

/// Serves a port until it is dropped.
pub(crate) async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, routes: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    // Connections end with their port.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "the dashboard's port");
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        // One too many is closed at once.
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let (tls, routes) = (tls.clone(), routes.clone());
        connections.spawn(async move {
            let _place = place;
            connection(stream, from.ip().to_canonical(), tls, routes).await;
        });
    }
}

async fn connection(stream: TcpStream, from: IpAddr, tls: Option<TlsAcceptor>, routes: Router) {
    // Errors are the other end's affair.
    let _ = stream.set_nodelay(true);
    match tls {
        None => requests(stream, from, routes).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = tokio::time::timeout(HEAD_PATIENCE, tls.accept(stream)).await {
                requests(stream, from, routes).await;
            }
        }
    }
}

async fn requests(stream: impl AsyncRead + AsyncWrite + Unpin + 'static, from: IpAddr, routes: Router) {
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(Peer(from));
        let routes = routes.clone();
        async move {
            Ok::<Response, Infallible>(routes.oneshot(request).await.unwrap_or_else(|never| match never {}))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let _ = tokio::time::timeout(LIFE, connection.as_mut()).await;
}

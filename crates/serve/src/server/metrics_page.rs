//! Answers requests for metrics.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::shared::Shared;

/// Requests at a time.
const AT_ONCE: usize = 16;
/// How long a client may take for its request, and again for the answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Answers requests for metrics.
pub(super) async fn serve_metrics(listener: TcpListener, shared: Arc<Shared>) {
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        // The kernel keeps the others until one ends.
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        let Ok((socket, _)) = listener.accept().await else {
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            let _slot = slot;
            let page = |request: Request<Incoming>| {
                let found = request.uri().path() == "/metrics";
                let (status, page) = if found {
                    (StatusCode::OK, shared.metrics.text())
                } else {
                    (StatusCode::NOT_FOUND, "metrics are at /metrics\n".into())
                };
                let mut response = Response::new(page);
                *response.status_mut() = status;
                let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                let kind = hyper::header::HeaderValue::from_static(kind);
                response.headers_mut().insert(CONTENT_TYPE, kind);
                async { Ok::<_, Infallible>(response) }
            };
            let answered = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .keep_alive(false)
                .serve_connection(TokioIo::new(socket), service_fn(page));
            let _ = timeout(2 * PATIENCE, answered).await;
        });
    }
}

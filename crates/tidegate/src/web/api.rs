//! What the page asks of this server, where folders were named: their captures, and the questions of `tidegate_web`.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tidegate_web::Reply;

use super::desks::{self, Desks};
use super::key;

/// No question is longer.
const LONGEST: usize = 1 << 20;
/// Numbers of eight bytes each, the least significant one first.
const NUMBERS: &str = "application/x-tidegate-numbers";

pub fn routes(desks: Desks) -> Router {
    let desks = Arc::new(desks);
    let desk = post(ask).get(progress).delete(close);
    Router::new()
        .route("/api/captures", get(captures))
        .route("/api/desks/{page}", desk)
        .layer(DefaultBodyLimit::max(LONGEST))
        .layer(from_fn_with_state(Arc::clone(&desks), with_key))
        .with_state(desks)
}

async fn with_key(State(desks): State<Arc<Desks>>, request: Request, next: Next) -> Response {
    if desks.key.is_in(request.headers()) {
        next.run(request).await
    } else {
        (StatusCode::UNAUTHORIZED, key::MISSING).into_response()
    }
}

async fn captures(State(desks): State<Arc<Desks>>) -> Response {
    let listed = tokio::task::spawn_blocking(move || desks.folders.list().to_string());
    match listed.await {
        Ok(list) => ([(header::CONTENT_TYPE, "application/json")], list).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Answers a question of a page. Reading a capture may take minutes, in a thread of its own.
async fn ask(State(desks): State<Arc<Desks>>, Path(page): Path<u64>, question: String) -> Response {
    let lost = || (StatusCode::GONE, desks::LOST).into_response();
    let Some(desk) = desks.of(page) else {
        return lost();
    };
    // Dropped with this future when the page closes the connection.
    let here = Arc::new(());
    let asker = Arc::downgrade(&here);
    let answered = tokio::task::spawn_blocking(move || desk.answer(&question, &asker));
    match answered.await {
        Ok(Ok(reply)) => written(reply),
        // It was stopped.
        Ok(Err(_)) if desks.is_lost(page) => lost(),
        Ok(Err(why)) => (StatusCode::UNPROCESSABLE_ENTITY, why).into_response(),
        Err(_) => {
            let why = "the engine failed: open the captures again";
            desks.close(page);
            (StatusCode::INTERNAL_SERVER_ERROR, why).into_response()
        }
    }
}

fn written(reply: Reply) -> Response {
    let kind = |kind: &'static str| [(header::CONTENT_TYPE, kind)];
    match reply {
        Reply::Text(text) => (kind("text/plain; charset=utf-8"), text).into_response(),
        Reply::Bytes(bytes) => (kind("application/octet-stream"), bytes).into_response(),
        Reply::Numbers(numbers) => {
            let bytes: Vec<u8> = numbers.into_iter().flat_map(f64::to_le_bytes).collect();
            (kind(NUMBERS), bytes).into_response()
        }
    }
}

async fn progress(State(desks): State<Arc<Desks>>, Path(page): Path<u64>) -> String {
    desks.read(page).to_string()
}

async fn close(State(desks): State<Arc<Desks>>, Path(page): Path<u64>) {
    desks.close(page);
}

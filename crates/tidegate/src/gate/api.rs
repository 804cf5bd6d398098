//! The HTTP API: routes and their answers. It offers what the commands offer.

pub mod access;
mod addresses;
mod flows;
pub mod listen;
mod pair;
mod refusal;
mod request;
pub mod serve;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Extension, Json, Router};
use serde::Serialize;
use serde_json::{Value, json};
use tidegate_gate::change::Report;
use tidegate_gate::control::{Adjustment, ControlError, Inspected, SharedGate};
use tidegate_gate::reading;
use tidegate_serve::server::Certificate;
use tokio::sync::Notify;
use utoipa::{OpenApi, ToSchema};

use self::refusal::Refusal;
use self::request::{Another, Filter, Which, adjustment, patch};
use super::events::{Events, Taken};
use super::keeper::Keeper;
use super::logs;
use super::metrics::{self, Bounds};
use super::pair::Pair;
use super::view::{self, Page, Patch, Problem, Reloaded, Status, SubscriberJson};

/// Most bytes of a request's body. Requests need less than a tenth of it.
const BODY: usize = 16 << 10;
/// Longest time until a request is answered.
const PATIENCE: Duration = Duration::from_secs(30);
/// Subscribers on a page by default.
const PAGE: usize = 100;

/// The state that routes share.
#[derive(Clone)]
pub struct Api {
    /// The gate.
    pub gate: Arc<SharedGate>,
    /// Bounds of the metrics.
    pub bounds: Bounds,
    /// Volumes of months.
    pub keeper: Arc<Keeper>,
    /// What changed, and who did it.
    pub events: Arc<Events>,
    /// Certificates of addresses that speak TLS, which a reload reads again.
    pub certificates: Arc<[Certificate]>,
    /// The other gate of a pair.
    pub pair: Option<Arc<Pair>>,
    /// Whether a process stands by for this one, where the limits end with it.
    pub stands_by: Option<Arc<AtomicBool>>,
    /// Ends the daemon.
    pub end: Arc<Notify>,
}

impl Api {
    /// On DPDK: whether a process stands by.
    fn stands_by(&self) -> Option<bool> {
        self.stands_by
            .as_ref()
            .map(|one| one.load(Ordering::Acquire))
    }

    /// Reads the file and the certificates again.
    ///
    /// # Errors
    /// As of [`SharedGate::reload`]. Certificates that cannot be read are logged, and stay as they were.
    pub fn reload(
        &self,
        file: Option<&std::path::Path>,
        lenient: bool,
        by: &str,
    ) -> Result<Report, ControlError> {
        for certificate in self.certificates.iter() {
            if let Err(error) = certificate.reload() {
                tracing::error!(%error, "the former certificate stays in use");
            }
        }
        let report = logs::reloaded(self.gate.reload(file, lenient))?;
        self.events.reloaded(by, "reload", &report);
        Ok(report)
    }
}

/// The sender of a request, for the log.
#[derive(Debug, Clone)]
pub struct Peer(pub String);

/// A route. A test compares all of them with the description.
struct Route {
    method: Method,
    path: &'static str,
    answer: fn(MethodFilter) -> MethodRouter<Api>,
}

const ROUTES: &[Route] = &[
    Route {
        method: Method::GET,
        path: "/v1/status",
        answer: |method| on(method, status),
    },
    Route {
        method: Method::GET,
        path: "/v1/subscribers",
        answer: |method| on(method, subscribers),
    },
    Route {
        method: Method::GET,
        path: "/v1/subscribers/{name}",
        answer: |method| on(method, subscriber),
    },
    Route {
        method: Method::GET,
        path: "/v1/subscribers/{name}/flows",
        answer: |method| on(method, flows::flows),
    },
    Route {
        method: Method::PATCH,
        path: "/v1/subscribers/{name}",
        answer: |method| on(method, set),
    },
    Route {
        method: Method::DELETE,
        path: "/v1/subscribers/{name}/set",
        answer: |method| on(method, reset),
    },
    Route {
        method: Method::GET,
        path: "/v1/addresses/{address}",
        answer: |method| on(method, addresses::holder),
    },
    Route {
        method: Method::PUT,
        path: "/v1/addresses/{address}",
        answer: |method| on(method, addresses::assign),
    },
    Route {
        method: Method::DELETE,
        path: "/v1/addresses/{address}",
        answer: |method| on(method, addresses::release),
    },
    Route {
        method: Method::POST,
        path: "/v1/reload",
        answer: |method| on(method, reload),
    },
    Route {
        method: Method::GET,
        path: "/v1/pair",
        answer: |method| on(method, pair::state),
    },
    Route {
        method: Method::POST,
        path: "/v1/pair",
        answer: |method| on(method, pair::changes),
    },
    Route {
        method: Method::POST,
        path: "/v1/pair/limiters",
        answer: |method| on(method, pair::limiters),
    },
    Route {
        method: Method::POST,
        path: "/v1/stop",
        answer: |method| on(method, stop),
    },
    Route {
        method: Method::GET,
        path: "/v1/usage.csv",
        answer: |method| on(method, usage),
    },
    Route {
        method: Method::GET,
        path: "/v1/events",
        answer: |method| on(method, events),
    },
    Route {
        method: Method::GET,
        path: "/metrics",
        answer: |method| on(method, scrape),
    },
    Route {
        method: Method::GET,
        path: "/openapi.json",
        answer: |method| on(method, description),
    },
];

/// All routes.
pub fn router(api: Api) -> Router {
    build(ROUTES.iter(), api)
}

/// The metrics, and nothing else.
pub fn metrics_only(api: Api) -> Router {
    build(ROUTES.iter().filter(|route| route.path == "/metrics"), api)
}

fn build(routes: impl Iterator<Item = &'static Route>, api: Api) -> Router {
    let mut router = Router::new();
    for route in routes {
        // All methods of routes have a filter.
        if let Ok(method) = MethodFilter::try_from(route.method.clone()) {
            router = router.route(route.path, (route.answer)(method));
        }
    }
    let nowhere = |request: Request| async move {
        let path = request.uri().path();
        Refusal::new(
            StatusCode::NOT_FOUND,
            format!("there is no path {path}: see /openapi.json for all paths"),
        )
    };
    let not_so = |request: Request| async move {
        let (method, path) = (request.method(), request.uri().path());
        let text = format!("{path} does not support the method {method}: see /openapi.json");
        Refusal::new(StatusCode::METHOD_NOT_ALLOWED, text)
    };
    router
        .fallback(nowhere)
        .method_not_allowed_fallback(not_so)
        .layer(DefaultBodyLimit::max(BODY))
        .layer(from_fn(in_time))
        .layer(from_fn(logged))
        .with_state(api)
}

async fn in_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(PATIENCE, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Refusal::new(
            StatusCode::GATEWAY_TIMEOUT,
            "the gate did not answer within 30 s; the request may still take effect: see /v1/status".into(),
        )
        .into_response(),
    }
}

async fn logged(request: Request, next: Next) -> Response {
    let began = std::time::Instant::now();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let peer = request.extensions().get::<Peer>().cloned();
    let peer = peer.as_ref().map_or("-", |peer| &peer.0);
    let response = next.run(request).await;
    let status = response.status().as_u16();
    let ms = began.elapsed().as_millis() as u64;
    if is_usual(&method, &path, status) {
        tracing::debug!(peer, %method, path, status, ms, "answered");
    } else {
        tracing::info!(peer, %method, path, status, ms, "answered");
    }
    response
}

/// Whether an answer is not worth a line of the log: the question changes nothing, and is asked again and again.
fn is_usual(method: &Method, path: &str, status: u16) -> bool {
    // The other gate of a pair asks every second, and each `gate status` asks whether there is one.
    let pair = path.starts_with("/v1/pair");
    let reads = pair || method == Method::GET;
    reads && (status < 400 || pair && method == Method::GET && status == 404)
}

/// Asks the gate on a thread that may block.
async fn ask<T: Send + 'static>(
    api: Api,
    question: impl FnOnce(&Api) -> Result<T, ControlError> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::task::spawn_blocking(move || question(&api)).await {
        Ok(answer) => Ok(answer?),
        Err(error) => {
            tracing::error!(%error, "a request failed because of a bug in tidegate");
            let text =
                "the request failed because of a bug in tidegate: see the daemon's log".into();
            Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, text))
        }
    }
}

/// The gate as a whole
#[utoipa::path(get, path = "/v1/status", responses(
    (status = 200, description = "Interfaces, numbers of subscribers and plans, and sums of counters", body = Status),
    (status = "default", description = "What went wrong", body = Problem)))]
async fn status(State(api): State<Api>) -> Result<Json<Status>, Refusal> {
    let pair = api.pair.as_ref().map(|pair| pair.status());
    let stands_by = api.stands_by();
    let all = ask(api, |api| api.gate.everything()).await?;
    Ok(Json(Status {
        pair,
        stands_by,
        ..view::status(&all.overview, &all.reading)
    }))
}

/// Subscribers, sorted by name, in pages
#[utoipa::path(get, path = "/v1/subscribers", params(Filter), responses(
    (status = 200, description = "A page of subscribers without queues; counters are at most 1 s old", body = Page),
    (status = "default", description = "What went wrong", body = Problem)))]
async fn subscribers(
    State(api): State<Api>,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Json<Page>, Refusal> {
    let Query(query) = query?;
    let filter = Filter::new(query).map_err(|text| Refusal::new(StatusCode::BAD_REQUEST, text))?;
    let limit = filter.limit.unwrap_or(PAGE);
    let page = ask(api, move |api| {
        let reading = api.gate.reading()?;
        let fits = |one: &reading::Subscriber| {
            let has = |part: &String| one.name.contains(part.as_str());
            filter.name.as_ref().is_none_or(has)
                && filter
                    .plan
                    .as_ref()
                    .is_none_or(|plan| plan == one.plan_name())
                && filter.set.is_none_or(|set| set == one.set)
        };
        let all = &reading.roster.subscribers;
        let from = filter
            .after
            .as_ref()
            .map_or(0, |name| reading.roster.after(name));
        let mut fitting = (from..all.len()).filter(|&index| fits(&all[index]));
        let page: Vec<_> = fitting
            .by_ref()
            .take(limit)
            .map(|index| {
                let mut one = view::subscriber(&reading, index);
                api.keeper.fill(&mut one);
                one
            })
            .collect();
        let more = fitting.next().is_some();
        let next = page.last().filter(|_| more);
        Ok(Page {
            matched: all.iter().filter(|one| fits(one)).count() as u64,
            age_s: reading.at.elapsed().as_secs_f64(),
            next: next.map(|last: &SubscriberJson| last.name.clone()),
            subscribers: page,
        })
    });
    Ok(Json(page.await?))
}

type Detail = Result<Json<SubscriberJson>, Refusal>;

/// One subscriber, as the gate says.
async fn detail(
    api: Api,
    question: impl FnOnce(&Api) -> Result<Inspected, ControlError> + Send + 'static,
) -> Detail {
    let told = ask(api, move |api| {
        let mut one = view::detail(&question(api)?);
        api.keeper.fill(&mut one);
        Ok(one)
    });
    Ok(Json(told.await?))
}

/// One subscriber, with its queues
#[utoipa::path(get, path = "/v1/subscribers/{name}", params(("name", description = "The subscriber's name")),
    responses(
    (status = 200, description = "The subscriber with its queues, as it is now", body = SubscriberJson),
    (status = 404, description = "There is no such subscriber", body = Problem),
    (status = "default", description = "What went wrong", body = Problem)))]
async fn subscriber(State(api): State<Api>, name: Result<Path<String>, PathRejection>) -> Detail {
    let Path(name) = name?;
    detail(api, move |api| api.gate.subscriber(&name)).await
}

/// Change one subscriber, live
///
/// The change stays in force across reloads and restarts of the daemon, until it is set again or deleted.
#[utoipa::path(patch, path = "/v1/subscribers/{name}", params(("name", description = "The subscriber's name")),
    request_body = Patch, responses(
    (status = 200, description = "The subscriber, as it is now", body = SubscriberJson),
    (status = 404, description = "There is no such subscriber", body = Problem),
    (status = 422, description = "There is no such plan, or a rate is out of range; nothing was changed", body = Problem),
    (status = "default", description = "What went wrong", body = Problem)))]
async fn set(
    State(api): State<Api>,
    peer: Option<Extension<Peer>>,
    name: Result<Path<String>, PathRejection>,
    body: Result<Json<Value>, JsonRejection>,
) -> Detail {
    let (Path(name), Json(body)) = (name?, body?);
    let patch = patch(body).map_err(ControlError::Invalid)?;
    let reset_usage = patch.reset_usage;
    let adjustment = adjustment(patch).map_err(ControlError::Invalid)?;
    let by = peer.map_or_else(String::new, |Extension(Peer(peer))| peer);
    let quota = adjustment.setting.keys.get("quota");
    if reset_usage || quota.is_some_and(|quota| !quota.is_null() && quota != "none") {
        api.keeper.check_counts()?;
    }
    let done = detail(api, move |api| {
        // What cannot be done is refused before a volume is gone.
        if !reset_usage || adjustment != Adjustment::default() {
            let taken = api.events.taken(&api.gate, &name, &adjustment);
            let done = api.gate.set(&name, &adjustment)?;
            logs::set(&name, &adjustment, &by);
            api.events.set(&by, &name, &adjustment, &taken);
            if !reset_usage {
                return Ok(done);
            }
        }
        api.keeper.reset(&api.gate, &api.events, &name)?;
        tracing::info!(subscriber = name, by, "usage reset");
        api.events
            .add(&by, "reset usage", json!({ "subscriber": name }));
        api.gate.subscriber(&name)
    });
    done.await
}

/// Return one subscriber to the configuration
#[utoipa::path(delete, path = "/v1/subscribers/{name}/set", params(("name", description = "The subscriber's name")),
    responses(
    (status = 200, description = "The subscriber, as it is now", body = SubscriberJson),
    (status = 404, description = "There is no such subscriber", body = Problem),
    (status = "default", description = "What went wrong", body = Problem)))]
async fn reset(
    State(api): State<Api>,
    peer: Option<Extension<Peer>>,
    name: Result<Path<String>, PathRejection>,
) -> Detail {
    let Path(name) = name?;
    let by = peer.map_or_else(String::new, |Extension(Peer(peer))| peer);
    let done = detail(api, move |api| {
        let reset = Adjustment {
            reset: true,
            ..Adjustment::default()
        };
        let done = api.gate.set(&name, &reset)?;
        tracing::info!(subscriber = name, by, "reset");
        api.events.set(&by, &name, &reset, &Taken::new());
        Ok(done)
    });
    done.await
}

/// Marks requests that came over the control socket, which only root can open.
#[derive(Debug, Clone, Copy)]
pub struct FromControlSocket;

/// Apply what has changed in the configuration
#[utoipa::path(post, path = "/v1/reload", request_body = inline(Option<Another>), responses(
    (status = 200, description = "What was different and is in force now", body = Reloaded),
    (status = 422, description = "The file has errors; nothing was changed", body = Problem),
    (status = "default", description = "What went wrong", body = Problem)))]
async fn reload(
    State(api): State<Api>,
    peer: Option<Extension<Peer>>,
    control: Option<Extension<FromControlSocket>>,
    body: Result<Option<Json<Value>>, JsonRejection>,
) -> Result<Json<Reloaded>, Refusal> {
    let another = match body? {
        Some(Json(body)) => Another::new(body).map_err(ControlError::Invalid)?,
        None => Another::default(),
    };
    let Another { file, lenient } = another;
    if file.is_some() && control.is_none() {
        let text = "`file` is allowed only on the control socket: use `tidegate gate reload FILE`";
        return Err(Refusal::new(StatusCode::FORBIDDEN, text.into()));
    }
    let by = peer.map_or_else(String::new, |Extension(Peer(peer))| peer);
    let done = ask(api, move |api| api.reload(file.as_deref(), lenient, &by));
    Ok(Json(Reloaded::from(&done.await?)))
}

/// An empty object.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
struct Done {}

/// End the daemon, and leave the limits in place
///
/// Allowed only on the control socket, `control.sock` in the state folder.
#[utoipa::path(post, path = "/v1/stop", responses(
    (status = 200, description = "The daemon is ending", body = inline(Done)),
    (status = 403, description = "The request did not come over the control socket", body = Problem),
    (status = "default", description = "What went wrong", body = Problem)))]
async fn stop(
    State(api): State<Api>,
    control: Option<Extension<FromControlSocket>>,
) -> Result<Json<Done>, Refusal> {
    if control.is_none() {
        let text = "the daemon can be ended only over the control socket: use `systemctl stop`, or send it SIGTERM";
        return Err(Refusal::new(StatusCode::FORBIDDEN, text.into()));
    }
    api.end.notify_one();
    Ok(Json(Done {}))
}

/// What subscribers used in their months, as CSV
#[utoipa::path(get, path = "/v1/usage.csv", responses(
    (status = 200, description = "A line for each subscriber: name, plan in force, first day of its month, bytes, \
        quota, and why another plan than its plan is in force", content_type = "text/csv", body = String),
    (status = 422, description = "Volumes are not counted: the file has no `[usage]`", body = Problem),
    (status = "default", description = "What went wrong", body = Problem)))]
async fn usage(State(api): State<Api>) -> Result<impl IntoResponse, Refusal> {
    let text = ask(api, |api| {
        api.keeper.check_counts()?;
        Ok(api.keeper.csv(&*api.gate.reading()?))
    })
    .await?;
    Ok(([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], text))
}

/// What changed lately, and who did it
#[utoipa::path(get, path = "/v1/events", params(Which), responses(
    (status = 200, description = "The latest events of the last MiB of the file, the oldest first: each has `time` \
        (RFC 3339), `by` and `event`, and what changed", body = Vec<Object>),
    (status = "default", description = "What went wrong", body = Problem)))]
async fn events(
    State(api): State<Api>,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Json<Vec<Value>>, Refusal> {
    let Query(query) = query?;
    let which = Which::new(query).map_err(|text| Refusal::new(StatusCode::BAD_REQUEST, text))?;
    let found = ask(api, move |api| {
        let limit = which.limit.unwrap_or(PAGE);
        let latest = api.events.latest(limit, which.subscriber.as_deref());
        latest.map_err(|error| ControlError::Other(format!("the events cannot be read: {error}")))
    });
    Ok(Json(found.await?))
}

/// Prometheus metrics
#[utoipa::path(get, path = "/metrics", responses(
    (status = 200, description = "OpenMetrics text; counters are at most 1 s old",
        content_type = "application/openmetrics-text", body = String),
    (status = "default", description = "What went wrong", body = Problem)))]
async fn scrape(State(api): State<Api>) -> Result<impl IntoResponse, Refusal> {
    let text = ask(api, |api| {
        let pair = api.pair.as_ref().map(|pair| pair.status());
        metrics::scrape(&api.gate, api.bounds, pair, api.stands_by())
    })
    .await?;
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text))
}

/// This description
#[utoipa::path(get, path = "/openapi.json", responses(
    (status = 200, description = "OpenAPI 3.1", content_type = "application/json", body = Object)))]
async fn description() -> impl IntoResponse {
    Json(openapi())
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "tidegate gate",
        description = "State, live changes and metrics of a gate. Rates are in bits per second, lengths \
            in bytes. If a token is configured, requests must carry it: `Authorization: Bearer TOKEN`. \
            Addresses that are not local always need a token."
    ),
    paths(status, subscribers, subscriber, flows::flows, set, reset, addresses::holder, addresses::assign, addresses::release, usage, events, reload, pair::state, pair::changes, pair::limiters, stop, scrape, description),
    modifiers(&Token),
    security((), ("token" = []))
)]
struct Description;

struct Token;

impl utoipa::Modify for Token {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        openapi
            .components
            .get_or_insert_default()
            .add_security_scheme("token", SecurityScheme::Http(bearer));
    }
}

/// The API's description.
pub fn openapi() -> utoipa::openapi::OpenApi {
    Description::openapi()
}

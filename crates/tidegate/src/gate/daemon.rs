//! The daemon serves the API and the metrics. The limits do not need it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use tidegate_gate::config::{self, Config, Listen, Tls};
use tidegate_gate::control::{Control, SharedGate};
use tidegate_gate::{Link, Missing};
use tidegate_serve::server::Certificate;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::api::access::{Access, Token, guarded};
use super::api::listen::{self, Socket};
use super::api::{self, Api, serve};
use super::events::Events;
use super::keeper::Keeper;
use super::metrics::Bounds;
use super::pair::{self, Pair};
use super::{logs, notify, radius, remote};

/// Time between two looks at the time, and two searches for interfaces that came back.
const HEAL: Duration = Duration::from_secs(5);

/// The sockets that are served. They are opened before any limit is changed, so that an address that
/// is in use, or that would need a token, is reported first.
pub struct Endpoints {
    endpoints: Vec<Endpoint>,
    bounds: Bounds,
    keeper: Keeper,
    events: Events,
    certificates: Vec<Certificate>,
    radius: Option<radius::Server>,
    pair: Option<Pair>,
}

struct Endpoint {
    socket: Socket,
    access: Access,
    kind: Kind,
}

/// The requests that an endpoint answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The control socket, for commands: everything.
    Control,
    /// The API.
    Api,
    /// Metrics, and nothing else.
    Metrics,
}

/// The other gate of a pair, with the secret of its API.
fn other(config: &config::Pair) -> anyhow::Result<Pair> {
    let token = config.token.as_deref().map(Token::read).transpose()?;
    Pair::open(config, token.map(|token| token.secret().to_owned()))
}

impl Endpoints {
    /// Opens the control socket, and all sockets that the configuration names.
    pub fn open(config: &Config) -> anyhow::Result<Self> {
        type Tokens<'a> = (Option<&'a Path>, Option<&'a Path>);
        let mut certificates = Vec::new();
        let mut endpoint = |at: &Listen,
                            (token, reader): Tokens<'_>,
                            group: Option<&str>,
                            tls: Option<&Tls>,
                            kind| {
            let access = listen::access(at, token, reader)?;
            let group = group.map(listen::group).transpose()?;
            let certificate = tls.map(listen::certificate).transpose()?;
            certificates.extend(certificate.clone());
            let socket = listen::open(at, group, certificate)?;
            tracing::info!(at = %at, ?kind, "listening");
            anyhow::Ok(Endpoint {
                socket,
                access,
                kind,
            })
        };
        let control = Listen::Unix(remote::socket(&config.state));
        let mut endpoints = vec![endpoint(&control, (None, None), None, None, Kind::Control)?];
        if let Some(api) = &config.api {
            let tokens = (api.token.as_deref(), api.read_token.as_deref());
            let group = api.group.as_deref();
            endpoints.push(endpoint(
                &api.listen,
                tokens,
                group,
                api.tls.as_ref(),
                Kind::Api,
            )?);
        }
        let mut bounds = Bounds {
            subscribers: 1000,
            queues: 0,
        };
        if let Some(metrics) = &config.metrics {
            bounds.subscribers = metrics.subscribers;
            bounds.queues = metrics.queues;
            // The API serves metrics as well.
            let api = config.api.as_ref().map(|api| &api.listen);
            if api != Some(&metrics.listen) {
                let tokens = (metrics.token.as_deref(), None);
                endpoints.push(endpoint(
                    &metrics.listen,
                    tokens,
                    None,
                    metrics.tls.as_ref(),
                    Kind::Metrics,
                )?);
            }
        }
        let keeper = Keeper::open(config.usage.as_deref())?;
        Ok(Self {
            endpoints,
            bounds,
            keeper,
            events: Events::new(config.events.as_deref()),
            certificates,
            pair: config.pair.as_ref().map(other).transpose()?,
            radius: config
                .radius
                .as_ref()
                .map(radius::Server::open)
                .transpose()?,
        })
    }

    /// Answers until a signal or a request ends it. SIGHUP reloads. `stands_by` is whether a process stands by for this one, where
    /// the limits end with it. `then` says what happens at the end.
    pub fn serve(
        self,
        control: Box<dyn Control>,
        stands_by: Option<Arc<AtomicBool>>,
        then: &str,
    ) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context("cannot start the threads of the daemon")?;
        let gate = Arc::new(SharedGate::new(control));
        let result = runtime.block_on(self.answer(gate, stands_by, then));
        // Requests that wait for the kernel do not delay the end.
        runtime.shutdown_timeout(Duration::from_secs(1));
        result
    }

    async fn answer(
        self,
        gate: Arc<SharedGate>,
        stands_by: Option<Arc<AtomicBool>>,
        then: &str,
    ) -> anyhow::Result<()> {
        let (end, ended) = watch::channel(false);
        let stop = Arc::new(Notify::new());
        let keeper = Arc::new(self.keeper);
        let mut serving = JoinSet::new();
        let events = Arc::new(self.events);
        let api = Api {
            gate: Arc::clone(&gate),
            bounds: self.bounds,
            keeper: Arc::clone(&keeper),
            events: Arc::clone(&events),
            certificates: self.certificates.into(),
            pair: self.pair.map(Arc::new),
            stands_by,
            end: Arc::clone(&stop),
        };
        if let Some(pair) = &api.pair {
            let (pair, api, mut ended) = (Arc::clone(pair), api.clone(), ended.clone());
            serving.spawn(async move {
                let mut turn = tokio::time::interval(pair::EVERY);
                turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    tokio::select! {
                        _ = ended.changed() => return Ok(()),
                        _ = turn.tick() => {}
                    }
                    let (pair, api) = (Arc::clone(&pair), api.clone());
                    let tick = move || {
                        pair.tick(&pair::Own {
                            gate: &api.gate,
                            keeper: &api.keeper,
                            events: &api.events,
                        });
                    };
                    let done = tokio::task::spawn_blocking(tick).await;
                    if let Err(error) = done {
                        tracing::error!(%error, "the other gate was not asked because of a bug in tidegate");
                    }
                }
            });
        }
        if let Some(radius) = self.radius {
            radius.serve(&api, &ended, &mut serving);
        }
        for endpoint in self.endpoints {
            let state = api.clone();
            let router = match endpoint.kind {
                Kind::Control => api::router(state).layer(axum::Extension(api::FromControlSocket)),
                Kind::Api => api::router(state),
                Kind::Metrics => api::metrics_only(state),
            };
            let router = guarded(router, endpoint.access);
            serving.spawn(serve::serve(endpoint.socket, router, ended.clone()));
        }
        let mut hang_up = signal(SignalKind::hangup())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut heal = tokio::time::interval(HEAL);
        heal.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut missing: Vec<Missing> = Vec::new();
        let mut links: Vec<Link> = Vec::new();
        notify::send("READY=1");
        let name = loop {
            tokio::select! {
                _ = hang_up.recv() => {
                    let api = api.clone();
                    let reload = move || api.reload(None, false, "SIGHUP");
                    let done = tokio::task::spawn_blocking(reload).await;
                    if let Err(error) = done {
                        tracing::error!(%error, "a reload failed because of a bug in tidegate");
                    }
                }
                _ = heal.tick() => {
                    let api = api.clone();
                    let look = move || {
                        api.events.turned(&api.keeper.tick(&api.gate));
                        (api.gate.heal(), api.gate.links())
                    };
                    let now = tokio::task::spawn_blocking(look).await;
                    let (mut now, up) = now.context("the search for interfaces failed because of a bug in tidegate")?;
                    logs::links(&links, &up);
                    links = up;
                    // An interface may be missing in several places.
                    now.dedup();
                    logs::missing(&missing, &now);
                    if missing != now {
                        let names: Vec<&str> = now.iter().map(|place| &*place.interface).collect();
                        events.add("the daemon", "interfaces", json!({ "missing": names }));
                    }
                    missing = now;
                }
                () = stop.notified() => break "stop",
                _ = terminate.recv() => break "SIGTERM",
                _ = interrupt.recv() => break "SIGINT",
                Some(done) = serving.join_next() => {
                    done.context("a socket failed because of a bug in tidegate")?
                        .context("cannot accept connections")?;
                }
            }
        };
        notify::send("STOPPING=1");
        events.add("the daemon", "stop", json!({ "why": name }));
        let then = match name {
            "stop" => "`tidegate gate down` asked for it",
            _ => then,
        };
        tracing::info!(why = name, "the daemon ends; {then}");
        let _ = end.send(true);
        while serving.join_next().await.is_some() {}
        let last = Arc::clone(&events);
        tokio::task::spawn_blocking(move || {
            last.turned(&keeper.tick(&gate));
            keeper.end();
        })
        .await
        .context("the volumes of months could not be written because of a bug in tidegate")
    }
}

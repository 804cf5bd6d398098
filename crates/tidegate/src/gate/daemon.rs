//! The daemon: API and metrics beside limits that would hold without it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tidegate_gate::config::{Config, Listen};
use tidegate_gate::control::{Control, SharedGate};
use tidegate_gate::gate::Missing;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::api::access::{Access, guarded};
use super::api::listen::{self, Socket};
use super::api::{self, Api, serve};
use super::metrics::Bounds;
use super::{logs, notify, remote};

/// Interfaces that came back are looked for so often.
const HEAL: Duration = Duration::from_secs(5);

/// What is served where, from before the limits are in force: an address that is taken, or open
/// without a token, shows before anything is changed.
pub struct Doors {
    doors: Vec<Door>,
    bounds: Bounds,
}

struct Door {
    socket: Socket,
    access: Access,
    kind: Kind,
}

/// What is answered at a door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Everything: it is the commands that ask.
    Own,
    /// The API.
    Api,
    /// Metrics, and nothing else.
    Metrics,
}

impl Doors {
    /// Opens the daemon's own socket, and all that the configuration names.
    pub fn open(config: &Config) -> anyhow::Result<Self> {
        let door = |at: &Listen, token: Option<&Path>, group: Option<&str>, kind| {
            let access = listen::access(at, token)?;
            let group = group.map(listen::group).transpose()?;
            let socket = listen::open(at, group)?;
            tracing::info!(at = %at, ?kind, "listening");
            anyhow::Ok(Door {
                socket,
                access,
                kind,
            })
        };
        let own = Listen::Unix(remote::socket(&config.state));
        let mut doors = vec![door(&own, None, None, Kind::Own)?];
        if let Some(api) = &config.api {
            let (token, group) = (api.token.as_deref(), api.group.as_deref());
            doors.push(door(&api.listen, token, group, Kind::Api)?);
        }
        let mut bounds = Bounds {
            subscribers: 1000,
            queues: 0,
        };
        if let Some(metrics) = &config.metrics {
            bounds.subscribers = metrics.subscribers;
            bounds.queues = metrics.queues;
            // The API's door tells metrics, too.
            let api = config.api.as_ref().map(|api| &api.listen);
            if api != Some(&metrics.listen) {
                let token = metrics.token.as_deref();
                doors.push(door(&metrics.listen, token, None, Kind::Metrics)?);
            }
        }
        Ok(Self { doors, bounds })
    }

    /// Answers until a signal says to end. SIGHUP reloads.
    pub fn serve(self, control: Box<dyn Control>) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context("cannot start threads")?;
        let gate = Arc::new(SharedGate::new(control));
        let result = runtime.block_on(self.answer(gate));
        // Whoever still asks the kernel does not keep us.
        runtime.shutdown_timeout(Duration::from_secs(1));
        result
    }

    async fn answer(self, gate: Arc<SharedGate>) -> anyhow::Result<()> {
        let (end, ended) = watch::channel(false);
        let stop = Arc::new(Notify::new());
        let mut serving = JoinSet::new();
        for door in self.doors {
            let state = Api {
                gate: Arc::clone(&gate),
                bounds: self.bounds,
                end: Arc::clone(&stop),
            };
            let router = match door.kind {
                Kind::Own => api::router(state).layer(axum::Extension(api::Own)),
                Kind::Api => api::router(state),
                Kind::Metrics => api::metrics_only(state),
            };
            let router = guarded(router, door.access);
            serving.spawn(serve::serve(door.socket, router, ended.clone()));
        }
        let mut hang_up = signal(SignalKind::hangup())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut heal = tokio::time::interval(HEAL);
        heal.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut missing: Vec<Missing> = Vec::new();
        notify::tell("READY=1");
        let name = loop {
            tokio::select! {
                _ = hang_up.recv() => {
                    let gate = Arc::clone(&gate);
                    let reload = move || logs::reloaded(gate.reload(None));
                    let done = tokio::task::spawn_blocking(reload).await;
                    if let Err(error) = done {
                        tracing::error!(%error, "a reload failed by a bug");
                    }
                }
                _ = heal.tick() => {
                    let gate = Arc::clone(&gate);
                    let now = tokio::task::spawn_blocking(move || gate.heal()).await;
                    let mut now = now.context("a bug")?;
                    // An interface may be missing in several places.
                    now.dedup();
                    logs::missing(&missing, &now);
                    missing = now;
                }
                () = stop.notified() => break "stop",
                _ = terminate.recv() => break "SIGTERM",
                _ = interrupt.recv() => break "SIGINT",
                Some(done) = serving.join_next() => {
                    done.context("a bug")?.context("cannot serve")?;
                }
            }
        };
        notify::tell("STOPPING=1");
        tracing::info!(why = name, "ending; limits stay in force");
        let _ = end.send(true);
        while serving.join_next().await.is_some() {}
        Ok(())
    }
}

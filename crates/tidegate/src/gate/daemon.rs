//! The daemon: API and metrics beside limits that would hold without it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tidegate_gate::config::{Config, Listen};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::api::access::{Access, guarded};
use super::api::listen::{self, Socket};
use super::api::{self, Api, serve};
use super::control::{Control, Failure, Reloaded};
use super::desk::Desk;
use super::metrics::Bounds;
use super::notify;

/// What is served where, from before the limits are in force: an address that is taken, or open
/// without a token, shows before anything is changed.
pub struct Doors {
    doors: Vec<Door>,
    bounds: Bounds,
}

struct Door {
    socket: Socket,
    access: Access,
    /// Only metrics are told there.
    only_metrics: bool,
}

impl Doors {
    /// Opens all that the configuration names; without an API in it, a Unix socket that only root
    /// can open.
    pub fn open(config: &Config) -> anyhow::Result<Self> {
        let own = || Listen::Unix(config.state.join("api.sock"));
        let (at, token) = match &config.api {
            Some(api) => (api.listen.clone(), api.token.as_deref()),
            None => (own(), None),
        };
        let door = |at: &Listen, token, only_metrics| {
            let access = listen::access(at, token)?;
            let socket = listen::open(at, None)?;
            tracing::info!(at = %at, only_metrics, "listening");
            anyhow::Ok(Door {
                socket,
                access,
                only_metrics,
            })
        };
        let mut doors = vec![door(&at, token, false)?];
        let mut bounds = Bounds {
            subscribers: 1000,
            queues: 0,
        };
        if let Some(metrics) = &config.metrics {
            bounds.subscribers = metrics.subscribers;
            bounds.queues = metrics.queues;
            // The API's door tells metrics, too.
            if metrics.listen != at {
                doors.push(door(&metrics.listen, metrics.token.as_deref(), true)?);
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
        let desk = Arc::new(Desk::new(control));
        let result = runtime.block_on(self.answer(desk));
        // Whoever still asks the kernel does not keep us.
        runtime.shutdown_timeout(Duration::from_secs(1));
        result
    }

    async fn answer(self, desk: Arc<Desk>) -> anyhow::Result<()> {
        let (end, ended) = watch::channel(false);
        let mut serving = JoinSet::new();
        for door in self.doors {
            let state = Api {
                desk: Arc::clone(&desk),
                bounds: self.bounds,
            };
            let router = if door.only_metrics {
                api::metrics_only(state)
            } else {
                api::router(state)
            };
            let router = guarded(router, door.access);
            serving.spawn(serve::serve(door.socket, router, ended.clone()));
        }
        let mut hang_up = signal(SignalKind::hangup())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        notify::tell("READY=1");
        let name = loop {
            tokio::select! {
                _ = hang_up.recv() => {
                    let desk = Arc::clone(&desk);
                    let done = tokio::task::spawn_blocking(move || reload(&desk)).await;
                    if let Err(error) = done {
                        tracing::error!(%error, "a reload failed by a bug");
                    }
                }
                _ = terminate.recv() => break "SIGTERM",
                _ = interrupt.recv() => break "SIGINT",
                Some(done) = serving.join_next() => {
                    done.context("a bug")?.context("cannot serve")?;
                }
            }
        };
        notify::tell("STOPPING=1");
        tracing::info!(signal = name, "ending; limits stay in force");
        let _ = end.send(true);
        while serving.join_next().await.is_some() {}
        Ok(())
    }
}

/// Applies what has changed in the file, and logs what became of it.
pub fn reload(desk: &Desk) -> Result<Reloaded, Failure> {
    let done = desk.reload(None);
    match &done {
        Ok(done) => tell(done, "reloaded"),
        Err(error) => tracing::error!(%error, "not reloaded; all is as before"),
    }
    done
}

/// Logs what a reload came to.
pub fn tell(done: &Reloaded, what: &str) {
    let &Reloaded {
        added,
        removed,
        limited,
        moved,
        unchanged,
        ..
    } = done;
    tracing::info!(added, removed, limited, moved, unchanged, "{what}");
    for subscriber in &done.reset {
        tracing::warn!(
            subscriber,
            "what was set live no longer holds: the file changed"
        );
    }
    for place in &done.missing {
        tracing::warn!(place, "packets are not taken there");
    }
}

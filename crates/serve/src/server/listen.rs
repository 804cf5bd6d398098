//! Connections: they are accepted within the limits, served, watched, and ended properly.

use std::collections::HashSet;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderValue;
use rand::RngCore;
use rand_pcg::Pcg64;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::config::{Config, LogTo};
use super::connection::{Connection, Past};
use super::error::ServeError;
use super::files::Folder;
use super::http3::{self, Endpoints, Incoming};
use super::kernel::Sockets;
use super::listeners::{Arrival, Listen, Listeners, bind};
use super::log::Log;
use super::memory::{self, Memory};
use super::metrics::Metrics;
use super::metrics_page::serve_metrics;
use super::patience::FAREWELL;
use super::reloads::Reloads;
use super::resting::{Rested, Resting};
use super::session::{Counted, Order, serve};
use super::shared::Shared;
use super::slots::{Slot, SlotKind, Slots};
use super::tls::Certificate;
use super::transport::{NOT_SENT, Transport};
use super::viewers::Viewers;
use super::workers::Workers;

#[cfg(test)]
mod tests;

/// A time that is longer than all waits.
const A_YEAR: Duration = Duration::from_secs(365 * 86_400);

/// How often the kernel may choose another port.
const PORTS: u32 = 16;

/// A server that listens.
pub struct Server {
    listeners: Listeners,
    http3: Option<Endpoints>,
    metrics: Option<TcpListener>,
    tls: Option<Certificate>,
    workers: Workers,
    resting: Resting,
    shared: Arc<Shared>,
}

/// Opens the sockets of TCP, and those of UDP at the same ports. For port 0 the kernel chooses a port that is free for TCP: if UDP
/// has it in use, the kernel chooses another.
fn open(
    config: &Config,
    certificate: Option<&Certificate>,
) -> Result<(Listeners, Option<Endpoints>), ServeError> {
    let chosen = |listen: &Listen| listen.address.port() == 0;
    let mut again = match config.listen.iter().any(chosen) {
        true => PORTS,
        false => 0,
    };
    loop {
        let listeners = Listeners::open(&config.listen, certificate.is_some())?;
        let certificate = match (config.http3, certificate) {
            (false, _) => return Ok((listeners, None)),
            (true, Some(certificate)) => certificate,
            (true, None) => {
                return Err(ServeError::Config(
                    "HTTP/3 needs a certificate and a key: give --cert and --key",
                ));
            }
        };
        match Endpoints::open(&listeners.secure()?, certificate, config.limits) {
            Ok(endpoints) => return Ok((listeners, Some(endpoints))),
            Err(ServeError::ListenUdp { error, .. })
                if again > 0 && error.kind() == io::ErrorKind::AddrInUse =>
            {
                again -= 1;
            }
            Err(error) => return Err(error),
        }
    }
}

impl Server {
    /// Opens everything that it needs, and begins to listen.
    pub async fn bind(mut config: Config, log: Option<LogTo>) -> Result<Self, ServeError> {
        if config.groups.is_empty() {
            return Err(ServeError::Config(
                "the list of groups is empty: name at least one way to pace",
            ));
        }
        let mut names = HashSet::new();
        if !config.groups.iter().all(|group| names.insert(&group.name)) {
            return Err(ServeError::Config(
                "two groups of connections have the same name: results could not tell them apart. Write NAME=WAY",
            ));
        }
        if config.throttle_percent < 100 {
            return Err(ServeError::Config(
                "the rate of the throttling phase must be 100 % of the encoding rate or more: below that no video plays without stops",
            ));
        }
        if config.rate.is_some_and(|rate| rate.bits_per_second() == 0) {
            return Err(ServeError::Config("the encoding rate must be above 0"));
        }
        // Times are added to the clock, which has a last value.
        let limits = &mut config.limits;
        if limits.header_timeout.is_zero() || limits.stall_timeout.is_zero() {
            return Err(ServeError::Config(
                "a timeout of 0 leaves clients no time: give one of 1ms or more",
            ));
        }
        for time in [
            &mut limits.header_timeout,
            &mut limits.stall_timeout,
            &mut limits.grace,
        ] {
            *time = (*time).min(A_YEAR);
        }
        let folder = Folder::open(&config.folder, config.rate).map_err(|error| {
            let path = config.folder.clone();
            ServeError::Folder { path, error }
        })?;
        let tls = match &config.tls {
            Some((certificate, key)) => {
                Some(Certificate::read(certificate, key, &["h2", "http/1.1"])?)
            }
            None => None,
        };
        let sockets = Sockets::new(config.groups.iter().map(|group| group.way));
        let log = match log {
            Some((format, to)) => Some(
                Log::new(format, to)
                    .map_err(|error| ServeError::System("cannot start a thread", error))?,
            ),
            None => None,
        };
        let (listeners, http3) = open(&config, tls.as_ref())?;
        let redirect = match config.redirect {
            true => Some(listeners.redirect()?),
            false => None,
        };
        let secure = match http3 {
            Some(_) => listeners.secure()?,
            None => Vec::new(),
        };
        let alternative = secure
            .first()
            .and_then(|at| HeaderValue::try_from(format!("h3=\":{}\"; ma=86400", at.port())).ok());
        let metrics = match config.metrics {
            Some(address) => Some(bind(address, &[])?),
            None => None,
        };
        let shared = Arc::new(Shared {
            metrics: Metrics::new(&config.groups, folder.overfull()),
            folder,
            sockets,
            log,
            slots: Slots::new(config.limits),
            viewers: Viewers::new(config.start_up),
            redirect,
            alternative,
            config,
        });
        let workers = Workers::start(shared.config.threads)
            .map_err(|error| ServeError::System("cannot start a thread", error))?;
        let resting = Resting::new()
            .map_err(|error| ServeError::System("cannot watch connections that rest", error))?;
        Ok(Self {
            listeners,
            http3,
            metrics,
            tls,
            workers,
            resting,
            shared,
        })
    }

    /// What can be read again while the server runs.
    pub fn reloads(&self) -> Reloads {
        Reloads {
            certificate: self.tls.clone(),
            shared: Arc::clone(&self.shared),
        }
    }

    /// Where it listens, and whether it speaks TLS there, in the order of the configuration.
    pub fn addresses(&self) -> io::Result<Vec<(SocketAddr, bool)>> {
        self.listeners.addresses()
    }

    /// Where its metrics are served.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref()?.local_addr().ok()
    }

    /// What this machine cannot do, and what is done instead.
    pub fn remark(&self) -> Option<String> {
        self.shared.sockets.remark()
    }

    /// Serves until `shutdown` is done, and then until all responses are, or their time is up.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        self.run_until(shutdown, std::future::pending()).await;
    }

    /// The same. After `shutdown` the time of the responses is also up when `at_once` is done.
    pub async fn run_until(
        self,
        shutdown: impl Future<Output = ()>,
        at_once: impl Future<Output = ()>,
    ) {
        let Self {
            mut listeners,
            mut http3,
            metrics,
            tls,
            workers,
            mut resting,
            shared,
        } = self;
        let metrics = metrics.map(|listener| tokio::spawn(serve_metrics(listener, shared.clone())));
        let (orders, order) = watch::channel(Order::Serve);
        let mut shutdown = pin!(shutdown);
        let mut tasks = JoinSet::new();
        let mut admission = Admission {
            split: Pcg64::new(u128::from(shared.config.seed), 0xa02b_dbf7_bb3c_0a7a),
            number: 0,
            shared: Arc::clone(&shared),
            tls,
            workers,
            order,
        };
        let mut memory = Memory::default();
        // One warning is enough until a connection is accepted again.
        let mut failing = false;
        let mut again = Instant::now();
        loop {
            let accept = async {
                sleep_until(again).await;
                listeners.accept().await
            };
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                Some(ended) = tasks.join_next() => {
                    // A task that panicked has nothing left.
                    if let Ok(Some(rested)) = ended {
                        resting.put(rested);
                    }
                    if memory.is_left(tasks.len()) {
                        memory::give_back_soon();
                    }
                    continue;
                }
                rested = resting.next() => {
                    admission.resume(&mut tasks, rested);
                    continue;
                }
                incoming = next_of(&mut http3) => {
                    if let Some(http3) = &http3 {
                        admission.admit_quic(&mut tasks, http3, incoming);
                    }
                    continue;
                }
                accepted = accept => accepted,
            };
            match accepted {
                Ok(arrival) => {
                    failing = false;
                    admission.admit(&mut tasks, arrival);
                }
                // Either one connection is gone again, or no more can be open until some end.
                Err(error) => {
                    shared.metrics.refused("accept");
                    if !failing {
                        tracing::warn!("cannot accept connections: {error}");
                    }
                    failing = true;
                    again = Instant::now() + Duration::from_millis(50);
                }
            }
        }
        // Clients that are connected by now may have sent a request already.
        listeners.drain(|arrival| admission.admit(&mut tasks, arrival));
        for rested in resting.into_all() {
            admission.resume(&mut tasks, rested);
        }
        if let Some(http3) = &http3 {
            http3.finish();
        }
        // This fails only if there are no connections.
        let _ = orders.send(Order::Finish);
        let grace = shared.config.limits.grace;
        let all = tokio::select! {
            ended = timeout(grace, admission.finish(&mut tasks)) => ended.is_ok(),
            () = at_once => false,
        };
        if !all {
            let _ = orders.send(Order::Leave);
            if timeout(FAREWELL, admission.finish(&mut tasks))
                .await
                .is_err()
            {
                tasks.abort_all();
                let _ = timeout(FAREWELL, admission.finish(&mut tasks)).await;
            }
        }
        if let Some(http3) = http3 {
            http3.close().await;
        }
        if let Some(metrics) = metrics {
            metrics.abort();
        }
    }
}

/// The next client of HTTP/3, if the server speaks it.
async fn next_of(http3: &mut Option<Endpoints>) -> Incoming {
    match http3 {
        Some(endpoints) => endpoints.next().await,
        None => std::future::pending().await,
    }
}

/// A task for each connection that does not rest. It gives back one that is to rest now.
type Tasks = JoinSet<Option<Rested>>;

/// Lets connections in, within the limits.
struct Admission {
    split: Pcg64,
    /// The number of the next connection.
    number: u64,
    shared: Arc<Shared>,
    tls: Option<Certificate>,
    workers: Workers,
    order: watch::Receiver<Order>,
}

impl Admission {
    /// A slot for a client of this address, and a group at random.
    fn slot(&mut self, peer: SocketAddr) -> Option<(Slot, usize)> {
        match self.shared.slots.take(peer.ip(), SlotKind::Connection) {
            Ok(slot) => {
                let groups = self.shared.config.groups.len() as u64;
                Some((slot, (self.split.next_u64() % groups) as usize))
            }
            Err(reason) => {
                self.shared.metrics.refused(reason);
                None
            }
        }
    }

    fn admit(&mut self, tasks: &mut Tasks, (socket, peer, secure): Arrival) {
        // The client gets no answer, because an answer would use what is short.
        let Some((slot, group)) = self.slot(peer) else {
            return;
        };
        // It fails if the descriptor cannot be watched: the client gets no answer.
        let place = |socket| self.workers.place(self.number, socket);
        let Ok((runtime, socket)) = socket.into_std().and_then(place) else {
            return self.shared.metrics.refused("accept");
        };
        // These fail if the client has left already. The first read will show that.
        let _ = socket.set_nodelay(true);
        let _ = SockRef::from(&socket).set_tcp_notsent_lowat(NOT_SENT);
        let past = Past::new(self.number, group, peer);
        self.number += 1;
        let tls = self.tls.as_ref().filter(|_| secure);
        let tls = tls.map(Certificate::acceptor);
        let (connection, socket) = self.connect(past, socket, tls.is_some());
        let serving = serve(
            Counted::new(connection),
            socket,
            tls,
            self.order.clone(),
            slot,
        );
        tasks.spawn_on(serving, &runtime);
    }

    /// A connection that rested is served again.
    fn resume(&self, tasks: &mut Tasks, rested: Rested) {
        let Ok((runtime, socket)) = self.workers.place(rested.past.number(), rested.socket) else {
            return rested.past.lost(&self.shared);
        };
        let (connection, socket) = self.connect(rested.past, socket, false);
        let (counted, order) = (Counted::again(connection), self.order.clone());
        tasks.spawn_on(serve(counted, socket, None, order, rested.slot), &runtime);
    }

    /// Waits for the end of all connections.
    async fn finish(&self, tasks: &mut Tasks) {
        while let Some(ended) = tasks.join_next().await {
            // It was about to rest when the order came.
            if let Ok(Some(rested)) = ended {
                self.resume(tasks, rested);
            }
        }
    }

    /// A connection with this socket.
    fn connect(
        &self,
        past: Past,
        socket: TcpStream,
        is_secure: bool,
    ) -> (Arc<Connection>, Arc<TcpStream>) {
        let socket = Arc::new(socket);
        let transport = Transport::Tcp {
            socket: Arc::clone(&socket),
            is_secure,
        };
        let connection = Connection::new(Arc::clone(&self.shared), past, transport);
        (Arc::new(connection), socket)
    }

    fn admit_quic(&mut self, tasks: &mut Tasks, http3: &Endpoints, incoming: Incoming) {
        let Some((slot, group)) = self.slot(incoming.remote_address()) else {
            return incoming.refuse();
        };
        let (number, runtime) = (self.number, self.workers.runtime(self.number));
        let Some(handshake) = http3.begin(incoming, &runtime) else {
            return self.shared.metrics.refused("handshake");
        };
        self.number += 1;
        let (shared, order) = (Arc::clone(&self.shared), self.order.clone());
        let serving = async move {
            let _slot = slot;
            http3::serve(shared, (number, group), handshake, order).await;
            None
        };
        tasks.spawn_on(serving, &runtime);
    }
}

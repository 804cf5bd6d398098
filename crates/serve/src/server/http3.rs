//! HTTP/3: sockets of UDP, and who is let in. The answers are those of the other versions.

mod bounded;
mod request;
mod session;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quinn::crypto::rustls::QuicServerConfig;
use quinn::{
    Connecting, Endpoint, EndpointConfig, IdleTimeout, ServerConfig, TokioRuntime, TransportConfig,
};
use rustix::net::sockopt::{set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::config::Limits;
use super::error::ServeError;
use super::listeners::leaves_ipv4;
use super::patience::FAREWELL;
use super::quic::Window;
use super::session::STREAMS;
use super::tls::Certificate;
use super::transport::NOT_SENT;

pub(super) use quinn::Incoming;
pub(super) use session::serve;

/// Handshakes at a time with clients whose address is not proved. Any more must prove it first (Retry: RFC 9000, section 8.1.2), so that
/// nobody takes connections in the name of others.
const UNPROVED: usize = 64;
/// Streams at a time that a client may open for other purposes than requests: three for HTTP/3 and QPACK, and some of unknown types.
const OTHER_STREAMS: u32 = 8;
/// Bytes that a client may send before they are read: on a stream, and on all of a connection.
const UNREAD: (u32, u32) = (64 << 10, 256 << 10);
/// The window that a connection begins with (RFC 9002, section 7.2).
const FIRST_WINDOW: u64 = 14_720;
/// Bytes that may wait in a socket of UDP, which all connections share.
const SOCKET: usize = 4 << 20;
/// H3_NO_ERROR (RFC 9114, section 8.1).
const NO_ERROR: u32 = 0x100;
/// Clients that wait to be let in.
const WAITING: usize = 1024;

/// The sockets of UDP.
pub(super) struct Endpoints {
    endpoints: Vec<Endpoint>,
    incoming: mpsc::Receiver<Incoming>,
    certificate: Certificate,
    config: ServerConfig,
    limits: Limits,
    unproved: Arc<AtomicUsize>,
}

/// A client whose handshake has begun.
pub(super) struct Handshake {
    connecting: Connecting,
    window: Arc<Window>,
    peer: SocketAddr,
    unproved: Option<Unproved>,
}

/// A handshake that counts among those with unproved addresses until this is dropped.
struct Unproved(Arc<AtomicUsize>);

impl Drop for Unproved {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Endpoints {
    /// Opens a socket at each of these addresses.
    pub fn open(
        addresses: &[SocketAddr],
        certificate: &Certificate,
        limits: Limits,
    ) -> Result<Self, ServeError> {
        let mut config = ServerConfig::with_crypto(crypto(certificate)?);
        config
            .max_incoming(WAITING)
            .incoming_buffer_size(UNREAD.0.into())
            .incoming_buffer_size_total(SOCKET as u64);
        let mut endpoints = Vec::new();
        for &address in addresses {
            let failed = |error| ServeError::ListenUdp { address, error };
            let socket = socket(address, addresses).map_err(failed)?;
            let mut version_1 = EndpointConfig::default();
            version_1.supported_versions(vec![1]);
            let endpoint = Endpoint::new(
                version_1,
                Some(config.clone()),
                socket,
                Arc::new(TokioRuntime),
            );
            endpoints.push(endpoint.map_err(failed)?);
        }
        let (found, incoming) = mpsc::channel(1);
        for endpoint in &endpoints {
            let (entrance, found) = (endpoint.clone(), found.clone());
            tokio::spawn(async move {
                while let Some(incoming) = entrance.accept().await {
                    if found.send(incoming).await.is_err() {
                        break;
                    }
                }
            });
        }
        Ok(Self {
            endpoints,
            incoming,
            certificate: certificate.clone(),
            config,
            limits,
            unproved: Arc::default(),
        })
    }

    /// The next client. One whose address must be proved first is asked to, and comes again.
    pub async fn next(&mut self) -> Incoming {
        while let Some(incoming) = self.incoming.recv().await {
            let full = self.unproved.load(Ordering::Relaxed) >= UNPROVED;
            if incoming.remote_address_validated() || !full {
                return incoming;
            }
            // It fails only for clients that have proved it.
            let _ = incoming.retry();
        }
        std::future::pending().await
    }

    /// Begins the handshake with a client, in this runtime.
    pub fn begin(&self, incoming: Incoming, runtime: &Handle) -> Option<Handshake> {
        let proved = incoming.remote_address_validated();
        let unproved = (!proved).then(|| {
            self.unproved.fetch_add(1, Ordering::Relaxed);
            Unproved(Arc::clone(&self.unproved))
        });
        let peer = incoming.remote_address();
        let window = Window::new();
        let mut config = self.config.clone();
        // As the files were read last.
        config.crypto = crypto(&self.certificate).ok()?;
        config.transport_config(Arc::new(transport(&self.limits, &window)));
        let _there = runtime.enter();
        Some(Handshake {
            connecting: incoming.accept_with(Arc::new(config)).ok()?,
            window,
            peer,
            unproved,
        })
    }

    /// Lets nobody in from now on.
    pub fn finish(&self) {
        for endpoint in &self.endpoints {
            endpoint.set_server_config(None);
        }
    }

    /// Tells all clients that are left that this is the end.
    pub async fn close(self) {
        for endpoint in self.endpoints {
            endpoint.close(NO_ERROR.into(), b"");
            let _ = timeout(FAREWELL, endpoint.wait_idle()).await;
        }
    }
}

fn crypto(certificate: &Certificate) -> Result<Arc<QuicServerConfig>, ServeError> {
    match QuicServerConfig::try_from(certificate.speaking(b"h3")) {
        Ok(config) => Ok(Arc::new(config)),
        Err(_) => Err(ServeError::Config("HTTP/3 needs TLS 1.3 with AES-128-GCM")),
    }
}

fn transport(limits: &Limits, window: &Arc<Window>) -> TransportConfig {
    let longest = limits.stall_timeout.max(limits.header_timeout);
    let idle = IdleTimeout::try_from(longest.max(Duration::from_secs(1))).ok();
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(STREAMS.into())
        .max_concurrent_uni_streams(OTHER_STREAMS.into())
        .max_idle_timeout(idle)
        .stream_receive_window(UNREAD.0.into())
        .receive_window(UNREAD.1.into())
        .send_window(FIRST_WINDOW + u64::from(NOT_SENT))
        .datagram_receive_buffer_size(None)
        .congestion_controller_factory(window.clone());
    transport
}

/// A socket at one of these addresses.
fn socket(address: SocketAddr, all: &[SocketAddr]) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    if leaves_ipv4(address, all) {
        socket.set_only_v6(true)?;
    }
    // Beyond net.core.rmem_max with CAP_NET_ADMIN; otherwise the kernel gives what it allows.
    if set_socket_recv_buffer_size_force(&socket, SOCKET).is_err() {
        socket.set_recv_buffer_size(SOCKET)?;
    }
    if set_socket_send_buffer_size_force(&socket, SOCKET).is_err() {
        socket.set_send_buffer_size(SOCKET)?;
    }
    socket.bind(&address.into())?;
    Ok(socket.into())
}

//! Two of quinn's connections in virtual time, with a path between them that delays packets, and may police them.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    ServerConfig, StreamId, Transmit, TransportConfig, VarInt,
};
use rustls::pki_types::PrivatePkcs8KeyDer;

use crate::server::quic::Window;

/// Packets that quinn may send at once.
const AT_ONCE: usize = 10;

/// An endpoint with one connection.
struct Peer {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    inbox: VecDeque<(Instant, Vec<u8>)>,
}

/// A token bucket that drops what it has no tokens for.
#[derive(Debug, Clone, Copy)]
pub struct Policer {
    /// Bytes per second.
    pub rate: u64,
    pub bucket: u64,
}

/// What the server sends: it writes what it may, and says when it wants to be asked again.
pub trait Writes {
    fn write(
        &mut self,
        now: Instant,
        connection: &mut Connection,
        stream: StreamId,
    ) -> Option<Instant>;
}

pub struct Net {
    pub now: Instant,
    server: Peer,
    client: Peer,
    stream: Option<StreamId>,
    read: Option<StreamId>,
    delay: Duration,
    pub policer: Option<Policer>,
    tokens: (Instant, f64),
    /// When the server sent packets of more than 500 bytes.
    pub sent: Vec<Instant>,
    pub dropped: usize,
    /// When the client received bytes of the stream, and how many.
    pub received: Vec<(Instant, u64)>,
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

impl Peer {
    fn new(server: Option<ServerConfig>) -> Self {
        let mut config = EndpointConfig::default();
        config.rng_seed(Some([7; 32]));
        Self {
            endpoint: Endpoint::new(Arc::new(config), server.map(Arc::new), true, None),
            connection: None,
            inbox: VecDeque::new(),
        }
    }

    /// Reads what has arrived, lets time pass, and returns the packets to send.
    fn drive(&mut self, now: Instant, remote: SocketAddr) -> Vec<Vec<u8>> {
        let (mut out, mut buffer) = (Vec::new(), Vec::new());
        while let Some((_, packet)) = self.inbox.pop_front_if(|(at, _)| *at <= now) {
            let packet = packet[..].into();
            let event = self
                .endpoint
                .handle(now, remote, None, None, packet, &mut buffer);
            match event {
                Some(DatagramEvent::NewConnection(incoming)) => {
                    let accepted = self.endpoint.accept(incoming, now, &mut buffer, None);
                    self.connection = accepted.ok();
                }
                Some(DatagramEvent::ConnectionEvent(_, event)) => {
                    if let Some((_, connection)) = &mut self.connection {
                        connection.handle_event(event);
                    }
                }
                Some(DatagramEvent::Response(_)) | None => {}
            }
            buffer.clear();
        }
        let Some((handle, connection)) = &mut self.connection else {
            return out;
        };
        if connection.poll_timeout().is_some_and(|at| at <= now) {
            connection.handle_timeout(now);
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        while connection.poll().is_some() {}
        while let Some(Transmit {
            size, segment_size, ..
        }) = connection.poll_transmit(now, AT_ONCE, &mut buffer)
        {
            let segment = segment_size.unwrap_or(size);
            out.extend(buffer[..size].chunks(segment).map(<[u8]>::to_vec));
            buffer.clear();
        }
        out
    }

    /// When it must be driven again.
    fn next(&mut self) -> Option<Instant> {
        let timeout = self
            .connection
            .as_mut()
            .and_then(|(_, one)| one.poll_timeout());
        let inbox = self.inbox.front().map(|(at, _)| *at);
        timeout.into_iter().chain(inbox).min()
    }
}

impl Net {
    /// A connection whose server's window is this, over a path with this round trip.
    pub fn new(window: &Arc<Window>, round_trip: Duration, policer: Option<Policer>) -> Self {
        let key = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let (certificate, private) = (
            key.cert.der().clone(),
            PrivatePkcs8KeyDer::from(key.signing_key.serialize_der()),
        );
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let tls = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], private.into())
            .unwrap();
        let crypto = QuicServerConfig::try_from(tls).unwrap();
        let mut server = ServerConfig::with_crypto(Arc::new(crypto));
        let mut transport = TransportConfig::default();
        transport.congestion_controller_factory(window.clone());
        server.transport_config(Arc::new(transport));
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let crypto = QuicClientConfig::try_from(tls).unwrap();
        let mut client_config = ClientConfig::new(Arc::new(crypto));
        let mut transport = TransportConfig::default();
        transport.stream_receive_window(VarInt::from_u32(1 << 30));
        client_config.transport_config(Arc::new(transport));
        let now = Instant::now();
        let mut client = Peer::new(None);
        let connected = client
            .endpoint
            .connect(now, client_config, address(443), "localhost");
        client.connection = Some(connected.unwrap());
        Self {
            now,
            server: Peer::new(Some(server)),
            client,
            stream: None,
            read: None,
            delay: round_trip / 2,
            policer,
            tokens: (now, policer.map_or(0.0, |policer| policer.bucket as f64)),
            sent: Vec::new(),
            dropped: 0,
            received: Vec::new(),
        }
    }

    /// Lets this time pass.
    pub fn run(&mut self, time: Duration, writes: &mut impl Writes) {
        let end = self.now + time;
        while self.now < end {
            let mut again = None;
            if let Some((_, connection)) = &mut self.server.connection
                && !connection.is_handshaking()
            {
                if self.stream.is_none() {
                    self.stream = connection.streams().open(Dir::Uni);
                }
                if let Some(stream) = self.stream {
                    again = writes.write(self.now, connection, stream);
                }
            }
            let packets = self.server.drive(self.now, address(1024));
            let more = !packets.is_empty();
            for packet in packets {
                self.carry(packet);
            }
            for packet in self.client.drive(self.now, address(443)) {
                self.server.inbox.push_back((self.now + self.delay, packet));
            }
            self.read();
            // What was sent may have made room.
            if more {
                continue;
            }
            let next = [self.server.next(), self.client.next(), again];
            let next = next.into_iter().flatten().min().unwrap_or(end);
            self.now = next.max(self.now + Duration::from_micros(1)).min(end);
        }
    }

    fn carry(&mut self, packet: Vec<u8>) {
        if packet.len() > 500 {
            self.sent.push(self.now);
        }
        if let Some(Policer { rate, bucket }) = self.policer {
            let (at, tokens) = self.tokens;
            let came = (self.now - at).as_secs_f64() * rate as f64;
            let tokens = (tokens + came).min(bucket as f64) - packet.len() as f64;
            if tokens < 0.0 {
                self.tokens = (self.now, tokens + packet.len() as f64);
                self.dropped += 1;
                return;
            }
            self.tokens = (self.now, tokens);
        }
        self.client.inbox.push_back((self.now + self.delay, packet));
    }

    fn read(&mut self) {
        let Some((_, connection)) = &mut self.client.connection else {
            return;
        };
        self.read = self.read.or_else(|| connection.streams().accept(Dir::Uni));
        let Some(stream) = self.read else { return };
        let mut stream = connection.recv_stream(stream);
        if let Ok(mut chunks) = stream.read(true) {
            let mut bytes = 0;
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                bytes += chunk.bytes.len() as u64;
            }
            if bytes > 0 {
                self.received.push((self.now, bytes));
            }
            let _ = chunks.finalize();
        }
    }
}

//! The headers of a flow's packets on the wire: addresses, ports, sequence numbers.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use tidegate_limiter::{FlowKey, HashKey, Headers, Ports};
use tidegate_trace::wire::{Flags, Sacks};
use tidegate_trace::write::{Ends, TcpFrame, UdpFrame};

use super::Packet;
use crate::plan::{Plan, Traffic};
use crate::random::{Owner, Random};
use crate::tcp::{Segment, TcpConfig};

#[cfg(test)]
mod tests;

/// Bytes of the IPv4 and UDP headers.
pub const UDP_HEADERS: u32 = 28;
/// The timestamps option, aligned by two bytes of padding as Linux does.
const TIMESTAMPS: u32 = 12;
/// IANA's numbers.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Length in bytes of the IP packet that carries a segment.
#[inline]
pub fn tcp_length(segment: &Segment, config: &TcpConfig) -> u32 {
    // A segment does not know whether selective acknowledgements are allowed. With timestamps, that
    // option fits into their padding.
    let absent = segment.syn && !config.sack && segment.timestamps.is_none();
    segment.ip_bytes() - if absent { 4 } else { 0 }
}

/// The values that are needed to write both directions of a flow.
#[derive(Debug, Clone)]
pub struct Wire {
    seed: u64,
    flow: usize,
    flows: usize,
    /// The secret of the hash, one for the simulation.
    hash_key: HashKey,
    server: SocketAddrV4,
    client: Ipv4Addr,
    /// None for datagrams.
    tcp: Option<TcpConfig>,
}

/// The values that distinguish a connection from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// Address and port of the server.
    pub server: SocketAddr,
    /// Address and port of the client.
    pub client: SocketAddr,
    /// Initial sequence number of the server.
    pub server_isn: u32,
    /// Initial sequence number of the client.
    pub client_isn: u32,
    /// Hash of the addresses and ports, as limiters and queues see it.
    pub hash: u32,
}

impl Wire {
    /// The headers of a flow of the plan.
    pub fn new(plan: &Plan, flow: usize) -> Self {
        let datagrams = matches!(plan.flows[flow].traffic, Traffic::Datagrams { .. });
        // Each aggregate has a server, unless the flow names another.
        let [.., high, low] = (plan.flows[flow].aggregate as u32 + 1).to_be_bytes();
        let usual = Ipv4Addr::new(10, 0, high, low);
        let server = plan.flows[flow].address.unwrap_or(usual);
        // Each flow has a client in 10.128.0.0/9, unless it names another.
        let [_, a, b, c] = (flow as u32 + 1).to_be_bytes();
        let usual = Ipv4Addr::new(10, 128 | a, b, c);
        Self {
            seed: plan.seed,
            flow,
            flows: plan.flows.len(),
            hash_key: hash_key(plan.seed),
            server: SocketAddrV4::new(server, plan.flows[flow].port),
            client: plan.flows[flow].client.unwrap_or(usual),
            tcp: (!datagrams).then(|| plan.flows[flow].tcp.clone()),
        }
    }

    /// The client of the flow's connection of this number: each connection has a port.
    #[inline]
    fn client(&self, number: u32) -> SocketAddrV4 {
        let port = self.flow as u64 + u64::from(number) * self.flows as u64;
        let port = 10_000 + (port % 50_000) as u16;
        SocketAddrV4::new(self.client, port)
    }

    /// The headers of the packets of this connection with this code point, as they go to the
    /// client: the same in both directions.
    #[inline]
    pub fn key(&self, number: u32, dscp: u8) -> FlowKey {
        let (server, client) = (self.server, self.client(number));
        let headers = Headers {
            source: (*server.ip()).into(),
            destination: (*client.ip()).into(),
            protocol: if self.tcp.is_some() { TCP } else { UDP },
            ports: Some(Ports {
                source: server.port(),
                destination: client.port(),
            }),
            dscp,
        };
        headers.into()
    }

    /// The hash of the client's address, as limiters see it.
    pub fn host_hash(&self) -> u32 {
        self.key(0, 0).host_hash(self.hash_key, false)
    }

    /// The hashes of the addresses of server and client.
    pub fn ends_hashes(&self) -> [u32; 2] {
        ends_hashes(&self.key(0, 0), self.hash_key)
    }

    /// The secret with which its simulation's flows are hashed.
    pub fn hash_key(&self) -> HashKey {
        self.hash_key
    }

    /// The flow's connection of this number.
    pub fn connection(&self, number: u32) -> Connection {
        let mut random = Random::new(self.seed, Owner::Connection(self.flow, number));
        Connection {
            server: self.server.into(),
            client: self.client(number).into(),
            server_isn: random.bits(),
            client_isn: random.bits(),
            hash: self.key(number, 0).hash(self.hash_key),
        }
    }

    /// Writes the packet's frame into the buffer, which is cleared first. Returns its length on the
    /// wire.
    pub fn encode(&self, packet: &Packet, snaplen: usize, out: &mut Vec<u8>) -> u32 {
        let connection = self.connection(packet.connection);
        let mut ends = [
            (connection.server, connection.server_isn),
            (connection.client, connection.client_isn),
        ];
        if !packet.forward {
            ends.reverse();
        }
        let [(src, isn), (dst, peer_isn)] = ends;
        let Some(config) = &self.tcp else {
            let frame = UdpFrame {
                payload: (packet.bytes - UDP_HEADERS) as u16,
                ip_id: packet.ident,
                dscp: packet.dscp,
                snaplen,
                ..UdpFrame::new(Ends { src, dst })
            };
            return frame.encode(out);
        };
        let segment = &packet.segment;
        // The only segment without an acknowledgement is the client's SYN.
        let first = segment.syn && !packet.forward;
        let flag = |set: bool, bits: u8| if set { bits } else { 0 };
        let scale = window_scale(config.receive_window);
        // The window of a SYN is never scaled, RFC 7323 §2.2.
        let window = segment.window >> if segment.syn { 0 } else { scale };
        let number = |number: u64| peer_isn.wrapping_add(number as u32);
        let blocks = segment.sacks.ranges();
        let timestamps = u32::from(segment.timestamps.is_some());
        let frame = TcpFrame {
            seq: isn.wrapping_add(segment.seq as u32),
            ack: if first {
                0
            } else {
                peer_isn.wrapping_add(segment.ack as u32)
            },
            flags: flag(!first, Flags::ACK)
                | flag(segment.syn, Flags::SYN)
                | flag(segment.fin, Flags::FIN)
                | flag(segment.psh, Flags::PSH)
                | flag(segment.ece, Flags::ECE)
                | flag(segment.cwr, Flags::CWR),
            accurate: segment.ae,
            window: u16::try_from(window).unwrap_or(u16::MAX),
            payload: segment.payload,
            ip_id: packet.ident,
            dscp: packet.dscp,
            ecn: segment.ecn as u8,
            // The stated size includes the options of each segment, RFC 6691.
            mss: segment
                .syn
                .then(|| (config.mss + TIMESTAMPS * timestamps) as u16),
            window_scale: segment.syn.then_some(scale),
            sack_permitted: segment.syn && config.sack,
            timestamps: segment.timestamps,
            sacks: Sacks::new(blocks.map(|range| number(range.start)..number(range.end))),
            snaplen,
            ..TcpFrame::new(Ends { src, dst })
        };
        frame.encode(out)
    }
}

/// The hashes of the addresses of server and client, of headers on the way to the client.
pub fn ends_hashes(key: &FlowKey, secret: HashKey) -> [u32; 2] {
    [true, false].map(|source| key.host_hash(secret, source))
}

/// The secret with which a simulation's flows are hashed.
pub fn hash_key(seed: u64) -> HashKey {
    let mut secret = Random::new(seed, Owner::Hash);
    let halves = [secret.long(), secret.long()].map(u64::to_le_bytes);
    HashKey::from_bytes(std::array::from_fn(|byte| halves.as_flattened()[byte]))
}

/// The shift of the window field in bits, RFC 7323 §2.
fn window_scale(window: u32) -> u8 {
    let bits = 32 - window.leading_zeros();
    bits.saturating_sub(16).min(14) as u8
}

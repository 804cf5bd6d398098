//! A capture of many short transfers, which a table lists.

use std::fs::File;
use std::io::BufWriter;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result};
use tidegate_trace::read::LinkType;
use tidegate_trace::wire::Flags;
use tidegate_trace::write::{Ends, PcapWriter, Resolution, TcpFrame};

/// How long a connection takes: 10 ms for each of its round trips.
const ROUND_TRIP: u64 = 10_000_000;
/// From the beginning of a connection to that of the next, in nanoseconds.
const APART: u64 = 100_000;
/// Connections from an address.
const PORTS: u32 = 50_000;
/// As much of each frame is kept as captures of headers keep.
const SNAPLEN: usize = 96;

/// Writes this many connections, each with one response of one packet, one connection after the other.
pub fn write(path: &Path, connections: u32) -> Result<()> {
    let file = File::create(path).with_context(|| path.display().to_string())?;
    let file = BufWriter::with_capacity(1 << 20, file);
    let mut capture = PcapWriter::new(file, LinkType::ETHERNET, Resolution::Nanos)?;
    let server: SocketAddr = ([192, 0, 2, 1], 443).into();
    let mut bytes = Vec::new();
    // Connections overlap, and frames are in the order of time: steps of several are under way at once.
    let behind = (ROUND_TRIP / 2 / APART) as u32;
    let steps = 5;
    for slot in 0..connections + steps * behind {
        for step in 0..steps {
            let Some(number) = slot.checked_sub(step * behind) else {
                continue;
            };
            if number >= connections {
                continue;
            }
            let address = Ipv4Addr::from(0x0a00_0001 + number / PORTS);
            let port = (10_000 + number % PORTS) as u16;
            let client = SocketAddr::new(address.into(), port);
            let (src, dst) = match step {
                1 | 3 => (server, client),
                _ => (client, server),
            };
            let plain = TcpFrame {
                snaplen: SNAPLEN,
                ..TcpFrame::new(Ends { src, dst })
            };
            let frame = match step {
                0 => TcpFrame {
                    flags: Flags::SYN,
                    mss: Some(1460),
                    ..plain
                },
                1 => TcpFrame {
                    flags: Flags::SYN | Flags::ACK,
                    ack: 1,
                    mss: Some(1460),
                    ..plain
                },
                // The client's acknowledgement carries its request.
                2 => TcpFrame {
                    seq: 1,
                    ack: 1,
                    payload: 120,
                    ..plain
                },
                3 => TcpFrame {
                    seq: 1,
                    ack: 121,
                    payload: 1200,
                    ..plain
                },
                _ => TcpFrame {
                    flags: Flags::RST | Flags::ACK,
                    seq: 121,
                    ack: 1201,
                    ..plain
                },
            };
            let length = frame.encode(&mut bytes);
            let at = 1_000_000_000_000 + u64::from(slot) * APART + u64::from(step);
            capture.frame(at, &bytes, length)?;
        }
    }
    capture.finish()?;
    Ok(())
}

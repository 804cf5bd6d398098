//! The kernel's TCP as the host of a script, in real time: sockets in a network namespace, and packets through a TAP
//! device.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use tidegate_lab::tcp::{Algorithm, Sacks, Segment};
use tidegate_limiter::Ecn;
use tidegate_testbed::namespace::{Namespace, Port};
use tidegate_trace::read::{Frame, LinkType};
use tidegate_trace::wire::{self, Flags, Timestamps};
use tidegate_trace::write::{Ends, TcpFrame};

use crate::lab;
use crate::player::{Call, Host, TICK, Trouble};
use crate::script::{self, Packet, Script};

/// What the scripts' `defaults.sh` sets and some kernels set otherwise, and room for everything that they write.
const DEFAULTS: [(&str, &str); 8] = [
    ("tcp_early_retrans", "4"),
    ("tcp_ecn", "0"),
    ("tcp_pacing_ca_ratio", "120"),
    ("tcp_pacing_ss_ratio", "200"),
    ("tcp_reordering", "3"),
    ("tcp_slow_start_after_idle", "0"),
    ("tcp_tso_win_divisor", "3"),
    ("tcp_wmem", "4096 8388608 8388608"),
];

/// How long to sleep between looks for packets.
const PAUSE: Duration = Duration::from_micros(50);

/// A connection of the kernel's TCP. Sequence numbers are counted as in scripts: each side's first is 0.
pub struct Kernel {
    host: SocketAddr,
    peer: SocketAddr,
    /// Whether the script has Reno, not CUBIC.
    reno: bool,
    /// Whether the script has a queue that paces.
    paced: bool,
    listener: Option<TcpListener>,
    stream: Option<TcpStream>,
    /// The first sequence number of the host.
    isn: Option<u32>,
    /// How far the host's timestamps are ahead of the script's.
    ahead: u32,
    sent: VecDeque<(i64, Segment)>,
    start: Instant,
    port: Port,
    namespace: Namespace,
}

impl Kernel {
    /// A namespace with the settings of a script. The error says what is missing.
    pub fn new(script: &Script) -> Result<Self, String> {
        // What does not apply to the lab is not played here either.
        let config = lab::settings(script)?;
        let namespace = Namespace::new().map_err(|error| error.to_string())?;
        let port = namespace.port("tun0").map_err(|error| error.to_string())?;
        // As the frames of the runner have them.
        for words in [
            "link set tun0 address 02:00:00:00:00:02",
            "address add 192.0.2.2/24 dev tun0",
            "neighbour add 192.0.2.1 lladdr 02:00:00:00:00:01 dev tun0",
        ] {
            namespace.ip(words).map_err(|error| error.to_string())?;
        }
        let settings = script.commands.iter();
        let settings = settings.flat_map(|line| script::assignments(line));
        // That of a namespace may not be changed everywhere, that of a socket may.
        let settings = settings.filter(|(name, _)| *name != "tcp_congestion_control");
        let set = || {
            DEFAULTS
                .into_iter()
                .chain(settings)
                .try_for_each(|(name, value)| {
                    fs::write(format!("/proc/sys/net/ipv4/{name}"), value)
                        .map_err(|error| format!("{name}: {error}"))
                })
        };
        namespace.enter(set).map_err(|error| error.to_string())??;
        Ok(Self {
            host: ([192, 0, 2, 2], 8080).into(),
            peer: ([192, 0, 2, 1], 8080).into(),
            reno: config.algorithm == Algorithm::Reno,
            paced: config.pacing,
            listener: None,
            stream: None,
            isn: None,
            ahead: 0,
            sent: VecDeque::new(),
            start: Instant::now(),
            port,
            namespace,
        })
    }

    /// Takes what the host has sent.
    fn take(&mut self) {
        let mut buffer = [0; 2048];
        while let Ok(Some(bytes)) = self.port.receive(&mut buffer) {
            let frame = Frame {
                at: 0,
                link: LinkType::ETHERNET,
                data: &buffer[..bytes],
                wire_len: bytes as u32,
                outbound: None,
            };
            // Not what the device itself says to its neighbours.
            let Ok(packet) = wire::decode(&frame) else {
                continue;
            };
            let isn = *self.isn.get_or_insert(packet.seq);
            self.host.set_port(packet.src.port());
            let has = |bits| packet.flags.has(bits);
            let mut sacks = Sacks::default();
            for block in packet.options.sacks.blocks() {
                sacks.push(u64::from(block.start)..u64::from(block.end));
            }
            let segment = Segment {
                seq: packet.seq.wrapping_sub(isn).into(),
                payload: packet.payload,
                ack: if has(Flags::ACK) {
                    packet.ack.into()
                } else {
                    0
                },
                syn: has(Flags::SYN),
                fin: has(Flags::FIN),
                ece: has(Flags::ECE),
                cwr: has(Flags::CWR),
                sacks,
                timestamps: packet.options.timestamps,
                // The last two bits of the type of service, RFC 3168 §5.
                ecn: match buffer[15] & 3 {
                    1 => Ecn::Ect1,
                    2 => Ecn::Ect0,
                    3 => Ecn::Ce,
                    _ => Ecn::NotEct,
                },
                ..Segment::default()
            };
            self.sent.push_back((self.now(), segment));
        }
    }

    /// A socket of the host that does not wait, neither for the other end nor for more to send, with the script's congestion control.
    fn socket(&self) -> Result<Socket, Trouble> {
        let make = || Socket::new(Domain::IPV4, Type::STREAM, None);
        let socket = self.namespace.enter(make);
        let socket = socket.map_err(|error| Trouble::Failed(error.to_string()))?;
        let socket = socket.map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let algorithm: &[u8] = if self.reno { b"reno" } else { b"cubic" };
        socket.set_tcp_congestion(algorithm).map_err(failed)?;
        socket.set_tcp_nodelay(true).map_err(failed)?;
        if self.paced {
            pace(&socket).map_err(failed)?;
        }
        Ok(socket)
    }

    /// The connection, accepted if it was not yet.
    fn stream(&mut self) -> Result<&mut TcpStream, Trouble> {
        if self.stream.is_none()
            && let Some(listener) = &self.listener
            && let Ok((stream, _)) = listener.accept()
        {
            stream.set_nonblocking(true).map_err(failed)?;
            self.stream = Some(stream);
        }
        let none = || Trouble::NotThere("no connection".to_owned());
        self.stream.as_mut().ok_or_else(none)
    }
}

fn failed(error: io::Error) -> Trouble {
    Trouble::Failed(error.to_string())
}

impl Host for Kernel {
    /// Linux rounds timers of 64 ticks and more to 8 ticks (kernel/time/timer.c).
    fn late(&self, wait: i64) -> i64 {
        if wait < 64 * TICK { TICK } else { 8 * TICK }
    }

    fn now(&self) -> i64 {
        self.start.elapsed().as_nanos() as i64
    }

    fn wait(&mut self, until: i64) {
        loop {
            self.take();
            if self.now() >= until {
                return;
            }
            sleep(PAUSE);
        }
    }

    fn sent(&mut self, until: i64) -> Option<(i64, Segment)> {
        loop {
            // What was sent before is there after the time has passed.
            let over = self.now() > until;
            self.take();
            if over || !self.sent.is_empty() {
                return self.sent.pop_front();
            }
            sleep(PAUSE);
        }
    }

    fn inject(&mut self, packet: &Packet, at: i64) -> Result<(), Trouble> {
        self.wait(at);
        let flag = |set: bool, bits: u8| if set { bits } else { 0 };
        let number = |number: u64| self.isn.unwrap_or(0).wrapping_add(number as u32);
        let flags = packet.flags;
        let frame = TcpFrame {
            seq: packet.seq.start as u32,
            ack: packet.ack.map_or(0, number),
            flags: flag(packet.ack.is_some(), Flags::ACK)
                | flag(flags.syn, Flags::SYN)
                | flag(flags.fin, Flags::FIN)
                | flag(flags.ece, Flags::ECE)
                | flag(flags.cwr, Flags::CWR),
            window: packet.window.unwrap_or(0) as u16,
            payload: packet.payload,
            ecn: match packet.ecn.as_deref() {
                Some("ect1") => 1,
                Some("ect0") => 2,
                Some("ce") => 3,
                _ => 0,
            },
            mss: packet.mss.map(|mss| mss as u16),
            window_scale: packet.scale.map(|scale| scale as u8),
            sack_permitted: packet.sack_ok,
            timestamps: packet.timestamps.map(|(value, echo)| Timestamps {
                value,
                echo: if echo == 0 {
                    0
                } else {
                    echo.wrapping_add(self.ahead)
                },
            }),
            sacks: wire::Sacks::new(
                (packet.sacks.iter()).map(|range| number(range.start)..number(range.end)),
            ),
            ..TcpFrame::new(Ends {
                src: self.peer,
                dst: self.host,
            })
        };
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.port.send(&bytes).map_err(failed)
    }

    fn call(&mut self, call: Call) -> Result<(), Trouble> {
        match call {
            Call::Nothing => {}
            // One that waits for the handshake is accepted later.
            Call::Accept => drop(self.stream()),
            Call::Listen => {
                let socket = self.socket()?;
                socket.bind(&self.host.into()).map_err(failed)?;
                socket.listen(1).map_err(failed)?;
                self.listener = Some(socket.into());
            }
            // Without waiting for the answer, which the script sends later.
            Call::Connect => {
                let socket = self.socket()?;
                match socket.connect(&self.peer.into()) {
                    Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => {
                        return Err(failed(error));
                    }
                    _ => self.stream = Some(socket.into()),
                }
            }
            Call::Write(bytes) => {
                let bytes = vec![0; bytes as usize];
                self.stream()?.write_all(&bytes).map_err(failed)?;
            }
            Call::Read(bytes) => {
                let mut there = vec![0; bytes as usize];
                self.stream()?.read_exact(&mut there).map_err(failed)?;
            }
            Call::Close => match self.stream()?.shutdown(Shutdown::Both) {
                // A second call changes nothing.
                Err(error) if error.kind() != ErrorKind::NotConnected => return Err(failed(error)),
                _ => {}
            },
        }
        Ok(())
    }

    fn info(&self, name: &str) -> Option<i64> {
        let states = [
            "TCP_CA_Open",
            "TCP_CA_Disorder",
            "TCP_CA_CWR",
            "TCP_CA_Recovery",
            "TCP_CA_Loss",
        ];
        if let Some(state) = states.iter().position(|state| *state == name) {
            return Some(state as i64);
        }
        let info = tcp_info(self.stream.as_ref()?)?;
        // Of struct tcp_info in include/uapi/linux/tcp.h.
        let word = |at: usize| {
            let bytes = info[at..at + 4].try_into().unwrap_or_default();
            i64::from(u32::from_ne_bytes(bytes))
        };
        Some(match name {
            "tcpi_ca_state" => info[1].into(),
            "tcpi_unacked" => word(24),
            "tcpi_sacked" => word(28),
            "tcpi_lost" => word(32),
            "tcpi_retrans" => word(36),
            "tcpi_rtt" => word(68),
            "tcpi_snd_ssthresh" => word(76),
            "tcpi_snd_cwnd" => word(80),
            "tcpi_reordering" => word(88),
            "tcpi_min_rtt" => word(148),
            _ => return None,
        })
    }

    fn matched(&mut self, expected: &Packet, sent: &Segment) {
        if let (Some((value, _)), Some(stamps), true) =
            (expected.timestamps, sent.timestamps, expected.flags.syn)
        {
            self.ahead = stamps.value.wrapping_sub(value);
        }
    }
}

/// Lets TCP pace by itself, as if it had a queue that paces: it does once a socket has a greatest pacing rate.
#[allow(unsafe_code)]
fn pace(socket: &Socket) -> io::Result<()> {
    let rate = u64::MAX / 2;
    // SAFETY: SO_MAX_PACING_RATE reads as many bytes as `rate` has.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const rate).cast(),
            size_of_val(&rate) as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The bytes of the connection's `tcp_info`.
#[allow(unsafe_code)]
fn tcp_info(stream: &TcpStream) -> Option<[u8; 256]> {
    let mut info = [0_u8; 256];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: TCP_INFO writes at most `length` bytes, which `info` has.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    (result == 0 && length >= 152).then_some(info)
}

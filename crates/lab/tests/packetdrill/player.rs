//! Plays a script against a connection of the lab.

use std::collections::VecDeque;

use tidegate_lab::Nanos;
use tidegate_lab::tcp::{Connection, Sacks, Segment, TcpConfig};
use tidegate_limiter::{Bytes, Ecn};
use tidegate_trace::wire::Timestamps;

use crate::assertion::{self, Doubt, Names};
use crate::script::{Action, Packet, Script, Time};

/// How a script ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// Everything that it expects happened.
    Passed,
    /// Something else happened: the line, and what.
    Failed(usize, String),
    /// It needs something that the lab has not.
    NotApplicable(String),
}

/// Parts of Linux that scripts use and the lab does not have, by what names them in a script.
const NOT_THERE: [(&str, &str); 12] = [
    ("FOFAST", "TCP Fast Open"),
    ("FO ", "TCP Fast Open"),
    ("TCP_FASTOPEN", "TCP Fast Open"),
    ("ZEROCOPY", "zero-copy writes"),
    ("md5", "TCP-MD5"),
    ("TCP_CORK", "Nagle's algorithm"),
    ("MSG_MORE", "Nagle's algorithm"),
    ("MSG_EOR", "ends of records"),
    ("TCP_USER_TIMEOUT", "user timeouts"),
    ("SO_TIMESTAMPING", "timestamps of sockets"),
    ("TCP_MAXSEG", "reading the segment size"),
    ("tcp_notsent_lowat", "notifications of sockets"),
];

/// Calls and their arguments that change nothing here.
const HARMLESS: [&str; 7] = [
    "SO_REUSEADDR",
    "SO_SNDBUF",
    "TCP_NODELAY",
    "IP_TOS",
    "IP_MTU_DISCOVER",
    "SO_ERROR",
    "F_GETFL",
];

/// How much later than in the scripts timers may fire, in nanoseconds: the lab has the ticks of Linux's usual
/// `CONFIG_HZ=250`, and most scripts were written for 1000.
const TICK: i64 = 4_000_000;
/// How long a packet takes through the host before TCP sees it, in nanoseconds. Real hosts are not faster, and some
/// scripts depend on it: a whole millisecond has passed then, and not just that.
const HOST: i64 = 10_000;

/// Plays a script.
pub fn play(text: &str) -> End {
    if let Some((_, what)) = NOT_THERE.iter().find(|(name, _)| text.contains(name)) {
        return End::NotApplicable((*what).to_owned());
    }
    let script = match Script::read(text) {
        Ok(script) => script,
        Err(what) => return End::NotApplicable(what),
    };
    let config = match settings(&script) {
        Ok(config) => config,
        Err(what) => return End::NotApplicable(what),
    };
    let mut player = Player {
        config,
        tolerance: script.tolerance * 1000,
        connection: None,
        now: 0,
        sent: VecDeque::new(),
        scale: 0,
        closed: false,
        read: 0,
        names: Names::new(),
    };
    let mut before = 0;
    for event in &script.events {
        let (from, to) = match event.time {
            Time::At(at) => (at * 1000, at * 1000),
            Time::After(after) => (before + after * 1000, before + after * 1000),
            Time::Between(from, to) => (before + from * 1000, before + to * 1000),
            Time::Any => (before, i64::MAX / 2),
        };
        if event.blocks && matches!(&event.action, Action::Call(name, ..) if name == "read") {
            return End::NotApplicable("reads that wait for data".to_owned());
        }
        match player.step(&event.action, from, to) {
            Ok(at) => {
                let exact = matches!(event.time, Time::At(_) | Time::After(_));
                before = if exact { from } else { at };
            }
            Err(Trouble::Failed(what)) => return End::Failed(event.line, what),
            Err(Trouble::NotThere(what)) => return End::NotApplicable(what),
        }
    }
    End::Passed
}

/// The settings of the connection: Linux's of the tests, and what the handshake says.
fn settings(script: &Script) -> Result<TcpConfig, String> {
    let mut config = TcpConfig {
        slow_start_after_idle: false,
        ..TcpConfig::default()
    };
    let mut ecn = false;
    for line in &script.commands {
        for (name, value) in assignments(line) {
            match (name, value) {
                ("tcp_congestion_control", "reno") => {
                    config.algorithm = tidegate_lab::tcp::Algorithm::Reno;
                }
                ("tcp_congestion_control", "cubic") => {}
                ("tcp_ecn", value) => ecn = value != "0",
                ("tcp_slow_start_after_idle", value) => config.slow_start_after_idle = value == "1",
                // Scripts without tail loss probes expect none.
                ("tcp_early_retrans", "0") => {}
                // The lab sends single segments: how many leave together is not checked.
                ("tcp_tso_win_divisor" | "tcp_min_tso_segs" | "tcp_timestamps", _) => {}
                ("tcp_pacing_ss_ratio", "200") => {}
                _ => return Err(format!("the setting {name}")),
            }
        }
        let line = line.trim();
        if line.contains("root fq") {
            config.pacing = true;
        } else if !(line.is_empty()
            || line.starts_with('#')
            || line.contains('=')
            || line.contains("defaults.sh")
            || line.contains("hystart_detect")
            || line.contains("ethtool"))
        {
            return Err(format!("the command {line}"));
        }
    }
    let handshake = |action: &Action| match action {
        Action::Inject(packet) if packet.flags.syn => Some(packet.clone()),
        _ => None,
    };
    let syn = script
        .events
        .iter()
        .find_map(|event| handshake(&event.action));
    let syn = syn.ok_or("no handshake")?;
    config.timestamps = syn.timestamps.is_some();
    let stamps = if config.timestamps { 12 } else { 0 };
    config.mss = syn.mss.unwrap_or(536).min(1460) - stamps;
    config.sack = syn.sack_ok;
    config.ecn = ecn && syn.flags.ece;
    Ok(config)
}

/// The settings of a command: `sysctl -q net.ipv4.tcp_ecn=2` and `set_sysctls.py /proc/sys/net/ipv4/tcp_ecn=2`.
fn assignments(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let words = line.split('#').next().unwrap_or("").split_whitespace();
    let pairs = words.filter_map(|word| word.split_once('='));
    pairs.map(|(name, value)| (name.rsplit(['.', '/']).next().unwrap_or(name), value))
}

enum Trouble {
    Failed(String),
    NotThere(String),
}

struct Player {
    config: TcpConfig,
    tolerance: i64,
    connection: Option<Connection>,
    /// Nanoseconds since the start of the script.
    now: i64,
    /// What the host has sent, and the script has not expected yet.
    sent: VecDeque<(i64, Segment)>,
    /// The scale of the windows that the script announces.
    scale: u32,
    closed: bool,
    /// Bytes that the application has read.
    read: u64,
    names: Names,
}

impl Player {
    /// Does an event between two times. Returns when it happened.
    fn step(&mut self, action: &Action, from: i64, to: i64) -> Result<i64, Trouble> {
        match action {
            Action::Expect(packet) => return self.expect(packet, from, to),
            Action::Inject(packet) => {
                self.wait(from + HOST);
                self.inject(packet)?;
            }
            Action::Call(name, arguments, result) => {
                self.wait(from);
                self.call(name, arguments, result)?;
            }
            Action::Shell(command) if command.contains("sysctl_restore") => {}
            Action::Shell(command) => {
                let what = if command.contains("limit 0") {
                    "a full queue of the host"
                } else {
                    "commands within the script"
                };
                return Err(Trouble::NotThere(what.to_owned()));
            }
            Action::Assert(code) => {
                self.wait(from);
                let Some(connection) = &self.connection else {
                    return Err(Trouble::NotThere("no connection".to_owned()));
                };
                assertion::check(code, connection, &mut self.names).map_err(
                    |doubt| match doubt {
                        Doubt::Unknown(what) => Trouble::NotThere(what),
                        Doubt::False(what) => Trouble::Failed(what),
                    },
                )?;
            }
        }
        Ok(self.now)
    }

    /// Virtual time of the connection, which begins later than that of the script.
    fn clock(&self) -> Nanos {
        Nanos::try_from(self.now).unwrap_or(0)
    }

    /// Lets time pass.
    fn wait(&mut self, until: i64) {
        while self.fire(until) {}
        self.now = self.now.max(until);
    }

    /// Lets time pass until the next timer, if it is not after this time.
    fn fire(&mut self, until: i64) -> bool {
        let next = self.connection.as_ref().and_then(Connection::next_timeout);
        let next = next.and_then(|at| i64::try_from(at).ok());
        let Some(next) = next.filter(|&at| at <= until) else {
            return false;
        };
        self.now = self.now.max(next);
        let now = self.clock();
        if let Some(connection) = &mut self.connection {
            connection.on_timeout(now);
        }
        self.transmit();
        true
    }

    fn transmit(&mut self) {
        let now = self.clock();
        while let Some(connection) = &mut self.connection
            && let Some(segment) = connection.poll_transmit(now)
        {
            self.sent.push_back((self.now, segment));
        }
    }

    fn inject(&mut self, packet: &Packet) -> Result<(), Trouble> {
        let now = self.clock();
        if packet.flags.syn {
            self.scale = packet.scale.unwrap_or(0);
        }
        let scale = if packet.flags.syn { 0 } else { self.scale };
        let mut sacks = Sacks::default();
        packet
            .sacks
            .iter()
            .for_each(|range| sacks.push(range.clone()));
        let ecn = match packet.ecn.as_deref() {
            Some("ect0") => Ecn::Ect0,
            Some("ect1") => Ecn::Ect1,
            Some("ce") => Ecn::Ce,
            _ => Ecn::NotEct,
        };
        let segment = Segment {
            seq: packet.seq.start,
            payload: packet.payload,
            ack: packet.ack.unwrap_or(0),
            syn: packet.flags.syn,
            fin: packet.flags.fin,
            window: packet.window.unwrap_or(0) << scale,
            sacks,
            timestamps: (packet.timestamps).map(|(value, echo)| Timestamps { value, echo }),
            ecn,
            ece: packet.flags.ece,
            cwr: packet.flags.cwr,
            ..Segment::default()
        };
        let Some(connection) = &mut self.connection else {
            return Err(Trouble::NotThere("no connection".to_owned()));
        };
        connection.on_segment(now, &segment);
        self.transmit();
        Ok(())
    }

    fn call(&mut self, name: &str, arguments: &str, result: &str) -> Result<(), Trouble> {
        let now = self.clock();
        let missing = || Trouble::NotThere(format!("the call {name}"));
        if result.contains("-1") && !result.contains("EINPROGRESS") {
            return Err(Trouble::NotThere("errors of calls".to_owned()));
        }
        let bytes = || result.parse::<u64>().map_err(|_| missing());
        match name {
            "socket" | "bind" | "accept" => {}
            "setsockopt" | "getsockopt" | "fcntl"
                if HARMLESS.iter().any(|what| arguments.contains(what))
                    || arguments.contains("F_SETFL") => {}
            "listen" if self.connection.is_none() => {
                self.connection = Some(Connection::server(&self.config, now));
            }
            "connect" if self.connection.is_none() => {
                self.connection = Some(Connection::client(&self.config, now));
            }
            "write" | "send" => {
                let bytes = bytes()?;
                let connection = self.connection.as_mut().ok_or_else(missing)?;
                connection.write(now, Bytes::new(bytes));
            }
            "read" | "recv" => {
                let (bytes, connection) = (bytes()?, self.connection.as_ref());
                let there = connection.ok_or_else(missing)?.received() - self.read;
                if bytes > there {
                    let what = format!("{bytes} bytes were read: here {there}");
                    return Err(Trouble::Failed(what));
                }
                self.read += bytes;
            }
            "close" | "shutdown" => {
                if name == "shutdown"
                    && arguments.contains("SHUT_RD")
                    && !arguments.contains("RDWR")
                {
                    return Ok(());
                }
                // A second call changes nothing.
                if let Some(connection) = self.connection.as_mut().filter(|_| !self.closed) {
                    connection.close(now);
                    self.closed = true;
                }
            }
            _ => return Err(missing()),
        }
        self.transmit();
        Ok(())
    }

    /// Checks that the host sends a packet between two times: as one segment, or as several.
    fn expect(&mut self, packet: &Packet, from: i64, to: i64) -> Result<i64, Trouble> {
        let failed = |what: String| Err(Trouble::Failed(what));
        let limit = to.saturating_add(self.tolerance + TICK);
        let mut next = packet.seq.start;
        let mut first = true;
        loop {
            while self.sent.is_empty() && self.fire(limit) {}
            let Some((at, segment)) = self.sent.pop_front() else {
                self.now = self.now.max(from);
                let rest = if first {
                    String::new()
                } else {
                    format!(" from {next} on")
                };
                return failed(format!("{} is not sent{rest}", show(packet)));
            };
            // SYN and FIN do not count in the numbers of scripts.
            let end = segment.seq + u64::from(segment.payload);
            let is = format!("{}:{end}({})", segment.seq, segment.payload);
            let early = at < from - self.tolerance;
            if early || segment.seq != next || end > packet.seq.end {
                let when = if early { " too early" } else { "" };
                return failed(format!("{} is expected: here {is}{when}", show(packet)));
            }
            if segment.syn != packet.flags.syn
                || segment.ece != packet.flags.ece
                || segment.cwr != packet.flags.cwr
            {
                return failed(format!("other flags than {} has", show(packet)));
            }
            if let Some(ack) = packet.ack
                && (first || packet.payload > 0)
                && segment.ack != ack
            {
                return failed(format!("ack {ack} is expected: here {}", segment.ack));
            }
            self.compare_options(packet, &segment)?;
            first = false;
            next = end;
            if next >= packet.seq.end {
                if segment.fin != packet.flags.fin {
                    return failed(format!("other flags than {} has", show(packet)));
                }
                return Ok(at);
            }
        }
    }

    fn compare_options(&self, packet: &Packet, segment: &Segment) -> Result<(), Trouble> {
        if packet.flags.syn {
            return Ok(());
        }
        let ranges: Vec<_> = segment.sacks.ranges().collect();
        if ranges != packet.sacks {
            let what = format!("sack {:?} is expected: here {ranges:?}", packet.sacks);
            return Err(Trouble::Failed(what));
        }
        if let (Some((_, echo)), Some(stamps)) = (packet.timestamps, segment.timestamps)
            && echo != stamps.echo
        {
            let what = format!("the echo {echo} is expected: here {}", stamps.echo);
            return Err(Trouble::Failed(what));
        }
        let ecn = match segment.ecn {
            Ecn::NotEct => "noecn",
            Ecn::Ect0 => "ect0",
            Ecn::Ect1 => "ect1",
            Ecn::Ce => "ce",
        };
        match packet.ecn.as_deref() {
            Some(expected) if expected != ecn => Err(Trouble::Failed(format!(
                "{expected} is expected: here {ecn}"
            ))),
            _ => Ok(()),
        }
    }
}

fn show(packet: &Packet) -> String {
    let (from, to) = (packet.seq.start, packet.seq.end);
    format!("{from}:{to}({})", packet.payload)
}

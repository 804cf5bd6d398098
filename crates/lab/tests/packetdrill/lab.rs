//! The lab's TCP as the host of a script.

use std::collections::VecDeque;

use tidegate_lab::Nanos;
use tidegate_lab::tcp::cc::LossState;
use tidegate_lab::tcp::{Algorithm, Connection, Sacks, Segment, TcpConfig};
use tidegate_limiter::{Bytes, Ecn};
use tidegate_trace::wire::Timestamps;

use crate::player::{Call, Host, Trouble};
use crate::script::{self, Action, Packet, Script};

/// How long a packet takes through the host before TCP sees it, in nanoseconds. Real hosts are not faster, and some
/// scripts depend on it: a whole millisecond has passed then, and not just that.
const HOST: i64 = 10_000;

/// A connection of the lab in virtual time.
pub struct Lab {
    config: TcpConfig,
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
}

impl Lab {
    /// A host with the settings of a script. The error says what the lab lacks.
    pub fn new(script: &Script) -> Result<Self, String> {
        Ok(Self {
            config: settings(script)?,
            connection: None,
            now: 0,
            sent: VecDeque::new(),
            scale: 0,
            closed: false,
            read: 0,
        })
    }

    /// Virtual time of the connection.
    fn clock(&self) -> Nanos {
        Nanos::try_from(self.now).unwrap_or(0)
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
}

impl Host for Lab {
    fn now(&self) -> i64 {
        self.now
    }

    fn wait(&mut self, until: i64) {
        while self.fire(until) {}
        self.now = self.now.max(until);
    }

    fn sent(&mut self, until: i64) -> Option<(i64, Segment)> {
        while self.sent.is_empty() && self.fire(until) {}
        self.sent.pop_front()
    }

    fn inject(&mut self, packet: &Packet, at: i64) -> Result<(), Trouble> {
        self.wait(at + HOST);
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

    fn call(&mut self, call: Call) -> Result<(), Trouble> {
        let now = self.clock();
        let missing = || Trouble::NotThere(format!("the call {call:?}"));
        match call {
            Call::Nothing | Call::Accept => {}
            Call::Listen if self.connection.is_none() => {
                self.connection = Some(Connection::server(&self.config, now));
            }
            Call::Connect if self.connection.is_none() => {
                self.connection = Some(Connection::client(&self.config, now));
            }
            Call::Listen | Call::Connect => return Err(missing()),
            Call::Write(bytes) => {
                let connection = self.connection.as_mut().ok_or_else(missing)?;
                connection.write(now, Bytes::new(bytes));
            }
            Call::Read(bytes) => {
                let connection = self.connection.as_ref().ok_or_else(missing)?;
                let there = connection.received() - self.read;
                if bytes > there {
                    let what = format!("{bytes} bytes were read: here {there}");
                    return Err(Trouble::Failed(what));
                }
                self.read += bytes;
            }
            // A second call changes nothing.
            Call::Close => {
                if let Some(connection) = self.connection.as_mut().filter(|_| !self.closed) {
                    connection.close(now);
                    self.closed = true;
                }
            }
        }
        self.transmit();
        Ok(())
    }

    fn info(&self, name: &str) -> Option<i64> {
        let connection = self.connection.as_ref()?;
        let (state, out) = (connection.snapshot(), connection.outstanding());
        Some(match name {
            "TCP_CA_Open" => LossState::Open as i64,
            "TCP_CA_Disorder" => LossState::Disorder as i64,
            "TCP_CA_CWR" => LossState::Cwr as i64,
            "TCP_CA_Recovery" => LossState::Recovery as i64,
            "TCP_CA_Loss" => LossState::Loss as i64,
            "tcpi_ca_state" => state.state as i64,
            "tcpi_snd_cwnd" => state.cwnd.into(),
            // Linux has 2^31 - 1 for none.
            "tcpi_snd_ssthresh" => i64::from(state.ssthresh.min(0x7fff_ffff)),
            "tcpi_unacked" => out.unacked.into(),
            "tcpi_sacked" => out.sacked.into(),
            "tcpi_lost" => out.lost.into(),
            "tcpi_retrans" => out.retransmitted.into(),
            "tcpi_reordering" => out.reordering.into(),
            "tcpi_rtt" => (state.srtt.unwrap_or(0) / 1000) as i64,
            "tcpi_min_rtt" => (state.min_rtt.unwrap_or(0) / 1000) as i64,
            _ => return None,
        })
    }
}

/// The settings of the connection: Linux's of the tests, and what the handshake says.
pub fn settings(script: &Script) -> Result<TcpConfig, String> {
    let mut config = TcpConfig {
        slow_start_after_idle: false,
        ..TcpConfig::default()
    };
    let mut ecn = false;
    for line in &script.commands {
        for (name, value) in script::assignments(line) {
            match (name, value) {
                ("tcp_congestion_control", "reno") => {
                    config.algorithm = Algorithm::Reno;
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

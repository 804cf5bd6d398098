//! Plays a script against a host: the lab's TCP, or the kernel's.

use tidegate_lab::tcp::Segment;
use tidegate_limiter::Ecn;

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

/// Why a script cannot go on.
pub enum Trouble {
    /// Something else happened than it expects.
    Failed(String),
    /// The host lacks something.
    NotThere(String),
}

/// What an application does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Listen,
    Connect,
    Accept,
    /// Bytes.
    Write(u64),
    /// Bytes, which must be there.
    Read(u64),
    /// `close`, or the end of what it sends.
    Close,
    /// Nothing that matters.
    Nothing,
}

/// A tick of Linux's usual `CONFIG_HZ=250`, in nanoseconds. Most scripts were written for 1,000.
pub const TICK: i64 = 4_000_000;

/// A host whose TCP is tested. Times are nanoseconds since the start of the script.
pub trait Host {
    /// Lets time pass.
    fn wait(&mut self, until: i64);
    /// A packet reaches the host at a time.
    fn inject(&mut self, packet: &Packet, at: i64) -> Result<(), Trouble>;
    /// The next packet that the host sends, if it does until a time, and when.
    fn sent(&mut self, until: i64) -> Option<(i64, Segment)>;
    /// The application calls the system. The error is for connections that are not there.
    fn call(&mut self, call: Call) -> Result<(), Trouble>;
    /// A value of the connection's `tcp_info`, or `None` where it is not known.
    fn info(&self, name: &str) -> Option<i64>;
    /// The host sent a packet of the script.
    fn matched(&mut self, _expected: &Packet, _sent: &Segment) {}
    /// The time now.
    fn now(&self) -> i64;
    /// How much later than in the script a timer may fire for which the script waits this long.
    fn late(&self, _wait: i64) -> i64 {
        TICK
    }
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

/// Plays a script against the host that `start` makes for it.
pub fn play<H: Host>(text: &str, start: impl FnOnce(&Script) -> Result<H, String>) -> End {
    if let Some((_, what)) = NOT_THERE.iter().find(|(name, _)| text.contains(name)) {
        return End::NotApplicable((*what).to_owned());
    }
    let started = Script::read(text).and_then(|script| Ok((start(&script)?, script)));
    let (host, script) = match started {
        Ok(started) => started,
        Err(what) => return End::NotApplicable(what),
    };
    // Whether a script applies does not depend on how far it gets.
    for event in &script.events {
        if let Action::Call(name, arguments, result) = &event.action
            && let Err(Trouble::NotThere(what)) = call(name, arguments, result)
        {
            return End::NotApplicable(what);
        }
    }
    let mut player = Player {
        host,
        tolerance: script.tolerance * 1000,
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

struct Player<H> {
    host: H,
    tolerance: i64,
    names: Names,
}

impl<H: Host> Player<H> {
    /// Does an event between two times. Returns when it happened.
    fn step(&mut self, action: &Action, from: i64, to: i64) -> Result<i64, Trouble> {
        match action {
            Action::Expect(packet) => return self.expect(packet, from, to),
            Action::Inject(packet) => self.host.inject(packet, from)?,
            Action::Call(name, arguments, result) => {
                self.host.wait(from);
                self.host.call(call(name, arguments, result)?)?;
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
                self.host.wait(from);
                let info = |name: &str| self.host.info(name);
                assertion::check(code, &info, &mut self.names).map_err(|doubt| match doubt {
                    Doubt::Unknown(what) => Trouble::NotThere(what),
                    Doubt::False(what) => Trouble::Failed(what),
                })?;
            }
        }
        Ok(self.host.now())
    }

    /// Checks that the host sends a packet between two times: as one segment, or as several.
    fn expect(&mut self, packet: &Packet, from: i64, to: i64) -> Result<i64, Trouble> {
        let failed = |what: String| Err(Trouble::Failed(what));
        let late = self.host.late(to.saturating_sub(self.host.now()));
        let limit = to.saturating_add(self.tolerance + late);
        let mut next = packet.seq.start;
        let mut first = true;
        loop {
            let Some((at, segment)) = self.host.sent(limit) else {
                self.host.wait(from);
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
            self.host.matched(packet, &segment);
            compare_options(packet, &segment)?;
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
}

/// What a call does that matters here.
fn call(name: &str, arguments: &str, result: &str) -> Result<Call, Trouble> {
    let missing = || Trouble::NotThere(format!("the call {name}"));
    if result.contains("-1") && !result.contains("EINPROGRESS") {
        return Err(Trouble::NotThere("errors of calls".to_owned()));
    }
    let bytes = || result.parse::<u64>().map_err(|_| missing());
    Ok(match name {
        "socket" | "bind" => Call::Nothing,
        "accept" => Call::Accept,
        "setsockopt" | "getsockopt" | "fcntl"
            if HARMLESS.iter().any(|what| arguments.contains(what))
                || arguments.contains("F_SETFL") =>
        {
            Call::Nothing
        }
        "listen" => Call::Listen,
        "connect" => Call::Connect,
        "write" | "send" => Call::Write(bytes()?),
        "read" | "recv" => Call::Read(bytes()?),
        "shutdown" if arguments.contains("SHUT_RD") && !arguments.contains("RDWR") => Call::Nothing,
        "close" | "shutdown" => Call::Close,
        _ => return Err(missing()),
    })
}

fn compare_options(packet: &Packet, segment: &Segment) -> Result<(), Trouble> {
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

fn show(packet: &Packet) -> String {
    let (from, to) = (packet.seq.start, packet.seq.end);
    format!("{from}:{to}({})", packet.payload)
}

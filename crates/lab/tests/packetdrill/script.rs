//! Reads packetdrill scripts, as far as their language is used for TCP between two hosts.

use std::ops::Range;

/// A script: its lines of options, its settings, and its events in order.
#[derive(Debug, Default)]
pub struct Script {
    /// Microseconds by which packets may be early or late.
    pub tolerance: i64,
    /// Commands for the shell, a line each.
    pub commands: Vec<String>,
    /// The events.
    pub events: Vec<Event>,
}

/// Something that the script does or expects.
#[derive(Debug)]
pub struct Event {
    /// Its line, from 1.
    pub line: usize,
    /// When.
    pub time: Time,
    /// Whether it is a call that blocks.
    pub blocks: bool,
    /// What.
    pub action: Action,
}

/// When an event happens, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// Since the start.
    At(i64),
    /// Since the event before.
    After(i64),
    /// Between two times since the event before.
    Between(i64, i64),
    /// At any time.
    Any,
}

/// What an event is.
#[derive(Debug)]
pub enum Action {
    /// A packet that reaches the host.
    Inject(Packet),
    /// A packet that the host must send.
    Expect(Packet),
    /// A system call: name, arguments, result.
    Call(String, String, String),
    /// Statements about the state of the connection.
    Assert(String),
    /// Commands in the middle of the script.
    Shell(String),
}

/// A TCP packet of a script.
#[derive(Debug, Default, Clone)]
pub struct Packet {
    /// SYN, FIN, ACK, ECE, CWR.
    pub flags: Flags,
    /// Sequence numbers.
    pub seq: Range<u64>,
    /// Payload in bytes.
    pub payload: u32,
    /// The acknowledgement.
    pub ack: Option<u64>,
    /// The window as it is in the header.
    pub window: Option<u32>,
    /// Largest segment, in a SYN.
    pub mss: Option<u32>,
    /// Window scale, in a SYN.
    pub scale: Option<u32>,
    /// Whether selective acknowledgements are offered, in a SYN.
    pub sack_ok: bool,
    /// Selective acknowledgements.
    pub sacks: Vec<Range<u64>>,
    /// Timestamp and echo.
    pub timestamps: Option<(u32, u32)>,
    /// The ECN field, if it is given.
    pub ecn: Option<String>,
}

/// Flags of the TCP header.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Flags {
    pub syn: bool,
    pub fin: bool,
    pub ece: bool,
    pub cwr: bool,
}

impl Script {
    /// Reads a script. The error says which part of the language the runner lacks.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut script = Self {
            // Packetdrill's default.
            tolerance: 4000,
            ..Self::default()
        };
        let text = without_comments(text);
        let (mut rest, whole) = (text.as_str(), text.len());
        let (mut time, mut blocks) = (None, false);
        loop {
            rest = rest.trim_start();
            if rest.is_empty() {
                return Ok(script);
            }
            let line = text[..whole - rest.len()].matches('\n').count() + 1;
            let action;
            if let Some(option) = rest.strip_prefix("--") {
                let (option, after) = line_of(option);
                (action, rest) = (None, after);
                match option.trim().split_once('=') {
                    Some(("tolerance_usecs", value)) => {
                        script.tolerance = value.parse().map_err(|_| "an option")?;
                    }
                    Some(("tcp_ts_tick_usecs", _)) => {}
                    _ => return Err(format!("the option --{}", option.trim())),
                }
            } else if let Some(command) = rest.strip_prefix('`') {
                let (command, after) = command.split_once('`').ok_or("an open command")?;
                rest = after;
                if script.events.is_empty() && time.is_none() {
                    let command = command.replace("\\\n", " ");
                    script.commands.extend(command.lines().map(str::to_owned));
                    action = None;
                } else {
                    action = Some(Action::Shell(command.to_owned()));
                }
            } else if let Some(code) = rest.strip_prefix("%{") {
                let (code, after) = code.split_once("}%").ok_or("open code")?;
                (action, rest) = (Some(Action::Assert(code.to_owned())), after);
            } else if time.is_none() {
                let (word, after) = word(rest);
                (time, rest) = (Some(when(word)?), after);
                (action, blocks) = (None, word.contains("..."));
            } else if let Some(packet) = rest.strip_prefix('<') {
                let (packet, after) = line_of(packet);
                (action, rest) = (Some(Action::Inject(Packet::read(packet)?)), after);
            } else if let Some(packet) = rest.strip_prefix('>') {
                let (packet, after) = line_of(packet);
                (action, rest) = (Some(Action::Expect(Packet::read(packet)?)), after);
            } else if let Some(after) = rest.strip_prefix("...") {
                (action, rest) = (None, word(after).1);
                blocks = true;
            } else {
                let (call, after) = call(rest)?;
                (action, rest) = (Some(call), after);
            }
            if let Some(action) = action {
                let time = time.take().unwrap_or(Time::After(0));
                script.events.push(Event {
                    line,
                    time,
                    blocks: std::mem::take(&mut blocks),
                    action,
                });
            }
        }
    }
}

/// The settings of a command: `sysctl -q net.ipv4.tcp_ecn=2` and `set_sysctls.py /proc/sys/net/ipv4/tcp_ecn=2`.
pub fn assignments(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let words = line.split('#').next().unwrap_or("").split_whitespace();
    let pairs = words.filter_map(|word| word.split_once('='));
    pairs.map(|(name, value)| (name.rsplit(['.', '/']).next().unwrap_or(name), value))
}

/// The rest of a line, and the text after it.
fn line_of(text: &str) -> (&str, &str) {
    text.split_once('\n').unwrap_or((text, ""))
}

/// The text without comments, with as many lines.
fn without_comments(text: &str) -> String {
    let line = |line: &str| {
        let end = line.find("//").unwrap_or(line.len());
        let mut line = line[..end].to_owned();
        line.push('\n');
        line
    };
    text.lines().map(line).collect()
}

fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()))
}

/// A time such as `+.1`, `0`, `*` or `+.1~+.2`.
fn when(word: &str) -> Result<Time, String> {
    let micros = |text: &str| -> Result<i64, String> {
        let seconds: f64 = text.parse().map_err(|_| format!("the time {word}"))?;
        Ok((seconds * 1e6).round() as i64)
    };
    // A call that blocks until a time: when it begins counts.
    let word = word.split_once("...").map_or(word, |(begin, _)| begin);
    match (word, word.strip_prefix('+')) {
        ("*", _) => Ok(Time::Any),
        (_, Some(after)) => match after.split_once("~+") {
            Some((from, to)) => Ok(Time::Between(micros(from)?, micros(to)?)),
            None => Ok(Time::After(micros(after)?)),
        },
        (at, None) => Ok(Time::At(micros(at)?)),
    }
}

/// A system call: `write(4, ..., 1000) = 1000`.
fn call(text: &str) -> Result<(Action, &str), String> {
    let open = text
        .find('(')
        .ok_or_else(|| format!("'{}'", word(text).0))?;
    let name = text[..open].trim().to_owned();
    let mut depth = 0;
    let close = text.char_indices().find(|&(_, c)| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ')' && depth == 0
    });
    let (close, _) = close.ok_or("an open call")?;
    let (result, after) = line_of(&text[close + 1..]);
    let result = result.trim().trim_start_matches('=').trim().to_owned();
    Ok((
        Action::Call(name, text[open + 1..close].to_owned(), result),
        after,
    ))
}

impl Packet {
    /// Reads a packet after its direction: `[ect0] P. 1:1001(1000) ack 1 win 257 <nop>`.
    fn read(text: &str) -> Result<Self, String> {
        let mut packet = Self::default();
        let mut rest = text.trim();
        if let Some(after) = rest.strip_prefix('[') {
            let (ecn, after) = after.split_once(']').ok_or("a packet")?;
            (packet.ecn, rest) = (Some(ecn.trim().to_lowercase()), after);
        }
        let (flags, after) = word(rest);
        for flag in flags.chars() {
            match flag {
                'S' => packet.flags.syn = true,
                'F' => packet.flags.fin = true,
                'E' => packet.flags.ece = true,
                'W' => packet.flags.cwr = true,
                '.' | 'P' | '-' => {}
                'R' => return Err("resets".to_owned()),
                'U' => return Err("urgent data".to_owned()),
                _ => return Err(format!("packets such as {flags}")),
            }
        }
        let (numbers, mut rest) = word(after);
        let number = |text: &str| {
            text.parse::<u64>()
                .map_err(|_| format!("the packet {numbers}"))
        };
        let (seq, after) = numbers.split_once(':').ok_or("packets that are not TCP")?;
        let (end, payload) = after.split_once('(').ok_or("a packet")?;
        packet.seq = number(seq)?..number(end)?;
        packet.payload = number(payload.trim_end_matches(')'))? as u32;
        loop {
            rest = rest.trim_start();
            if let Some(options) = rest.strip_prefix('<') {
                let options = options.trim_end().trim_end_matches('>');
                options
                    .split(',')
                    .try_for_each(|option| packet.option(option.trim()))?;
                return Ok(packet);
            }
            let (key, after) = word(rest);
            let (value, after) = word(after);
            match key {
                "" => return Ok(packet),
                "ack" => packet.ack = Some(number(value)?),
                "win" => packet.window = Some(number(value)? as u32),
                _ => return Err(format!("'{key}' in packets")),
            }
            rest = after;
        }
    }

    fn option(&mut self, text: &str) -> Result<(), String> {
        let (name, value) = text.split_once(' ').unwrap_or((text, ""));
        let wrong = || format!("the option {text}");
        match name {
            "nop" | "eol" | "..." | "" => {}
            "sackOK" => self.sack_ok = true,
            "mss" => self.mss = Some(value.parse().map_err(|_| wrong())?),
            "wscale" => self.scale = Some(value.parse().map_err(|_| wrong())?),
            "sack" => {
                for range in value.split_whitespace() {
                    let ends = range.split_once(':').ok_or_else(wrong)?;
                    let end = |text: &str| text.parse::<u64>().map_err(|_| wrong());
                    self.sacks.push(end(ends.0)?..end(ends.1)?);
                }
            }
            "TS" => {
                let parts: Vec<&str> = value.split_whitespace().collect();
                let ["val", value, "ecr", echo] = parts[..] else {
                    return Err(wrong());
                };
                let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
                self.timestamps = Some((number(value)?, number(echo)?));
            }
            _ => return Err(format!("the TCP option {name}")),
        }
        Ok(())
    }
}

//! RADIUS: access servers tell who has which address (RFC 2866), and change or end that (RFC 5176).

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use tidegate_gate::Setting;
use tidegate_gate::config::Radius;
use tidegate_gate::control::{Adjustment, ControlError};
use tidegate_gate::live::MatchChange;
use tidegate_gate::radius::{Kind, MOST, Refused, Request};
use tidegate_gate::table::Match;
use tidegate_limiter::Prefix;
use tokio::sync::watch;

use super::api::Api;
use super::api::access::private;
use super::logs;

mod sessions;
#[cfg(test)]
mod tests;

use sessions::Sessions;

/// How old a change may be, and how far ahead a clock, RFC 5176 §6.3.
const FRESH: Duration = Duration::from_secs(300);

/// The sockets, and who may use them.
pub struct Server {
    sockets: Vec<(UdpSocket, Role)>,
    peers: Peers,
}

/// What a socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Accounting,
    Change,
}

/// Who may ask.
#[derive(Clone)]
struct Peers {
    secret: Vec<u8>,
    clients: Vec<Prefix>,
}

impl Peers {
    /// Whether an address is a client's.
    fn have(&self, address: IpAddr) -> bool {
        let octets = match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        };
        self.clients.iter().any(|client| client.contains(octets))
    }
}

/// The secret in a file that holds nothing else, and that not every user can read.
pub fn secret(path: &Path) -> anyhow::Result<Vec<u8>> {
    private(path, "RADIUS secret")?;
    let place = || format!("cannot read the RADIUS secret file {}", path.display());
    let text = std::fs::read_to_string(path).with_context(place)?;
    let secret = text.trim();
    anyhow::ensure!(
        !secret.is_empty(),
        "the RADIUS secret file {} is empty: write the secret that the access servers have",
        path.display()
    );
    Ok(secret.into())
}

impl Server {
    /// Opens the sockets.
    ///
    /// # Errors
    /// If an address is in use, or the secret cannot be read.
    pub fn open(config: &Radius) -> anyhow::Result<Self> {
        let open = |(at, role): (&SocketAddr, Role)| {
            let socket = UdpSocket::bind(at).with_context(|| format!("cannot listen on {at}"))?;
            socket.set_nonblocking(true)?;
            tracing::info!(%at, "listening for RADIUS");
            anyhow::Ok((socket, role))
        };
        let accounting = config.accounting.iter().map(|at| (at, Role::Accounting));
        let changes = config.change.iter().map(|at| (at, Role::Change));
        let addresses = accounting.chain(changes);
        Ok(Self {
            sockets: addresses.map(open).collect::<Result<_, _>>()?,
            peers: Peers {
                secret: secret(&config.secret)?,
                clients: config.clients.clone(),
            },
        })
    }

    /// Answers until `end` changes, on a task for each socket.
    pub fn serve(self, api: &Api, end: &watch::Receiver<bool>, tasks: &mut Tasks) {
        let sessions = Sessions::default();
        for (socket, role) in self.sockets {
            let sessions = sessions.clone();
            let (peers, api, mut end) = (self.peers.clone(), api.clone(), end.clone());
            tasks.spawn(async move {
                let socket = tokio::net::UdpSocket::from_std(socket)?;
                tokio::select! {
                    () = answer_all(&socket, role, &peers, &sessions, &api) => {}
                    _ = end.wait_for(|&end| end) => {}
                }
                Ok(())
            });
        }
    }
}

/// The tasks of the daemon.
type Tasks = tokio::task::JoinSet<std::io::Result<()>>;

/// Answers one packet after the other: each change is on the disk before its answer.
async fn answer_all(
    socket: &tokio::net::UdpSocket,
    role: Role,
    peers: &Peers,
    sessions: &Sessions,
    api: &Api,
) {
    let mut packet = vec![0; MOST];
    let mut ignored = IgnoredPackets::default();
    loop {
        // What was held back is logged also if nothing comes any more.
        let received = match ignored.due() {
            Some(due) => {
                let due = tokio::time::Instant::from_std(due);
                tokio::time::timeout_at(due, socket.recv_from(&mut packet)).await
            }
            None => Ok(socket.recv_from(&mut packet).await),
        };
        ignored.log(Instant::now());
        let Ok(received) = received else { continue };
        let (length, from) = match received {
            Ok(received) => received,
            // An earlier answer could not be delivered.
            Err(error) => {
                tracing::debug!(%error, "a packet of RADIUS was lost");
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        let request = match read(&packet[..length], from.ip(), role, peers) {
            Ok(request) => request,
            Err(why) => {
                ignored.add(from, why);
                ignored.log(Instant::now());
                continue;
            }
        };
        let (api, by) = (api.clone(), format!("RADIUS {}", from.ip()));
        let sessions = sessions.clone();
        let done = tokio::task::spawn_blocking(move || {
            let done = act(&api, &sessions, &request, &by);
            (request, done)
        });
        let Ok((request, done)) = done.await else {
            tracing::error!("a request failed because of a bug in tidegate");
            continue;
        };
        if let Some(answer) = request.answer(done, &peers.secret)
            && let Err(error) = socket.send_to(&answer, from).await
        {
            tracing::warn!(%from, %error, "an answer of RADIUS cannot be sent");
        }
    }
}

/// A request that may be carried out, or why its packet is ignored.
fn read(packet: &[u8], from: IpAddr, role: Role, peers: &Peers) -> Result<Request, String> {
    if !peers.have(from) {
        return Err("its sender is not among `clients`".to_owned());
    }
    let request = Request::read(packet, &peers.secret).map_err(|why| why.to_string())?;
    match (role, request.is_accounting()) {
        (Role::Accounting, false) => {
            return Err("it asks for a change at an address of `accounting`".to_owned());
        }
        (Role::Change, true) => return Err("it is accounting at an address of `change`".to_owned()),
        _ => {}
    }
    if !is_fresh(&request) {
        return Err("it is more than 5 minutes old, or a clock is wrong".to_owned());
    }
    Ok(request)
}

/// Packets that were ignored and are not logged yet. Anyone who reaches the port can send them, at any rate, so there is a
/// line a second at most.
#[derive(Debug, Default)]
struct IgnoredPackets {
    /// The number of packets by the reason.
    counted: BTreeMap<String, u64>,
    /// The sender of the latest one.
    from: Option<SocketAddr>,
    /// When the latest line was logged.
    logged: Option<Instant>,
}

impl IgnoredPackets {
    /// The shortest time between two lines.
    const PAUSE: Duration = Duration::from_secs(1);
    /// Most reasons in a line, besides "other reasons": each code of a packet is one.
    const REASONS: usize = 8;

    fn add(&mut self, from: SocketAddr, why: String) {
        let room = self.counted.len() < Self::REASONS || self.counted.contains_key(&why);
        let why = match room {
            true => why,
            false => "other reasons".to_owned(),
        };
        *self.counted.entry(why).or_default() += 1;
        self.from = Some(from);
    }

    /// When to log the next line, if there is anything to log. A time in the past means now.
    fn due(&self) -> Option<Instant> {
        let next = || self.logged.map_or_else(Instant::now, |at| at + Self::PAUSE);
        (!self.counted.is_empty()).then(next)
    }

    /// The number of packets since the last line, and why they were ignored, if it is time for another line.
    fn take(&mut self, now: Instant) -> Option<(u64, String)> {
        let waits = self.logged.is_some_and(|at| now < at + Self::PAUSE);
        if waits || self.counted.is_empty() {
            return None;
        }
        self.logged = Some(now);
        let counted = std::mem::take(&mut self.counted);
        let packets = counted.values().sum();
        let one = packets == 1;
        let reasons = counted.into_iter().map(|(why, packets)| match one {
            true => why,
            false => format!("{packets}: {why}"),
        });
        Some((packets, reasons.collect::<Vec<_>>().join("; ")))
    }

    fn log(&mut self, now: Instant) {
        if let Some((packets, why)) = self.take(now) {
            let from = self.from.map(|from| from.to_string());
            match packets {
                1 => tracing::warn!(from, why, "a packet of RADIUS is ignored"),
                _ => tracing::warn!(from, packets, why, "packets of RADIUS are ignored"),
            }
        }
    }
}

/// Whether a change may not be a recorded one that is sent again. Accounting may be late.
fn is_fresh(request: &Request) -> bool {
    let (Some(at), Kind::Change | Kind::Disconnect) = (request.at, request.kind) else {
        return true;
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    now.abs_diff(Duration::from_secs(at.into())) <= FRESH
}

/// Does what a request asks for.
fn act(api: &Api, sessions: &Sessions, request: &Request, by: &str) -> Result<(), Refused> {
    if request.authorizes_only {
        return Err(Refused::Unsupported);
    }
    let found = match (&request.user, request.matches.first()) {
        (Some(user), _) => api.gate.user(user),
        (None, Some(what)) => api.gate.holder(what),
        (None, None) => Err(ControlError::Unknown(String::new())),
    };
    let subscriber = match found {
        Ok(one) => one.subscriber,
        Err(ControlError::Unknown(_)) => {
            let user = request.user.as_deref();
            // Accounting was received: to send it again would not help.
            return match request.kind {
                Kind::Other => Ok(()),
                Kind::Begin | Kind::GoesOn | Kind::End => {
                    tracing::warn!(by, user, "accounting of a session of no subscriber");
                    Ok(())
                }
                _ if user.is_none() && request.matches.is_empty() => Err(Refused::Missing),
                _ => Err(Refused::Nobody),
            };
        }
        Err(error) => {
            tracing::error!(by, %error, "a request of RADIUS failed");
            return Err(Refused::Failed);
        }
    };
    let name = subscriber.name.to_string();
    let held = |what: &Match| subscriber.matches.contains(what);
    let release = |old: Vec<Match>| old.into_iter().map(MatchChange::Release).collect();
    let current = || sessions.current(request.kind, request.session.as_deref(), &request.matches);
    let mut setting = Setting::default();
    let moves: Vec<MatchChange> = match request.kind {
        Kind::Begin | Kind::GoesOn => {
            let new = current().into_iter();
            let new = new.filter(|what| !held(what));
            new.map(MatchChange::Assign).collect()
        }
        // Another subscriber may have the address by now.
        Kind::End => {
            let mut old = current();
            old.retain(held);
            release(old)
        }
        Kind::Other => return Ok(()),
        Kind::Disconnect if request.matches.is_empty() => match api.gate.lent(&name) {
            Ok(lent) => release(lent),
            Err(error) => {
                tracing::error!(by, %error, "a request of RADIUS failed");
                return Err(Refused::Failed);
            }
        },
        Kind::Disconnect => {
            let mut old = request.matches.clone();
            old.retain(held);
            release(old)
        }
        Kind::Change => {
            // It speaks of a session that is not this user's any more (RFC 5176 §3).
            let others = request.matches.iter().filter(|what| !held(what));
            if others.clone().any(|what| api.gate.holder(what).is_ok()) {
                return Err(Refused::Nobody);
            }
            setting.plan = request.plan.clone();
            (setting.down, setting.up) = request.rates;
            Vec::new()
        }
    };
    let adjustment = Adjustment {
        // A new plan comes without the rates that were set for the former one. Who is suspended or not, where its packets
        // come from and other keys of the plan stay as they were set.
        reset_rates: setting.plan.is_some(),
        setting,
        moves,
        ..Adjustment::default()
    };
    if adjustment == Adjustment::default() {
        return match request.kind {
            Kind::Change => Err(Refused::Missing),
            Kind::Disconnect => Err(Refused::Nobody),
            // A session that goes on.
            _ => Ok(()),
        };
    }
    let taken = api.events.taken(&api.gate, &name, &adjustment);
    match api.gate.set(&name, &adjustment) {
        Ok(_) => {
            logs::set(&name, &adjustment, by);
            api.events.set(by, &name, &adjustment, &taken);
            Ok(())
        }
        Err(error) => {
            tracing::error!(subscriber = name, by, %error, "a request of RADIUS failed");
            match error {
                // Accounting was received: to send it again would not help.
                ControlError::Invalid(_) if request.is_accounting() => Ok(()),
                ControlError::Invalid(_) => Err(Refused::Invalid),
                ControlError::Unknown(_) => Err(Refused::Nobody),
                _ => Err(Refused::Failed),
            }
        }
    }
}

//! Requests to the daemon that holds a gate, over its control socket.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tidegate_gate::control::{Adjustment, ControlError};
use tidegate_gate::live::MatchChange;
use tidegate_gate::table::Match;
use tidegate_gate::{Direction, Setting};

use super::http;
use super::view::pair::PairJson;
use super::view::{Page, Released, Reloaded, Status, SubscriberJson};

/// The daemon's control socket, in the state folder. Only root can open it.
pub fn socket(state: &Path) -> PathBuf {
    state.join("control.sock")
}

/// The daemon gives up earlier.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same where a daemon is not needed.
const SHORT: Duration = Duration::from_secs(1);
/// No answer is longer, in bytes.
const ANSWER: u64 = 64 << 20;

/// The daemon of the gate with this state.
///
/// # Errors
/// If there is none.
pub fn daemon(state: &Path) -> Result<Remote, ControlError> {
    let gone = || ControlError::Down("the gate's daemon ended just now".into());
    Remote::connect(state).ok_or_else(gone)
}

/// The gate as a whole, and all its subscribers by name, as its daemon answers.
///
/// # Errors
/// If there is no daemon, or it does not answer.
pub fn everything(state: &Path) -> Result<(Status, Vec<SubscriberJson>), ControlError> {
    let status = daemon(state)?.get("/v1/status")?;
    let mut subscribers: Vec<SubscriberJson> = Vec::new();
    let mut path = "/v1/subscribers?limit=10000".to_owned();
    loop {
        let page: Page = daemon(state)?.get(&path)?;
        subscribers.extend(page.subscribers);
        let Some(last) = page.next else { break };
        path = format!("/v1/subscribers?limit=10000&after={}", encoded(&last));
    }
    Ok((status, subscribers))
}

/// A daemon that answers.
pub struct Remote {
    stream: UnixStream,
    patience: Duration,
}

impl Remote {
    /// The daemon of the gate with this state; `None` if there is none.
    pub fn connect(state: &Path) -> Option<Self> {
        let stream = UnixStream::connect(socket(state)).ok()?;
        Some(Self {
            stream,
            patience: PATIENCE,
        })
    }

    /// Whether a daemon has the limits of the gate with this state in its process.
    pub fn on_dpdk(state: &Path) -> bool {
        let status =
            Self::connect(state).and_then(|daemon| daemon.get::<Status>("/v1/status").ok());
        status.is_some_and(|status| status.stands_by.is_some())
    }

    /// The other gate of a pair, if the gate is one and its daemon answers at once: the rest of a status needs none.
    pub fn pair(state: &Path) -> Option<PairJson> {
        let mut daemon = Self::connect(state)?;
        daemon.patience = SHORT;
        daemon.get("/v1/pair").ok()
    }

    /// Changes one subscriber. Returns it as it is now.
    pub fn set(self, name: &str, adjustment: &Adjustment) -> Result<SubscriberJson, ControlError> {
        let path = format!("/v1/subscribers/{}", encoded(name));
        let bits = |rate: &tidegate_limiter::Rate| format!("{}bit", rate.bits_per_second());
        let mut patch = json!({ "reset": adjustment.reset });
        let Setting {
            plan,
            down,
            up,
            suspended,
            from: _,
            keys,
        } = &adjustment.setting;
        if let Some(plan) = plan {
            patch["plan"] = json!(plan);
        }
        for (way, rate) in [(Direction::Down, down), (Direction::Up, up)] {
            if let Some(rate) = rate {
                patch[way.name()] = json!(bits(rate));
            }
        }
        if let Some(suspended) = suspended {
            patch["suspended"] = json!(suspended);
        }
        if !keys.is_empty() {
            patch["keys"] = json!(keys);
        }
        let from = &adjustment.from;
        let parts = [
            ("from_port", &from.port),
            ("from_mac", &from.mac),
            ("from_vlan", &from.tags),
        ];
        for (key, part) in parts {
            if let Some(part) = part {
                patch[key] = json!(part);
            }
        }
        let (mut assign, mut release) = (Vec::new(), Vec::new());
        for change in &adjustment.moves {
            match change {
                MatchChange::Assign(what) => assign.push(what.to_string()),
                MatchChange::Release(what) => release.push(what.to_string()),
                MatchChange::Only(key, all) => {
                    // Without the word before a tag, as in the file.
                    let bare = all.iter().map(|what| what.to_string());
                    let bare = bare.map(|text| text.rsplit(' ').next().unwrap_or("").to_owned());
                    patch[*key] = json!(bare.collect::<Vec<_>>());
                }
                MatchChange::AsDeclared => patch["reset_addresses"] = json!(true),
            }
        }
        for (key, list) in [("assign", assign), ("release", release)] {
            if !list.is_empty() {
                patch[key] = json!(list);
            }
        }
        self.ask("PATCH", &path, &patch)
    }

    /// Takes an address or tag from the subscriber that has it, whose name it returns.
    pub fn release(self, what: &Match) -> Result<String, ControlError> {
        let path = format!("/v1/addresses/{}", encoded(&what.to_string()));
        let released: Released = self.ask("DELETE", &path, &Value::Null)?;
        Ok(released.subscriber)
    }

    /// The name of the subscriber that has an address or tag, if one is known to.
    pub fn holder(self, what: &Match) -> Option<String> {
        let path = format!("/v1/addresses/{}", encoded(&what.to_string()));
        let found: SubscriberJson = self.get(&path).ok()?;
        Some(found.name)
    }

    /// What subscribers used in their months, as CSV.
    pub fn usage(self) -> Result<String, ControlError> {
        self.read("GET", "/v1/usage.csv", &Value::Null)
    }

    /// Reads the file again, or another.
    pub fn reload(self, file: Option<&Path>, lenient: bool) -> Result<Reloaded, ControlError> {
        let body = json!({ "file": file, "lenient": lenient });
        self.ask("POST", "/v1/reload", &body)
    }

    /// Ends the daemon, which leaves the limits in place.
    pub fn stop(self) -> Result<(), ControlError> {
        let _: Value = self.ask("POST", "/v1/stop", &Value::Null)?;
        Ok(())
    }

    /// What the daemon answers at a path of the API.
    pub fn get<T: DeserializeOwned>(self, path: &str) -> Result<T, ControlError> {
        self.ask("GET", path, &Value::Null)
    }

    /// One request, and its answer.
    fn ask<T: DeserializeOwned>(
        self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<T, ControlError> {
        serde_json::from_str(&self.read(method, path, body)?).map_err(|_| garbled())
    }

    /// One request, and the body of its answer.
    fn read(mut self, method: &str, path: &str, body: &Value) -> Result<String, ControlError> {
        let failed = |error: std::io::Error| {
            let error = match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    format!("it did not answer within {} s", self.patience.as_secs())
                }
                _ => error.to_string(),
            };
            ControlError::Other(format!(
                "the gate's daemon cannot be asked ({error}): see its log, or restart it"
            ))
        };
        let request = http::request(method, path, "Host: gate\r\n", body);
        let answer = (self.stream.set_read_timeout(Some(self.patience)))
            .and_then(|()| http::exchange(&mut self.stream, &request, ANSWER));
        let (status, body) = answer.map_err(failed)?.ok_or_else(garbled)?;
        let text = String::from_utf8(body).map_err(|_| garbled())?;
        if status == 200 {
            return Ok(text);
        }
        let reason = http::reason(&text).ok_or_else(garbled)?;
        Err(match status {
            404 => ControlError::Unknown(reason),
            422 => ControlError::Invalid(reason),
            503 => ControlError::Down(reason),
            _ => ControlError::Other(reason),
        })
    }
}

/// What is said of an answer that is not understood.
pub fn garbled() -> ControlError {
    let text = "the gate's daemon sent an answer that this program does not understand: both must be of the same \
                version, so restart the daemon";
    ControlError::Other(text.into())
}

/// A name as a part of a path (RFC 3986 section 2.1).
pub fn encoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => text.push(byte.into()),
            // A segment of nothing but dots would mean another path.
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

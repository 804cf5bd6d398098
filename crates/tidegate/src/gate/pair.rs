//! The other gate of a pair: once a second the daemon asks it for live changes, volumes and limiters.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustls::CertificateError;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate_gate::config;
use tidegate_gate::control::SharedGate;
use tidegate_gate::pair::{SharedChange, SharedVolume};

use super::events::Events;
use super::http;
use super::keeper::Keeper;
use super::view::pair::PairJson;

/// Time between two questions.
pub const EVERY: Duration = Duration::from_secs(1);
/// How many questions there are between two for volumes.
const VOLUMES: u32 = 10;
/// How long after a change of the other gate could not be made here it is tried again. The file may be another one then.
const AGAIN: Duration = Duration::from_secs(60);
/// How long the other gate may take for each step.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of an answer: a million limiters with little in them.
const ANSWER: u64 = 1 << 30;
/// Limiters without packets for this long are not asked for at first: their queues are empty.
const LONG: Duration = Duration::from_secs(3600);

/// What a gate tells the other one of a pair.
#[derive(Debug, Serialize, Deserialize)]
pub struct Told {
    /// Version of tidegate.
    pub version: String,
    /// Key of the flow hash.
    pub hash: [u64; 2],
    /// Live changes, the oldest first.
    pub changes: Vec<SharedChange>,
    /// Volumes of months, if they were asked for and are counted.
    pub volumes: Option<Vec<SharedVolume>>,
}

/// This gate.
pub struct Own<'a> {
    /// The gate.
    pub gate: &'a SharedGate,
    /// Volumes of months.
    pub keeper: &'a Keeper,
    /// What changed, and who did it.
    pub events: &'a Events,
}

/// The other gate.
pub struct Pair {
    peer: SocketAddr,
    secret: Option<String>,
    tls: Option<Arc<rustls::ClientConfig>>,
    known: Mutex<Known>,
}

/// What is known of it.
#[derive(Default)]
struct Known {
    /// The latest stamp of its changes.
    stamp: u64,
    /// When all its changes are asked for again, since one could not be made here.
    again: Option<Instant>,
    /// Questions so far.
    asked: u32,
    /// The latest time when everything went well.
    well: Option<Instant>,
    /// Since when it has gone well without a break.
    since: Option<Instant>,
    /// When the other gate asked this one last.
    asked_us: Option<Instant>,
    /// Why not everything goes well.
    error: Option<String>,
    /// Limiters that are unknown here.
    unknown: usize,
}

impl Pair {
    /// Reads the certificate. `secret` is that of the other gate's API.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(config: &config::Pair, secret: Option<String>) -> anyhow::Result<Self> {
        let tls = config.certificate.as_deref().map(|path| {
            let place = || {
                format!(
                    "cannot read the other gate's certificate {}",
                    path.display()
                )
            };
            let mut roots = rustls::RootCertStore::empty();
            for certificate in CertificateDer::pem_file_iter(path).with_context(place)? {
                roots
                    .add(certificate.with_context(place)?)
                    .with_context(place)?;
            }
            if roots.is_empty() {
                bail!("{} holds no certificate (PEM)", path.display());
            }
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let client = rustls::ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()?
                .with_root_certificates(roots)
                .with_no_client_auth();
            anyhow::Ok(Arc::new(client))
        });
        Ok(Self {
            peer: config.peer,
            secret,
            tls: tls.transpose()?,
            known: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it goes, for the status.
    pub fn status(&self) -> PairJson {
        let known = self.lock();
        let ago = |at: Option<Instant>| at.map(|at| at.elapsed().as_secs_f64());
        PairJson {
            peer: self.peer.to_string(),
            age_s: ago(known.well),
            follows_s: ago(known.since),
            asked_s: ago(known.asked_us),
            unknown_limiters: known.unknown as u64,
            error: known.error.clone(),
        }
    }

    /// Notes that the other gate asked this one.
    pub fn was_asked(&self) {
        self.lock().asked_us = Some(Instant::now());
    }

    /// Asks the other gate, and does as it did. Logs when that begins to fail, and when it goes well again.
    pub fn tick(&self, own: &Own<'_>) {
        let result = self.ask(own);
        let peer = self.peer;
        let mut known = self.lock();
        match result {
            Ok(()) => {
                if known.well.is_none() || known.error.is_some() {
                    tracing::info!(%peer, "this gate follows the other one of the pair");
                }
                let now = Instant::now();
                known.since.get_or_insert(now);
                (known.well, known.error) = (Some(now), None);
            }
            Err(error) => {
                let error = format!("{error:#}");
                if known.error.as_ref() != Some(&error) {
                    tracing::warn!(%peer, error, "this gate does not follow the other one of the pair");
                }
                (known.since, known.error) = (None, Some(error));
            }
        }
    }

    fn ask(&self, own: &Own<'_>) -> anyhow::Result<()> {
        let (since, volumes, well) = {
            let mut known = self.lock();
            known.asked = known.asked.wrapping_add(1);
            if known.again.is_some_and(|again| again <= Instant::now()) {
                (known.stamp, known.again) = (0, None);
            }
            let volumes = known.asked % VOLUMES == 1;
            (known.stamp, volumes, known.well)
        };
        let question = json!({ "since": since, "volumes": volumes });
        let told: Told = serde_json::from_slice(&self.post("/v1/pair", &question)?)
            .context("the other gate sent an answer that this version does not understand")?;
        if told.version != env!("CARGO_PKG_VERSION") {
            let ours = env!("CARGO_PKG_VERSION");
            bail!(
                "the other gate is of version {}, this one of {ours}: install the same",
                told.version
            );
        }
        self.follow(own, told)?;
        let within = well.map_or(LONG, |well| well.elapsed() + EVERY);
        let limiters = self.post(
            "/v1/pair/limiters",
            &json!({ "within_ms": within.as_millis() as u64 }),
        )?;
        let done = own.gate.pair(|gate| gate.import(&limiters))?;
        self.lock().unknown = done.unknown;
        Ok(())
    }

    /// Does what the other gate did.
    fn follow(&self, own: &Own<'_>, told: Told) -> anyhow::Result<()> {
        // One of both keeps its key.
        own.gate.pair(|gate| match told.hash < gate.hash() {
            true => gate.set_hash(told.hash),
            false => Ok(()),
        })?;
        let mut refused = false;
        for change in told.changes {
            let SharedChange { name, stamp, .. } = &change;
            match own.gate.adopt(&change) {
                Ok(true) => {
                    tracing::info!(subscriber = name, "set, as at the other gate");
                    let what = json!({
                        "subscriber": name,
                        "setting": change.setting,
                        "addresses": change.matches,
                    });
                    own.events.add("the other gate", "set", what);
                }
                Ok(false) => {}
                Err(error) => {
                    refused = true;
                    tracing::warn!(
                        subscriber = name, %error,
                        "a live change of the other gate cannot be made here: give both gates the same file"
                    );
                }
            }
            let mut known = self.lock();
            known.stamp = known.stamp.max(*stamp);
        }
        if refused {
            self.lock().again.get_or_insert(Instant::now() + AGAIN);
        }
        if let Some(volumes) = told.volumes {
            own.keeper.learn(volumes);
        }
        Ok(())
    }

    /// A request, and the body of its answer.
    fn post(&self, path: &str, body: &Value) -> anyhow::Result<Vec<u8>> {
        let mut headers = format!("Host: {}\r\n", self.peer);
        if let Some(secret) = &self.secret {
            headers += &format!("Authorization: Bearer {secret}\r\n");
        }
        let request = http::request("POST", path, &headers, body);
        let unreachable = || format!("the other gate at {} cannot be asked", self.peer);
        let mut stream =
            TcpStream::connect_timeout(&self.peer, PATIENCE).with_context(unreachable)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let answer = match &self.tls {
            None => http::exchange(&mut stream, &request, ANSWER),
            Some(tls) => {
                let name = ServerName::from(self.peer.ip());
                let client = rustls::ClientConnection::new(Arc::clone(tls), name)?;
                http::exchange(
                    &mut rustls::StreamOwned::new(client, stream),
                    &request,
                    ANSWER,
                )
            }
        };
        let answer = answer.map_err(|error| match distrust(&error) {
            Some(why) => anyhow::anyhow!("the other gate at {} is not trusted: {why}", self.peer),
            None => anyhow::Error::from(error).context(unreachable()),
        })?;
        let (status, body) = answer.with_context(|| {
            let peer = self.peer;
            match self.tls {
                None => format!("what answers at {peer} is no gate, or it speaks TLS: then give its `certificate` in [pair]"),
                Some(_) => format!("what answers at {peer} is no gate"),
            }
        })?;
        if status != 200 {
            let text = String::from_utf8_lossy(&body);
            let reason = http::reason(&text).unwrap_or_else(|| format!("status {status}"));
            bail!("the other gate at {} refuses: {reason}", self.peer);
        }
        Ok(body)
    }
}

/// Why TLS does not trust what answered, and what to do; `None` if something else failed.
fn distrust(error: &io::Error) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let text = match error {
        rustls::Error::InvalidCertificate(why) => match why {
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is not for this address: make one for it".to_owned()
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired: renew it, or set the clocks right".to_owned()
            }
            _ => format!(
                "`certificate` of [pair] does not vouch for the certificate that it shows ({why}): copy the other gate's \
                 `certificate` of [api], or that of its authority, to this machine"
            ),
        },
        rustls::Error::InvalidMessage(_) => {
            "it does not speak TLS: give `certificate` and `key` in its [api], or leave out `certificate` in [pair]"
                .to_owned()
        }
        error => format!("TLS fails ({error})"),
    };
    Some(text)
}

#[cfg(test)]
mod tests;

//! One viewer: a connection, requests, and a playback buffer.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, RANGE, USER_AGENT};
use hyper::{Request, Response, StatusCode, Uri, Version};
use serde_json::{Value, json};
use tidegate_lab::playback::{Playback, Settings, Viewing};
use tidegate_limiter::Rate;
use tidegate_pace::media::{Media, Prefix};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::transport::{Sender, Transport};

/// The beginning of a file in which its headers are looked for, in bytes.
const HEADERS: usize = 1 << 20;

/// What every viewer wants.
pub struct Wishes {
    pub transport: Transport,
    pub watch: Option<Duration>,
    pub range: Option<u64>,
    pub start: Duration,
    pub restart: Duration,
    pub start_up: Duration,
    pub rate: Option<Rate>,
    pub timeout: Duration,
}

/// What a viewer saw.
#[derive(Debug, Clone)]
pub struct Viewed {
    pub viewer: usize,
    pub url: String,
    /// The server's group of this connection, if it has several.
    pub group: Option<String>,
    /// Its own port, by which logs and captures know it.
    pub port: u16,
    /// Version of HTTP, of the last response.
    pub http: &'static str,
    /// When it came, from the first viewer's time.
    pub arrived: Duration,
    /// From its coming to its leaving.
    pub duration: Duration,
    pub bytes: u64,
    /// The whole file.
    pub length: Option<u64>,
    pub rate: Option<Rate>,
    pub viewing: Option<Viewing>,
    /// Bytes, and the time they took, after the start-up phase.
    pub throttled: Option<(u64, Duration)>,
    /// Why it left: `complete`, `left`, or what went wrong.
    pub ended: Result<&'static str, String>,
}

impl Viewed {
    pub fn failed(&self) -> bool {
        self.ended.is_err()
    }

    /// Bits per second after the start-up phase.
    pub fn throttled_goodput(&self) -> Option<f64> {
        let (bytes, time) = self.throttled?;
        (!time.is_zero()).then(|| bytes as f64 * 8.0 / time.as_secs_f64())
    }

    /// Bits per second over all.
    pub fn goodput(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.duration.as_secs_f64().max(1e-9)
    }

    pub fn json(&self) -> Value {
        let viewing = |field: fn(&Viewing) -> Value| self.viewing.as_ref().map(field);
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        json!({
            "viewer": self.viewer,
            "url": self.url,
            "group": self.group,
            "port": self.port,
            "http": (!self.http.is_empty()).then_some(self.http),
            "arrived_seconds": self.arrived.as_secs_f64(),
            "seconds": self.duration.as_secs_f64(),
            "bytes": self.bytes,
            "length": self.length,
            "encoding_bits_per_second": self.rate.map(Rate::bits_per_second),
            "join_seconds": self.viewing.and_then(|viewing| viewing.join).map(seconds),
            "rebufferings": viewing(|viewing| viewing.rebufferings.into()),
            "rebuffering_seconds": self.viewing.map(|viewing| seconds(viewing.stalled)),
            "rebuffering_per_second": viewing(|viewing| viewing.frequency().into()),
            "played_seconds": self.viewing.map(|viewing| seconds(viewing.played)),
            "goodput_bits_per_second": self.goodput(),
            "throttled_bytes": self.throttled.map(|(bytes, _)| bytes),
            "throttled_goodput_bits_per_second": self.throttled_goodput(),
            "ended": match &self.ended {
                Ok(why) => *why,
                Err(_) => "failed",
            },
            "error": self.ended.as_ref().err(),
        })
    }
}

/// The buffer of a video whose rate may not be known yet.
struct Screen<'a> {
    wishes: &'a Wishes,
    began: Instant,
    /// The first bytes, until they have said the rate.
    head: Vec<u8>,
    /// How many of them were looked at.
    looked: usize,
    /// What came until then.
    early: Vec<(u64, u64)>,
    playback: Option<Playback>,
    rate: Option<Rate>,
    length: Option<u64>,
    bytes: u64,
    /// The server's start-up phase: when the last byte of it came, and how many had come.
    start_up_over: Option<(Instant, u64)>,
    last: Instant,
}

impl Screen<'_> {
    fn nanos(&self, at: Instant) -> u64 {
        u64::try_from((at - self.began).as_nanos()).unwrap_or(u64::MAX)
    }

    fn arrived(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let now = Instant::now();
        self.last = now;
        let count = bytes.len() as u64;
        self.bytes += count;
        let nanos = self.nanos(now);
        match &mut self.playback {
            Some(playback) => playback.arrived(nanos, count),
            None => {
                self.early.push((nanos, count));
                let room = HEADERS - self.head.len();
                self.head.extend(&bytes[..bytes.len().min(room)]);
                // Only when there is twice as much as last time, so that it takes no time.
                if room == 0 || self.head.len() >= self.looked * 2 {
                    self.looked = self.head.len();
                    self.look(room == 0)?;
                }
            }
        }
        if let (None, Some(rate)) = (self.start_up_over, self.rate) {
            let start_up = rate.bits_per_second() as f64 / 8.0 * self.wishes.start_up.as_secs_f64();
            if self.bytes as f64 >= start_up {
                self.start_up_over = Some((now, self.bytes));
            }
        }
        Ok(())
    }

    /// Looks whether the rate is known by now; `last`: no more of the head will come.
    fn look(&mut self, last: bool) -> anyhow::Result<()> {
        self.rate = self.wishes.rate.or_else(|| {
            let prefix = Prefix {
                bytes: &self.head,
                length: self.length?,
            };
            Some(Media::probe(&prefix).ok()?.rate())
        });
        let Some(rate) = self.rate else {
            if last {
                bail!("the beginning of the file does not say its encoding rate: give --rate");
            }
            return Ok(());
        };
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let settings = Settings {
            rate,
            start: nanos(self.wishes.start),
            restart: nanos(self.wishes.restart),
            length: self.length,
        };
        let mut playback = Playback::new(settings, 0);
        for (at, bytes) in std::mem::take(&mut self.early) {
            playback.arrived(at, bytes);
        }
        self.playback = Some(playback);
        self.head = Vec::new();
        Ok(())
    }
}

/// Watches a video, from an address of this machine if it matters, until it has come, the viewer
/// leaves, or something goes wrong.
pub async fn watch(
    number: usize,
    (url, from): (Uri, Option<IpAddr>),
    wishes: &Wishes,
    first: Instant,
    mut leaving: watch::Receiver<bool>,
) -> Viewed {
    let began = Instant::now();
    let mut screen = Screen {
        wishes,
        began,
        head: Vec::new(),
        looked: 0,
        early: Vec::new(),
        playback: None,
        rate: None,
        length: None,
        bytes: 0,
        start_up_over: None,
        last: began,
    };
    let mut viewed = Viewed {
        viewer: number,
        url: url.to_string(),
        group: None,
        port: 0,
        http: "",
        arrived: began - first,
        duration: Duration::ZERO,
        bytes: 0,
        length: None,
        rate: None,
        viewing: None,
        throttled: None,
        ended: Ok("left"),
    };
    let patience = wishes.watch.unwrap_or(Duration::MAX);
    let ended = tokio::select! {
        result = timeout(patience, fetch(&url, from, &mut screen, &mut viewed)) => match result {
            Ok(Ok(())) => Ok("complete"),
            Ok(Err(error)) => Err(format!("{error:#}")),
            Err(_) => Ok("left"),
        },
        _ = leaving.wait_for(|&leave| leave) => Ok("left"),
    };
    // A viewer who got all has seen what there was to see when the last byte came.
    let complete = ended == Ok("complete");
    let end = if complete {
        screen.last
    } else {
        Instant::now()
    };
    viewed.ended = ended;
    viewed.duration = end - began;
    viewed.bytes = screen.bytes;
    viewed.length = screen.length;
    viewed.rate = screen.rate;
    let nanos = screen.nanos(end);
    viewed.viewing = screen.playback.as_mut().map(|playback| {
        if complete {
            playback.finish(nanos);
        }
        playback.viewing(nanos)
    });
    viewed.throttled = screen.start_up_over.map(|(at, bytes)| {
        // Until the last byte: what comes in blocks has come then.
        (
            screen.bytes - bytes,
            screen.last.saturating_duration_since(at),
        )
    });
    viewed
}

async fn fetch(
    url: &Uri,
    from: Option<IpAddr>,
    screen: &mut Screen<'_>,
    viewed: &mut Viewed,
) -> anyhow::Result<()> {
    let transport = &screen.wishes.transport;
    let mut sender = transport.connect(url, from, &mut viewed.port).await?;
    pieces(url, &mut sender, screen, viewed).await
}

async fn pieces(
    url: &Uri,
    sender: &mut Sender,
    screen: &mut Screen<'_>,
    viewed: &mut Viewed,
) -> anyhow::Result<()> {
    loop {
        let mut request =
            Request::get(url).header(USER_AGENT, concat!("tidegate/", env!("CARGO_PKG_VERSION")));
        if let Some(size) = screen.wishes.range {
            let last = screen.bytes.saturating_add(size - 1);
            request = request.header(RANGE, format!("bytes={}-{last}", screen.bytes));
        }
        let request = request.body(Empty::new())?;
        let response = timeout(screen.wishes.timeout, sender.send(request))
            .await
            .context("the server does not answer")??;
        viewed.http = match response.version() {
            Version::HTTP_2 => "2",
            _ => "1.1",
        };
        let whole = check(&response, screen, viewed)?;
        receive(response, screen).await?;
        if whole || screen.length.is_some_and(|length| screen.bytes >= length) {
            break;
        }
    }
    if screen.playback.is_none() {
        screen.look(true)?;
    }
    Ok(())
}

/// Whether the response is the whole file.
fn check(
    response: &Response<Incoming>,
    screen: &mut Screen<'_>,
    viewed: &mut Viewed,
) -> anyhow::Result<bool> {
    let headers = response.headers();
    let text = |headers: &HeaderMap, name: &str| {
        let value = headers.get(name)?;
        value.to_str().ok().map(str::to_owned)
    };
    viewed.group = text(headers, "tidegate-group");
    match response.status() {
        StatusCode::OK if screen.bytes == 0 => {
            let length = text(headers, CONTENT_LENGTH.as_str());
            screen.length = length.and_then(|length| length.parse().ok());
            Ok(true)
        }
        StatusCode::PARTIAL_CONTENT => {
            // bytes FIRST-LAST/LENGTH
            let range = text(headers, CONTENT_RANGE.as_str()).unwrap_or_default();
            let (span, length) = range.rsplit_once('/').unwrap_or_default();
            let first = span
                .strip_prefix("bytes ")
                .and_then(|span| span.split('-').next());
            if first.and_then(|first| first.parse().ok()) != Some(screen.bytes) {
                bail!("the server sent another part of the file than was asked for: '{range}'");
            }
            let length = length.parse().ok();
            if screen.bytes > 0 && length != screen.length {
                bail!("the file changed while it was fetched");
            }
            screen.length = length;
            Ok(false)
        }
        status => bail!("the server answers {status}"),
    }
}

async fn receive(mut response: Response<Incoming>, screen: &mut Screen<'_>) -> anyhow::Result<()> {
    let before = screen.bytes;
    loop {
        let next = timeout(screen.wishes.timeout, response.frame()).await;
        let Some(frame) = next.context("nothing came for too long")? else {
            break;
        };
        if let Ok(data) = frame?.into_data() {
            screen.arrived(&data)?;
        }
    }
    if screen.bytes == before && screen.length != Some(before) {
        bail!("the server sent nothing");
    }
    Ok(())
}

//! One viewer: a connection, its requests, and the playback.

use std::net::IpAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, RANGE, USER_AGENT};
use hyper::{Request, Response, StatusCode, Uri, Version};
use tidegate_limiter::Rate;
use tidegate_limiter::pacing::playback::Viewing;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::error::PlayError;
use super::screen::{Patience, Screen};
use super::transport::{Sender, Transport};

/// How a viewer watches.
#[derive(Debug)]
pub struct Player {
    /// How connections are made.
    pub transport: Transport,
    /// Leave after this time; `None`: when the whole video has arrived.
    pub watch: Option<Duration>,
    /// Fetch by range requests of this many bytes, at least 1, on one connection; `None`: by one request.
    pub range: Option<u64>,
    /// When the video plays.
    pub patience: Patience,
    /// How much video the server sends at full speed at first; throttled goodput is measured after
    /// it.
    pub start_up: Duration,
    /// Encoding rate, above 0, if the beginning of the file does not give it.
    pub rate: Option<Rate>,
}

/// Why a viewer left without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The whole video has arrived.
    Complete,
    /// The viewer left earlier.
    Left,
}

/// The result of a viewer.
#[derive(Debug)]
pub struct Viewed {
    /// The viewer's number, from 0.
    pub viewer: usize,
    /// The URL that the viewer fetched.
    pub url: String,
    /// The server's group of this connection, if it has several.
    pub group: Option<String>,
    /// The viewer's port, which identifies the connection in logs and captures; 0 if there was
    /// none.
    pub port: u16,
    /// Version of HTTP, of the last response; empty if there was none.
    pub http: &'static str,
    /// When the viewer arrived, since the first viewer.
    pub arrived: Duration,
    /// From arriving to leaving.
    pub duration: Duration,
    /// Bytes of the video that arrived.
    pub bytes: u64,
    /// Bytes of the whole file, if the server stated it.
    pub length: Option<u64>,
    /// Encoding rate of the video, once known.
    pub rate: Option<Rate>,
    /// How it played, once its rate was known.
    pub viewing: Option<Viewing>,
    /// Bytes after the start-up phase, and the time that they took.
    pub throttled: Option<(u64, Duration)>,
    /// How the viewer left, or what went wrong.
    pub ended: Result<Ended, PlayError>,
}

impl Viewed {
    /// Whether something went wrong.
    pub fn failed(&self) -> bool {
        self.ended.is_err()
    }

    /// Bits per second after the start-up phase.
    pub fn throttled_goodput(&self) -> Option<f64> {
        let (bytes, time) = self.throttled?;
        (!time.is_zero()).then(|| bytes as f64 * 8.0 / time.as_secs_f64())
    }

    /// Bits per second from arriving to leaving.
    pub fn goodput(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.duration.as_secs_f64().max(1e-9)
    }
}

/// Watches a video until it has arrived, the viewer leaves, or something fails. `from` is an
/// address of this machine, if it matters.
pub async fn watch(
    number: usize,
    (url, from): (Uri, Option<IpAddr>),
    player: &Player,
    first: Instant,
    mut leaving: watch::Receiver<bool>,
) -> Viewed {
    let began = Instant::now();
    let mut screen = Screen::new(player.patience, player.start_up, player.rate, began);
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
        ended: Ok(Ended::Left),
    };
    let patience = player.watch.unwrap_or(Duration::MAX);
    let ended = tokio::select! {
        result = timeout(patience, fetch(player, &url, from, &mut screen, &mut viewed)) => match result {
            Ok(Ok(())) => Ok(Ended::Complete),
            Ok(Err(error)) => Err(error),
            Err(_) => Ok(Ended::Left),
        },
        _ = leaving.wait_for(|&leave| leave) => Ok(Ended::Left),
    };
    // A viewer who received everything has finished at the last byte.
    let complete = matches!(ended, Ok(Ended::Complete));
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
    viewed.viewing = screen.viewing(end, complete);
    viewed.throttled = screen.throttled();
    viewed
}

async fn fetch(
    player: &Player,
    url: &Uri,
    from: Option<IpAddr>,
    screen: &mut Screen,
    viewed: &mut Viewed,
) -> Result<(), PlayError> {
    let transport = &player.transport;
    let mut sender = transport.connect(url, from, &mut viewed.port).await?;
    fetch_pieces(player, url, &mut sender, screen, viewed).await
}

async fn fetch_pieces(
    player: &Player,
    url: &Uri,
    sender: &mut Sender,
    screen: &mut Screen,
    viewed: &mut Viewed,
) -> Result<(), PlayError> {
    let patience = player.transport.timeout();
    loop {
        let mut request =
            Request::get(url).header(USER_AGENT, concat!("tidegate/", env!("CARGO_PKG_VERSION")));
        if let Some(size) = player.range {
            let last = screen.bytes.saturating_add(size - 1);
            request = request.header(RANGE, format!("bytes={}-{last}", screen.bytes));
        }
        let request = request.body(Empty::new()).map_err(|error| PlayError::Url {
            url: url.to_string(),
            problem: error.to_string(),
        })?;
        let response = timeout(patience, sender.send(request))
            .await
            .map_err(|_| PlayError::Timeout("the server did not answer within the timeout"))??;
        viewed.http = match response.version() {
            Version::HTTP_2 => "2",
            _ => "1.1",
        };
        let whole = check(&response, screen, viewed)?;
        receive(response, screen, patience).await?;
        if whole || screen.length.is_some_and(|length| screen.bytes >= length) {
            break;
        }
    }
    screen.complete()
}

/// Whether the response is the whole file.
fn check(
    response: &Response<Incoming>,
    screen: &mut Screen,
    viewed: &mut Viewed,
) -> Result<bool, PlayError> {
    let answer = PlayError::Answer;
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
                return Err(answer(format!(
                    "the server sent another part of the file than was asked for: '{range}'"
                )));
            }
            let length = length.parse().ok();
            if screen.bytes > 0 && length != screen.length {
                return Err(answer("the file changed while it was fetched".into()));
            }
            screen.length = length;
            Ok(false)
        }
        status => Err(answer(format!("the server answers {status}"))),
    }
}

async fn receive(
    mut response: Response<Incoming>,
    screen: &mut Screen,
    patience: Duration,
) -> Result<(), PlayError> {
    let before = screen.bytes;
    loop {
        let next = timeout(patience, response.frame()).await;
        let Some(frame) =
            next.map_err(|_| PlayError::Timeout("nothing arrived within the timeout"))?
        else {
            break;
        };
        if let Ok(data) = frame?.into_data() {
            screen.arrived(&data)?;
        }
    }
    if screen.bytes == before && screen.length != Some(before) {
        return Err(PlayError::Answer("the server sent nothing".into()));
    }
    Ok(())
}

//! How a viewer watches, and what it saw.

use std::time::Duration;

use hyper::{Response, Uri, Version};
use tidegate_limiter::Rate;
use tidegate_limiter::pacing::playback::Viewing;

use super::answer::Answer;
use super::error::PlayError;
use super::screen::Patience;
use super::transport::Transport;

/// How a viewer watches.
#[derive(Debug)]
pub struct Player {
    /// How connections are made.
    pub transport: Transport,
    /// Leave after this time; `None`: when the whole video has arrived.
    pub watch: Option<Duration>,
    /// Fetch no more of adaptive video while this much is in the buffer.
    pub buffer: Duration,
    /// Fetch by range requests of this many bytes, at least 1, on one connection; `None`: by one request.
    pub range: Option<u64>,
    /// When the video plays.
    pub patience: Patience,
    /// How much video the server sends at full speed at first; throttled goodput is measured after
    /// it.
    pub start_up: Duration,
    /// Encoding rate, above 0, if neither the server nor the file gives it.
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
    /// Encoding rate of the video, once known; of adaptive video the mean of the segments that arrived.
    pub rate: Option<Rate>,
    /// How often the rendition of adaptive video changed; `None` for other video.
    pub switches: Option<u64>,
    /// How it played, once its rate was known.
    pub viewing: Option<Viewing>,
    /// Bytes after the start-up phase, and the time that they took.
    pub throttled: Option<(u64, Duration)>,
    /// How the viewer left, or what went wrong.
    pub ended: Result<Ended, PlayError>,
}

impl Viewed {
    /// A viewer who has seen nothing yet.
    pub(super) fn nothing(viewer: usize, url: &Uri) -> Self {
        Self {
            viewer,
            url: url.to_string(),
            group: None,
            port: 0,
            http: "",
            arrived: Duration::ZERO,
            duration: Duration::ZERO,
            bytes: 0,
            length: None,
            rate: None,
            switches: None,
            viewing: None,
            throttled: None,
            ended: Ok(Ended::Left),
        }
    }

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

/// The version of HTTP, and the server's group.
pub(super) fn note_answer(response: &Response<Answer>, viewed: &mut Viewed) {
    viewed.http = match response.version() {
        Version::HTTP_2 => "2",
        Version::HTTP_3 => "3",
        _ => "1.1",
    };
    let group = response.headers().get("tidegate-group");
    viewed.group = group.and_then(|group| Some(group.to_str().ok()?.to_owned()));
}

//! A viewer of adaptive video: fetches segment after segment, each in the best rendition that the network seems to carry.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::header::{HeaderValue, RANGE};
use hyper::{StatusCode, Uri};
use tidegate_limiter::pacing::playback::{Playback, Settings, Viewing};
use tidegate_limiter::{Bytes, Rate};
use tokio::time::{Instant, sleep, timeout};

use super::error::PlayError;
use super::transport::{Line, get};
use super::viewed::{Player, Viewed, note_answer};
use crate::adaptive::{Address, Part, Programme, Source, Track};
use crate::percent;

#[cfg(test)]
mod tests;

/// Bytes of a manifest with all its playlists.
const MOST_TEXT: usize = 16 << 20;
/// Bytes of a segment.
const MOST_SEGMENT: usize = 256 << 20;

/// What a request is for.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// A manifest or playlist of at most this many bytes.
    Text(usize),
    /// Video or audio, whose bytes are counted.
    Media,
}
/// Playback counts bytes at a rate. Here a byte stands for a microsecond of video.
const MICROSECONDS: u64 = 8_000_000;
/// A rendition is chosen if it needs no more than this share of the rate at which the last segments came.
const SAFE: f64 = 0.8;
/// That rate is measured over this number of segments.
const REMEMBERED: usize = 3;

/// What a viewer of adaptive video has.
#[derive(Debug)]
pub(super) struct Show {
    began: Instant,
    playback: Option<Playback>,
    /// How long the segments of the first track that arrived play.
    pub plays: Duration,
    /// The rates of the segments that arrived, each as often as it plays.
    weighted: f64,
    rendition: Option<usize>,
    pub switches: u64,
    /// Bytes after the start-up phase, and the time in which they were fetched.
    throttled: Option<(u64, Duration)>,
    /// Rates at which the last segments came, in bit/s.
    measured: Vec<f64>,
    last: Instant,
}

impl Show {
    pub fn new(began: Instant) -> Self {
        Self {
            began,
            playback: None,
            plays: Duration::ZERO,
            weighted: 0.0,
            rendition: None,
            switches: 0,
            throttled: None,
            measured: Vec::new(),
            last: began,
        }
    }

    fn nanos(&self, at: Instant) -> u64 {
        u64::try_from((at - self.began).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Fills in what was seen until `end`. `complete`: nothing more will come.
    pub fn report(&mut self, end: Instant, complete: bool, viewed: &mut Viewed) {
        let end = if complete { self.last } else { end };
        let nanos = self.nanos(end);
        viewed.duration = end - self.began;
        viewed.throttled = self.throttled;
        viewed.switches = Some(self.switches);
        let rate = self.weighted / self.plays.as_secs_f64().max(1e-9);
        viewed.rate = (rate >= 1.0).then(|| Rate::from_bits_per_second(rate as u64));
        viewed.viewing = self.playback.as_mut().map(|playback| -> Viewing {
            if complete {
                playback.finish(nanos);
            }
            playback.viewing(nanos)
        });
    }

    /// The rendition for the next segment: the lowest at first, then the best that the network seems to carry.
    fn choose(&self, track: &Track) -> usize {
        let seen = self.measured.iter().rev().take(REMEMBERED);
        let (count, slowness) = seen.fold((0.0, 0.0), |(n, sum), rate| (n + 1.0, sum + 1.0 / rate));
        if count == 0.0 {
            return 0;
        }
        let carried = SAFE * count / slowness;
        let best = track
            .renditions
            .iter()
            .rposition(|one| one.rate as f64 <= carried);
        best.unwrap_or(0)
    }

    /// A segment of the first track has arrived.
    fn arrived(&mut self, rate: u64, part: &Part, bytes: u64, took: Duration, start_up: Duration) {
        let now = Instant::now();
        self.last = now;
        let seconds = part.plays.as_secs_f64();
        let rate = match rate {
            0 => bytes as f64 * 8.0 / seconds.max(1e-9),
            stated => stated as f64,
        };
        self.weighted += rate * seconds;
        self.measured
            .push(bytes as f64 * 8.0 / took.as_secs_f64().max(1e-6));
        if self.plays >= start_up {
            let (before, time) = self.throttled.unwrap_or_default();
            self.throttled = Some((before + bytes, time + took));
        }
        self.plays += part.plays;
        let micros = u64::try_from(part.plays.as_micros()).unwrap_or(u64::MAX);
        let nanos = self.nanos(now);
        if let Some(playback) = &mut self.playback {
            playback.arrived(nanos, Bytes::new(micros));
        }
    }

    /// How long to fetch nothing, until no more than this is in the buffer. It becomes less only while the video plays.
    fn waits(&mut self, most: Duration) -> Duration {
        let buffered = self.buffered();
        let playback = self.playback.as_ref();
        let plays = playback.is_some_and(|playback| playback.runs_out().is_some());
        match plays {
            true => buffered.saturating_sub(most),
            false => Duration::ZERO,
        }
    }

    fn buffered(&mut self) -> Duration {
        let nanos = self.nanos(Instant::now());
        let playback = self.playback.as_mut();
        Duration::from_nanos(playback.map_or(0, |playback| playback.buffered(nanos)))
    }
}

/// A viewer's requests.
struct Requests<'a> {
    player: &'a Player,
    url: &'a Uri,
    line: Line<'a>,
    /// The value of CMCD's header for the session, by which the server knows the viewer (CTA-5004).
    session: HeaderValue,
}

impl Requests<'_> {
    /// The body of a file on the server, or of a part of it. Without an address it is the manifest. Of media only the bytes are counted.
    async fn fetch(
        &mut self,
        address: Option<&Address>,
        range: Option<(u64, u64)>,
        waits: bool,
        kind: Kind,
        viewed: &mut Viewed,
    ) -> Result<Vec<u8>, PlayError> {
        let url = match address {
            None => self.url.clone(),
            Some(address) => beside(self.url, address)?,
        };
        let path = url.path().to_owned();
        let mut request = get(&url)?;
        let headers = request.headers_mut();
        headers.insert("cmcd-session", self.session.clone());
        if waits {
            headers.insert("cmcd-request", HeaderValue::from_static("su"));
        }
        let last = |(first, count): (u64, u64)| first.saturating_add(count.saturating_sub(1));
        if let Some(range) = range
            && let Ok(value) = format!("bytes={}-{}", range.0, last(range)).parse()
        {
            headers.insert(RANGE, value);
        }
        let patience = self.player.transport.timeout();
        let response = self.line.send(request, &mut viewed.port).await?;
        note_answer(&response, viewed);
        let wanted = match range {
            Some(_) => StatusCode::PARTIAL_CONTENT,
            None => StatusCode::OK,
        };
        if response.status() != wanted {
            let status = response.status();
            return Err(PlayError::Answer(format!(
                "the server answers {status} for {path}"
            )));
        }
        let most = match kind {
            Kind::Text(most) => most,
            Kind::Media => MOST_SEGMENT,
        };
        let mut body = Limited::new(response.into_body(), most);
        let mut bytes = Vec::new();
        loop {
            let frame = timeout(patience, body.frame()).await;
            let frame =
                frame.map_err(|_| PlayError::Timeout("nothing arrived within the timeout"))?;
            match frame {
                None => return Ok(bytes),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        match kind {
                            Kind::Text(_) => bytes.extend_from_slice(&data),
                            // Also of a segment that the viewer does not wait for to its end.
                            Kind::Media => viewed.bytes += data.len() as u64,
                        }
                    }
                }
                Some(Err(error)) => return Err(PlayError::Answer(format!("{path}: {error}"))),
            }
        }
    }

    /// The bytes of a segment, or of what comes before all segments.
    async fn part(
        &mut self,
        part: &Part,
        waits: bool,
        viewed: &mut Viewed,
    ) -> Result<u64, PlayError> {
        let before = viewed.bytes;
        self.fetch(Some(&part.address), part.range, waits, Kind::Media, viewed)
            .await?;
        Ok(viewed.bytes - before)
    }
}

/// Watches until all has arrived. The playback goes on after that.
pub(super) async fn fetch(
    player: &Player,
    (url, from): (&Uri, Option<IpAddr>),
    show: &mut Show,
    viewed: &mut Viewed,
) -> Result<(), PlayError> {
    let session = format!("sid=\"tidegate-{:016x}\"", session_number());
    let session = HeaderValue::try_from(session);
    let mut requests = Requests {
        player,
        url,
        line: Line::new(&player.transport, (url, from)),
        session: session.map_err(|error| PlayError::Answer(error.to_string()))?,
    };
    let programme = programme(&mut requests, viewed).await?;
    let main = &programme.tracks[0];
    let length: Duration = main.renditions[0].parts.iter().map(|part| part.plays).sum();
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let settings = Settings {
        rate: Rate::from_bits_per_second(MICROSECONDS),
        start: nanos(player.patience.start),
        restart: nanos(player.patience.restart),
        length: u64::try_from(length.as_micros()).ok(),
    };
    show.playback = Some(Playback::new(settings, 0));
    // What was fetched of each other track, and which rendition's beginning was fetched of each track.
    let mut others: Vec<(usize, Duration)> = vec![(0, Duration::ZERO); programme.tracks.len()];
    let mut begun: Vec<Option<usize>> = vec![None; programme.tracks.len()];
    let count = main.renditions.iter().map(|one| one.parts.len()).min();
    for number in 0..count.unwrap_or(0) {
        let wait = show.waits(player.buffer);
        if !wait.is_zero() {
            sleep(wait).await;
        }
        let waits = show.buffered().is_zero();
        let chosen = show.choose(main);
        if show.rendition.is_some_and(|before| before != chosen) {
            show.switches += 1;
        }
        show.rendition = Some(chosen);
        let rendition = &main.renditions[chosen];
        if begun[0].replace(chosen) != Some(chosen)
            && let Some(first) = &rendition.first
        {
            requests.part(first, waits, viewed).await?;
        }
        let part = &rendition.parts[number];
        // Audio and video are needed together.
        for (track, (next, plays)) in programme.tracks.iter().zip(&mut others).skip(1) {
            let rendition = &track.renditions[0];
            while *plays < show.plays + part.plays
                && let Some(part) = rendition.parts.get(*next)
            {
                let first = rendition.first.iter().filter(|_| *next == 0);
                for part in first.chain([part]) {
                    requests.part(part, waits, viewed).await?;
                }
                (*next, *plays) = (*next + 1, *plays + part.plays);
            }
        }
        let began = Instant::now();
        let bytes = requests.part(part, waits, viewed).await?;
        show.arrived(
            rendition.rate,
            part,
            bytes,
            began.elapsed(),
            player.start_up,
        );
    }
    Ok(())
}

/// A number that no other viewer has, of this run or another.
fn session_number() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// Fetches the manifest and its playlists.
async fn programme(
    requests: &mut Requests<'_>,
    viewed: &mut Viewed,
) -> Result<Programme, PlayError> {
    let path = percent::decoded(requests.url.path().trim_start_matches('/'));
    let path = path.and_then(|path| String::from_utf8(path).ok());
    let path = path.ok_or(PlayError::Answer("the URL's path is not text".into()))?;
    let kind = Kind::Text(MOST_TEXT);
    let text = requests.fetch(None, None, true, kind, viewed).await?;
    let mut playlists = HashMap::new();
    let mut left = MOST_TEXT - text.len();
    let source = Source {
        url: Some(requests.url),
        path: &path,
    };
    for playlist in Programme::playlists(source, &text) {
        if let Entry::Vacant(place) = playlists.entry(playlist) {
            let address = Some(place.key());
            let text = requests.fetch(address, None, true, Kind::Text(left), viewed);
            let text = text.await?;
            left -= text.len();
            place.insert(text);
        }
    }
    let programme = Programme::read(source, &text, |address| playlists.get(address).cloned());
    programme.map_err(|error| PlayError::Answer(error.to_string()))
}

/// The URL of an address on the same server.
fn beside(url: &Uri, Address { path, query }: &Address) -> Result<Uri, PlayError> {
    let mut parts = url.clone().into_parts();
    let wrong = |problem: String| PlayError::Url {
        url: format!("{url}: {path}"),
        problem,
    };
    let mut target = format!("/{}", percent::encoded(path));
    if let Some(query) = query {
        target = format!("{target}?{query}");
    }
    parts.path_and_query = Some(
        target
            .parse()
            .map_err(|error: hyper::http::uri::InvalidUri| wrong(error.to_string()))?,
    );
    Uri::from_parts(parts).map_err(|error| wrong(error.to_string()))
}

//! What a player says of itself and of what it asks for: Common Media Client Data (CTA-5004).

use hyper::Uri;
use hyper::header::HeaderMap;
use tidegate_limiter::Rate;

use crate::media::PLAUSIBLE;

/// Bytes that are read of it.
const MOST: usize = 2_000;
/// Its headers.
const HEADERS: [&str; 4] = ["cmcd-object", "cmcd-request", "cmcd-session", "cmcd-status"];

/// What a player said, as far as it matters here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cmcd {
    /// Its session (`sid`).
    pub session: Option<String>,
    /// The rate of what it asks for (`br`), in bit/s.
    pub rate: Option<u64>,
    /// The rate of the best representation that it may ask for (`tb`), in bit/s.
    pub best: Option<u64>,
    /// What it asks for (`ot`): `v`, `a` and `av` are video, audio and both.
    pub kind: Option<String>,
    /// It starts, has jumped, or has run out of video: its viewer waits (`su`, `bs`).
    pub waits: bool,
}

impl Cmcd {
    /// Reads it from a request's query and headers. What is not understood is passed over.
    pub fn of(uri: &Uri, headers: &HeaderMap) -> Self {
        let mut read = Self::default();
        let pairs = uri.query().unwrap_or("").split('&');
        let in_query = pairs.filter_map(|pair| pair.strip_prefix("CMCD=")).next();
        if let Some(text) = in_query.filter(|text| text.len() <= MOST)
            && let Some(text) = crate::percent::decoded(text)
        {
            read.take(&String::from_utf8_lossy(&text));
        }
        for name in HEADERS {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            if let Some(text) = value.filter(|text| text.len() <= MOST) {
                read.take(text);
            }
        }
        read
    }

    /// The kind, the rate and the best rate of the video or audio that it asks for, if all are said.
    pub fn media(&self) -> Option<(&str, Rate, Rate)> {
        let kind = self.kind.as_deref()?;
        let (rate, best) = (self.rate?, self.best?);
        let known = matches!(kind, "v" | "a" | "av") && PLAUSIBLE.contains(&rate);
        let best = Rate::from_bits_per_second(best.max(rate));
        known.then_some((kind, Rate::from_bits_per_second(rate), best))
    }

    fn take(&mut self, text: &str) {
        for item in items(text) {
            let (key, value) = item.split_once('=').unwrap_or((item, "true"));
            let kilobits = || value.parse::<u64>().ok()?.checked_mul(1_000);
            let text = || value.strip_prefix('"')?.strip_suffix('"');
            match key.trim() {
                "sid" => self.session = text().map(str::to_owned),
                "br" => self.rate = kilobits(),
                "tb" => self.best = kilobits(),
                "ot" => self.kind = Some(value.to_owned()),
                // `rtp` is passed over. dash.js asks for five times what it needs to fill its buffer once while that plays, so for less the
                // more it has. Sent no more than that, it would measure no more, and never choose a better quality.
                "su" | "bs" => self.waits |= value == "true",
                _ => {}
            }
        }
    }
}

/// The items between commas that are not in quotation marks.
fn items(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |character| {
        quoted ^= character == '"';
        character == ',' && !quoted
    })
}

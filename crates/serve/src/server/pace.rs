//! How fast a file is sent to a viewer.

use std::net::IpAddr;
use std::time::Duration;

use hyper::Uri;
use hyper::header::HeaderMap;
use tidegate_limiter::Rate;
use tidegate_pace::throttled_rate;

use super::config::Config;
use super::files::{Identity, ServedFile};
use super::range::Span;
use super::viewer::Viewer;
use super::viewers::{Key, Viewers};
use crate::adaptive::{Cmcd, Place};

/// A segment that is not of the best representation is sent at this percentage of the next better one's rate, or more. A player changes to that
/// one if it measures 1.11 (dash.js), 1.18 (Shaka), 1.2 (video.js) or 1.43 times its rate (hls.js, ExoPlayer), and its mean still has slower
/// segments in it.
const UPWARDS: u32 = 200;

/// How fast a file is sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Pace {
    /// At full speed.
    Free,
    /// A video in one file with this encoding rate. Its start-up belongs to the connection.
    File(Identity, Rate),
    /// A segment of adaptive video. Its start-up belongs to the viewer's session.
    Segment(SegmentPace),
}

/// How fast a segment is sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SegmentPace {
    pub session: Key,
    /// The rate at which it plays.
    pub rate: Rate,
    /// The rate after the start-up.
    pub throttled: Rate,
    pub place: Option<Place>,
    /// The player says that its viewer waits.
    pub waits: bool,
}

impl Pace {
    /// The pace of a file for the viewer who asks for it.
    pub fn of(
        found: &ServedFile,
        viewers: &Viewers,
        config: &Config,
        address: IpAddr,
        (uri, headers): (&Uri, &HeaderMap),
    ) -> Self {
        let adaptive = found.segment.is_some() || found.rate.is_none() && found.may_be_media;
        if !adaptive {
            return found
                .rate
                .map_or(Self::Free, |rate| Self::File(found.identity, rate));
        }
        let said = Cmcd::of(uri, headers);
        let viewer = Viewer::of(address, (uri, headers), &said, config.session.as_ref());
        let (session, rate, next, place) = match &found.segment {
            Some(known) => {
                let segment = known.segment;
                let session = viewers.key((viewer, &known.manifest, segment.track));
                (session, segment.rate, segment.next, segment.place)
            }
            None => {
                let Some((kind, rate, best)) = said.media() else {
                    return Self::Free;
                };
                // Which manifest it belongs to is unknown: its folder and kind stand for it.
                let folder = uri.path().rsplit_once('/').map(|(folder, _)| folder);
                (viewers.key((viewer, folder, kind)), rate, best, None)
            }
        };
        let percent = match next > rate {
            true => config.throttle_percent.max(UPWARDS),
            false => config.throttle_percent,
        };
        Self::Segment(SegmentPace {
            session,
            rate,
            throttled: throttled_rate(next, u64::from(percent) * 10),
            place,
            waits: said.waits,
        })
    }
}

impl SegmentPace {
    /// Where a part of the file begins in the video; `None` for headers.
    pub fn place(&self, span: Span) -> Option<Duration> {
        match self.place? {
            Place::At(time) => Some(time),
            Place::ByOffset { head } if span.end <= head => None,
            Place::ByOffset { .. } => Some(time_of(self.rate, span.start)),
        }
    }
}

/// How long bytes play.
pub(super) fn time_of(rate: Rate, bytes: u64) -> Duration {
    let nanos = u128::from(bytes) * 8_000_000_000;
    let nanos = nanos.checked_div(u128::from(rate.bits_per_second()));
    Duration::from_nanos(nanos.unwrap_or(0).try_into().unwrap_or(u64::MAX))
}

/// The bytes that play for a time.
pub(super) fn bytes_of(rate: Rate, time: Duration) -> u64 {
    let bytes = u128::from(rate.bits_per_second()).saturating_mul(time.as_nanos()) / 8_000_000_000;
    bytes.try_into().unwrap_or(u64::MAX)
}

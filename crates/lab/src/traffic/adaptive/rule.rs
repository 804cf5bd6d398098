//! How players choose the quality of a segment.
//!
//! The throughput rule takes the highest quality below nine tenths of the throughput, as an average of earlier segments
//! [Spiteri18]. The average is that of dash.js: the smaller of two exponential averages with half-lives of 3 and 8 s,
//! weighted by the time that a segment took from its first bytes on (dash.js 5: by one and a half times that).
//!
//! BOLA takes the quality m with the largest (V (v_m + γ) − Q) / S_m, where Q is the video in the buffer, S_m the rate of
//! the quality and v_m = ln (S_m / S_1) its utility [Spiteri16]. V and γ follow from two buffers, as in dash.js: below
//! the smaller one the lowest quality is best, and from the larger one on the highest. Of BOLA-E [Spiteri18] it has
//! virtual video, which stands for video that the player could not ask for, and the rule of BOLA-O [Spiteri16] that
//! it goes up no further than the throughput allows.
//!
//! `bola-5` is what dash.js 5 (5.2.1, `BolaRule.js`) does with the same V and γ. It leaves out the 1 of γ where it compares
//! qualities (its issue 4301 is about this), so that each is best from V seconds of video less on. Virtual video becomes 1 %
//! less with each segment, is at most what the segment's quality is worth, and is forgotten where little video is left. The
//! player asks for a segment once that fits into the buffer.
//!
//! Spiteri16 is K. Spiteri, R. Urgaonkar, R. K. Sitaraman: BOLA: near-optimal bitrate adaptation for online videos.
//! INFOCOM 2016. Spiteri18 is K. Spiteri, R. Sitaraman, D. Sparacio: From theory to practice: improving bitrate adaptation
//! in the DASH reference player. MMSys 2018.

use tidegate_limiter::Nanos;

use crate::SECOND;
use crate::plan::{AdaptationRule, AdaptivePlan};
use crate::random::{ln, pow};

/// The share of the throughput that a quality may take.
const SAFETY: f64 = 0.9;
/// Half-lives of the averages of throughput in seconds.
const HALF_LIVES: [f64; 2] = [3.0, 8.0];
/// The shortest time that a segment counts for, in seconds: shorter ones say nothing.
const SHORTEST: f64 = 0.001;

/// What dash.js keeps of virtual video after a segment (`PLACEHOLDER_BUFFER_DECAY`).
const KEPT: f64 = 0.99;
/// Seconds of video with which a buffer counts as empty in dash.js (`stallThreshold`).
const EMPTY: f64 = 0.3;

/// A segment that has arrived.
pub struct Fetched {
    /// Without those that are not measured; 0 if none are.
    pub bytes: u64,
    /// In which these arrived.
    pub time: Nanos,
    /// Since it was asked for.
    pub since: Nanos,
    /// The video in the buffer before it.
    pub left: Nanos,
}

/// A player's choice, and what it knows.
#[derive(Debug)]
pub struct Player {
    rates: Vec<f64>,
    initial: f64,
    /// Segments that have to arrive before their throughput counts.
    learning: u32,
    throughput: Throughput,
    bola: Option<Bola>,
    /// Free room that the buffer must have before a segment is asked for.
    room: Nanos,
}

impl Player {
    /// A player that has seen nothing.
    pub fn new(plan: &AdaptivePlan) -> Self {
        let rates: Vec<f64> = plan
            .ladder
            .iter()
            .map(|rate| rate.bits_per_second() as f64)
            .collect();
        let is_bola = plan.rule != AdaptationRule::Throughput && rates.len() > 1;
        Self {
            bola: is_bola.then(|| Bola::new(&rates, plan)),
            throughput: Throughput {
                pace: f64::from(plan.weight) / 1000.0,
                ..Throughput::default()
            },
            initial: plan.initial.bits_per_second() as f64,
            learning: plan.initial_segments,
            // A buffer that holds no segment is filled as soon as there is less in it.
            room: match plan.rule {
                AdaptationRule::Bola5 if plan.buffer > plan.segment => plan.segment,
                _ => 0,
            },
            rates,
        }
    }

    /// A segment has arrived.
    pub fn fetched(&mut self, segment: Fetched) {
        if let Some(bola) = &mut self.bola {
            bola.fetched(seconds(segment.left), seconds(segment.since));
        }
        if segment.bytes > 0 {
            self.throughput.add(segment);
        }
        self.learning = self.learning.saturating_sub(1);
    }

    /// Free room that the buffer must have before a segment is asked for.
    pub fn room(&self) -> Nanos {
        self.room
    }

    /// The quality of the next segment with this video in the buffer, and how long to wait before it is asked for. `idle` is the
    /// time since the last segment arrived, `stalls` how often the buffer has run empty.
    pub fn choose(&mut self, buffer: Nanos, idle: Nanos, stalls: usize) -> (usize, Nanos) {
        let known = self.throughput.average().filter(|_| self.learning == 0);
        let safe = known.map_or(self.initial, |average| average * SAFETY);
        let below = self
            .rates
            .iter()
            .rposition(|&rate| rate <= safe)
            .unwrap_or(0);
        match &mut self.bola {
            None => (below, 0),
            Some(bola) => {
                let (quality, wait) =
                    bola.choose(&self.rates, below, (seconds(buffer), seconds(idle)), stalls);
                (quality, (wait * SECOND as f64) as Nanos)
            }
        }
    }
}

fn seconds(time: Nanos) -> f64 {
    time as f64 / SECOND as f64
}

/// Two exponential averages.
#[derive(Debug, Default)]
struct Throughput {
    estimates: [f64; HALF_LIVES.len()],
    weight: f64,
    /// The weight of a second.
    pace: f64,
}

impl Throughput {
    fn add(&mut self, segment: Fetched) {
        let time = seconds(segment.time).max(SHORTEST);
        let value = segment.bytes as f64 * 8.0 / time;
        let weight = self.pace * time;
        for (estimate, half_life) in self.estimates.iter_mut().zip(HALF_LIVES) {
            let kept = pow(0.5, weight / half_life);
            *estimate = kept * *estimate + (1.0 - kept) * value;
        }
        self.weight += weight;
    }

    /// Bits per second. The averages begin at 0, which is taken out.
    fn average(&self) -> Option<f64> {
        let unbiased = self.estimates.iter().zip(HALF_LIVES);
        let unbiased = unbiased
            .map(|(estimate, half_life)| estimate / (1.0 - pow(0.5, self.weight / half_life)));
        (self.weight > 0.0).then(|| unbiased.fold(f64::INFINITY, f64::min))
    }
}

/// BOLA. Buffers are in seconds.
#[derive(Debug)]
struct Bola {
    /// As dash.js 5 does.
    five: bool,
    utilities: Vec<f64>,
    v: f64,
    gamma: f64,
    segment: f64,
    /// Until there is a segment in the buffer, the throughput decides.
    starting: bool,
    virtual_video: f64,
    last: usize,
    stalls: usize,
}

impl Bola {
    fn new(rates: &[f64], plan: &AdaptivePlan) -> Self {
        let utilities: Vec<f64> = rates.iter().map(|rate| ln(rate / rates[0])).collect();
        // dash.js has 30 s and 10 s.
        let high = seconds(plan.buffer);
        let low = high / 3.0;
        let highest = utilities.last().copied().unwrap_or(0.0);
        // Over all rates S, (V (ln S + γ) − Q) / S is largest where Q = V (ln S + γ − 1): at `low` for the lowest quality, and
        // at `high` for the highest.
        let v = (high - low) / highest;
        Self {
            gamma: 1.0 + low / v,
            v,
            utilities,
            five: plan.rule == AdaptationRule::Bola5,
            segment: seconds(plan.segment),
            starting: true,
            virtual_video: 0.0,
            last: 0,
            stalls: 0,
        }
    }

    /// Virtual video after a segment, with this video left and since this time (dash.js `_checkNewSegment`).
    fn fetched(&mut self, left: f64, since: f64) {
        if !self.five || self.starting {
            return;
        }
        let most = (self.worth(self.last) - left - since).max(0.0);
        self.virtual_video = (KEPT * self.virtual_video).min(most);
        if left <= EMPTY {
            self.virtual_video = 0.0;
        }
    }

    /// The video from which on the player rather waits than to ask for this quality.
    fn worth(&self, quality: usize) -> f64 {
        self.v * (self.utilities[quality] + self.gamma)
    }

    fn choose(
        &mut self,
        rates: &[f64],
        below: usize,
        (buffer, idle): (f64, f64),
        stalls: usize,
    ) -> (usize, f64) {
        if self.starting {
            self.virtual_video = (self.least(rates, below) - buffer).max(0.0);
            self.starting = buffer < self.segment;
            self.last = below;
            return (below, 0.0);
        }
        if stalls > self.stalls {
            self.stalls = stalls;
            self.virtual_video = 0.0;
        }
        self.virtual_video += idle;
        let video = buffer + self.virtual_video;
        let mut quality = self.best(rates, video);
        if quality > self.last && quality > below {
            quality = below.max(self.last);
        }
        self.last = quality;
        // More video than this quality is worth. Virtual video goes first; then the player waits, unless nothing is better.
        let over = (video - self.worth(quality)).max(0.0);
        let taken = over.min(self.virtual_video);
        self.virtual_video -= taken;
        let wait = if quality + 1 < rates.len() {
            over - taken
        } else {
            0.0
        };
        (quality, wait.min(buffer))
    }

    /// The quality with the highest score, the higher one of equals.
    fn best(&self, rates: &[f64], video: f64) -> usize {
        let less = if self.five { self.v } else { 0.0 };
        let score = |quality: usize| (self.worth(quality) - less - video) / rates[quality];
        (0..rates.len()).fold(0, |best, quality| match score(quality) >= score(best) {
            true => quality,
            false => best,
        })
    }

    /// The least video with which this quality is better than all lower ones.
    fn least(&self, rates: &[f64], quality: usize) -> f64 {
        let (u, s) = (self.utilities[quality], rates[quality]);
        let equal = |lower: usize| {
            let (v, r) = (self.utilities[lower], rates[lower]);
            self.v * (self.gamma + (s * v - r * u) / (s - r))
        };
        (0..quality).map(equal).fold(0.0, f64::max)
    }
}

//! What captures of both directions at a server show of a connection.

use std::fs::File;
use std::path::Path;

use anyhow::Result;
use tidegate_trace::annotate::{Metrics, Transfer, burst};
use tidegate_trace::flow::Settings;
use tidegate_trace::read::{Capture, Frame, LinkType, Nanos};
use tidegate_trace::wire;
use tidegate_trace::{Analysis, Options, Sink};

/// The throttling phase as it was on the wire.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Data packets.
    pub sent: u64,
    /// Of these, those that repeat bytes.
    pub retransmitted: u64,
    /// Sizes of bursts in packets.
    pub bursts: Vec<u32>,
    /// Smoothed round trip at the end, ms, as the sender's TCP smooths it.
    pub srtt: f64,
    /// Mean of the phase's round trips, ms: less chance is in it than in the last ones.
    pub mean_rtt: f64,
    /// Payload delivered, and the seconds it took.
    pub delivered: u64,
    pub seconds: f64,
}

struct Frames {
    all: Vec<(Nanos, LinkType, Vec<u8>, u32)>,
}

impl Frames {
    fn add(&mut self, file: &Path) -> Result<()> {
        let mut capture = Capture::new(File::open(file)?)?;
        while let Some(frame) = capture.frame()? {
            self.all
                .push((frame.at, frame.link, frame.data.to_vec(), frame.wire_len));
        }
        Ok(())
    }
}

/// Reads the captures of the way to the client and of the way back. Only what the port sent, and
/// that after this many bytes.
///
/// # Errors
/// If a capture cannot be read.
pub fn read(there: &Path, back: &Path, port: u16, behind: u64) -> Result<Seen> {
    let mut frames = Frames { all: Vec::new() };
    frames.add(there)?;
    frames.add(back)?;
    frames.all.sort_by_key(|&(at, ..)| at);
    let mut analysis = Analysis::new(Options::measuring(Settings::default()));
    let mut phase = Phase {
        behind: behind as i64,
        seen: Seen::default(),
    };
    for (at, link, data, wire_len) in &frames.all {
        let frame = Frame {
            outbound: None,
            at: *at,
            link: *link,
            data,
            wire_len: *wire_len,
        };
        // What else is on the line is not of the video.
        let is_video = wire::decode(&frame)
            .is_ok_and(|packet| packet.src.port() == port || packet.dst.port() == port);
        if is_video {
            analysis.frame(&frame, &mut phase);
        }
    }
    analysis.finish(&mut phase);
    Ok(phase.seen)
}

struct Phase {
    behind: i64,
    seen: Seen,
}

impl Sink for Phase {
    fn transfer(&mut self, transfer: &Transfer<'_>, metrics: &Metrics) {
        // Not the request.
        if metrics.data_packets < 20 {
            return;
        }
        let is_behind =
            |sent: &tidegate_trace::annotate::Sent| transfer.relative(sent) > self.behind;
        let first = transfer.sent.iter().position(is_behind);
        let sent = &transfer.sent[first.unwrap_or(transfer.sent.len())..];
        let seen = &mut self.seen;
        seen.sent += sent.len() as u64;
        seen.retransmitted += sent.iter().filter(|sent| sent.is_retransmission()).count() as u64;
        seen.bursts
            .extend(burst::bursts(sent.iter().map(|sent| sent.at)));
        // RFC 6298 §2, with a sample for each acknowledgement.
        let mut smoothed: Option<f64> = None;
        let mut last = 0;
        let (mut sum, mut samples) = (0.0, 0);
        for (number, packet) in transfer.sent.iter().enumerate() {
            let Some(rtt) = packet.rtt().filter(|_| packet.acked_at != last) else {
                continue;
            };
            last = packet.acked_at;
            let rtt = rtt as f64 / 1e6;
            smoothed = Some(smoothed.map_or(rtt, |smoothed| smoothed + (rtt - smoothed) / 8.0));
            if first.is_some_and(|first| number >= first) {
                sum += rtt;
                samples += 1;
            }
        }
        seen.mean_rtt = sum / f64::from(samples.max(1));
        seen.srtt = smoothed.unwrap_or(seen.srtt);
        let end = sent.iter().map(|sent| sent.acked_at).max().unwrap_or(0);
        let start = sent.first().map_or(0, |sent| sent.at);
        let new = sent.iter().filter(|sent| !sent.is_retransmission());
        seen.delivered += new.map(|sent| u64::from(sent.len)).sum::<u64>();
        seen.seconds += end.saturating_sub(start) as f64 / 1e9;
    }
}

//! What a limiter costs a packet: frames are handed to the bridge as fast as it takes them. The
//! kernel takes a frame from a TAP device through limiter, bridge and the other device within the
//! call that hands it over, so the call's time is the packet's.

use std::time::Instant;

use anyhow::Result;
use tidegate_lab::kernel::namespace::{Namespace, Port};
use tidegate_trace::write::UdpFrame;

use crate::schemes::{Scheme, Settings};

/// Frames in a batch.
const BATCH: usize = 512;
/// Batches of a measurement.
const BATCHES: usize = 200;

/// A bridge between two devices in our hands. What it sends out is not fetched: the device drops
/// it when its queue is full, which takes the same time for all.
struct Bridge {
    middle: Namespace,
    wan: Port,
    lan: Port,
    frames: Vec<Vec<u8>>,
}

impl Bridge {
    fn new(hosts: &[u8]) -> Result<Self> {
        let middle = Namespace::new()?;
        let (wan, lan) = (middle.port("wan")?, middle.port("lan")?);
        middle.bridge("br0", &["wan", "lan"])?;
        let frame = |host: &u8| {
            let src = ([192, 0, 2, 1], 443).into();
            let frame = UdpFrame {
                payload: 1472,
                ..UdpFrame::new(src, ([192, 0, 2, *host], 5000).into())
            };
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            bytes
        };
        Ok(Self {
            wan,
            lan,
            frames: hosts.iter().map(frame).collect(),
            middle,
        })
    }

    /// Nanoseconds of a batch.
    fn batch(&self) -> Result<u64> {
        let began = Instant::now();
        for frame in self.frames.iter().cycle().take(BATCH) {
            self.wan.send(frame)?;
        }
        let elapsed = began.elapsed().as_nanos() as u64;
        // Room for the next: as much work for each scheme as it lets pass, and not counted.
        let mut buffer = [0; 2048];
        while self.lan.receive(&mut buffer)?.is_some() {}
        Ok(elapsed)
    }
}

/// Nanoseconds that a packet takes through the bridge, with this limiter: a fourth of the batches
/// took no longer, since the machine does other things as well.
pub fn of(scheme: Scheme, set: &Settings<'_>) -> Result<f64> {
    let bridge = Bridge::new(set.hosts)?;
    let _kept = scheme.install(&bridge.middle, set)?;
    for _ in 0..BATCHES / 10 {
        bridge.batch()?;
    }
    let mut times = Vec::new();
    for _ in 0..BATCHES {
        times.push(bridge.batch()?);
    }
    times.sort_unstable();
    Ok(times[BATCHES / 4] as f64 / BATCH as f64)
}

//! What a limiter costs a packet: frames are handed to the bridge as fast as it takes them. The
//! kernel takes a frame from a TAP device through limiter, bridge and the other device within the
//! call that hands it over, so the call's time is the packet's.

use std::time::Instant;

use anyhow::Result;
use tidegate_testbed::namespace::{Namespace, Port};
use tidegate_trace::write::{Ends, UdpFrame};

use tidegate_studies::schemes::{Means, Settings};

/// Frames in a batch.
const BATCH: usize = 512;
/// Batches of a measurement, and those before it.
const BATCHES: usize = 400;
const WARM_UP: usize = 40;

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
                ..UdpFrame::new(Ends {
                    src,
                    dst: ([192, 0, 2, *host], 5000).into(),
                })
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

/// What packets take through a bridge, in nanoseconds.
pub struct Cost {
    /// With this limiter.
    pub limited: f64,
    /// Without any, in the same time: batches take turns.
    pub plain: f64,
}

/// What a limiter costs: a fourth of the batches took no longer, since the machine does other
/// things as well.
pub fn of(means: Means, set: &Settings<'_>) -> Result<Cost> {
    let (limited, plain) = (Bridge::new(set.hosts)?, Bridge::new(set.hosts)?);
    let _kept = means.install(&limited.middle, set)?;
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..BATCHES + WARM_UP {
        for (bridge, times) in [&limited, &plain].into_iter().zip(&mut times) {
            let batch = bridge.batch()?;
            if round >= WARM_UP {
                times.push(batch);
            }
        }
    }
    let [limited, plain] = times.map(|mut times| {
        times.sort_unstable();
        times[BATCHES / 4] as f64 / BATCH as f64
    });
    Ok(Cost { limited, plain })
}

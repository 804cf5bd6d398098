//! Lists the lost packets of every transfer, with the time since the transfer's first packet.
//!
//!     cargo run --example losses -- corpus/policed-1500kbit/policed-1500kbit.pcap.xz

use std::error::Error;
use std::fs::File;

use tidegate_trace::annotate::{Metrics, Transfer};
use tidegate_trace::flow::Settings;
use tidegate_trace::{Options, Sink, analyse};

struct Losses;

impl Sink for Losses {
    fn transfer(&mut self, transfer: &Transfer<'_>, metrics: &Metrics) {
        for packet in transfer.sent.iter().filter(|packet| packet.lost()) {
            println!(
                "{} > {}: byte {} lost after {:.6} s",
                transfer.sender,
                transfer.receiver,
                transfer.relative(packet),
                packet.at.saturating_sub(metrics.first_sent) as f64 / 1e9,
            );
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        // Losses need no detector.
        let options = Options::measuring(Settings::default());
        analyse(File::open(&path)?, options, &mut Losses).whole()?;
    }
    Ok(())
}

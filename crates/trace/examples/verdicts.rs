//! Prints what limited each transfer of a capture.
//!
//!     cargo run --example verdicts -- corpus/policed-1500kbit/policed-1500kbit.pcap.xz

use std::error::Error;
use std::fs::File;

use tidegate_trace::annotate::{Layer, TransferSummary};
use tidegate_trace::detect::Judgement;
use tidegate_trace::{Options, Sink, analyse};

/// Prints a line for each transfer with enough packets to say something about it.
struct Table;

impl Sink for Table {
    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        let metrics = &transfer.metrics;
        if metrics.data_packets < 30 {
            return;
        }
        let rate = judgement.policed_rate(&transfer.tally, Layer::Link);
        let rate = rate.map_or(String::new(), |rate| {
            format!(" at {:.2} Mbit/s", rate / 1e6)
        });
        println!(
            "{} > {}: {} packets, {} lost, {}{rate}: {}",
            transfer.sender,
            transfer.receiver,
            metrics.data_packets,
            metrics.lost_packets,
            judgement.cause,
            judgement.reason,
        );
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        let outcome = analyse(File::open(&path)?, Options::default(), &mut Table);
        println!("{path}: {} packets", outcome.counters.frames);
        // What came before an error has been printed already.
        if let Some(error) = outcome.error {
            eprintln!("{path}: {error}");
        }
    }
    Ok(())
}

//! What the explanation of losses costs, on the shared captures.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result};
use tidegate_trace::annotate::{Metrics, Transfer};
use tidegate_trace::detect::Basis;
use tidegate_trace::detect::cause::{Arrival, Towards, explain};
use tidegate_trace::flow::Settings;
use tidegate_trace::{Options, Sink, analyse};

use crate::lab;

/// Time of the processor by what is taken together, in nanoseconds.
#[derive(Debug, Default)]
pub struct Cost {
    captures: usize,
    packets: usize,
    times: BTreeMap<Basis, u64>,
}

impl Cost {
    /// Explains the losses towards each client of every capture in a folder.
    ///
    /// # Errors
    /// A file is missing or cannot be read to its end.
    pub fn of(folder: &Path) -> Result<Self> {
        let mut cost = Self::default();
        for case in lab::cases(folder)? {
            let path = folder.join(&case.file);
            let capture = File::open(&path).with_context(|| path.display().to_string())?;
            let mut clients = Clients::default();
            let options = Options::measuring(Settings::default());
            analyse(capture, options, &mut clients).whole()?;
            cost.captures += 1;
            for mut towards in clients.0.into_values() {
                towards.arrivals.sort_by_key(|arrival| arrival.at);
                cost.add(&towards)?;
            }
        }
        Ok(cost)
    }

    fn add(&mut self, towards: &Towards) -> Result<()> {
        let mut lost_some = false;
        for basis in [Basis::Segment, Basis::Connection, Basis::Client] {
            let began = processor_time()?;
            let explained = explain(towards, basis);
            let took = processor_time()? - began;
            lost_some = explained.iter().any(Option::is_some);
            if lost_some {
                *self.times.entry(basis).or_default() += took;
            }
        }
        if lost_some {
            self.packets += towards.arrivals.len();
        }
        Ok(())
    }
}

/// What this thread has used of processors, in nanoseconds: what others use does not count.
fn processor_time() -> Result<u64> {
    const FILE: &str = "/proc/thread-self/schedstat";
    let text = fs::read_to_string(FILE).context(FILE)?;
    let first = text.split_whitespace().next().context(FILE)?;
    Ok(first.parse()?)
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} captures, {} packets towards clients that lost some",
            self.captures, self.packets
        )?;
        for (basis, time) in &self.times {
            let nanos = *time as f64 / self.packets.max(1) as f64;
            writeln!(f, "by {:<12} {nanos:>8.0} ns a packet", basis.name())?;
        }
        Ok(())
    }
}

/// What went to each client.
#[derive(Default)]
struct Clients(BTreeMap<IpAddr, Towards>);

impl Sink for Clients {
    fn transfer(&mut self, transfer: &Transfer<'_>, _: &Metrics) {
        let towards = self.0.entry(transfer.receiver.ip()).or_default();
        let number = towards.flows.len() as u32;
        towards.flows.push(transfer.flow.number);
        Arrival::add(&mut towards.arrivals, transfer, number, false);
    }
}

//! Sums over transfers.

use tidegate_trace::annotate::{Layer, TransferSummary};
use tidegate_trace::detect::pd::{Answer, Code};
use tidegate_trace::detect::{Cause, Judgement};

/// A transfer with this many losses counts as lossy: PD needs as many. [Flach16 Table 2]
pub const LOSSY: u64 = 15;

/// Sums over transfers and the verdicts on them.
#[derive(Debug, Default)]
pub struct Transfers {
    pub lossy: u64,
    pub policed: u64,
    pub data_packets: u64,
    pub lost_packets: u64,
    pub verdicts: [u64; Cause::ALL.len()],
    pub codes: [u64; Code::ALL.len()],
    /// Rates of policers, as the detector counts them.
    pub rates: Vec<f64>,
    pub layer: Option<Layer>,
}

impl Transfers {
    pub fn add(&mut self, transfer: &TransferSummary, judgement: &Judgement) {
        self.data_packets += transfer.metrics.data_packets;
        self.lost_packets += transfer.metrics.lost_packets;
        self.lossy += u64::from(transfer.metrics.lost_packets >= LOSSY);
        if let Some(answer) = judgement.details::<Answer>() {
            self.codes[usize::from(answer.deciding().code.number())] += 1;
        }
        self.verdicts[judgement.cause as usize] += 1;
        self.policed += u64::from(judgement.is_policed());
        if let Some(limit) = judgement.limit.filter(|_| judgement.is_policed()) {
            self.rates.push(limit.rate_bps.value);
            self.layer = Some(limit.layer);
        }
    }

    pub fn add_all(&mut self, more: &Self) {
        self.lossy += more.lossy;
        self.policed += more.policed;
        self.data_packets += more.data_packets;
        self.lost_packets += more.lost_packets;
        let counts = self.verdicts.iter_mut().chain(&mut self.codes);
        let others = more.verdicts.iter().chain(&more.codes);
        counts.zip(others).for_each(|(sum, more)| *sum += more);
        self.rates.extend(&more.rates);
        self.layer = more.layer.or(self.layer);
    }
}

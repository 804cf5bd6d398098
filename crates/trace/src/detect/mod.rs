//! Detectors: what limited a transfer's rate.
//!
//! A [`Detector`] sees annotated transfers and gives a [`Judgement`] on each, at once or later. It knows
//! nothing of captures, and the annotator knows nothing of it.

pub mod cause;
mod clusters;
mod detector;
mod judgement;
mod order;
pub mod pd;
mod together;

pub use cause::Tidegate;
pub use clusters::{COVERED, Cluster, rate_clusters};
pub use detector::{Detector, Verdicts};
pub use judgement::{
    About, AqmKind, Basis, Burst, Cause, Clue, Details, Estimate, Extent, Judgement, Limit,
    QueueKind, RuledOut, Share, Switch,
};
pub use pd::Pd;
pub use together::Together;

/// A detector by its name.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its name on the command line and in reports.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// The most that it takes together for a judgement.
    pub widest: Basis,
    /// Makes one that takes together what belongs together as far as an extent allows. A detector
    /// whose [`widest`](Self::widest) basis is narrower keeps to that.
    pub make: fn(Extent) -> Box<dyn Detector>,
}

impl Entry {
    /// Makes one that waits for the whole capture, and takes together as much as it can.
    pub fn whole(&self) -> Box<dyn Detector> {
        (self.make)(Extent {
            basis: self.widest,
            causal: false,
        })
    }
}

/// All detectors, the default first. This is the one place where a new detector is named.
pub const DETECTORS: [Entry; 3] = [
    Entry {
        name: "tidegate",
        about: "what limited each transfer, by all that went to the same client",
        widest: Basis::Client,
        make: |extent| {
            let whole = Tidegate::new(extent.basis);
            Box::new(if extent.causal { whole.causal() } else { whole })
        },
    },
    Entry {
        name: "pd",
        about: "the policing detector of Flach et al. 2016, as its authors published it",
        widest: Basis::Segment,
        make: |_| Box::new(Pd::published()),
    },
    Entry {
        name: "pd-paper",
        about: "the same detector, as the paper describes it",
        widest: Basis::Segment,
        make: |_| Box::new(Pd::paper()),
    },
];

/// The detector of that name.
pub fn by_name(name: &str) -> Option<Entry> {
    DETECTORS.into_iter().find(|entry| entry.name == name)
}

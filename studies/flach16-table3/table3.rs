//! Table 3 of [Flach16 §3.1] for the shared captures: how often a detector is right, by what the
//! router was set to.

use std::fmt;

use crate::lab::{Analysed, Chunk, Device, MIN_LOSSES, Original, Truth};

/// The rows of [Flach16, Table 3].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Policing, except what follows.
    A,
    /// Policing with a bucket that allows almost no burst, or at a rate that TCP hardly exceeds.
    B,
    /// Policing of several flows, of which one is seen.
    C,
    /// Congestion under active queue management.
    D,
    /// Congestion with drop-tail, of a single flow, except the least queue.
    E,
    /// Random loss.
    F,
    /// Congestion with drop-tail, of a single flow, with the least queue.
    G,
    /// Congestion with drop-tail, of several flows.
    H,
}

/// The least bucket and the least queue, in bytes.
const LEAST_BURST: u64 = 8_000;
/// The policing rate that the published evaluation counts among the special cases.
const SPECIAL_RATE: f64 = 10e6;

impl Class {
    /// All of them, in the paper's order.
    pub const ALL: [Self; 8] = [
        Self::A,
        Self::B,
        Self::C,
        Self::D,
        Self::E,
        Self::F,
        Self::G,
        Self::H,
    ];

    /// The class of a capture's chunks.
    ///
    /// Several connections through a policer are C, at any rate and bucket: what defines
    /// the class is that the detector sees only some of the tokens' users.
    pub fn of(truth: &Truth) -> Self {
        let least = truth.burst_bytes == Some(LEAST_BURST);
        let several = truth.chunk_connections + truth.iperf_connections > 1;
        match truth.device {
            Device::Policer if several => Self::C,
            Device::Policer if least || truth.rate_bps >= SPECIAL_RATE => Self::B,
            Device::Policer => Self::A,
            Device::Aqm => Self::D,
            Device::Shaper if truth.random_loss_percent > 0.0 => Self::F,
            Device::Shaper if several => Self::H,
            Device::Shaper if least => Self::G,
            Device::Shaper => Self::E,
        }
    }

    /// What the paper calls it.
    pub fn title(self) -> &'static str {
        match self {
            Self::A => "A policing, except B and C",
            Self::B => "B policing, special cases",
            Self::C => "C policing, multiple flows",
            Self::D => "D congestion, AQM",
            Self::E => "E drop-tail, single flow, except G",
            Self::F => "F random loss",
            Self::G => "G drop-tail, single flow, min. queue",
            Self::H => "H drop-tail, multiple flows",
        }
    }

    /// What the paper's Table 3 says, in percent.
    pub fn paper(self) -> f64 {
        match self {
            Self::A => 93.1,
            Self::B => 48.0,
            Self::C => 12.3,
            Self::D | Self::E => 100.0,
            Self::F => 99.7,
            Self::G => 93.2,
            Self::H => 96.9,
        }
    }

    /// Whether what is lost was policed.
    pub fn is_policed(self) -> bool {
        matches!(self, Self::A | Self::B | Self::C)
    }
}

/// Whose answers there are: a name, and whether it finds a policer in a chunk.
type Source = (&'static str, fn(&Original, &Chunk) -> bool);

/// What is held against the truth. Either run's policer counts, as in the paper.
const SOURCES: [Source; 4] = [
    ("original", |original, _| {
        original.runs.iter().any(|run| run.policed)
    }),
    ("pd", |_, chunk| chunk.pd.is_policed()),
    ("pd-paper", |_, chunk| chunk.paper.is_policed()),
    ("pd+lost", |_, chunk| chunk.annotated.is_policed()),
];

/// Chunks of a class, and in how many of them each source finds a policer.
#[derive(Debug, Clone, Default)]
struct Count {
    chunks: usize,
    policed: Vec<usize>,
}

/// The table.
#[derive(Debug)]
pub struct Table3 {
    sources: Vec<&'static str>,
    counts: [Count; Class::ALL.len()],
    /// Chunks with fewer losses, and those of them in which a source finds a policer.
    few: Count,
}

impl Table3 {
    /// Without chunks yet, for the answers of these sources.
    pub fn new(sources: &[&'static str]) -> Self {
        let none = Count {
            chunks: 0,
            policed: vec![0; sources.len()],
        };
        Self {
            sources: sources.to_vec(),
            counts: std::array::from_fn(|_| none.clone()),
            few: none,
        }
    }

    /// Over the chunks of captures that have a published answer.
    pub fn of(all: &[Analysed]) -> Self {
        let mut table = Self::new(&SOURCES.map(|(name, _)| name));
        for capture in all {
            let class = Class::of(&capture.case.truth);
            for chunk in &capture.chunks {
                if let Some(original) = capture.case.original.get(&chunk.segment) {
                    let answers = SOURCES.map(|(_, policed)| policed(original, chunk));
                    table.count(class, original.losses, &answers);
                }
            }
        }
        table
    }

    /// Counts a chunk with this many losses, as the published code counts them, and whether each
    /// source finds a policer in it.
    pub fn count(&mut self, class: Class, losses: u64, policed: &[bool]) {
        let count = if losses < MIN_LOSSES {
            &mut self.few
        } else {
            &mut self.counts[class as usize]
        };
        count.chunks += 1;
        for (count, &policed) in count.policed.iter_mut().zip(policed) {
            *count += usize::from(policed);
        }
    }

    /// How often a source is right over a class, and over how many chunks.
    pub fn right(&self, class: Class, source: usize) -> (usize, usize) {
        let Count { chunks, policed } = &self.counts[class as usize];
        if class.is_policed() {
            (policed[source], *chunks)
        } else {
            (chunks - policed[source], *chunks)
        }
    }

    /// Right and wrong answers of a source over some classes.
    fn sums(&self, source: usize, classes: &dyn Fn(Class) -> bool) -> Sums {
        let mut sums = Sums::default();
        for class in Class::ALL.into_iter().filter(|&class| classes(class)) {
            let count = &self.counts[class as usize];
            let (yes, no) = (count.policed[source], count.chunks - count.policed[source]);
            if class.is_policed() {
                sums.true_positives += yes;
                sums.false_negatives += no;
            } else {
                sums.false_positives += yes;
                sums.true_negatives += no;
            }
        }
        sums
    }
}

/// Right and wrong answers.
#[derive(Debug, Default)]
struct Sums {
    true_positives: usize,
    false_positives: usize,
    true_negatives: usize,
    false_negatives: usize,
}

impl Sums {
    fn chunks(&self) -> usize {
        self.true_positives + self.false_positives + self.true_negatives + self.false_negatives
    }
}

/// A figure's name, and its numerator and denominator.
type Figure = (&'static str, fn(&Sums) -> (usize, usize));

const FIGURES: [Figure; 3] = [
    ("precision", |sums| {
        (
            sums.true_positives,
            sums.true_positives + sums.false_positives,
        )
    }),
    ("recall", |sums| {
        (
            sums.true_positives,
            sums.true_positives + sums.false_negatives,
        )
    }),
    ("accuracy", |sums| {
        (sums.true_positives + sums.true_negatives, sums.chunks())
    }),
];

/// A share, as the tables print it.
pub fn percent(part: usize, all: usize) -> String {
    if all == 0 {
        return "-".into();
    }
    format!("{:.1} %", part as f64 / all as f64 * 100.0)
}

impl fmt::Display for Table3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<36} {:>6} {:>8}", "class", "chunks", "paper")?;
        for name in &self.sources {
            write!(f, " {name:>8}")?;
        }
        writeln!(f)?;
        for class in Class::ALL {
            let count = &self.counts[class as usize];
            let paper = format!("{:.1} %", class.paper());
            write!(f, "{:<36} {:>6} {paper:>8}", class.title(), count.chunks)?;
            for source in 0..self.sources.len() {
                let (right, chunks) = self.right(class, source);
                write!(f, " {:>8}", percent(right, chunks))?;
            }
            writeln!(f)?;
        }
        let all = |_| true;
        let without_c = |class| class != Class::C;
        for (name, classes) in [
            ("A-H", &all as &dyn Fn(Class) -> bool),
            ("without C", &without_c),
        ] {
            let sums: Vec<Sums> = (0..self.sources.len())
                .map(|i| self.sums(i, classes))
                .collect();
            for (figure, share) in FIGURES {
                let chunks = sums[0].chunks();
                write!(
                    f,
                    "{:<36} {chunks:>6} {:>8}",
                    format!("{figure}, {name}"),
                    ""
                )?;
                for sums in &sums {
                    let (right, of) = share(sums);
                    write!(f, " {:>8}", percent(right, of))?;
                }
                writeln!(f)?;
            }
        }
        write!(
            f,
            "{:<36} {:>6} {:>8}",
            format!("policed with under {MIN_LOSSES} losses"),
            self.few.chunks,
            ""
        )?;
        for policed in &self.few.policed {
            write!(f, " {policed:>8}")?;
        }
        writeln!(f)
    }
}

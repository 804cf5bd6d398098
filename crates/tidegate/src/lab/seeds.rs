//! Whether seeds change anything.

use tidegate_lab::experiment::Finished;
use tidegate_lab::outcome::Outcome;

/// Compares the outcomes of the first point's seeds.
#[derive(Default)]
pub struct Seeds {
    /// Outcomes with the first seed.
    first: Option<(u64, Vec<Outcome>)>,
    /// Outcomes with another seed that are the same, and whether one differs.
    same: usize,
    differs: bool,
}

impl Seeds {
    /// Notes a simulation. They come by point, seed and group.
    pub fn note(&mut self, finished: &Finished) {
        if finished.point > 0 || self.differs {
            return;
        }
        let (seed, first) = self.first.get_or_insert((finished.seed, Vec::new()));
        if *seed == finished.seed {
            first.push(finished.outcome.clone());
        } else if first[self.same % first.len()] == finished.outcome {
            self.same += 1;
        } else {
            (self.differs, *first) = (true, Vec::new());
        }
    }

    /// A remark if several seeds gave the same.
    pub fn remark(&self) -> Option<&'static str> {
        (self.same > 0 && !self.differs).then_some(
            "every seed gave the same result: the scenario draws nothing at random, so seeds repeat it. \
             A range such as rtt = \"20ms..60ms\" or start = \"0s..1s\", jitter or random loss differs by seed",
        )
    }
}

//! Whether seeds change anything.

use tidegate_lab::experiment::Finished;
use tidegate_lab::outcome::Outcome;

/// Compares the outcomes of each point's seeds, until one differs.
#[derive(Default)]
pub struct Seeds {
    /// The present point and its first seed, and the outcomes with it.
    first: Option<((usize, u64), Vec<Outcome>)>,
    /// Outcomes of the point with other seeds that are the same.
    same: usize,
    /// Whether any outcome was the same, and whether one differs.
    repeats: bool,
    differs: bool,
}

impl Seeds {
    /// Notes a simulation. They come by point, seed and group.
    pub fn note(&mut self, finished: &Finished) {
        if self.differs {
            return;
        }
        let run = (finished.point, finished.seed);
        let known = self.first.take().filter(|((point, _), _)| *point == run.0);
        let (of, mut outcomes) = known.unwrap_or_else(|| {
            self.same = 0;
            (run, Vec::new())
        });
        if of == run {
            outcomes.push(finished.outcome.clone());
        } else if outcomes[self.same % outcomes.len()] == finished.outcome {
            (self.same, self.repeats) = (self.same + 1, true);
        } else {
            self.differs = true;
            return;
        }
        self.first = Some((of, outcomes));
    }

    /// A remark if several seeds gave the same at every point.
    pub fn remark(&self) -> Option<&'static str> {
        (self.repeats && !self.differs).then_some(
            "every seed gave the same result: the scenario draws nothing at random, so seeds repeat it. \
             A range such as rtt = \"20ms..60ms\" or start = \"0s..1s\", jitter or random loss differs by seed",
        )
    }
}

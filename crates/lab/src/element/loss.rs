//! Random loss.

use crate::random::Random;

#[cfg(test)]
mod tests;

/// Loses packets independently, or in bursts by the model of [Gilbert60] in its simple form: a
/// good state that loses nothing and a bad one that loses everything.
#[derive(Debug)]
pub struct Loss {
    /// Probability of a loss after a packet that arrived.
    after_success: f64,
    /// Probability of a loss after a loss.
    after_loss: f64,
    lost_last: bool,
    random: Random,
}

impl Loss {
    /// Loses this share of all packets, in rows of this average length (at least 1).
    ///
    /// Bursts of mean length b end with probability 1/b. If `probability` of all packets are in
    /// one, they must begin with p / (b (1 − p)). Independent loss uses the same value for both:
    /// bursts of length 1 would forbid two losses in a row.
    pub fn new(probability: f64, burst: f64, random: Random) -> Self {
        let (after_success, after_loss) = if burst <= 1.0 || probability >= 1.0 {
            (probability, probability)
        } else {
            let begin = probability / (burst * (1.0 - probability));
            (begin.min(1.0), 1.0 - 1.0 / burst)
        };
        Self {
            after_success,
            after_loss,
            lost_last: false,
            random,
        }
    }

    /// Whether the next packet is lost.
    pub fn loses(&mut self) -> bool {
        let probability = if self.lost_last {
            self.after_loss
        } else {
            self.after_success
        };
        self.lost_last = self.random.chance(probability);
        self.lost_last
    }
}

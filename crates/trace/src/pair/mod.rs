//! Two captures of the same traffic, taken at two places: what happened between them.
//!
//! 1. [`Gathered`]: a capture's packets, in memory.
//! 2. `streams`, `matching`: which stream and which packet of one capture is which of the other.
//! 3. [`Clocks`]: the captures' clocks, brought together.
//! 4. [`Passage`]: a packet from the first place to the second, and [`StreamReport`]: its stream.
//! 5. [`Way`]: all that goes one way, with the bucket and the queue that explain losses and delays.
//! 6. [`Diagnosis`]: both ways.

mod change;
mod clock;
mod diagnosis;
mod fit;
mod gather;
mod group;
mod joined;
mod likely;
mod matching;
mod passage;
mod position;
mod record;
mod stream;
mod streams;
mod verdict;
mod waiting;
mod way;

#[cfg(test)]
mod tests;

pub use change::{Change, Changes};
pub use clock::Clocks;
pub use diagnosis::Diagnosis;
pub use fit::{Beside, BucketFit, Burst, LEAST_LOSSES, MOST_FITTED};
pub use gather::{Counts, Gathered, MOST_PACKETS};
pub use group::Group;
pub use joined::Order;
pub use passage::{Elsewhere, Fate, Passage};
pub use position::{Position, positions};
pub use stream::{StreamReport, Transit};
pub use verdict::{Between, Fits};
pub use waiting::Waiting;
pub use way::Way;

//! What limited a transfer: a bucket that explains its losses, distinguished from a queue by delay.

mod arrival;
mod bucket;
mod chance;
mod course;
mod delay;
mod departures;
mod evidence;
mod fit;
mod group;
mod interval;
mod lanes;
mod limiter;
mod managed;
mod missed;
mod network;
mod receiver;
mod repair;
mod scope;
mod screen;
mod shift;
mod stamps;
mod starved;
mod step;
mod subject;
mod tidegate;
mod unseen;
mod vector;
mod verdict;

#[cfg(test)]
mod tests;

pub use arrival::Arrival;
pub use bucket::{Bucket, Noise};
pub(crate) use chance::{bursty, uniform};
pub use course::Course;
pub use delay::{Delay, Near, Rank, Slope};
pub use evidence::Findings;
pub(crate) use fit::{Fit, fit_bucket};
pub use group::Group;
pub use interval::Interval;
pub(crate) use interval::{Doubt, intervals};
pub use limiter::{LEAST_LOSSES, Limiter, Losses, Mechanism, Towards, explain};
pub use managed::Managed;
pub use shift::Shift;
pub use stamps::Waited;
pub use tidegate::Tidegate;
pub use unseen::Unseen;

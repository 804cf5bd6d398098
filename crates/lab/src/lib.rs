#![doc = include_str!("../README.md")]

pub mod capacity;
pub mod capture;
mod element;
mod error;
pub mod examples;
pub mod experiment;
mod observer;
pub mod outcome;
mod packet;
pub mod page;
pub mod path;
pub mod plan;
pub mod random;
pub mod record;
pub mod rows;
pub mod scenario;
mod sim;
pub mod summary;
pub mod tcp;
#[cfg(test)]
mod testing;
mod traffic;

pub use error::RunError;
pub use observer::{Observer, SoFar, TappedPacket};
pub use sim::{check, run, run_on};
pub use tidegate_limiter::Nanos;
pub use tidegate_limiter::pacing::playback;

/// A second.
pub const SECOND: Nanos = 1_000_000_000;
/// A millisecond.
pub const MILLISECOND: Nanos = 1_000_000;

//! A network in virtual time, in which real senders meet the limiters of Tidegate.
//!
//! Everything here is deterministic: a [`plan::Plan`] and its seed give the same packets on every
//! machine. Time is passed in, as in [`tidegate_limiter`]; nothing sleeps. The exception is
//! `kernel`, which is there to be compared with.

mod element;
pub mod experiment;
#[cfg(target_os = "linux")]
pub mod kernel;
pub mod outcome;
pub mod plan;
pub mod plot;
pub mod rows;
pub mod scenario;
mod sim;
pub mod summary;
pub mod tcp;
mod traffic;

pub use sim::{RunError, run};
pub use tidegate_limiter::Nanos;
pub use tidegate_limiter::pacing::playback;

/// A second.
pub const SECOND: Nanos = 1_000_000_000;
/// A millisecond.
pub const MILLISECOND: Nanos = 1_000_000;

//! What a rate is, and the home of every limiter that Tidegate enforces rates with.
//!
//! This crate depends on nothing else of the workspace. It holds integers only: no clock (time is
//! passed in), no input or output, no allocation per packet.

mod rate;

pub use rate::{Rate, RateError};

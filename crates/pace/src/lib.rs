#![doc = include_str!("../README.md")]
//!
//! # Where to begin
//!
//! - [`Pacer`] attaches the programs and gives sockets their [`Target`]. [`Stats`] has the counts of a socket, and
//!   [`Hold`] says what bounds its rate at the moment.
//! - [`Writer`] says when a server may write, and how much, for each [`Way`] to pace. It comes from
//!   `tidegate-limiter`, so that the simulator of this project runs the same code.
//! - [`socket`] reads the kernel's counts of any TCP connection.

#[cfg(feature = "clamp")]
mod clamp;
#[cfg(not(feature = "clamp"))]
#[path = "clamp/absent.rs"]
mod clamp;
mod error;
mod fallback;
mod ffi;
mod pacer;
pub mod socket;
mod stats;
mod target;

pub use clamp::cgroup::{CgroupError, own_cgroup};
pub use error::{OpenError, PaceError};
pub use pacer::{Mode, Options, Pacer};
pub use stats::Stats;
pub use target::{Target, TargetError};
pub use tidegate_limiter::pacing::{
    Hold, Packets, Phase, Ready, Settings, Way, Writer, throttled_rate,
};

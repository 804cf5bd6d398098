//! Servers that keep their own rate: Trickle, and the other ways to pace.
//!
//! [`Pace`] bounds the congestion window of sockets, in the kernel; [`Writer`] says when a server may
//! write how much, for each [`Way`].

mod clamp;
mod pacer;
mod sys;
mod writer;

pub use clamp::cgroup::{CgroupError, own_cgroup};
pub use pacer::{Mode, OpenError, Options, Pace, PaceError, State, Stats, Target};
pub use writer::{Phase, Ready, Settings, Way, Writer};

//! Servers that keep their own rate: Trickle, and the other ways to pace.
//!
//! [`Pace`] bounds the congestion window of sockets, in the kernel; [`Writer`] says when a server may
//! write how much, for each [`Way`]; [`server`] is a server that does both, and [`media`] tells it how
//! fast videos play.

mod clamp;
mod ffi;
pub mod media;
mod pacer;
pub mod server;
mod sys;
mod writer;

pub use clamp::cgroup::{CgroupError, own_cgroup};
pub use pacer::{Mode, OpenError, Options, Pace, PaceError, State, Stats, Target};
pub use writer::{Phase, Ready, Settings, Way, Writer};

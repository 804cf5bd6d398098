//! Servers that keep their own rate: Trickle, and the other ways to pace.
//!
//! [`Pace`] bounds the congestion window of sockets, in the kernel; [`Writer`] says when a server may
//! write how much, for each [`Way`]; [`server`] is a server that does both, and [`media`] tells it how
//! fast videos play. How it works, and what it costs: `docs/explanation/pace.md`.
//!
//! ```no_run
//! use std::io::Write;
//! use std::time::{Duration, Instant};
//! use tidegate_pace::{Mode, Pace, Phase, Ready, Target, Way, Writer};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pace = Pace::open();
//! if let Mode::Fallback { why: Some(why) } = pace.mode() {
//!     eprintln!("no clamp: {why}");
//! }
//! # let mut socket = std::net::TcpStream::connect("[::1]:80")?;
//! # let mut video: &[u8] = &[0; 10_000_000];
//! // A video of 2 Mbit/s, its first 35 s at full speed.
//! let mut writer = Writer::new(Way::TRICKLE, 2_000_000, 35 * 250_000);
//! let begin = Instant::now();
//! let now = || begin.elapsed().as_nanos() as u64;
//! let mut paced = false;
//! while !video.is_empty() {
//!     if !paced && writer.phase() == Phase::Throttling {
//!         if let Some(rate) = writer.settings().clamp {
//!             pace.pace(&socket, &Target::new(rate))?;
//!         }
//!         paced = true;
//!     }
//!     let state = if paced { Some(pace.state(&socket)?) } else { None };
//!     match writer.ready(now(), state) {
//!         Ready::Write(bytes) => {
//!             let most = bytes.min(65_536).min(video.len() as u64) as usize;
//!             let wrote = socket.write(&video[..most])?;
//!             writer.wrote(wrote as u64, now());
//!             video = &video[wrote..];
//!         }
//!         Ready::Wait(nanoseconds) => std::thread::sleep(Duration::from_nanos(nanoseconds)),
//!     }
//! }
//! # Ok(())
//! # }
//! ```

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

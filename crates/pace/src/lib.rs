//! Servers that keep their own rate: Trickle, and the other ways to pace.
//!
//! [`Pacer`] bounds the congestion window of sockets, in the kernel; [`Writer`] says when a server may
//! write how much, for each [`Way`]. How it works, and what it costs: `docs/explanation/pace.md`.
//!
//! ```no_run
//! use std::io::Write;
//! use std::time::{Duration, Instant};
//! use tidegate_limiter::{Bytes, Rate};
//! use tidegate_pace::{Mode, Pacer, Phase, Ready, Target, Way, Writer, throttled_rate};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pacer = Pacer::open();
//! if let Mode::Fallback { why: Some(why) } = pacer.mode() {
//!     eprintln!("no clamp: {why}");
//! }
//! # let mut socket = std::net::TcpStream::connect("[::1]:80")?;
//! # let mut video: &[u8] = &[0; 10_000_000];
//! // A video of 2 Mbit/s, its first 35 s at full speed.
//! let rate = throttled_rate(Rate::from_bits_per_second(2_000_000), 1250);
//! let mut writer = Writer::new(Way::TRICKLE, rate, Bytes::new(35 * 250_000));
//! let begin = Instant::now();
//! let now = || begin.elapsed().as_nanos() as u64;
//! let mut paced = false;
//! while !video.is_empty() {
//!     if !paced && writer.phase() == Phase::Throttling {
//!         if let Some(rate) = writer.settings().clamp {
//!             pacer.pace(&socket, &Target::new(rate))?;
//!         }
//!         paced = true;
//!     }
//!     let hold = if paced { Some(pacer.hold(&socket)?) } else { None };
//!     match writer.ready(now(), hold) {
//!         Ready::Write(bytes) => {
//!             let most = bytes.min(65_536).min(video.len() as u64) as usize;
//!             let wrote = socket.write(&video[..most])?;
//!             writer.wrote(Bytes::new(wrote as u64), now());
//!             video = &video[wrote..];
//!         }
//!         Ready::Wait(nanoseconds) => std::thread::sleep(Duration::from_nanos(nanoseconds)),
//!     }
//! }
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "clamp")]
mod clamp;
#[cfg(not(feature = "clamp"))]
#[path = "clamp/absent.rs"]
mod clamp;
mod ffi;
mod pacer;
pub mod socket;

pub use clamp::cgroup::{CgroupError, own_cgroup};
pub use pacer::{Mode, OpenError, Options, PaceError, Pacer, Stats, Target};
pub use tidegate_limiter::pacing::{Hold, Phase, Ready, Settings, Way, Writer, throttled_rate};

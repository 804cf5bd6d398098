//! Captures: pcap and pcapng, plain or compressed, to frames.
//!
//! One pass over any [`Read`](std::io::Read), with one buffer that never holds more than the largest
//! record a sane capture can have. What a file says of its own lengths is never believed before it
//! is checked: input is hostile.

mod capture;
mod clients;
mod decompress;
mod error;
mod frame;
mod link;
mod pcap;
mod pcapng;
mod sampled;
mod source;
#[cfg(all(feature = "zstd-rust", not(feature = "zstd")))]
mod zstd;

#[cfg(test)]
mod tests;

pub use capture::Capture;
pub use clients::Clients;
pub use error::{ReadError, Reason};
pub use frame::{Frame, Nanos, PassedOver};
pub use link::LinkType;
pub use sampled::{LEAST_SHARE, Sampled};

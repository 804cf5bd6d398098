//! How a server of progressive video keeps a rate [Trickle §2]: the ways to pace, when a server may write how much,
//! and what a viewer sees of it.

pub mod playback;
mod way;
mod writer;

pub use way::{Way, WayError};
pub use writer::{Hold, Phase, Ready, Settings, Writer};

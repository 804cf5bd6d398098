//! What is said of a transfer of a capture, and of two captures together, in words and numbers. The command line and the page in the browser
//! say it with this code.
//!
//! [`account`] keeps what is needed of a capture. [`headline`], [`advice`] and [`blind`] say what limited the transfer, what to do, and
//! what the capture cannot show. [`model`] replays the fitted limiter. [`explanation`] is all of it for programs.
//! [`between`] says what two captures of the same traffic show.
//! With the feature `picture`, `picture` draws it.

pub mod account;
pub mod advice;
pub mod between;
pub mod blind;
pub mod brief;
pub mod explanation;
pub mod headline;
pub mod model;
#[cfg(feature = "picture")]
pub mod picture;
pub mod remarks;
mod series;
pub mod units;
pub mod words;

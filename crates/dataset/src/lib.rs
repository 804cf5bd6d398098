#![doc = include_str!("../README.md")]

mod catalogue;
mod content;
mod dataset;
mod draft;
mod entry;
mod error;
mod hour;
mod network;
mod origin;
mod shares;
mod staged;

pub use content::{Content, Piece};
pub use dataset::{Claim, Dataset};
pub use draft::Draft;
pub use entry::{Given, Held, Overlap, Report};
pub use error::{Error, VERSION};
pub use network::{Network, Networks};
pub use origin::Origin;
pub use shares::Shares;

#[cfg(test)]
mod tests;

//! What the page asks of the engine.
//!
//! The page sends a [`Request`] and gets a [`Reply`]: text in JSON, or numbers. [`Desk`] answers. In the browser it is compiled to
//! WebAssembly and runs in a worker, so that a capture never leaves the machine; `tidegate web` runs it natively. One
//! transfer is held packet by packet at a time. All others are lines of a table.

mod acks;
mod between;
mod complete;
mod csv;
mod curve;
mod desk;
mod files;
mod lab;
mod line;
mod outline;
mod panel;
mod peaks;
mod picture;
mod reading;
mod request;
mod sizes;
mod summary;
mod table;
mod turn;

#[cfg(target_arch = "wasm32")]
mod bindings;

pub use desk::{Desk, Reply};
pub use files::{Files, Live};
pub use request::Request;

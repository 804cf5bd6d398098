#![doc = include_str!("../README.md")]
//!
//! # Where to look
//! - [`change`] finds the smallest set of changes between a file and a running gate, and a [`DataPath`]
//!   makes them.
//! - [`config`]: the file and its errors. [`limits`]: what a plan may be.
//! - [`Gate`]: the running gate, and how it survives crashes of its process.
//! - [`control`]: one trait for a gate that this process holds, watches or shares; commands, daemons
//!   and metrics use it. [`reading`] has the values that they read.
//! - [`table`]: the terms that all parts share, such as [`Direction`] and [`Counters`].

pub mod binding;
pub mod calendar;
pub mod change;
mod claimed;
pub mod config;
pub mod control;
#[cfg(feature = "dpdk")]
mod dpdk;
pub mod flow;
mod gate;
mod kernel;
pub mod limits;
pub mod line;
pub mod live;
mod look;
mod maps;
pub mod matches;
mod memory;
pub mod nodes;
pub mod pair;
mod path;
pub mod quality;
pub mod radius;
pub mod reading;
mod room;
pub mod state;
mod subscriber;
pub mod table;
mod templates;
#[cfg(test)]
mod testing;
pub mod usage;

pub use config::{Config, ConfigErrors};
#[cfg(feature = "dpdk")]
pub use dpdk::{Device, Devices, Dpdk, DpdkError, measure};
pub use gate::{Folders, Gate, GateError, Link, Missing, Report, Setting, View};
pub use kernel::{Footprint, Kernel, KernelError};
pub use matches::MatchError;
pub use memory::Memory;
pub use path::DataPath;
pub use subscriber::Declaration;
pub use table::{Counters, Direction, PerDirection};
pub use templates::Templates;

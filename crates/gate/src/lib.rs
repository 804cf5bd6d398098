//! Limits the rates of thousands of subscribers in the Linux kernel, as one TOML file says.
//!
//! A [`Config`] is what an operator wrote, checked. A [`Gate`] is what runs. Between the two is
//! [`change`], which finds the smallest set of changes, and [`DataPath`], which makes them: the eBPF
//! programs of [`Kernel`], or [`Memory`] for tests. The limits outlive the process, and the next
//! process takes them over.
//!
//! # Example
//! This gate is in memory. It limits nothing, and needs no privileges. With
//! [`Kernel`] in place of [`Memory`] it limits the packets of `eth1`.
//!
//! ```
//! use std::path::Path;
//! use tidegate_gate::{Config, Gate, Memory, Setting};
//!
//! let folder = tempfile::tempdir()?;
//! let file = format!(
//!     r#"
//!     pins = "{0}/pins"
//!     state = "{0}/state"
//!     [[interface]]
//!     name = "eth1"
//!     side = "core"
//!     [plan.gold]
//!     down = "50mbit"
//!     up = "10mbit"
//!     [[subscriber]]
//!     name = "alice"
//!     plan = "gold"
//!     addresses = ["192.0.2.1", "2001:db8::/56"]
//!     "#,
//!     folder.path().display()
//! );
//! let no_imports = |_: &Path| Err("there are no other files".to_owned());
//! let config = Config::parse(Path::new("gate.toml"), file, &no_imports)?;
//!
//! let (mut gate, report) = Gate::<Memory>::up(&config)?;
//! assert_eq!(report.added, ["alice"]);
//!
//! // Another rate until it is reset, or until the file changes the subscriber.
//! let setting = Setting { down: Some(20_000_000), ..Setting::default() };
//! gate.set("alice", &setting)?;
//! let alice = gate.subscriber("alice")?;
//! assert_eq!(alice.limits.down.rate, Some(20_000_000));
//! assert_eq!(alice.limits.up.rate, Some(10_000_000));
//!
//! // Dropping a gate leaves it up. This removes it.
//! gate.down()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to look
//! - [`config`]: the file and its errors. [`limits`]: what a plan may be.
//! - [`gate`]: the running gate, and how it survives crashes of its process.
//! - [`control`]: one trait over a gate that this process holds, watches or shares, for commands,
//!   daemons and metrics. [`reading`] is what they read.
//! - [`table`]: the terms that all parts share, such as [`Direction`] and [`Counters`].

pub mod change;
pub mod config;
pub mod control;
pub mod gate;
pub mod kernel;
pub mod limits;
mod matches;
pub mod memory;
pub mod path;
pub mod reading;
mod room;
pub mod state;
pub mod subscriber;
pub mod table;
#[cfg(test)]
mod testing;

pub use config::{Config, ConfigErrors};
pub use gate::{Folders, Gate, GateError, Report, Setting, View};
pub use kernel::Kernel;
pub use matches::MatchError;
pub use memory::Memory;
pub use path::DataPath;
pub use table::{Counters, Direction, PerDirection};

//! How Tidegate's files are read: the gate's configuration and the lab's scenarios.
//!
//! [`parse`] makes a tree of [`Node`]s that know their [`Place`]s. [`Fields`] is a table whose keys are
//! declared. Nodes are read as values of a type:
//!
//! ```
//! use tidegate_notation::{Position, parse, position, quantity};
//!
//! let text = "rate = \"10mbit\"\nburst = \"32kb\"";
//! let table = parse(0, text).expect("TOML");
//! let rate = table.get("rate").expect("there").quantity("rate", quantity::rate);
//! assert_eq!(rate, Ok(10_000_000));
//! let burst = table.get("burst").expect("there").quantity("burst", quantity::bytes);
//! let mistake = burst.expect_err("kilobits");
//! assert!(mistake.message.starts_with("`burst`: '32kb' has no known unit of size"));
//! assert_eq!(position(text, mistake.place.byte), Position { line: 2, column: 9 });
//! ```
//!
//! Each reader returns the [`Mistake`] that it finds. The lab stops at the first; the gate collects all
//! of them. On top of these, [`policy`], [`rule`] and [`burst_control`] read the keys of limiters, which are
//! the same in both kinds of files, and [`quantity`] reads rates, sizes and times. A [`Section`] describes the keys of a
//! table once, for checks and documentation.

pub mod burst_control;
mod fields;
mod keys;
mod mistake;
mod node;
pub mod policy;
pub mod quantity;
pub mod rule;
mod tree;

pub use fields::{Fields, tables};
pub use keys::{Key, Section, markdown};
pub use mistake::{Mistake, Place, Position, clean, instead, position};
pub use tree::{KeyNode, Node, Table, Value, parse, parse_value};

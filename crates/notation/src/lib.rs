//! What the files that people write for Tidegate have in common: the gate's configuration and the
//! lab's scenarios.
//!
//! [`parse`] makes a tree of [`Node`]s that know their [`Place`]s. [`Fields`] is a table whose keys are
//! known; nodes are read as values of a type. Each reader returns the [`Mistake`] that it finds: the
//! lab stops at the first, the gate collects all of them. On top of these, [`policy`], [`rule`] and
//! [`burst_control`] read what both kinds of files say about limiters, and [`quantity`] reads rates,
//! sizes and times. A [`Section`] describes the keys of a table once, for checks and documentation.

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
pub use mistake::{Mistake, clean, instead, position};
pub use tree::{KeyNode, Node, Place, Table, Value, parse, parse_value};

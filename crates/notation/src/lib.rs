//! What the files that people write have in common, those of the gate and the lab's scenarios: keys
//! that are described once, quantities, match rules, and how mistakes are told. How a file is read
//! is each reader's own: a gate tells all mistakes, and a scenario's values move about in sweeps.

mod keys;
mod mistake;
pub mod quantity;
pub mod rule;

pub use keys::{Key, Section, markdown};
pub use mistake::{clean, instead, position};

//! The limiter that an operator runs: rates of thousands of subscribers, enforced in the kernel.
//!
//! [`config::Config`] is what the operator wrote, [`gate::Gate`] what runs. Between them is
//! [`change`], which finds the least that has to be done, and [`path::DataPath`], which does it: the
//! kernel, or memory for tests.

pub mod change;
pub mod config;
pub mod control;
pub mod gate;
pub mod kernel;
pub mod limits;
pub mod matches;
pub mod memory;
pub mod path;
pub mod reading;
mod room;
pub mod state;
pub mod table;
#[cfg(test)]
mod testing;

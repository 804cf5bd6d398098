//! How often verdicts are right: on captures of a real router, and in the lab.

pub mod captures;
pub mod cost;
pub mod kernel;
mod kinds;
mod limits;
pub mod matrix;
pub mod pairs;
mod policers;
mod shapers;
pub mod transfers;
mod truth;

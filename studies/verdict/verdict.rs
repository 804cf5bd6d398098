//! How often verdicts are right: on captures of a real router, and in the lab.

pub mod captures;
pub mod cost;
pub mod kernel;
mod kinds;
pub mod matrix;
pub mod pairs;
mod queues;
mod shapers;
pub mod transfers;
mod truth;

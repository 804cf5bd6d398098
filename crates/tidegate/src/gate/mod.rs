//! `tidegate gate`: what the operator touches.

mod api;
mod control;
mod daemon;
mod desk;
mod metrics;
mod reading;
#[cfg(test)]
mod testing;
mod top;
mod view;

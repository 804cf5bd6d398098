//! `tidegate gate`: what the operator touches.

mod api;
mod check;
mod control;
mod daemon;
mod desk;
mod logs;
mod metrics;
mod notify;
mod reading;
mod status;
#[cfg(test)]
mod testing;
mod top;
mod view;

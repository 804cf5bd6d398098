//! The gate at work, in network namespaces: on real TCP, before frames made by hand, through reloads
//! and sudden deaths, and as its how-to page has it. As root; one at a time, in real time: 6 minutes.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failure is to end the test")]

mod boost;
#[cfg(feature = "dpdk")]
mod dpdk;
mod ecn;
mod felt;
mod flood;
mod frames;
mod life;
mod nodes;
mod pair;
mod readme;
mod support;
mod tcp;

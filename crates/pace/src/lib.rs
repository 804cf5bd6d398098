//! Servers that keep their own rate: Trickle, and the other ways to pace.

pub mod media;
pub mod server;

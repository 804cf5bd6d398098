//! The limiter that an operator runs: rates of thousands of subscribers, enforced in the kernel.

pub mod kernel;
pub mod table;

//! What must hold for any bytes: the bodies of the fuzz targets.
//!
//! Each takes bytes and panics if something that must hold does not. The fuzzer calls them by way
//! of `fuzz_targets/`; `cargo test` replays the kept corpus through them, without the fuzzer, by
//! way of `crates/tidegate/tests/fuzz_corpus.rs`, which includes this file. So it uses nothing
//! but the crates under test.

mod capture;
mod files;
mod limiter;
mod page;
mod pair;
mod router;
mod video;

pub use capture::{analyse, packets, rate, read, wire};
pub use files::{gate, scenario};
pub use limiter::phantom;
pub use page::har;
pub use pair::pair;
pub use router::router;
pub use video::media;

//! The memory that the library and the kernel's side share: the constants and structures of
//! `bpf/pace.h`. `build/wire.rs` generates the Rust code.

// The program keeps more of a socket than the library reads.
#![allow(dead_code)]

include!(concat!(env!("OUT_DIR"), "/wire.rs"));

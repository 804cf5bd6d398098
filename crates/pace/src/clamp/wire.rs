//! What the library and the kernel's side share: the constants and structures of `bpf/pace.h`, of which
//! `build/wire.rs` makes Rust.

// The program keeps more of a socket than the library reads.
#![allow(dead_code)]

include!(concat!(env!("OUT_DIR"), "/wire.rs"));

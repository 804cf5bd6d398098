//! Compiles the kernel's side with clang, and generates Rust code for the structures that it shares
//! with the library.

#[cfg(feature = "clamp")]
mod clang;
mod wire;

use std::fs;
use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    // This number is the version of the C interface.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtidegate_pace.so.0");
    let header = wire::PROGRAM.read();
    let structures = wire::structures(&wire::PROGRAM, &header);
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    #[cfg(feature = "clamp")]
    {
        clang::compile_all();
        wire::check(&structures, &Path::new(&out).join("pace.bpf.o"));
    }
    let text = wire::generate(&wire::PROGRAM, &header, &structures);
    let write = |name: &str, text: String| {
        fs::write(Path::new(&out).join(name), text).expect("OUT_DIR can be written");
    };
    write("wire.rs", text);
    write("header.rs", wire::mirror(&wire::LIBRARY));
}

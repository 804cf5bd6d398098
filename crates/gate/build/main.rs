//! Compiles the kernel's side with clang, and generates from `bpf/types.h` the layout of the memory
//! that both sides share.

mod clang;
mod dpdk;
mod layout;

use std::fs;
use std::path::Path;

fn main() {
    clang::compile_all();
    // Tests compile the same headers for user space.
    let libbpf = clang::variable("DEP_BPF_INCLUDE");
    println!("cargo:rustc-env=LIBBPF_INCLUDE={libbpf}");
    let out = clang::variable("OUT_DIR");
    let out = Path::new(&out);
    if std::env::var_os("CARGO_FEATURE_DPDK").is_some() {
        dpdk::compile(&libbpf, &out.to_string_lossy());
    }
    let generated = layout::generate(&out.join("layout.bpf.o"));
    write(&out.join("layout.rs"), &generated);
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

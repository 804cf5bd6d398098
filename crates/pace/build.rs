//! Compiles the kernel's side with clang.

use std::env;
use std::path::PathBuf;

fn main() {
    let variable = |name| env::var(name).expect("set by cargo");
    let object = PathBuf::from(variable("OUT_DIR")).join("pace.bpf.o");
    println!("cargo:rerun-if-changed=bpf");
    // libbpf's own headers, as its crate carries them, and the C library's for this machine, which
    // clang does not look for when it compiles for another.
    let libbpf = variable("DEP_BPF_INCLUDE");
    let system = format!(
        "/usr/include/{}-linux-gnu",
        variable("CARGO_CFG_TARGET_ARCH")
    );
    let built = libbpf_cargo::SkeletonBuilder::new()
        .source("bpf/pace.bpf.c")
        .obj(&object)
        .clang_args(["-I", &libbpf, "-I", &system, "-Wall", "-Werror"])
        .build();
    if let Err(error) = built {
        panic!("bpf/pace.bpf.c: {error:?}");
    }
}

//! Compiles the kernel's side with clang, to be embedded, and what it is measured by.

use std::env;
use std::path::PathBuf;

fn main() {
    let variable = |name| env::var(name).expect("set by cargo");
    let out = PathBuf::from(variable("OUT_DIR"));
    println!("cargo:rerun-if-changed=bpf");
    // libbpf's own headers, as its crate carries them, and the C library's for this machine, which
    // clang does not look for when it compiles for another.
    let libbpf = variable("DEP_BPF_INCLUDE");
    println!("cargo:rustc-env=LIBBPF_INCLUDE={libbpf}");
    let system = format!(
        "/usr/include/{}-linux-gnu",
        variable("CARGO_CFG_TARGET_ARCH")
    );
    for name in ["gate", "bench"] {
        let source = format!("bpf/{name}.bpf.c");
        let built = libbpf_cargo::SkeletonBuilder::new()
            .source(&source)
            .obj(out.join(format!("{name}.bpf.o")))
            .clang_args(["-mcpu=v3", "-I", &libbpf, "-I", &system, "-Wall", "-Werror"])
            .build();
        if let Err(error) = built {
            panic!("{source}: {error:?}");
        }
    }
}

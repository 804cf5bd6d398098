//! Compiles the kernel's side with clang, and generates from `bpf/types.h` how what both sides hold
//! lies in memory.

mod layout;

use std::path::{Path, PathBuf};
use std::{env, fs};

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
    for name in ["gate", "bench", "layout"] {
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
    let generated = layout::generate(&out.join("layout.bpf.o"));
    write(&out.join("layout.rs"), &generated);
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

//! Compiles programs for the kernel, `bpf/*.bpf.c`, with clang. They are embedded in the library.
//!
//! The file of this name in `crates/pace` is a link to the one in `crates/gate`.

use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::{env, fs};

/// A variable that cargo sets.
pub fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

/// Compiles every program of the crate to an object in `OUT_DIR`.
pub fn compile_all() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    let mut sources: Vec<PathBuf> = fs::read_dir("bpf")
        .expect("the folder bpf is in the crate")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.to_string_lossy().ends_with(".bpf.c"))
        .collect();
    sources.sort();
    for source in sources {
        compile(&source);
    }
}

fn compile(source: &Path) {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    // libbpf's own headers, as its crate carries them, and the C library's for this machine, which
    // clang does not look for when it compiles for another.
    let libbpf = variable("DEP_BPF_INCLUDE");
    let system = format!(
        "/usr/include/{}-linux-gnu",
        variable("CARGO_CFG_TARGET_ARCH")
    );
    let name = source.file_name().expect("a file");
    let object = Path::new(&variable("OUT_DIR"))
        .join(name)
        .with_extension("o");
    let output = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-fno-stack-protector"])
        // A queue of the gate is also reached as a child of its node, by another type.
        .arg("-fno-strict-aliasing")
        .args(["-Wall", "-Werror"])
        // The kernel wants the types (BTF), which clang takes from debug information. No folder of this machine gets
        // into them, so that two builds are the same.
        .args(["-g", "-fdebug-compilation-dir=."])
        .arg(format!("-fdebug-prefix-map={libbpf}=libbpf"))
        .args(["-I", &libbpf, "-I", &system, "-c"])
        .arg(source)
        .arg("-o")
        .arg(&object)
        .output();
    let file = source.display();
    match output {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            let remedy = if text.contains("file not found") {
                ". Headers of the kernel or the C library are missing. Install them and build again \
                 (Debian and Ubuntu: apt-get install libc6-dev linux-libc-dev)"
            } else {
                ""
            };
            fail(&format!("{clang} cannot compile {file}{remedy}:\n{text}"));
        }
        Err(error) => fail(&format!(
            "{clang} does not start: {error}. It compiles {file}, which runs in the kernel.\n\
             Install clang 14 or later (Debian and Ubuntu: apt-get install clang libelf-dev zlib1g-dev \
             pkg-config), or name it in the environment variable CLANG.\n\
             To build tidegate without what needs it (the gate, the sampler, and the clamp of servers):\n\
             cargo install --locked --path crates/tidegate --no-default-features --features serve"
        )),
    }
}

/// Ends the build with a message alone. A panic would put its place and a backtrace around it.
pub fn fail(message: &str) -> ! {
    for line in message.lines() {
        println!("cargo:warning={line}");
    }
    process::exit(1);
}

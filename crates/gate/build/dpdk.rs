//! Compiles the C code of the data path on DPDK, `dpdk/gate.c`, which includes the headers of the kernel's programs.

use std::env;
use std::process::Command;

/// Compiles it to a static library in `OUT_DIR`, and links it with DPDK.
pub fn compile(libbpf: &str, out: &str) {
    println!("cargo:rerun-if-changed=dpdk");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let flags = run(Command::new("pkg-config").args(["--cflags", "libdpdk >= 22.11"]));
    let (object, library) = (format!("{out}/dpdk.o"), format!("{out}/libtidegate_dpdk.a"));
    run(Command::new(clang)
        .args([
            "-O3",
            // As the kernel's programs, see clang.rs.
            "-fno-strict-aliasing",
            "-g1",
            "-fPIC",
            "-Wall",
            "-Werror",
            "-fdebug-compilation-dir=.",
        ])
        .args(flags.split_whitespace())
        .args([
            "-I",
            libbpf,
            "-I",
            "bpf",
            "-I",
            "dpdk",
            "-c",
            "dpdk/gate.c",
            "-o",
            &object,
        ]));
    // The names of the kernel's maps and functions stay inside.
    run(Command::new("objcopy").args(["-w", "--keep-global-symbol=tidegate_dpdk_*", &object]));
    let _ = std::fs::remove_file(&library);
    run(Command::new("ar").args(["crs", &library, &object]));
    println!("cargo:rustc-link-search=native={out}");
    println!("cargo:rustc-link-lib=static=tidegate_dpdk");
    let libraries = run(Command::new("pkg-config").args(["--libs-only-L", "libdpdk"]));
    for folder in libraries.split_whitespace() {
        println!(
            "cargo:rustc-link-search=native={}",
            folder.trim_start_matches("-L")
        );
    }
    for library in [
        "rte_eal",
        "rte_ethdev",
        "rte_mbuf",
        "rte_mempool",
        "rte_ring",
    ] {
        println!("cargo:rustc-link-lib={library}");
    }
}

/// The output of a command, which must succeed.
fn run(command: &mut Command) -> String {
    let name = command.get_program().to_string_lossy().into_owned();
    let remedy = "The feature `dpdk` needs DPDK 22.11 or later, clang, binutils and pkg-config: packaging/setup dpdk \
                  installs them (Debian and Ubuntu: apt-get install libdpdk-dev clang binutils pkg-config)";
    match command.output() {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).into_owned()
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            crate::clang::fail(&format!("{name} fails:\n{said}\n{remedy}"))
        }
        Err(error) => crate::clang::fail(&format!("{name} does not start: {error}. {remedy}")),
    }
}

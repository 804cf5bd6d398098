//! Compiles the kernel's side with clang.

mod clang;

fn main() {
    if std::env::var_os("CARGO_FEATURE_CLAMP").is_some() {
        clang::compile_all();
    }
}

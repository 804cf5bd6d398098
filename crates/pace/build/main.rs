//! Compiles the kernel's side with clang.

mod clang;

fn main() {
    clang::compile_all();
}

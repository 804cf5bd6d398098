//! Compiles the filter that runs in the kernel with clang.

mod clang;

fn main() {
    clang::compile_all();
}

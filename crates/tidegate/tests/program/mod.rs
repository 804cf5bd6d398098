//! The program that is tested, as its users start it: no colours asked for, nothing to read.

use std::process::{Command, Output, Stdio};

pub fn tidegate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command
        .args(arguments)
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::null());
    command
}

/// Its exit code, and what it wrote to standard output and standard error.
pub fn run(arguments: &[&str]) -> (i32, String, String) {
    parts(&tidegate(arguments).output().expect("tidegate runs"))
}

pub fn parts(output: &Output) -> (i32, String, String) {
    (
        output.status.code().expect("an exit code"),
        String::from_utf8(output.stdout.clone()).expect("text"),
        String::from_utf8(output.stderr.clone()).expect("text"),
    )
}

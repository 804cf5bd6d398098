use clap::CommandFactory;

use crate::cli::Cli;

/// clap wraps longer lines, and leaves a word on a line.
const COLUMNS: usize = 100;

fn too_long(command: &clap::Command, found: &mut Vec<String>) {
    let texts = [command.get_after_help(), command.get_after_long_help()];
    for text in texts.into_iter().flatten() {
        let text = text.to_string();
        let lines = text.lines().filter(|line| line.chars().count() > COLUMNS);
        found.extend(lines.map(|line| format!("{}: {line}", command.get_name())));
    }
    for inner in command.get_subcommands() {
        too_long(inner, found);
    }
}

#[test]
fn texts_below_the_options_need_no_other_line_breaks() {
    let mut found = Vec::new();
    let all = Cli::command();
    too_long(all.find_subcommand("gate").expect("there"), &mut found);
    assert!(found.is_empty(), "{found:#?}");
}

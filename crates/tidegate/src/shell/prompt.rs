//! The prompt of bash, which shows the elements of the shell.

use std::ffi::{OsStr, OsString};

/// What bash runs before a prompt. Others have more of it: the user's environment, and files that bash reads.
pub const COMMAND: &str = "PROMPT_COMMAND";
/// What changes the prompt, once, after bash has read its files. Those set the prompt.
pub const CHANGE: &str = "TIDEGATE_PROMPT";
/// Without a change, this does nothing. The change cannot be here, for it would have to find itself to remove itself.
const RUN: &str = r#"eval "${TIDEGATE_PROMPT-}""#;

/// The value of [`COMMAND`], before what it is in this process.
pub fn command(inherited: Option<&OsStr>) -> OsString {
    let mut all = OsString::from(RUN);
    if let Some(inherited) = inherited.filter(|text| !text.is_empty()) {
        all.push(";");
        all.push(inherited);
    }
    all
}

/// The value of [`CHANGE`].
pub fn change(text: &str) -> String {
    // The prompt is expanded, so that only these characters stand for themselves.
    let plain = |c: char| c.is_ascii_alphanumeric() || " .-_".contains(c);
    let text = if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        "tidegate"
    };
    // Only what is ours is removed, wherever other commands were added. Of an array this is the first one, which came from the
    // environment.
    let remove = |what: &str| format!("{COMMAND}=${{{COMMAND}/'{what}'/}}");
    let removed = [remove(&format!("{RUN};")), remove(RUN)].join("; ");
    format!(r#"PS1="[{text}] $PS1"; {removed}; unset {CHANGE}"#)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    /// What bash shows at three prompts, and what it runs before them at the end.
    fn shown(inherited: Option<&str>, file: &str) -> (String, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let rc = folder.path().join("bashrc");
        std::fs::write(&rc, format!("PS1='at> '\n{file}\n")).expect("written");
        let mut bash = Command::new("bash")
            .args(["--noprofile", "--rcfile"])
            .arg(&rc)
            .arg("-i")
            .env(COMMAND, command(inherited.map(OsStr::new)))
            .env(CHANGE, change("delay 25ms"))
            .env("TERM", "dumb")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("bash starts");
        let mut stdin = bash.stdin.take().expect("a pipe");
        let list = "true\ntrue\nprintf '%s|' \"${PROMPT_COMMAND[@]}\"; echo \"${TIDEGATE_PROMPT-none}\"\nexit\n";
        stdin.write_all(list.as_bytes()).expect("written");
        drop(stdin);
        let output = bash.wait_with_output().expect("it ends");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (text(output.stderr), text(output.stdout))
    }

    #[test]
    fn the_prompt_shows_the_elements_and_commands_of_users_stay() {
        let of_all = [
            (None, "", "|none"),
            (Some("echo hook >&2"), "", "echo hook >&2|none"),
            (
                None,
                r#"PROMPT_COMMAND="$PROMPT_COMMAND; echo hook >&2""#,
                " echo hook >&2|none",
            ),
            (
                None,
                r#"PROMPT_COMMAND="echo hook >&2; $PROMPT_COMMAND""#,
                "echo hook >&2; |none",
            ),
            (
                None,
                "PROMPT_COMMAND+=('echo hook >&2')",
                "|echo hook >&2|none",
            ),
        ];
        for (inherited, file, left) in of_all {
            let (err, out) = shown(inherited, file);
            assert_eq!(out.trim_end_matches('\n'), left, "{file}: {err}");
            assert_eq!(err.matches("[delay 25ms] at> ").count(), 4, "{file}: {err}");
            assert!(!err.contains("] ["), "{file}: {err}");
            let hooks = if inherited.is_none() && file.is_empty() {
                0
            } else {
                4
            };
            // Bash echoes what it reads.
            assert_eq!(err.matches("hook\n").count(), hooks, "{file}: {err}");
        }
    }

    #[test]
    fn other_characters_are_not_shown() {
        assert!(change("a $(b)").contains("[tidegate] "));
        assert!(change("").contains("[tidegate] "));
    }
}

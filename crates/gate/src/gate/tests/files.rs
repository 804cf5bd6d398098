//! The files of the state and their folder.

use super::*;
use crate::gate::store::Entry;

#[test]
fn a_torn_line_of_the_journal_was_not_begun() {
    let site = Site::new();
    let (mut gate, _) = Own::up(&site.config(&ONE)).expect("up");
    gate.set(
        "bob",
        &Setting {
            down: Some(Rate::from_bits_per_second(2_000_000)),
            ..Setting::default()
        },
    )
    .expect("set");
    let path = site.state().join("journal");
    let whole = std::fs::read(&path).expect("a journal");
    gate.set(
        "bob",
        &Setting {
            down: Some(Rate::from_bits_per_second(4_000_000)),
            ..Setting::default()
        },
    )
    .expect("set");
    let both = std::fs::read(&path).expect("a journal");
    drop(gate);
    for cut in [whole.len(), whole.len() + 1, both.len() - 2] {
        std::fs::write(&path, &both[..cut]).expect("written");
        let mut gate = site.take_over().expect("ours");
        assert_eq!(rate_down(&gate, "bob"), Some(2_000_000));
        gate.set(
            "alice",
            &Setting {
                down: Some(Rate::from_bits_per_second(9_000_000)),
                ..Setting::default()
            },
        )
        .expect("set");
        drop(gate);
        let gate = site.take_over().expect("ours");
        assert_eq!(rate_down(&gate, "alice"), Some(9_000_000), "cut {cut}");
    }
}

#[test]
fn a_folder_that_others_write_in_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::new();
    std::fs::create_dir(site.state()).expect("a folder");
    std::fs::set_permissions(site.state(), std::fs::Permissions::from_mode(0o777)).expect("set");
    let error = Own::up(&site.config(&ONE))
        .map(|_| ())
        .expect_err("anybody's")
        .to_string();
    assert!(
        error.ends_with(
            "other users may write in this folder: run `chmod 700` on it, or choose another folder"
        ),
        "{error}"
    );
    std::fs::remove_dir(site.state()).expect("removed");
    let (gate, _) = Own::up(&site.config(&ONE)).expect("up");
    let mode = |name: &str| {
        std::fs::metadata(site.state().join(name))
            .expect("there")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(
        (mode(""), mode("state.json"), mode("lock")),
        (0o700, 0o600, 0o600)
    );
    gate.down().expect("down");
}

#[test]
fn files_of_the_state_keep_their_format() {
    fn same<T: serde::de::DeserializeOwned + serde::Serialize>(text: &str) {
        let read: T = serde_json::from_str(text).expect("of the format");
        let written = serde_json::to_string(&read).expect("written");
        assert_eq!(written, text.trim_end());
    }
    same::<GateState>(include_str!("../../../tests/state.json"));
    same::<Entry>(include_str!("../../../tests/journal"));
}

#[test]
fn files_that_cannot_be_read_are_named_in_errors() {
    let site = Site::new();
    let (gate, _) = Own::up(&site.config(&ONE)).expect("up");
    drop(gate);
    let path = site.state().join("state.json");
    let text = std::fs::read_to_string(&path).expect("a state");
    for wrong in [
        "",
        "{}",
        "[1]",
        &text[..text.len() / 2],
        &text.replace("\"format\":1", "\"format\":9"),
    ] {
        std::fs::write(&path, wrong).expect("written");
        let error = site.take_over().map(|_| ()).expect_err("it is none");
        assert!(matches!(error, GateError::Corrupt { .. }), "{error}");
    }
    assert!(Own::down_at(site.folders()).expect("down"));
}

#[test]
fn a_folder_of_another_user_is_refused_and_links_are_not_followed() {
    let site = Site::new();
    std::fs::create_dir(site.state()).expect("a folder");
    let elsewhere = site.folder().join("elsewhere");
    std::fs::write(&elsewhere, "theirs").expect("written");
    for name in ["lock", "next.json.new"] {
        let link = site.state().join(name);
        std::os::unix::fs::symlink(&elsewhere, &link).expect("a link");
        let made = Own::up(&site.config(&ONE)).map(|_| ());
        // Remains of files are removed first, and links themselves, not their targets.
        assert_eq!(made.is_err(), name == "lock", "{made:?}");
        let text = std::fs::read_to_string(&elsewhere).expect("there");
        assert_eq!(text, "theirs", "{name}");
        let _ = std::fs::remove_file(link);
    }
    let mut gate = site.take_over().expect("ours");
    for name in ["next.json.new", "journal"] {
        std::os::unix::fs::symlink(&elsewhere, site.state().join(name)).expect("a link");
        let made = match name {
            "journal" => {
                let down = Some(Rate::from_bits_per_second(2_000_000));
                let setting = Setting {
                    down,
                    ..Setting::default()
                };
                gate.set("bob", &setting).map(|_| ())
            }
            _ => gate.reload(&site.config(&TWO)).map(|_| ()),
        };
        let error = made.expect_err("a link").to_string();
        assert!(error.contains("symbolic link"), "{error}");
        let text = std::fs::read_to_string(&elsewhere).expect("there");
        assert_eq!(text, "theirs", "{name}");
    }
    drop(gate);
    Own::down_at(site.folders()).expect("down");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    std::fs::create_dir(site.state()).expect("a folder");
    std::os::unix::fs::chown(site.state(), Some(12345), None).expect("given away");
    let error = Own::up(&site.config(&ONE)).map(|_| ()).expect_err("theirs");
    assert!(
        error
            .to_string()
            .contains("this folder belongs to user 12345"),
        "{error}"
    );
}

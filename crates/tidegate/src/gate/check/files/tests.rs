use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::*;

/// A configuration that names all files that there are, and where they are.
const FILE: &str = r#"events = "logs/events.jsonl"
[[interface]]
name = "eth1"
side = "core"
[api]
listen = "192.0.2.1:9642"
token = "api.token"
read-token = "read.token"
certificate = "api.crt"
key = "api.key"
[metrics]
listen = "192.0.2.1:9643"
token = "metrics.token"
[pair]
peer = "192.0.2.2:9642"
token = "pair.token"
certificate = "pair.crt"
[radius]
accounting = "192.0.2.1:1813"
secret = "radius.secret"
clients = ["192.0.2.7"]
[usage]
file = "usage/usage.json"
"#;

struct Folder(tempfile::TempDir);

impl Folder {
    /// All files as they should be.
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        folder.write("gate.toml", FILE);
        for token in ["api.token", "read.token", "metrics.token", "pair.token"] {
            folder.write(token, "0123456789abcdef\n");
        }
        folder.write("radius.secret", "between us\n");
        let made = rcgen::generate_simple_self_signed(["192.0.2.1".to_owned()]);
        let made = made.expect("a certificate");
        for name in ["api.crt", "pair.crt"] {
            folder.write(name, &made.cert.pem());
        }
        folder.write("api.key", &made.signing_key.serialize_pem());
        for name in ["logs", "usage"] {
            fs::create_dir(folder.path(name)).expect("made");
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file that only its owner may read.
    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("written");
        self.mode(name, 0o600);
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).expect("set");
    }

    fn warnings(&self) -> Vec<String> {
        let config = Config::read(&self.path("gate.toml"));
        let here = format!("{}/", self.0.path().display());
        let all = warnings(&config.unwrap_or_else(|error| panic!("{error}")));
        all.into_iter().map(|one| one.replace(&here, "")).collect()
    }
}

#[test]
fn files_as_they_should_be_are_no_reason_for_a_warning() {
    assert_eq!(Folder::new().warnings(), [] as [&str; 0]);
}

#[test]
fn each_file_that_is_missing_or_wrong_is_named_with_the_place_of_its_key() {
    type Spoil = fn(&Folder, &str);
    let gone: Spoil = |folder, name| {
        let path = folder.path(name);
        let removed = match path.is_dir() {
            true => fs::remove_dir(path),
            false => fs::remove_file(path),
        };
        removed.expect("removed");
    };
    let empty: Spoil = |folder, name| folder.write(name, "\n");
    let open: Spoil = |folder, name| folder.mode(name, 0o644);
    let start = "the daemon would not start: gate.toml:";
    for (name, spoil, wanted) in [
        (
            "radius.secret",
            gone,
            "20:10: cannot read the RADIUS secret file radius.secret: No such file",
        ),
        (
            "radius.secret",
            empty,
            "20:10: the RADIUS secret file radius.secret is empty: write",
        ),
        (
            "radius.secret",
            open,
            "20:10: every user can read the RADIUS secret file radius.secret (mode 644)",
        ),
        (
            "api.token",
            gone,
            "7:9: cannot read the token file api.token: No such file",
        ),
        (
            "read.token",
            empty,
            "8:14: the token file read.token must hold one word",
        ),
        (
            "metrics.token",
            open,
            "13:9: every user can read the token file metrics.token",
        ),
        (
            "pair.token",
            gone,
            "16:9: cannot read the token file pair.token",
        ),
        (
            "pair.crt",
            gone,
            "17:15: cannot read the other gate's certificate pair.crt",
        ),
        (
            "pair.crt",
            empty,
            "17:15: pair.crt holds no certificate (PEM)",
        ),
        ("api.crt", gone, "9:15: "),
        ("api.crt", empty, "9:15: "),
        (
            "api.key",
            gone,
            "10:7: cannot read the private key file api.key: No such file",
        ),
        (
            "api.key",
            open,
            "10:7: every user can read the private key file api.key",
        ),
        ("api.key", empty, "10:7: "),
        (
            "usage",
            gone,
            "23:8: cannot write to the folder usage: No such file",
        ),
    ] {
        let folder = Folder::new();
        spoil(&folder, name);
        let found = folder.warnings();
        let wanted = format!("{start}{wanted}");
        assert!(
            matches!(&found[..], [one] if one.starts_with(&wanted)),
            "{name}: {wanted}\n{found:#?}"
        );
    }
    let folder = Folder::new();
    gone(&folder, "logs");
    let found = folder.warnings();
    let wanted =
        "events would be lost: gate.toml:1:10: cannot write to the folder logs: No such file";
    assert!(found[0].starts_with(wanted), "{found:#?}");
    // The daemon moves a damaged file aside and starts.
    let folder = Folder::new();
    folder.write("usage/usage.json", "{");
    assert_eq!(folder.warnings(), [] as [&str; 0]);
}

//! TLS of the API and the metrics, and the file of events.

use super::*;

#[test]
fn tls_needs_both_files_and_an_address() {
    let api = |keys: &str| format!("{SMALL}[api]\nlisten = \"127.0.0.1:9642\"\n{keys}");
    let both = "certificate = \"api.crt\"\nkey = \"/etc/api.key\"\n";
    let config = sound(&api(both));
    let tls = config.api.and_then(|api| api.tls).expect("TLS");
    assert_eq!(tls.certificate, Path::new("api.crt"));
    assert_eq!(tls.key, Path::new("/etc/api.key"));
    for (text, wanted) in [
        (
            api("certificate = \"api.crt\"\n"),
            "19:15: `key` is missing: name the file with its private key",
        ),
        (
            api("key = \"api.key\"\n"),
            "19:7: `certificate` is missing: name the file with the key's certificate",
        ),
        (
            api(both).replace("127.0.0.1:9642", "unix:/run/api.sock"),
            "19:15: TLS is only for an address and port: a Unix socket needs none",
        ),
    ] {
        assert_eq!(wrong(&text, &[]), [format!("gate.toml:{wanted}")]);
    }
    let metrics = format!("{SMALL}[metrics]\nlisten = \"127.0.0.1:9642\"\n{both}");
    assert!(
        sound(&metrics)
            .metrics
            .is_some_and(|metrics| metrics.tls.is_some())
    );
    let events = format!("events = \"/var/log/tidegate/events.jsonl\"\n{SMALL}");
    assert_eq!(
        sound(&events).events.as_deref(),
        Some(Path::new("/var/log/tidegate/events.jsonl"))
    );
}

#[test]
fn radius_needs_a_secret_and_clients() {
    let radius = |keys: &str| format!("{SMALL}[radius]\n{keys}");
    let whole = "accounting = \"[::]:1813\"\nsecret = \"s\"\nclients = [\"192.0.2.0/24\", \"2001:db8::1\"]\n";
    let config = sound(&radius(whole)).radius.expect("RADIUS");
    assert_eq!((config.clients.len(), config.change), (2, None));
    for (keys, wanted) in [
        (
            whole.replace("accounting", "acounting"),
            "18:1: unknown key `acounting` in `radius`, did you mean `accounting`?",
        ),
        (
            whole.replace("secret = \"s\"\n", ""),
            "17:1: `secret` is missing in `radius`",
        ),
        (
            whole.replace("[::]:1813", "::1"),
            "18:14: '::1' is not an address and port, such as \"192.0.2.1:1813\"",
        ),
    ] {
        let errors = wrong(&radius(&keys), &[]);
        assert_eq!(errors[0], format!("gate.toml:{wanted}"), "{errors:?}");
    }
}

//! Volumes that begin again.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// What passed the gate's limiters.
static BYTES: AtomicU64 = AtomicU64::new(0);

#[test]
fn a_volume_begins_again_only_if_the_rest_can_be_done() {
    let folder = tempfile::tempdir().expect("a folder");
    let keeper = Keeper::open(Some(&folder.path().join("usage.json"))).expect("open");
    let fake = Fake {
        bytes: |_| BYTES.load(Ordering::Relaxed),
        ..Fake::new(1)
    };
    let gate = Running::new_with(fake, Access::Anybody, keeper);
    let path = "/v1/subscribers/s000000";
    let volume = || {
        gate.api.keeper.tick(&gate.api.gate);
        let (_, csv) = gate.get("/v1/usage.csv");
        let csv = csv.as_str().expect("CSV").to_owned();
        let row = csv.lines().nth(1).expect("a row");
        row.split(',').nth(3).expect("a column").to_owned()
    };
    // A reading is kept for a second.
    let passes = |bytes, wanted: &str| {
        BYTES.store(bytes, Ordering::Relaxed);
        let seen = (0..1000).any(|_| {
            let seen = volume() == wanted;
            if !seen {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            seen
        });
        assert!(seen, "{wanted}: {}", volume());
    };
    passes(0, "0");
    passes(5000, "5000");
    let (status, body) = gate.patch(path, r#"{"reset_usage": true, "plan": "nope"}"#);
    assert_eq!((status, volume().as_str()), (422, "5000"), "{body}");
    let (status, body) = gate.patch(path, r#"{"reset_usage": true, "plan": "gold"}"#);
    assert_eq!((status, &body["plan"]), (200, &"gold".into()), "{body}");
    assert_eq!(volume(), "0");
    passes(7000, "2000");
    let (status, body) = gate.patch(path, r#"{"reset_usage": true}"#);
    assert_eq!((status, volume().as_str()), (200, "0"), "{body}");
}

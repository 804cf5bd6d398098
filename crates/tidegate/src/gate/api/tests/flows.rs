//! Watched flows.

use super::*;

#[test]
fn flows_are_listed_by_bytes() {
    let gate = running(2);
    let (status, found) = gate.get("/v1/subscribers/s000001/flows");
    assert_eq!((status, &found["matched"]), (200, &json!(2)));
    let way = |passed: u64, queue: u64, trip: Value| {
        json!({ "passed_packets": passed / 1000, "passed_bytes": passed, "excess_packets": passed / 10_000,
            "excess_bytes": passed / 10, "marked_packets": 0, "again": 0, "trip_ms": trip, "queue": queue })
    };
    let first = json!({
        "protocol": "tcp", "local": "192.0.2.7", "local_port": 50_000, "remote": "203.0.113.2", "remote_port": 443,
        "age_s": 5.0, "idle_s": 0.001, "down": way(2_000_000, 3, json!(21.0)), "up": way(0, 0, Value::Null),
    });
    assert_eq!(found["flows"][0], first);
    assert_eq!(found["flows"][1]["remote"], "203.0.113.1");
    let (_, found) = gate.get("/v1/subscribers/s000001/flows?limit=1");
    let flows = found["flows"].as_array().expect("a list");
    assert_eq!((flows.len(), &found["matched"]), (1, &json!(2)));
    assert_eq!(gate.get("/v1/subscribers/nobody/flows").0, 404);
    let (status, answer) = gate.get("/v1/subscribers/s000001/flows?after=x");
    assert_eq!(status, 400, "{answer}");
}

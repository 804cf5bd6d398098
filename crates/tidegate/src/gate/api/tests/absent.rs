//! What a gate answers about parts that its file does not have.

use super::*;

#[test]
fn a_gate_that_is_none_of_a_pair_says_so_and_its_log_is_quiet() {
    let gate = running(1);
    let (status, body) = gate.get("/v1/pair");
    assert_eq!(status, 404, "{body}");
    let wanted = "this gate is none of a pair: its file has no [pair]";
    assert_eq!(body["error"], wanted);
    // Every `gate status` asks this.
    assert!(is_usual(&Method::GET, "/v1/pair", status));
    assert!(is_usual(&Method::GET, "/v1/status", 200));
    assert!(is_usual(&Method::POST, "/v1/pair/limiters", 200));
    assert!(!is_usual(&Method::GET, "/v1/subscribers/bob", 404));
    assert!(!is_usual(&Method::POST, "/v1/pair", 404));
    assert!(!is_usual(&Method::GET, "/v1/pair", 500));
    assert!(!is_usual(&Method::POST, "/v1/reload", 200));
}

#[test]
fn volumes_that_are_not_counted_are_no_empty_list() {
    let gate = running(1);
    let (status, body) = gate.get("/v1/usage.csv");
    assert_eq!(status, 422, "{body}");
    let error = body["error"].as_str().expect("an error");
    assert!(error.contains("add [usage] with file = "), "{error}");
}

#[test]
fn no_plan_is_null() {
    let mut fake = Fake::new(1);
    Arc::make_mut(&mut fake.roster).subscribers[0].plan = None;
    let gate = Running::new(fake, Access::Anybody);
    for path in ["/v1/subscribers/s000000", "/v1/subscribers"] {
        let (_, body) = gate.get(path);
        let one = body["subscribers"].get(0).unwrap_or(&body);
        assert_eq!(one.get("plan"), Some(&Value::Null), "{body}");
    }
    let text = serde_json::to_value(openapi()).expect("JSON");
    let plan = &text["components"]["schemas"]["Subscriber"]["properties"]["plan"];
    assert_eq!(plan["type"], json!(["string", "null"]), "{plan}");
}

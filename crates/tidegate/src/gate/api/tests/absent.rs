//! What a gate answers about parts that its file does not have.

use super::*;

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

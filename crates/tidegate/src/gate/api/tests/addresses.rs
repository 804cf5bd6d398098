//! Addresses that move between subscribers.

use super::*;

#[test]
fn addresses_have_holders() {
    let gate = running(3);
    let json = "Content-Type: application/json\r\n";
    let path = "/v1/addresses/192.0.2.7";
    assert_eq!(gate.get(path).0, 404);
    let (status, one) = gate.with("PUT", path, json, r#"{"subscriber": "s000002"}"#);
    assert_eq!(
        (status, &one["matches"]),
        (200, &json!(["vlan 3", "192.0.2.7/32"]))
    );
    assert_eq!(
        gate.get("/v1/addresses/192.0.2.7%2F32").1["name"],
        "s000002"
    );
    let (_, one) = gate.with(
        "PUT",
        path,
        json,
        r#"{"subscriber": "s000002", "only": true}"#,
    );
    assert_eq!(one["matches"], json!(["192.0.2.7/32"]));
    let (status, answer) = gate.with("PUT", path, json, r#"{"subscriber": "nobody"}"#);
    assert_eq!(
        (status, &answer["error"]),
        (404, &json!("there is no subscriber `nobody`"))
    );
    let (status, answer) = gate.with("PUT", path, json, "{}");
    assert_eq!(status, 422);
    assert_eq!(
        answer["error"],
        r#"the body names no subscriber: send {"subscriber": "alice"}"#
    );
    assert_eq!(
        gate.with("DELETE", path, "", ""),
        (200, json!({ "subscriber": "s000002" }))
    );
    let (status, answer) = gate.with("DELETE", path, "", "");
    assert_eq!(
        (status, &answer["error"]),
        (404, &json!("no subscriber has 192.0.2.7/32"))
    );
    let (status, answer) = gate.get("/v1/addresses/alice");
    assert!(
        status == 422
            && answer["error"]
                .as_str()
                .is_some_and(|text| text.contains("alice")),
        "{answer}"
    );
}

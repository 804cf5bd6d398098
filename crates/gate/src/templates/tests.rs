use super::*;

fn plan(rate: u64) -> PlanTemplate {
    let mut plan = PlanTemplate::default();
    plan.down.rate = Some(rate);
    plan
}

#[test]
fn plans_are_found_by_name_also_after_reading() {
    let named = |(name, rate): (&str, u64)| (name.to_owned(), plan(rate));
    let all = Templates::from([("gold", 2), ("basic", 1)].map(named).to_vec());
    let text = serde_json::to_string(&all).expect("text");
    // The form in files of the state is that of a list.
    assert!(text.starts_with(r#"[["gold",{"#), "{text}");
    let read: Templates = serde_json::from_str(&text).expect("plans");
    assert_eq!(read, all);
    for plans in [&all, &read] {
        assert_eq!(plans.get("gold"), Some(&plan(2)));
        assert_eq!(plans.get("basic"), Some(&plan(1)));
        assert_eq!(plans.get("lead"), None);
        assert_eq!(plans.names().collect::<Vec<_>>(), ["gold", "basic"]);
    }
    assert!(Templates::default().is_empty());
}

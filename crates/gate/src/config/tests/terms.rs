//! Quotas and times of day.

use super::*;
use crate::calendar::{Counts, Quota, Slot};
use crate::limits::Boost;

/// `SMALL` with these keys of plan gold, a plan `slow`, and volumes.
fn gold(keys: &str) -> String {
    let plan = format!("[plan.gold]\n{keys}");
    let more = "[plan.slow]\ndown = \"1M\"\n[usage]\nfile = \"/var/lib/tidegate/usage.json\"\n";
    SMALL.replace("[plan.gold]\n", &plan) + more
}

#[test]
fn quotas_and_schedules_are_read() {
    let config = sound(&gold(
        "quota = \"500GB\"\nquota-plan = \"slow\"\nquota-of = \"down\"\nquota-day = 15\n\
         schedule = [{ from = \"22:00\", to = \"6:30\", days = [\"sat\", \"sun\"], plan = \"slow\" }, \
         { from = \"00:00\", to = \"00:00\", plan = \"slow\" }]\n",
    ));
    let terms = &config.plans[0].1.terms;
    let quota = Quota {
        bytes: 500_000_000_000,
        counts: Counts::Down,
        day: 15,
        plan: "slow".into(),
    };
    assert_eq!(terms.quota, Some(quota));
    let slot = |days, from, to| Slot {
        days,
        from,
        to,
        plan: "slow".into(),
    };
    assert_eq!(terms.schedule, [slot(0x60, 1320, 390), slot(0x7f, 0, 0)]);
    let file = config.usage.expect("a file");
    assert_eq!(file, Path::new("/var/lib/tidegate/usage.json"));
    assert!(config.plans[1].1.terms.is_empty());
}

#[test]
fn boosts_are_read_for_a_plan_and_for_a_direction() {
    let config = sound(&gold("boost = \"5s\"\n"));
    let plan = &config.plans[0].1;
    assert_eq!(plan.down.boost, Some(Boost::Time(5_000_000_000)));
    assert_eq!(plan.up.boost, plan.down.boost);
    for (keys, wanted) in [
        (
            "boost = \"much\"\n",
            "10:9: \"much\" is neither a size nor a time",
        ),
        (
            "scheme = \"bc-pqp-paper\"\nboost = \"1MB\"\n",
            "11:9: `boost` is a key of scheme bc-pqp, pqp or policer",
        ),
    ] {
        let errors = wrong(&gold(keys), &[]);
        assert!(errors[0].contains(wanted), "{errors:?}");
    }
}

#[test]
fn mistakes_in_them_have_places() {
    let whole = "quota = \"1GB\"\nquota-plan = \"slow\"\n";
    let slot = "schedule = [{ from = \"22:00\", to = \"06:00\", plan = \"slow\" }]\n";
    for (keys, wanted) in [
        (
            "quota = \"1GB\"\n",
            "10:9: `quota-plan` is missing: name the plan for the rest of the month",
        ),
        (
            "quota-plan = \"slow\"\n",
            "10:14: `quota-plan` needs `quota`",
        ),
        (
            &whole.replace("slow", "slwo"),
            "11:14: there is no plan `slwo`, did you mean `slow`?",
        ),
        (
            &whole.replace("slow", "gold"),
            "11:14: `quota-plan` is the plan itself: name another one",
        ),
        (
            &whole.replace("1GB", "0GB"),
            "10:9: `quota` must be more than 0",
        ),
        (
            &format!("{whole}quota-day = 29\n"),
            "12:13: `quota-day` must be from 1 to 28",
        ),
        (
            &slot.replace("06:00", "24:00"),
            "10:36: `24:00` is not a time of day: write \"06:30\"",
        ),
        (
            &slot.replace("06:00", "6"),
            "10:36: `6` is not a time of day: write \"06:30\"",
        ),
        (
            &slot.replace(", plan = \"slow\"", ""),
            "10:13: `plan` is missing in a schedule",
        ),
        (
            &slot.replace("plan = \"slow\"", "plan = \"gold\""),
            "10:52: `plan` is the plan itself: name another one",
        ),
    ] {
        assert_eq!(
            wrong(&gold(keys), &[]),
            [format!("gate.toml:{wanted}")],
            "{keys}"
        );
    }
    // In one direction, and without a place for the volumes.
    let text = gold("").replace(
        "down = \"100mbit\"",
        &format!("down = {{ rate = \"1M\", {} }}", slot.trim()),
    );
    assert_eq!(
        wrong(&text, &[]),
        ["gate.toml:10:34: `schedule` is a key of the plan, not of a direction"]
    );
    let text = gold(whole).replace("[usage]\nfile = \"/var/lib/tidegate/usage.json\"\n", "");
    let errors = wrong(&text, &[]);
    assert!(
        errors[0]
            .contains("plan `gold` has a quota, and where the bytes of months are kept is missing"),
        "{errors:?}"
    );
}

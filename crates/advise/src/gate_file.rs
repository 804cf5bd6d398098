//! The gate's file for a limit with phantom queues.

use tidegate_lab::MILLISECOND;
use tidegate_limiter::Rate;

use crate::advice::Advice;
use crate::setting::{ETHERNET, Kind};

/// The text of `gate.toml` that enforces phantom queues, and says so if something else is advised. Interfaces and addresses are examples; it
/// says that too.
pub fn text(advice: &Advice) -> Option<String> {
    let (rtt, hosts) = advice.phantom_queues()?;
    let situation = &advice.situation;
    let layer = match situation.today.overhead {
        ETHERNET => 2,
        _ => 3,
    };
    let mut subscribers = String::from(
        "[[subscriber]]\nname = \"subscriber-1\"\nplan = \"limit\"\naddresses = [\"192.0.2.1\"]\n",
    );
    if situation.compares_users() {
        // All users share one limit, so they are one subscriber.
        subscribers = String::from(
            "[[subscriber]]\nname = \"everybody\"\nplan = \"limit\"\naddresses = [\"192.0.2.0/24\"]\n",
        );
    }
    let advised = match advice.chosen().map(|chosen| chosen.remedy.setting.kind) {
        Some(Kind::BcPqp { .. }) => "",
        Some(_) => "# This limit is BC-PQP. Something else was advised.\n",
        None => "# This limit is BC-PQP. The advice was to leave today's limit as it is.\n",
    };
    Some(format!(
        "{advised}# Interfaces and addresses are examples: write yours, then `tidegate gate check gate.toml`.\n\
         [[interface]]\nname = \"eth1\"\nside = \"core\"\n\n\
         [[interface]]\nname = \"eth2\"\nside = \"access\"\n\n\
         [plan.limit]\ndown = \"{}\"\nscheme = \"bc-pqp\"\npolicy = {}\nrtt = \"{}ms\"\n\n\
         {subscribers}\n[accounting]\nlayer = {layer}\n",
        plain(situation.today.rate),
        Kind::policy(hosts),
        rtt / MILLISECOND,
    ))
}

/// A rate, exactly, in the largest unit that leaves a whole number.
fn plain(rate: Rate) -> String {
    let bits = rate.bits_per_second();
    let units = [
        (1_000_000_000, "gbit"),
        (1_000_000, "mbit"),
        (1_000, "kbit"),
    ];
    let unit = units.iter().find(|(scale, _)| bits.is_multiple_of(*scale));
    match unit {
        Some((scale, unit)) => format!("{}{unit}", bits / scale),
        None => format!("{bits}bit"),
    }
}

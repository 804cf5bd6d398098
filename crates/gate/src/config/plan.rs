//! Plans: how subscribers are limited.

use std::ops::RangeInclusive;

use tidegate_limiter::Prefix;
use tidegate_notation::rule;
use toml::de::DeValue;

use super::fields::{Fields, Node, kind};
use super::keys::{DIRECTION, PLAN, RULE};
use super::problem::Sink;
use crate::limits::{FlowRule, MAX_RULES, PlanTemplate, Policy, SchemeName, Template};
use crate::table::Direction;

const SCHEMES: [(&str, SchemeName); 4] = [
    ("bc-pqp", SchemeName::BcPqp),
    ("pqp", SchemeName::Pqp),
    ("policer", SchemeName::Policer),
    ("unlimited", SchemeName::Unlimited),
];

/// Reads a plan; what is wrong with it is told.
pub(super) fn plan<'a>(node: &'a Node<'a>, sink: &'a Sink) -> PlanTemplate {
    let mut plan = PlanTemplate::default();
    let Some(f) = Fields::new(node, "a plan", &[PLAN], sink) else {
        return plan;
    };
    let common = template(&f, Template::default());
    let mut directions = [Direction::Down, Direction::Up].map(|direction| {
        let key = key(direction);
        let mut own = common.clone();
        match f.node(key).map(|node| (node, node.get_ref())) {
            None => {}
            Some((node, DeValue::Table(_))) => {
                if let Some(inner) =
                    Fields::new(node, "a direction of a plan", &[PLAN, DIRECTION], sink)
                {
                    for key in ["down", "up"] {
                        if let Some(node) = inner.node(key) {
                            inner.wrong(
                                node,
                                format!(
                                    "`{key}` is a key of the plan, not of a direction: write `rate`"
                                ),
                            );
                        }
                    }
                    own = template(&inner, common.clone());
                    own.rate = inner.rate("rate");
                    if own.rate.is_none()
                        && own.scheme != SchemeName::Unlimited
                        && inner.node("rate").is_none()
                    {
                        inner.missing("rate");
                    }
                    check(&inner, &own, direction, sink);
                }
            }
            Some(_) => {
                own.rate = f.rate(key);
                check(&f, &own, direction, sink);
            }
        }
        if own.scheme == SchemeName::Unlimited && own.rate.is_some() {
            f.wrong_key(
                key,
                format!("an unlimited plan has no rate: leave out `{key}`, or the scheme"),
            );
        }
        own
    });
    if f.node("down").is_none() && f.node("up").is_none() && common.scheme != SchemeName::Unlimited
    {
        // A rate may come with each subscriber; all else must be sound at any.
        check(&f, &common, Direction::Down, sink);
    }
    [plan.down, plan.up] = [
        std::mem::take(&mut directions[0]),
        std::mem::take(&mut directions[1]),
    ];
    plan
}

fn key(direction: Direction) -> &'static str {
    match direction {
        Direction::Down => "down",
        Direction::Up => "up",
    }
}

/// Whether a limiter would take it; a plan without a rate is tried at 10 Mbit/s.
fn check(f: &Fields<'_>, template: &Template, direction: Direction, sink: &Sink) {
    let rate = template.rate.unwrap_or(10_000_000);
    if let Err(message) = template.limits(direction, Some(rate)).plan() {
        let mut place = f.place();
        // What was said of one key is best told there.
        for (word, key) in [
            ("policy", "policy"),
            ("class", "default-class"),
            ("rules", "rule"),
            ("bucket or queue", "queue"),
            ("period", "period"),
            ("lower", "lower"),
            ("limiters enforce rates", self::key(direction)),
            ("limiters enforce rates", "rate"),
        ] {
            if message.contains(word)
                && let Some(node) = f.node(key)
            {
                place = f.place_of(node);
            }
        }
        sink.wrong(place, message);
    }
}

/// The keys that both directions share, over what there was.
fn template<'a>(f: &Fields<'a>, mut own: Template) -> Template {
    if let Some(scheme) = f.word("scheme", &SCHEMES) {
        own.scheme = scheme;
    }
    let needs = |key: &str, schemes: &[SchemeName]| {
        if let Some(node) = f.node(key)
            && !schemes.contains(&own.scheme)
        {
            let name = |wanted: &SchemeName| {
                let scheme = SCHEMES.iter().find(|(_, scheme)| scheme == wanted);
                scheme.map_or("", |(name, _)| *name)
            };
            let of: Vec<&str> = schemes.iter().map(name).collect();
            let scheme = name(&own.scheme);
            let of = of.join(" or ");
            f.wrong(
                node,
                format!("`{key}` belongs to scheme {of}, this plan's is {scheme}"),
            );
        }
    };
    let phantom = [SchemeName::BcPqp, SchemeName::Pqp];
    for key in ["policy", "rule", "default-class", "queue"] {
        needs(key, &phantom);
    }
    needs("burst", &[SchemeName::Policer]);
    for key in ["period", "upper", "lower"] {
        needs(key, &phantom[..1]);
    }
    if let Some(policy) = f.node("policy").and_then(|node| policy(f, node, 0)) {
        own.policy = policy;
        // What was said of the classes of another policy means nothing here.
        (own.rules, own.default_class) = (Vec::new(), None);
    }
    let rules = f.tables("rule");
    if rules.len() > MAX_RULES {
        let found = rules.len();
        f.wrong(
            rules[MAX_RULES],
            format!("at most {MAX_RULES} rules can be given, these are {found}"),
        );
    } else if f.node("rule").is_some() {
        let classes = own.policy.tree().map_or(u16::MAX as usize, |tree| {
            tidegate_limiter::Program::new(&tree).classes().len()
        });
        let rules = rules
            .into_iter()
            .filter_map(|node| flow_rule(node, classes, f.sink));
        own.rules = rules.collect();
    }
    if let Some(class) = f.integer("default-class", 0..=u64::from(u16::MAX)) {
        own.default_class = Some(class as u16);
    }
    if let Some(node) = f.node("excess") {
        own.mark = excess(f, node);
    }
    for (key, into) in [("queue", &mut own.queue), ("burst", &mut own.burst)] {
        if let Some(size) = f.auto(key) {
            *into = Some(size);
        }
    }
    for (key, into) in [("rtt", &mut own.rtt), ("period", &mut own.period)] {
        if let Some(time) = f.time(key) {
            if time > 60_000_000_000 {
                f.wrong_key(key, format!("`{key}` must be at most 60s"));
            } else {
                *into = time;
            }
        }
    }
    for (key, into) in [("upper", &mut own.upper), ("lower", &mut own.lower)] {
        if let Some(share) = f.thousandths(key) {
            *into = share;
        }
    }
    own
}

/// A sharing policy, as in the lab's scenario files.
fn policy<'a>(f: &Fields<'a>, node: &'a Node<'a>, depth: usize) -> Option<Policy> {
    const FORMS: &str = "a policy is \"queue\", { fair = 16 }, { weighted = [[4, POLICY], [1, \
        POLICY]] } or { priority = [POLICY, POLICY] }";
    let wrong = || {
        f.wrong(node, FORMS);
        None
    };
    if depth > tidegate_limiter::PolicyTree::MAX_DEPTH {
        let most = tidegate_limiter::PolicyTree::MAX_DEPTH;
        f.wrong(node, format!("policies can be nested at most {most} deep"));
        return None;
    }
    let table = match node.get_ref() {
        DeValue::String(text) if text.as_ref() == "queue" => return Some(Policy::Queue),
        DeValue::Table(table) if table.len() == 1 => table,
        _ => return wrong(),
    };
    let (key, value) = table.iter().next()?;
    let parts = match value.get_ref() {
        DeValue::Array(list) => list.iter().collect(),
        _ => Vec::new(),
    };
    let policy = match key.get_ref().as_ref() {
        "fair" => Policy::Fair(f.integer_of(value, "fair", 1..=u64::from(u16::MAX))? as u16),
        "weighted" if !parts.is_empty() => {
            let part = |part: &&'a Node<'a>| match part.get_ref() {
                DeValue::Array(pair) if pair.len() == 2 => {
                    let most = u64::from(tidegate_limiter::PolicyTree::MAX_WEIGHT);
                    let weight = f.integer_of(pair.first()?, "weight", 1..=most)?;
                    Some((weight as u32, self::policy(f, pair.get(1)?, depth + 1)?))
                }
                _ => {
                    f.wrong(part, "a weighted part is a pair: [4, POLICY]");
                    None
                }
            };
            Policy::Weighted(parts.iter().map(part).collect::<Option<_>>()?)
        }
        "priority" if !parts.is_empty() => {
            let parts = parts.iter().map(|part| self::policy(f, part, depth + 1));
            Policy::Priority(parts.collect::<Option<_>>()?)
        }
        _ => return wrong(),
    };
    Some(policy)
}

/// A code point to mark with; `None` to drop.
fn excess<'a>(f: &Fields<'a>, node: &'a Node<'a>) -> Option<u8> {
    rule::mark("excess", value(node)).unwrap_or_else(|message| {
        f.wrong(node, message);
        None
    })
}

/// A value as rules read it.
fn value<'a>(node: &'a Node<'a>) -> rule::Value<'a> {
    match node.get_ref() {
        DeValue::String(text) => rule::Value::Text(text),
        // What is too large for 64 bits is out of every range.
        DeValue::Integer(number) => rule::Value::Integer(
            i64::from_str_radix(number.as_str(), number.radix()).unwrap_or(i64::MAX),
        ),
        other => rule::Value::Other(kind(other)),
    }
}

fn flow_rule<'a>(node: &'a Node<'a>, classes: usize, sink: &'a Sink) -> Option<FlowRule> {
    let f = Fields::new(node, "a rule", &[RULE], sink)?;
    if f.node("class").is_none() {
        f.missing("class");
    }
    let mut sound = true;
    let rule = rule::read(
        classes,
        |key| f.node(key).map(value),
        |key, message| {
            sound = false;
            f.wrong_key(key, message);
        },
    );
    if !sound {
        return None;
    }
    let prefix = |prefix: Prefix| (prefix != Prefix::ALL).then(|| prefix.to_string());
    let ports = |ports: RangeInclusive<u16>| (ports != (0..=u16::MAX)).then(|| ports.into_inner());
    let dscp = f.node("dscp").map(value);
    Some(FlowRule {
        class: rule.class,
        remote: prefix(rule.source),
        local: prefix(rule.destination),
        remote_ports: ports(rule.source_ports),
        local_ports: ports(rule.destination_ports),
        protocol: rule.protocol,
        dscp: match dscp {
            Some(rule::Value::Text(text)) => Some(text.to_owned()),
            _ => None,
        },
    })
}

//! Plans: how subscribers are limited.

use std::ops::RangeInclusive;

use tidegate_limiter::{Prefix, Program, Scheme, choices};
use tidegate_notation::{Node, Value, burst_control, policy, rule};

use super::fields::Fields;
use super::keys::{DIRECTION, PLAN, RULE};
use super::problem::Sink;
use crate::calendar::Terms;
use crate::limits::{Boost, COUNTED, FlowRule, PlanTemplate, Template};
use crate::table::Direction;

/// Reads a plan, and reports the mistakes in it. Keys that it does not have are as in another plan.
pub(super) fn plan<'a>(node: &'a Node, base: &PlanTemplate, sink: &'a Sink) -> PlanTemplate {
    let Some(f) = Fields::new(node, "a plan", &[PLAN], sink) else {
        return base.clone();
    };
    let [down, up] = Direction::BOTH.map(|direction| {
        let key = direction.name();
        // A mistake of both directions is reported once.
        let common = read_template(&f, base.of(direction).clone());
        let mut template = common.clone();
        match f.node(key).map(|node| (node, &node.value)) {
            None if template.scheme == Scheme::Unlimited => template.rate = None,
            None => {}
            Some((node, Value::Table(_))) => {
                if let Some(inner) =
                    Fields::new(node, "a direction of a plan", &[PLAN, DIRECTION], sink)
                {
                    for key in Direction::BOTH.map(Direction::name) {
                        if let Some(node) = inner.node(key) {
                            inner.wrong(
                                node,
                                format!(
                                    "`{key}` is a key of the plan, not of a direction: write `rate`"
                                ),
                            );
                        }
                    }
                    for key in ["quota", "quota-plan", "quota-of", "quota-day", "schedule"] {
                        if let Some(node) = inner.node(key) {
                            inner.wrong(
                                node,
                                format!("`{key}` is a key of the plan, not of a direction"),
                            );
                        }
                    }
                    template = read_template(&inner, common);
                    template.rate = inner.rate("rate").or(template.rate);
                    if template.rate.is_none()
                        && template.scheme != Scheme::Unlimited
                        && inner.node("rate").is_none()
                    {
                        inner.missing("rate");
                    }
                    check(&inner, &template, direction, sink);
                }
            }
            Some(_) => {
                template.rate = f.rate(key);
                check(&f, &template, direction, sink);
            }
        }
        if template.scheme == Scheme::Unlimited && template.rate.is_some() {
            f.wrong_key(
                key,
                format!("an unlimited plan has no rate: leave out `{key}`, or the scheme"),
            );
        }
        template
    });
    let neither = Direction::BOTH
        .iter()
        .all(|way| f.node(way.name()).is_none());
    if neither && down.scheme != Scheme::Unlimited {
        // Each subscriber may have another rate; all other values must be valid at any rate.
        check(&f, &down, Direction::Down, sink);
    }
    PlanTemplate {
        down,
        up,
        terms: Terms::default(),
    }
}

/// Whether a limiter would take it; a plan without a rate is tried at 10 Mbit/s.
fn check(f: &Fields<'_>, template: &Template, direction: Direction, sink: &Sink) {
    let rate = template.rate.unwrap_or(10_000_000);
    if let Err(error) = template.limits(direction, Some(rate)) {
        // The rate of a direction is written as `rate`, or by the direction's name.
        let key = match error.key() {
            "rate" if f.node("rate").is_none() => direction.name(),
            key => key,
        };
        sink.add(f.known().wrong(key, error.to_string()));
    }
}

/// Reads the keys that both directions share, and keeps the values of the others.
fn read_template<'a>(f: &Fields<'a>, mut template: Template) -> Template {
    let schemes = Template::SCHEMES.map(|scheme| (scheme.name(), scheme));
    if let Some(scheme) = f.word("scheme", &schemes) {
        template.scheme = scheme;
    }
    let needs = |key: &str, schemes: &[Scheme]| {
        if let Some(node) = f.node(key)
            && !schemes.contains(&template.scheme)
        {
            let of = choices(schemes.iter().map(|scheme| scheme.name()));
            let scheme = template.scheme;
            f.wrong(
                node,
                format!("`{key}` is a key of scheme {of}, and the scheme of this plan is {scheme}"),
            );
        }
    };
    let queues = [
        Scheme::BcPqp,
        Scheme::BcPqpPaper,
        Scheme::Pqp,
        Scheme::Shaper,
    ];
    for key in ["policy", "rule", "default-class", "queue"] {
        needs(key, &queues);
    }
    let buckets = [Scheme::Policer, Scheme::FairPolicer, Scheme::Shaper];
    needs("burst", &buckets);
    needs("boost", &[Scheme::BcPqp, Scheme::Pqp, Scheme::Policer]);
    for key in ["period", "upper", "lower"] {
        needs(key, &[Scheme::BcPqpPaper]);
    }
    if let Some(policy) = f
        .node("policy")
        .and_then(|node| f.sink.note(policy::read(node)))
    {
        template.policy = policy;
        // Rules and the default class of another policy have no meaning here.
        (template.rules, template.default_class) = (Vec::new(), None);
    }
    let rules = f.tables("rule");
    if f.node("rule").is_some() {
        let classes = Program::new(&template.policy).classes().len();
        let rules = rules
            .iter()
            .filter_map(|node| flow_rule(node, classes, f.sink));
        template.rules = rules.collect();
    }
    if let Some(class) = f.integer("default-class", 0..=u64::from(u16::MAX)) {
        template.default_class = Some(class as u16);
    }
    if let Some(node) = f.node("excess") {
        template.mark = match &node.value {
            Value::Text(text) if text == "count" => Some(COUNTED),
            _ => f.sink.note(node.mark("excess")).flatten(),
        };
    }
    for (key, schemes, into) in [
        ("queue", &queues[..], &mut template.queue),
        ("burst", &buckets[..], &mut template.burst),
    ] {
        // A key of another scheme was reported, whatever its value is.
        if let Some(size) = f.auto(key)
            && schemes.contains(&template.scheme)
        {
            *into = Some(size);
        }
    }
    if let Some(text) = f.text("boost") {
        match Boost::read(text) {
            Ok(boost) => template.boost = Some(boost),
            Err(message) => f.wrong_key("boost", message),
        }
    }
    if let Some(ecn) = f.truth("ecn") {
        template.ecn = ecn;
    }
    // What is only counted is not changed.
    template.ecn &= template.mark != Some(COUNTED);
    if let Some(rtt) = f.time("rtt")
        && let Err(error) = template.set_rtt(rtt)
    {
        f.wrong_key("rtt", error.to_string());
    }
    match burst_control::read(f.known(), template.control) {
        Ok(control) => template.control = control,
        Err(mistakes) => mistakes.into_iter().for_each(|mistake| f.sink.add(mistake)),
    }
    template
}

fn flow_rule(node: &Node, classes: usize, sink: &Sink) -> Option<FlowRule> {
    let rule = match rule::read(node, RULE, classes) {
        Ok(rule) => rule,
        Err(mistakes) => {
            mistakes.into_iter().for_each(|mistake| sink.add(mistake));
            return None;
        }
    };
    let prefix = |prefix: Prefix| (prefix != Prefix::ALL).then(|| prefix.to_string());
    let ports = |ports: RangeInclusive<u16>| (ports != (0..=u16::MAX)).then_some(ports);
    let dscp = match &node.value {
        Value::Table(table) => table.get("dscp"),
        _ => None,
    };
    Some(FlowRule {
        class: rule.class,
        remote: prefix(rule.source),
        local: prefix(rule.destination),
        remote_ports: ports(rule.source_ports),
        local_ports: ports(rule.destination_ports),
        protocol: rule.protocol,
        dscp: dscp
            .and_then(|node| node.text("dscp").ok())
            .map(str::to_owned),
    })
}

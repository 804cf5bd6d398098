//! The limiters of a file.

use std::sync::Arc;

use tidegate_limiter::{
    BurstControl, Classifier, ClassifyError, ConfigError, Decision, FairPolicerConfig, HashKey,
    LimiterConfig, Marking, Nanos, PhantomQueuesConfig, PolicerConfig, PolicyTree, Program, Rate,
    Rule, ShaperConfig, SingleRateBursts, SingleRateConfig, Thresholds, TwoRateConfig, TwoRates,
    WaterFillingConfig,
};
use tidegate_notation::{quantity, rule};

use super::error::Problem;
use super::fields::{Fields, integer};
use super::keys::RULE;
use super::sizing;
use super::tree::{Node, Value};
use crate::plan::{Classes, ElementKind};

/// The forms of FairPolicer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Exact,
    Sketch,
    WaterFilling,
}

/// The limiter of a scheme. `rtt`: the longest round trip of the flows that pass.
pub(super) fn limiter(scheme: &str, f: &Fields<'_>, rtt: Nanos) -> Result<ElementKind, Problem> {
    let rate = f.rate("rate")?.ok_or_else(|| f.missing("rate"))?;
    let config = match scheme {
        "policer" => policer(f, rate, rtt)?,
        "srtcm" => single_rate(f, rate, rtt)?,
        "trtcm" => two_rate(f, rate, rtt)?,
        "fair-policer" => fair_policer(f, rate, rtt)?,
        "pqp" => pqp(f, rate, rtt)?,
        "bc-pqp" => bc_pqp(f, rate, rtt)?,
        _ => shaper(f, rate, rtt)?,
    };
    let classes = match config.program() {
        Some(program) => classes(f, program)?,
        None => None,
    };
    Ok(ElementKind::Limiter {
        config,
        classes,
        overhead: f.small_bytes("overhead", 0..=1000)?.unwrap_or(0),
    })
}

/// A limiter's error, at the key of the field that it names.
fn at_field<'a>(f: &'a Fields<'_>) -> impl Fn(ConfigError) -> Problem + 'a {
    |error| f.wrong(error.field().name(), error.to_string())
}

/// The size of a bucket: a bandwidth-delay product, if it is left to us.
fn bucket(f: &Fields<'_>, key: &str, rate: Rate, rtt: Nanos) -> Result<u64, Problem> {
    Ok(auto(f, key)?.unwrap_or_else(|| sizing::bdp(rate, rtt)))
}

fn policer(f: &Fields<'_>, rate: Rate, rtt: Nanos) -> Result<LimiterConfig, Problem> {
    let config = PolicerConfig::new(rate, bucket(f, "burst", rate, rtt)?);
    config.map(LimiterConfig::from).map_err(at_field(f))
}

fn single_rate(f: &Fields<'_>, rate: Rate, rtt: Nanos) -> Result<LimiterConfig, Problem> {
    let bursts = SingleRateBursts {
        committed: bucket(f, "committed", rate, rtt)?,
        excess: bucket(f, "excess", rate, rtt)?,
    };
    let config = SingleRateConfig::new(rate, bursts, marking(f)?);
    config.map(LimiterConfig::from).map_err(at_field(f))
}

fn two_rate(f: &Fields<'_>, rate: Rate, rtt: Nanos) -> Result<LimiterConfig, Problem> {
    let peak = f.rate("peak")?.ok_or_else(|| f.missing("peak"))?;
    let rates = TwoRates {
        committed: rate,
        committed_burst: bucket(f, "committed", rate, rtt)?,
        peak,
        peak_burst: bucket(f, "peak-burst", peak, rtt)?,
    };
    let config = TwoRateConfig::new(rates, marking(f)?);
    config.map(LimiterConfig::from).map_err(at_field(f))
}

fn fair_policer(f: &Fields<'_>, rate: Rate, rtt: Nanos) -> Result<LimiterConfig, Problem> {
    let forms = [
        ("exact", Form::Exact),
        ("sketch", Form::Sketch),
        ("bc-pqp", Form::WaterFilling),
    ];
    let form = f.word("form", &forms)?.unwrap_or(Form::WaterFilling);
    let mut weights = weights(f, form)?;
    let queues = f.integer("queues", 1..=PolicyTree::MAX_NODES as u64 - 1)?;
    let queues = queues.unwrap_or(if weights.is_empty() {
        16
    } else {
        weights.len() as u64
    });
    if weights.is_empty() {
        weights = vec![1; queues as usize];
    }
    if weights.len() as u64 != queues {
        let message = format!(
            "{} weights for {queues} queues: write one for each",
            weights.len()
        );
        return Err(f.wrong("weights", message));
    }
    let burst = auto(f, "burst")?.unwrap_or_else(|| sizing::phantom(rate, rtt));
    if form == Form::WaterFilling {
        let config = WaterFillingConfig::new(rate, burst, &weights);
        return config.map(LimiterConfig::from).map_err(at_field(f));
    }
    let config = FairPolicerConfig::new(rate, burst).map_err(at_field(f))?;
    Ok(match form {
        // The seed is the run's.
        Form::Sketch => config.with_sketch(0).into(),
        _ => config.into(),
    })
}

fn pqp(f: &Fields<'_>, rate: Rate, rtt: Nanos) -> Result<LimiterConfig, Problem> {
    let queue = auto(f, "queue")?.unwrap_or_else(|| sizing::phantom(rate, rtt));
    let config = PhantomQueuesConfig::new(program(f)?, rate, queue);
    config.map(LimiterConfig::from).map_err(at_field(f))
}

fn bc_pqp(f: &Fields<'_>, rate: Rate, rtt: Nanos) -> Result<LimiterConfig, Problem> {
    let queue = auto(f, "queue")?.unwrap_or_else(|| sizing::controlled(rate, rtt));
    let config = PhantomQueuesConfig::new(program(f)?, rate, queue).map_err(at_field(f))?;
    let control = burst_control(f)?;
    Ok(config.with_burst_control(control).into())
}

fn burst_control(f: &Fields<'_>) -> Result<BurstControl, Problem> {
    let default = BurstControl::DEFAULT;
    let thousandths = |key, default| -> Result<u32, Problem> {
        let share = f.real(key, 0.0..=1000.0)?;
        Ok(share.map_or(default, |share| (share * 1000.0).round() as u32))
    };
    let thresholds = Thresholds {
        upper: thousandths("upper", default.thresholds().upper)?,
        lower: thousandths("lower", default.thresholds().lower)?,
    };
    let period = f.positive_time("period")?.unwrap_or(default.period());
    let control = default.with_period(period).map_err(at_field(f))?;
    control.with_thresholds(thresholds).map_err(at_field(f))
}

fn shaper(f: &Fields<'_>, rate: Rate, rtt: Nanos) -> Result<LimiterConfig, Problem> {
    let packets = match f.node("queue")?.map(|node| &node.value) {
        Some(Value::Text(text)) => quantity::packets(text),
        _ => None,
    };
    let config = ShaperConfig::new(program(f)?, rate).map_err(at_field(f))?;
    let config = config.with_burst(f.positive_bytes("burst")?.unwrap_or(1514));
    let config = match packets {
        Some(packets) => config.with_queue_packets(packets),
        None => config.with_queue_bytes(bucket(f, "queue", rate, rtt)?),
    };
    config.map(LimiterConfig::from).map_err(at_field(f))
}

/// A size that may be left to us.
fn auto(f: &Fields<'_>, key: &str) -> Result<Option<u64>, Problem> {
    match f.node(key)?.map(|node| &node.value) {
        Some(Value::Text(text)) if text == "auto" => Ok(None),
        _ => f.positive_bytes(key),
    }
}

/// What becomes of each colour: green packets pass.
fn marking(f: &Fields<'_>) -> Result<Marking, Problem> {
    let colour = |key: &str| -> Result<Decision, Problem> {
        let Some(node) = f.node(key)? else {
            return Ok(Decision::Drop);
        };
        let dscp = rule::mark(key, node.in_rule()).map_err(|message| node.wrong(message))?;
        Ok(dscp.map_or(Decision::Drop, Decision::Mark))
    };
    Ok(Marking {
        green: Decision::Pass,
        yellow: colour("yellow")?,
        red: colour("red")?,
    })
}

/// How packets are classified, if the element says it.
fn classes(f: &Fields<'_>, program: &Program) -> Result<Option<Classes>, Problem> {
    let default = f.integer("default-class", 0..=u64::from(u16::MAX))?;
    let default = default.map(|class| class as u16);
    let rules = match f.raw("rule") {
        None if default.is_none() => return Ok(None),
        None => &[][..],
        Some(Node {
            value: Value::List(list),
            ..
        }) => list,
        Some(node) => {
            let message = "write [[element.rule]] with two brackets: there may be several";
            return Err(node.wrong(message));
        }
    };
    let known = program.classes().len();
    let rules: Vec<Rule> = rules
        .iter()
        .map(|node| class_rule(node, known))
        .collect::<Result<_, _>>()?;
    let key = HashKey::new(0, 0);
    match Classifier::new(program, rules.clone(), default, key) {
        Ok(_) => Ok(Some(Classes { rules, default })),
        Err(error @ ClassifyError::Rules(_)) => Err(f.wrong("rule", error.to_string())),
        Err(error) => Err(f.wrong("default-class", error.to_string())),
    }
}

/// A rule, with the class that it is of.
fn class_rule(node: &Node, classes: usize) -> Result<Rule, Problem> {
    let f = Fields::new(node, "a rule", &[RULE], &[])?;
    if f.raw("class").is_none() {
        return Err(f.missing("class"));
    }
    let mut problem = None;
    let read = rule::read(
        classes,
        |key| f.raw(key).map(Node::in_rule),
        |key, message| problem = problem.take().or_else(|| Some(f.wrong(key, message))),
    );
    problem.map_or(Ok(read), Err)
}

/// The weights of a fair policer's queues.
fn weights(f: &Fields<'_>, form: Form) -> Result<Vec<u32>, Problem> {
    let Some(node) = f.raw("weights") else {
        return Ok(Vec::new());
    };
    let Value::List(list) = &node.value else {
        return Err(node.wrong("`weights` is a list of whole numbers"));
    };
    if form != Form::WaterFilling {
        return Err(node.wrong("only a fair policer of form `bc-pqp` has weights"));
    }
    let most = u64::from(PolicyTree::MAX_WEIGHT);
    list.iter()
        .map(|node| integer(node, "weights", 1..=most).map(|weight| weight as u32))
        .collect()
}

/// How queues share the rate.
fn program(f: &Fields<'_>) -> Result<Arc<Program>, Problem> {
    let policy = match f.node("policy")? {
        Some(node) => policy(node)?,
        None => PolicyTree::default(),
    };
    Ok((&policy).into())
}

/// A sharing policy.
fn policy(node: &Node) -> Result<PolicyTree, Problem> {
    const FORMS: &str = "a policy is \"queue\", { fair = 16 }, { weighted = [[4, POLICY], [1, \
        POLICY]] } or { priority = [POLICY, POLICY] }";
    let table = match &node.value {
        Value::Text(text) if text == "queue" => return Ok(PolicyTree::queue()),
        Value::Table(table) => table,
        _ => return Err(node.wrong(FORMS)),
    };
    let [(key, value)] = table.0.as_slice() else {
        return Err(node.wrong(FORMS));
    };
    let parts = || match &value.value {
        Value::List(list) => Ok(list),
        _ => Err(value.wrong(FORMS)),
    };
    let tree = match key.text.as_str() {
        "fair" => {
            PolicyTree::fair(integer(value, "fair", 1..=PolicyTree::MAX_NODES as u64 - 1)? as u16)
        }
        "weighted" => {
            let parts: Result<Vec<_>, Problem> = parts()?
                .iter()
                .map(|part| match &part.value {
                    Value::List(pair) if pair.len() == 2 => {
                        let most = u64::from(PolicyTree::MAX_WEIGHT);
                        let weight = integer(&pair[0], "weight", 1..=most)?;
                        Ok((weight as u32, policy(&pair[1])?))
                    }
                    _ => Err(part.wrong("a weighted part is a pair: [4, POLICY]")),
                })
                .collect();
            PolicyTree::weighted(parts?)
        }
        "priority" => {
            let parts: Result<Vec<_>, Problem> = parts()?.iter().map(policy).collect();
            PolicyTree::priority(parts?)
        }
        other => {
            let message = format!("unknown policy `{other}`: {FORMS}");
            return Err(Problem::new(key.place, message));
        }
    };
    tree.map_err(|error| value.wrong(error.to_string()))
}

//! The limiters of a file.

use std::sync::Arc;

use tidegate_limiter::{
    BurstControl, Classifier, ClassifyError, ConfigError, Decision, FairPolicerConfig, HashKey,
    LimiterConfig, Marking, Nanos, PaperControl, PhantomQueuesConfig, PolicerConfig, PolicyTree,
    Program, Rate, Rule, Scheme, ShaperConfig, SingleRateBursts, SingleRateConfig, TwoRateConfig,
    TwoRates, WaterFillingConfig,
};
use tidegate_notation::{Mistake, Value, burst_control, policy, quantity, rule};

use super::fields::Fields;
use super::keys::RULE;
use super::{first, sizing};
use crate::plan::{Classes, ElementKind};

/// The forms of FairPolicer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Exact,
    Sketch,
    WaterFilling,
}

/// The limiter of a scheme. `rtt`: the longest round trip of the flows that pass.
pub(super) fn limiter(scheme: Scheme, f: &Fields<'_>, rtt: Nanos) -> Result<ElementKind, Mistake> {
    let rate = f.rate("rate")?.ok_or_else(|| f.missing("rate"))?;
    let config = match scheme {
        Scheme::Policer => policer(f, rate, rtt)?,
        Scheme::SingleRate => single_rate(f, rate, rtt)?,
        Scheme::TwoRate => two_rate(f, rate, rtt)?,
        Scheme::FairPolicer => fair_policer(f, rate, rtt)?,
        Scheme::Pqp => pqp(f, rate, rtt)?,
        Scheme::BcPqp => bc_pqp(f, rate, rtt)?
            .with_boost(f.positive_bytes("boost")?.unwrap_or(0))
            .with_burst_control(BurstControl::Bucket)
            .with_ecn(ecn(f)?)
            .into(),
        Scheme::BcPqpPaper => {
            let control = burst_control::read(f.known(), PaperControl::DEFAULT).map_err(first)?;
            let control = BurstControl::Paper(control);
            bc_pqp(f, rate, rtt)?.with_burst_control(control).into()
        }
        Scheme::Shaper => shaper(f, rate, rtt)?,
        Scheme::Unlimited => LimiterConfig::Unlimited,
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
fn at_field<'a>(f: &'a Fields<'_>) -> impl Fn(ConfigError) -> Mistake + 'a {
    |error| f.wrong(error.field().name(), error.to_string())
}

/// The size of a bucket: a bandwidth-delay product, if it is `auto`.
fn bucket(f: &Fields<'_>, key: &str, rate: Rate, rtt: Nanos) -> Result<u64, Mistake> {
    Ok(f.auto_bytes(key)?.unwrap_or_else(|| sizing::bdp(rate, rtt)))
}

fn policer(f: &Fields<'_>, rate: Rate, rtt: Nanos) -> Result<LimiterConfig, Mistake> {
    let config = PolicerConfig::new(rate, bucket(f, "burst", rate, rtt)?);
    config.map(LimiterConfig::from).map_err(at_field(f))
}

fn single_rate(f: &Fields<'_>, rate: Rate, rtt: Nanos) -> Result<LimiterConfig, Mistake> {
    let bursts = SingleRateBursts {
        committed: bucket(f, "committed", rate, rtt)?,
        excess: bucket(f, "excess", rate, rtt)?,
    };
    let config = SingleRateConfig::new(rate, bursts, marking(f)?);
    config.map(LimiterConfig::from).map_err(at_field(f))
}

fn two_rate(f: &Fields<'_>, rate: Rate, rtt: Nanos) -> Result<LimiterConfig, Mistake> {
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

fn fair_policer(f: &Fields<'_>, rate: Rate, rtt: Nanos) -> Result<LimiterConfig, Mistake> {
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
    let burst = f
        .auto_bytes("burst")?
        .unwrap_or_else(|| sizing::phantom(rate, rtt));
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

fn pqp(f: &Fields<'_>, rate: Rate, rtt: Nanos) -> Result<LimiterConfig, Mistake> {
    let queue = f
        .auto_bytes("queue")?
        .unwrap_or_else(|| sizing::phantom(rate, rtt));
    let config = PhantomQueuesConfig::new(program(f)?, rate, queue).map_err(at_field(f))?;
    let boost = f.positive_bytes("boost")?.unwrap_or(0);
    Ok(config.with_boost(boost).with_ecn(ecn(f)?).into())
}

/// Whether ECN-capable packets are marked.
fn ecn(f: &Fields<'_>) -> Result<bool, Mistake> {
    Ok(f.truth("ecn")?.unwrap_or(true))
}

fn bc_pqp(f: &Fields<'_>, rate: Rate, rtt: Nanos) -> Result<PhantomQueuesConfig, Mistake> {
    let queue = f
        .auto_bytes("queue")?
        .unwrap_or_else(|| sizing::controlled(rate, rtt));
    PhantomQueuesConfig::new(program(f)?, rate, queue).map_err(at_field(f))
}

fn shaper(f: &Fields<'_>, rate: Rate, rtt: Nanos) -> Result<LimiterConfig, Mistake> {
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

/// The fate of each colour. Green packets pass.
fn marking(f: &Fields<'_>) -> Result<Marking, Mistake> {
    let colour = |key: &str| -> Result<Decision, Mistake> {
        let Some(node) = f.node(key)? else {
            return Ok(Decision::Drop);
        };
        let dscp = node.mark(key)?;
        Ok(dscp.map_or(Decision::Drop, Decision::Mark))
    };
    Ok(Marking {
        green: Decision::Pass,
        yellow: colour("yellow")?,
        red: colour("red")?,
    })
}

/// How packets are classified, if the element has rules.
fn classes(f: &Fields<'_>, program: &Program) -> Result<Option<Classes>, Mistake> {
    let default = f.integer("default-class", 0..=u64::from(u16::MAX))?;
    let default = default.map(|class| class as u16);
    let rules = tidegate_notation::tables(f.known().table, "rule", "element.rule")?;
    if rules.is_empty() && f.raw("rule").is_none() && default.is_none() {
        return Ok(None);
    }
    let known = program.classes().len();
    let rules = rules
        .iter()
        .map(|node| rule::read(node, RULE, known).map_err(first));
    let rules: Vec<Rule> = rules.collect::<Result<_, _>>()?;
    let key = HashKey::from_bytes([0; 16]);
    match Classifier::new(program, rules.clone(), default, key) {
        Ok(_) => Ok(Some(Classes { rules, default })),
        Err(error @ ClassifyError::Rules(_)) => Err(f.wrong("rule", error.to_string())),
        Err(error) => Err(f.wrong("default-class", error.to_string())),
    }
}

/// The weights of a fair policer's queues.
fn weights(f: &Fields<'_>, form: Form) -> Result<Vec<u32>, Mistake> {
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
        .map(|node| {
            node.integer("weights", 1..=most)
                .map(|weight| weight as u32)
        })
        .collect()
}

/// How queues share the rate.
fn program(f: &Fields<'_>) -> Result<Arc<Program>, Mistake> {
    let policy = match f.node("policy")? {
        Some(node) => policy::read(node)?,
        None => PolicyTree::default(),
    };
    Ok((&policy).into())
}

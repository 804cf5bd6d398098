//! The statements of scripts about the state of the connection: assertions as Python has them.

use std::collections::BTreeMap;

use tidegate_lab::tcp::Connection;
use tidegate_lab::tcp::cc::LossState;

/// Names that statements have defined, and their values.
pub type Names = BTreeMap<String, i64>;

/// Why statements do not hold.
pub enum Doubt {
    /// They need something that the runner does not know.
    Unknown(String),
    /// They are false.
    False(String),
}

/// Checks statements.
pub fn check(code: &str, connection: &Connection, names: &mut Names) -> Result<(), Doubt> {
    let lines = code
        .lines()
        .map(|line| line.split('#').next().unwrap_or(""));
    let statements = lines.flat_map(|line| line.split(';'));
    for statement in statements {
        let statement = statement.trim().trim_end_matches('\\').trim();
        if let Some(claim) = statement.strip_prefix("assert ") {
            // After the comma is a text for people. No claim has one.
            let claim = claim.split(',').next().unwrap_or("").trim();
            if !holds(claim, connection, names)? {
                let values = values(claim, connection, names);
                return Err(Doubt::False(format!("{claim}: here {values}")));
            }
        } else if let Some((name, value)) = statement.split_once(" = ") {
            let value = term(value, connection, names)?;
            names.insert(name.trim().to_owned(), value);
        } else if !statement.is_empty() && !statement.starts_with("print") {
            return Err(Doubt::Unknown(format!("the statement {statement}")));
        }
    }
    Ok(())
}

const COMPARISONS: [&str; 6] = ["==", "!=", "<=", ">=", "<", ">"];

/// The terms of a chain of comparisons, and what stands between them.
fn chain(claim: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut terms, mut between, mut rest) = (Vec::new(), Vec::new(), claim);
    loop {
        let next = COMPARISONS
            .iter()
            .filter_map(|sign| Some((rest.find(sign)?, *sign)))
            // Of signs at the same place, the longest.
            .min_by_key(|(at, sign)| (*at, std::cmp::Reverse(sign.len())));
        let Some((at, sign)) = next else {
            terms.push(rest.trim());
            return (terms, between);
        };
        terms.push(rest[..at].trim());
        between.push(sign);
        rest = &rest[at + sign.len()..];
    }
}

fn holds(claim: &str, connection: &Connection, names: &Names) -> Result<bool, Doubt> {
    let (terms, between) = chain(claim);
    let terms: Result<Vec<i64>, Doubt> = terms
        .into_iter()
        .map(|text| term(text, connection, names))
        .collect();
    let terms = terms?;
    if between.is_empty() {
        return Ok(terms[0] != 0);
    }
    Ok(terms.windows(2).zip(between).all(|(pair, sign)| {
        let (left, right) = (pair[0], pair[1]);
        match sign {
            "==" => left == right,
            "!=" => left != right,
            "<=" => left <= right,
            ">=" => left >= right,
            "<" => left < right,
            _ => left > right,
        }
    }))
}

/// The values of the names of a claim, for people.
fn values(claim: &str, connection: &Connection, names: &Names) -> String {
    let (terms, _) = chain(claim);
    let named = terms.into_iter().filter(|text| text.starts_with("tcpi_"));
    let values = named.filter_map(|text| term(text, connection, names).ok());
    let values: Vec<String> = values.map(|value| value.to_string()).collect();
    values.join(", ")
}

fn term(text: &str, connection: &Connection, names: &Names) -> Result<i64, Doubt> {
    let text = text.trim().trim_matches(['(', ')']);
    if let Some(value) = names.get(text) {
        return Ok(*value);
    }
    if let Some(hex) = text.strip_prefix("0x") {
        let value = i64::from_str_radix(hex, 16);
        return value.map_err(|_| Doubt::Unknown(format!("the number {text}")));
    }
    if let Ok(value) = text.parse() {
        return Ok(value);
    }
    let (state, out) = (connection.snapshot(), connection.outstanding());
    Ok(match text {
        "TCP_CA_Open" => LossState::Open as i64,
        "TCP_CA_Disorder" => LossState::Disorder as i64,
        "TCP_CA_CWR" => LossState::Cwr as i64,
        "TCP_CA_Recovery" => LossState::Recovery as i64,
        "TCP_CA_Loss" => LossState::Loss as i64,
        "tcpi_ca_state" => state.state as i64,
        "tcpi_snd_cwnd" => state.cwnd.into(),
        // Linux has 2^31 - 1 for none.
        "tcpi_snd_ssthresh" => i64::from(state.ssthresh.min(0x7fff_ffff)),
        "tcpi_unacked" => out.unacked.into(),
        "tcpi_sacked" => out.sacked.into(),
        "tcpi_lost" => out.lost.into(),
        "tcpi_retrans" => out.retransmitted.into(),
        "tcpi_reordering" => out.reordering.into(),
        "tcpi_rtt" => (state.srtt.unwrap_or(0) / 1000) as i64,
        "tcpi_min_rtt" => (state.min_rtt.unwrap_or(0) / 1000) as i64,
        _ => return Err(Doubt::Unknown(format!("{text} of tcp_info"))),
    })
}

//! The statements of scripts about the state of the connection: assertions as Python has them.

use std::collections::BTreeMap;

/// Names that statements have defined, and their values.
pub type Names = BTreeMap<String, i64>;

/// Values of the connection by their names in `tcp_info`, as far as they are known.
pub type Info<'a> = &'a dyn Fn(&str) -> Option<i64>;

/// Why statements do not hold.
pub enum Doubt {
    /// They need something that the runner does not know.
    Unknown(String),
    /// They are false.
    False(String),
}

/// Checks statements.
pub fn check(code: &str, info: Info<'_>, names: &mut Names) -> Result<(), Doubt> {
    let lines = code
        .lines()
        .map(|line| line.split('#').next().unwrap_or(""));
    let statements = lines.flat_map(|line| line.split(';'));
    for statement in statements {
        let statement = statement.trim().trim_end_matches('\\').trim();
        if let Some(claim) = statement.strip_prefix("assert ") {
            // After the comma is a text for people. No claim has one.
            let claim = claim.split(',').next().unwrap_or("").trim();
            if !holds(claim, info, names)? {
                let values = values(claim, info, names);
                return Err(Doubt::False(format!("{claim}: here {values}")));
            }
        } else if let Some((name, value)) = statement.split_once(" += ") {
            let value = term(name, info, names)? + term(value, info, names)?;
            names.insert(name.trim().to_owned(), value);
        } else if let Some((name, value)) = statement.split_once(" = ") {
            let value = term(value, info, names)?;
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

fn holds(claim: &str, info: Info<'_>, names: &Names) -> Result<bool, Doubt> {
    let (terms, between) = chain(claim);
    let terms: Result<Vec<i64>, Doubt> = terms
        .into_iter()
        .map(|text| term(text, info, names))
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
fn values(claim: &str, info: Info<'_>, names: &Names) -> String {
    let (terms, _) = chain(claim);
    let named = terms.into_iter().filter(|text| text.starts_with("tcpi_"));
    let values = named.filter_map(|text| term(text, info, names).ok());
    let values: Vec<String> = values.map(|value| value.to_string()).collect();
    values.join(", ")
}

fn term(text: &str, info: Info<'_>, names: &Names) -> Result<i64, Doubt> {
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
    info(text).ok_or_else(|| Doubt::Unknown(format!("{text} of tcp_info")))
}

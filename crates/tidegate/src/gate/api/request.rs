//! What requests carry, read key by key: each mistake is a sentence that says what to write.

use std::path::PathBuf;

use serde_json::{Map, Value};
use tidegate_gate::binding::BindingChange;
use tidegate_gate::config::PlanKeys;
use tidegate_gate::control::Adjustment;
use tidegate_gate::live::MatchChange;
use tidegate_gate::table::Match;
use tidegate_gate::{Direction, Setting, matches};
use tidegate_limiter::Rate;
use tidegate_notation::{clean, instead};
use utoipa::{IntoParams, ToSchema};

use crate::gate::view::{Lease, Patch};

/// Most subscribers on a page.
const MOST_ON_PAGE: usize = 10_000;

/// Which subscribers to list.
#[derive(Debug, Clone, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Filter {
    /// Number of subscribers on the page: 100 if not given, at most 10000.
    pub limit: Option<usize>,
    /// Only subscribers whose name sorts behind this one: `next` of the page before.
    pub after: Option<String>,
    /// Only subscribers whose name contains this.
    pub name: Option<String>,
    /// Only subscribers on this plan.
    pub plan: Option<String>,
    /// Only subscribers that were set live (true), or only the others (false).
    pub set: Option<bool>,
}

impl Filter {
    /// The filter that a query describes.
    pub fn new(query: Vec<(String, String)>) -> Result<Self, String> {
        let given = Parameters::new(query, &["limit", "after", "name", "plan", "set"])?;
        let text = |name| given.get(name).map(str::to_owned);
        let limit = given.limit()?;
        Ok(Self {
            limit,
            after: text("after"),
            name: text("name"),
            plan: text("plan"),
            set: given.truth("set")?,
        })
    }
}

/// How many to list.
#[derive(Debug, Clone, Copy, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Most {
    /// Most flows: 100 if not given, at most 10000.
    pub limit: Option<usize>,
}

impl Most {
    /// The number that a query gives.
    pub fn new(query: Vec<(String, String)>) -> Result<Self, String> {
        let given = Parameters::new(query, &["limit"])?;
        Ok(Self {
            limit: given.limit()?,
        })
    }
}

/// Which events to list.
#[derive(Debug, Clone, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Which {
    /// Most events: 100 if not given, at most 10000.
    pub limit: Option<usize>,
    /// Only events of this subscriber.
    pub subscriber: Option<String>,
}

impl Which {
    /// The events that a query describes.
    pub fn new(query: Vec<(String, String)>) -> Result<Self, String> {
        let given = Parameters::new(query, &["limit", "subscriber"])?;
        Ok(Self {
            limit: given.limit()?,
            subscriber: given.get("subscriber").map(str::to_owned),
        })
    }
}

/// The change that a body describes.
pub fn patch(body: Value) -> Result<Patch, String> {
    let body = Body::new(
        body,
        &[
            "reset",
            "plan",
            "down",
            "up",
            "suspended",
            "keys",
            "from_port",
            "from_mac",
            "from_vlan",
            "reset_addresses",
            "addresses",
            "vlan",
            "qinq",
            "pppoe",
            "assign",
            "release",
            "reset_usage",
        ],
        r#"{"down": "50mbit"}"#,
    )?;
    Ok(Patch {
        reset: body.truth("reset")?.unwrap_or(false),
        plan: body.text("plan", "gold")?,
        down: body.text("down", "50mbit")?,
        up: body.text("up", "10mbit")?,
        suspended: body.truth("suspended")?,
        keys: body.object("keys", r#"{"quota": "500GB"}"#)?,
        from_port: body.text("from_port", "eth3")?,
        from_mac: body.text("from_mac", "02:00:00:00:00:01")?,
        from_vlan: body.text("from_vlan", "100.200")?,
        reset_addresses: body.truth("reset_addresses")?.unwrap_or(false),
        addresses: body.texts("addresses", "192.0.2.1")?,
        vlan: body.texts("vlan", "7")?,
        qinq: body.texts("qinq", "100.200")?,
        pppoe: body.texts("pppoe", "17")?,
        assign: body.texts("assign", "192.0.2.1")?,
        release: body.texts("release", "192.0.2.1")?,
        reset_usage: body.truth("reset_usage")?.unwrap_or(false),
    })
}

/// The adjustment that a patch asks for, checked.
pub fn adjustment(patch: Patch) -> Result<Adjustment, String> {
    let rate = |way: Direction, text: Option<String>| {
        text.map(|text| text.parse::<Rate>())
            .transpose()
            .map_err(|error| format!("{}: {error}", way.name()))
    };
    let mut moves = Vec::new();
    if patch.reset_addresses {
        moves.push(MatchChange::AsDeclared);
    }
    let lists = [
        ("addresses", patch.addresses),
        ("vlan", patch.vlan),
        ("qinq", patch.qinq),
        ("pppoe", patch.pppoe),
    ];
    for (key, texts) in lists {
        if let Some(texts) = texts {
            let only = MatchChange::only(key, &texts);
            moves.push(only.map_err(|error| format!("{key}: {error}"))?);
        }
    }
    let read = |key: &str, texts: Option<Vec<String>>| -> Result<Vec<Match>, String> {
        let texts = texts.unwrap_or_default();
        let all = texts.iter().map(|text| matches::read(text));
        let all: Vec<Vec<Match>> = all
            .collect::<Result<_, _>>()
            .map_err(|error| format!("{key}: {error}"))?;
        Ok(all.concat())
    };
    moves.extend(
        read("assign", patch.assign)?
            .into_iter()
            .map(MatchChange::Assign),
    );
    moves.extend(
        read("release", patch.release)?
            .into_iter()
            .map(MatchChange::Release),
    );
    let adjustment = Adjustment {
        reset: patch.reset,
        setting: Setting {
            plan: patch.plan,
            down: rate(Direction::Down, patch.down)?,
            up: rate(Direction::Up, patch.up)?,
            suspended: patch.suspended,
            from: None,
            keys: patch.keys,
        },
        from: BindingChange {
            port: patch.from_port,
            mac: patch.from_mac,
            tags: patch.from_vlan,
        },
        moves,
        ..Adjustment::default()
    };
    if adjustment == Adjustment::default() && !patch.reset_usage {
        return Err("nothing to change: give at least one of plan, down, up, keys, suspended, addresses and reset".into());
    }
    Ok(adjustment)
}

/// The subscriber that an address is given to.
pub fn lease(body: Value) -> Result<Lease, String> {
    let example = r#"{"subscriber": "alice"}"#;
    let body = Body::new(body, &["subscriber", "only"], example)?;
    let subscriber = body.text("subscriber", "alice")?;
    Ok(Lease {
        subscriber: subscriber
            .ok_or_else(|| format!("the body names no subscriber: send {example}"))?,
        only: body.truth("only")?.unwrap_or(false),
    })
}

/// The body of a reload.
#[derive(Debug, Clone, Default, ToSchema)]
pub struct Another {
    /// The configuration file to use from now on. It is allowed only on the control socket,
    /// `control.sock` in the state folder, because errors quote lines of the file.
    #[schema(value_type = Option<String>)]
    pub file: Option<PathBuf>,
    /// Skip lines with mistakes in imported files, and list them. Their subscribers are not limited.
    #[schema(default = false)]
    pub lenient: bool,
}

impl Another {
    /// The options that a body describes.
    pub fn new(body: Value) -> Result<Self, String> {
        let body = Body::new(body, &["file", "lenient"], r#"{"lenient": true}"#)?;
        let file = body.text("file", "/etc/tidegate/gate.toml")?;
        Ok(Self {
            file: file.map(PathBuf::from),
            lenient: body.truth("lenient")?.unwrap_or(false),
        })
    }
}

/// What the other gate of a pair does not know yet.
#[derive(Debug, Clone, Copy, ToSchema)]
pub struct Since {
    /// Live changes later than this stamp.
    pub since: u64,
    /// Whether it asks for volumes.
    pub volumes: bool,
}

impl Since {
    /// The question of a body.
    pub fn new(body: Value) -> Result<Self, String> {
        let body = Body::new(body, &["since", "volumes"], r#"{"since": 0}"#)?;
        Ok(Self {
            since: body.number("since")?.unwrap_or(0),
            volumes: body.truth("volumes")?.unwrap_or(false),
        })
    }
}

/// Which limiters the other gate of a pair asks for.
#[derive(Debug, Clone, Copy, ToSchema)]
pub struct Within {
    /// Those that had packets within this time, in milliseconds.
    pub within_ms: u64,
}

impl Within {
    /// The question of a body.
    pub fn new(body: Value) -> Result<Self, String> {
        let body = Body::new(body, &["within_ms"], r#"{"within_ms": 2000}"#)?;
        Ok(Self {
            within_ms: body.number("within_ms")?.unwrap_or(2000),
        })
    }
}

/// The keys and values of a request's body, an object of JSON.
struct Body {
    given: Map<String, Value>,
}

impl Body {
    /// A body that may have these keys. `example` is one.
    fn new(body: Value, keys: &[&str], example: &str) -> Result<Self, String> {
        let Value::Object(given) = body else {
            let kind = kind(&body);
            return Err(format!(
                "the body is {kind}: send an object, such as {example}"
            ));
        };
        match given.keys().find(|key| !keys.contains(&key.as_str())) {
            Some(key) => Err(unknown("the body", "key", key, keys)),
            None => Ok(Self { given }),
        }
    }

    /// A text, if the key is there and not null.
    fn text(&self, key: &str, example: &str) -> Result<Option<String>, String> {
        match self.given.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => {
                let kind = kind(other);
                Err(format!(
                    "`{key}` is {kind}: write a text in quotes, such as \"{example}\""
                ))
            }
        }
    }

    /// Texts, if the key is there and not null.
    fn texts(&self, key: &str, example: &str) -> Result<Option<Vec<String>>, String> {
        let wrong = |value: &Value| {
            let kind = kind(value);
            format!("`{key}` is {kind}: write a list of texts, such as [\"{example}\"]")
        };
        match self.given.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(all)) => {
                let text = |one: &Value| one.as_str().map(str::to_owned).ok_or_else(|| wrong(one));
                all.iter().map(text).collect::<Result<_, _>>().map(Some)
            }
            Some(other) => Err(wrong(other)),
        }
    }

    /// The keys and values of an object, none if the key is not there or null.
    fn object(&self, key: &str, example: &str) -> Result<PlanKeys, String> {
        match self.given.get(key) {
            None | Some(Value::Null) => Ok(PlanKeys::new()),
            Some(Value::Object(all)) => Ok(all.clone().into_iter().collect()),
            Some(other) => {
                let kind = kind(other);
                Err(format!(
                    "`{key}` is {kind}: write an object, such as {example}"
                ))
            }
        }
    }

    /// A whole number, if the key is there and not null.
    fn number(&self, key: &str) -> Result<Option<u64>, String> {
        match self.given.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| {
                format!(
                    "`{key}` is {}: write a whole number that is not negative",
                    kind(value)
                )
            }),
        }
    }

    /// Whether the key is true, if it is there and not null.
    fn truth(&self, key: &str) -> Result<Option<bool>, String> {
        match self.given.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(truth)) => Ok(Some(*truth)),
            Some(other) => Err(format!("`{key}` is {}: write true or false", kind(other))),
        }
    }
}

/// The parameters of a request's query. The last of equal names counts.
struct Parameters {
    given: Vec<(String, String)>,
}

impl Parameters {
    /// A query that may have these parameters.
    fn new(given: Vec<(String, String)>, names: &[&str]) -> Result<Self, String> {
        match given
            .iter()
            .find(|(name, _)| !names.contains(&name.as_str()))
        {
            Some((name, _)) => Err(unknown("the query", "parameter", name, names)),
            None => Ok(Self { given }),
        }
    }

    /// A parameter, if it is there.
    fn get(&self, name: &str) -> Option<&str> {
        let found = self.given.iter().rfind(|(given, _)| given == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The number of items on a page, if it is there.
    fn limit(&self) -> Result<Option<usize>, String> {
        let Some(text) = self.get("limit") else {
            return Ok(None);
        };
        let number = text.parse().ok();
        let number = number.filter(|number| (1..=MOST_ON_PAGE).contains(number));
        let wrong = || {
            let text = clean(text);
            format!("limit is `{text}`, and must be a number from 1 to {MOST_ON_PAGE}")
        };
        number.ok_or_else(wrong).map(Some)
    }

    /// Whether a parameter is true, if it is there.
    fn truth(&self, name: &str) -> Result<Option<bool>, String> {
        match self.get(name) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(other) => Err(format!("{name} is `{}`: write true or false", clean(other))),
        }
    }
}

fn unknown(place: &str, what: &str, name: &str, known: &[&str]) -> String {
    let meant = instead(name, known.iter().copied());
    format!("{place} has an unknown {what} `{}`{meant}", clean(name))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

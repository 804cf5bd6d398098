//! Flows of a file, checked and chosen.

use std::net::Ipv4Addr;

use tidegate_limiter::Nanos;
use tidegate_notation::{Mistake, Node, Section, Table, Value, quantity};

use super::fields::{Fields, range, values};
use super::files::Files;
use super::keys::{ADAPTIVE, BULK, ON_OFF, STREAM, UDP, VIDEO, WEB};
use super::{applications, sizes, stream};
use crate::SECOND;
use crate::plan::{FlowPlan, Traffic};
use crate::tcp::{Algorithm, Recovery, SlowStart, TcpConfig};

/// Segments and requests have sizes that networks carry.
const SEGMENT: std::ops::RangeInclusive<u64> = 88..=9000;

/// The longest of the entry's round trips, for the sizes of limiters.
pub(super) fn longest_rtt(table: &Table) -> Result<Nanos, Mistake> {
    let one = |node: &Node| range(node, "rtt", quantity::time).map(|(_, most)| most);
    let mut all = values(table, "rtt").iter();
    all.try_fold(0, |most, node| Ok(most.max(one(node)?)))
}

/// A flow, without its index in the plan. `number`: its number among its aggregate's flows.
pub(super) fn flow(
    f: &Fields<'_>,
    name: &str,
    number: usize,
    files: &Files,
) -> Result<FlowPlan, Mistake> {
    let default = TcpConfig::default();
    let algorithms = Algorithm::ALL.map(|algorithm| (algorithm.name(), algorithm));
    let recoveries = [
        ("conservative", Recovery::Conservative),
        ("slow-start", Recovery::SlowStart),
        ("quic", Recovery::Quic),
    ];
    let slow_starts = [
        ("linux", SlowStart::Linux),
        ("hystart++", SlowStart::HyStartPlusPlus),
    ];
    let mss = f.integer("mss", SEGMENT)?;
    let window = f.integer("initial-window", 1..=10_000)?;
    let threshold = f.integer("slow-start-threshold", 2..=1_000_000)?;
    let recovery = f.word("recovery", &recoveries)?;
    let recovery = recovery.unwrap_or(default.recovery);
    let sack = f.truth("sack")?.unwrap_or(default.sack);
    if recovery == Recovery::Quic && !sack {
        return Err(f.wrong("recovery", "QUIC's recovery needs `sack = true`"));
    }
    let tcp = TcpConfig {
        mss: mss.map_or(default.mss, |mss| mss as u32),
        initial_window: window.map_or(default.initial_window, |window| window as u32),
        algorithm: f.word("cc", &algorithms)?.unwrap_or(default.algorithm),
        slow_start: f
            .word("slow-start", &slow_starts)?
            .unwrap_or(default.slow_start),
        recovery,
        pacing: f.truth("pacing")?.unwrap_or(default.pacing),
        rate_limit: f.rate("rate-limit")?,
        slow_start_threshold: threshold.map(|segments| segments as u32),
        send_buffer: f.small_bytes("send-buffer", 4096..=1 << 30)?,
        // 1 GiB is the largest window of RFC 7323.
        receive_window: f
            .small_bytes("receive-window", 1..=1 << 30)?
            .unwrap_or(default.receive_window),
        read_rate: f.rate("read-rate")?,
        read_block: f
            .small_bytes("read-block", 1..=1 << 30)?
            .unwrap_or(default.read_block),
        sack,
        timestamps: f.truth("timestamps")?.unwrap_or(default.timestamps),
        ecn: f.truth("ecn")?.unwrap_or(default.ecn),
        rack: f.truth("rack")?.unwrap_or(default.rack),
        slow_start_after_idle: f
            .truth("slow-start-after-idle")?
            .unwrap_or(default.slow_start_after_idle),
        min_rto: f.positive_time("min-rto")?.unwrap_or(default.min_rto),
        delayed_ack: f.time("delayed-ack")?.unwrap_or(default.delayed_ack),
        ack_compression: f
            .truth("ack-compression")?
            .unwrap_or(default.ack_compression),
        gro: f.time("gro")?.unwrap_or(default.gro),
    };
    let class = f.integer("class", 0..=u64::from(u16::MAX))?;
    let queue = match f.node("queue")?.map(|node| &node.value) {
        Some(Value::Text(_)) => f
            .word("queue", &[("hash", false), ("own", true)])?
            .and_then(|own| own.then_some(number as u64)),
        _ => f.integer("queue", 0..=u64::from(u16::MAX))?,
    };
    Ok(FlowPlan {
        name: name.to_owned(),
        aggregate: 0,
        forward: Vec::new(),
        back: Vec::new(),
        delay: f.delay("rtt")?.ok_or_else(|| f.missing("rtt"))?,
        class: class.map(|class| class as u16),
        queue: queue.map(|queue| u16::try_from(queue).unwrap_or(u16::MAX)),
        dscp: f.code_point("dscp")?.unwrap_or(0),
        address: server(f)?,
        port: f.integer("port", 1..=u64::from(u16::MAX))?.unwrap_or(443) as u16,
        client: client(f)?,
        start: f.time("start")?.unwrap_or(0),
        traffic: traffic(f, files)?,
        tcp,
    })
}

/// The server's address.
fn server(f: &Fields<'_>) -> Result<Option<Ipv4Addr>, Mistake> {
    address(f, "address", |is_client| {
        is_client.then_some("10.128.0.0/9 are the clients: choose another address")
    })
}

/// The client's address.
fn client(f: &Fields<'_>) -> Result<Option<Ipv4Addr>, Mistake> {
    address(f, "client", |is_client| {
        (!is_client).then_some("clients are in 10.128.0.0/9: choose an address there")
    })
}

/// An address; `complaint` is given whether it is among those of clients.
fn address(
    f: &Fields<'_>,
    key: &str,
    complaint: impl Fn(bool) -> Option<&'static str>,
) -> Result<Option<Ipv4Addr>, Mistake> {
    let Some(node) = f.node(key)? else {
        return Ok(None);
    };
    let Value::Text(text) = &node.value else {
        return Err(node.wrong(format!("`{key}` is text in quotes, not {}", node.kind())));
    };
    let address: Ipv4Addr = text.parse().map_err(|_| {
        node.wrong(format!(
            "'{text}' is not an IPv4 address: write one such as 192.0.2.1"
        ))
    })?;
    match complaint(matches!(address.octets(), [10, 128..=255, ..])) {
        Some(complaint) => Err(node.wrong(complaint)),
        None => Ok(Some(address)),
    }
}

fn traffic(flow: &Fields<'_>, files: &Files) -> Result<Traffic, Mistake> {
    const KINDS: &[(&str, Section)] = &[
        ("bulk", BULK),
        ("on-off", ON_OFF),
        ("video", VIDEO),
        ("stream", STREAM),
        ("adaptive", ADAPTIVE),
        ("web", WEB),
        ("udp", UDP),
    ];
    let Some(node) = flow.node("traffic")? else {
        return Ok(Traffic::Bulk { bytes: None });
    };
    let name = match &node.value {
        Value::Table(table) => table.get("kind").ok_or_else(|| {
            node.wrong("`kind` is missing: bulk, on-off, video, stream, adaptive, web or udp")
        })?,
        _ => node,
    };
    let names: Vec<(&str, usize)> = KINDS
        .iter()
        .enumerate()
        .map(|(i, kind)| (kind.0, i))
        .collect();
    let (name, section) = KINDS[name.word("traffic", &names)?];
    let what = format!("traffic of kind {name}");
    let empty = Table::default();
    let table = match &node.value {
        Value::Table(table) => table,
        _ => &empty,
    };
    let f = Fields::of(table, node.place, &what, &[section], &[])?;
    let f = flow.chosen_as(f);
    Ok(match name {
        "bulk" => Traffic::Bulk {
            bytes: sizes::size(&f, "size")?,
        },
        "on-off" => {
            let mean = f.positive_bytes("mean")?.unwrap_or(100_000);
            let max = f
                .positive_bytes("max")?
                .unwrap_or(mean.saturating_mul(1000));
            if max <= mean {
                return Err(f.wrong("max", "`max` must be more than `mean`".to_owned()));
            }
            Traffic::OnOff {
                mean: mean as f64,
                shape: f.real("shape", 1.01..=100.0)?.unwrap_or(1.2),
                max: max as f64,
                pause: f.time("pause")?.unwrap_or(SECOND),
                reconnect: f.truth("reconnect")?.unwrap_or(true),
            }
        }
        "video" => Traffic::Video {
            chunk: f.positive_bytes("chunk")?.unwrap_or(2_000_000),
            chunks: f
                .integer("chunks", 1..=u64::from(u32::MAX))?
                .map(|chunks| chunks as u32),
            pause: f.time("pause")?.unwrap_or(5 * SECOND),
            request: f.small_bytes("request", 1..=1_000_000)?.unwrap_or(300),
        },
        "stream" => Traffic::Stream(stream::read(&f)?),
        "adaptive" => Traffic::Adaptive(applications::adaptive(&f)?),
        "web" => Traffic::Web(applications::web(&f, files)?),
        _ => Traffic::Datagrams {
            rate: f.rate("rate")?.ok_or_else(|| f.missing("rate"))?,
            bytes: f.small_bytes("size", 28..=9000)?.unwrap_or(1500),
            stop: f.time("stop")?,
        },
    })
}

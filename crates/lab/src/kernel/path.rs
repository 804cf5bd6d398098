//! From a plan to what can be done to packets in real time.

use std::fs::File;
use std::io::{self, BufWriter};
use std::sync::mpsc::Receiver;

use tidegate_limiter::Nanos;
use tidegate_trace::read::LinkType;
use tidegate_trace::write::{PcapWriter, Resolution};

use super::{KernelError, host};
use crate::plan::{ElementKind, FlowPlan, LimiterKind, Plan, QueueKind, Traffic};
use crate::tcp::TcpConfig;

/// Checks that the kernel's TCP and the emulator can do what the plan wants.
pub(super) fn check(plan: &Plan) -> Result<(), KernelError> {
    let refuse = |what: String| Err(KernelError::Unsupported(what));
    if plan.flows.len() > host::MAX_FLOWS {
        return refuse(format!("{} flows", plan.flows.len()));
    }
    if plan.window == 0 {
        return refuse("a throughput window of 0".into());
    }
    for (i, flow) in plan.flows.iter().enumerate() {
        if let Some(what) = beyond(plan, flow) {
            return refuse(format!("flow {i} ('{}'), {what}", flow.name));
        }
    }
    for element in &plan.elements {
        let what = match &element.kind {
            ElementKind::Delay { jitter: 0, .. } | ElementKind::Tap { .. } => continue,
            ElementKind::Delay { .. } => "jitter",
            ElementKind::Link {
                queue: QueueKind::DropTail { .. },
                ..
            } => continue,
            ElementKind::Link { .. } => "an active queue management",
            ElementKind::Loss { .. } => "random loss",
            ElementKind::Reorder { .. } => "reordering",
            ElementKind::Limiter { kind, .. } => match kind {
                LimiterKind::Policer { .. } => continue,
                _ => "this limiter",
            },
        };
        return refuse(format!("element '{}', {what}", element.name));
    }
    Ok(())
}

/// What of a flow is beyond the kernel, or beyond what its namespace is set up for.
fn beyond(plan: &Plan, flow: &FlowPlan) -> Option<&'static str> {
    let usual = TcpConfig {
        algorithm: flow.tcp.algorithm,
        receive_window: flow.tcp.receive_window,
        mss: plan.flows[0].tcp.mss,
        ..TcpConfig::default()
    };
    if !matches!(flow.traffic, Traffic::Bulk { .. }) {
        Some("traffic that is not bulk")
    } else if flow.tcp.mss != usual.mss {
        Some("a segment size other than the first flow's")
    } else if !(536..=8948).contains(&flow.tcp.mss) {
        Some("a segment size that is not from 536 to 8948 bytes")
    } else if flow.tcp.receive_window < 1 << 20 {
        // A socket's buffer bounds the window too loosely to stand for a small one.
        Some("a receive window below 1 MiB")
    } else if flow.tcp != usual {
        Some("settings of TCP that are not the defaults (but for algorithm, mss and window)")
    } else if flow.dscp != 0 {
        Some("a code point")
    } else {
        None
    }
}

/// A capture to be written.
pub(super) struct Tap {
    /// Its index among the plan's elements.
    pub(super) element: usize,
    out: PcapWriter<BufWriter<File>>,
    snaplen: usize,
}

/// What passes a tap: when, and its bytes.
pub(super) type Passing = (Nanos, Vec<u8>);

impl Tap {
    /// Begins the capture of each tap of a plan.
    pub(super) fn all(plan: &Plan) -> Result<Vec<Self>, KernelError> {
        let taps = plan.elements.iter().enumerate();
        taps.filter_map(|(element, planned)| match &planned.kind {
            ElementKind::Tap { file, snaplen } => Some((element, file, *snaplen)),
            _ => None,
        })
        .map(|(element, file, snaplen)| {
            let out = File::create(file).map(BufWriter::new);
            let out = out.and_then(|out| PcapWriter::new(out, LinkType::RAW, Resolution::Nanos));
            Ok(Self {
                element,
                out: out.map_err(KernelError::system("begin a capture"))?,
                snaplen: snaplen as usize,
            })
        })
        .collect()
    }

    /// Writes what comes until the sender is gone.
    pub(super) fn write(mut self, from: &Receiver<Passing>) -> io::Result<()> {
        for (at, bytes) in from {
            let kept = &bytes[..bytes.len().min(self.snaplen)];
            self.out.frame(at, kept, bytes.len() as u32)?;
        }
        self.out.finish().map(drop)
    }
}

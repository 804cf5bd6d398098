//! Which plans the kernel's TCP supports.

use tidegate_lab::plan::{FlowPlan, Plan, Traffic};
use tidegate_lab::tcp::TcpConfig;

use super::host;
use crate::TestbedError;

/// Checks that a plan is valid, and that the kernel's TCP supports it.
pub(super) fn check(plan: &Plan) -> Result<(), TestbedError> {
    tidegate_lab::check(plan)?;
    if plan.flows.len() > host::MAX_FLOWS {
        let most = host::MAX_FLOWS;
        return Err(TestbedError::Unsupported(format!("more than {most} flows")));
    }
    for (i, flow) in plan.flows.iter().enumerate() {
        if let Some(what) = beyond(plan, flow) {
            let name = &flow.name;
            return Err(TestbedError::Unsupported(format!(
                "flow {i} ('{name}'), {what}"
            )));
        }
    }
    Ok(())
}

/// The part of a flow that the kernel, or the set-up of its namespace, does not support.
fn beyond(plan: &Plan, flow: &FlowPlan) -> Option<&'static str> {
    let usual = TcpConfig {
        algorithm: flow.tcp.algorithm,
        receive_window: flow.tcp.receive_window,
        mss: plan.flows[0].tcp.mss,
        // The kernel's receiver merges what comes together anyway.
        gro: flow.tcp.gro,
        ..TcpConfig::default()
    };
    if !matches!(flow.traffic, Traffic::Bulk { .. }) {
        Some("traffic that is not bulk")
    } else if flow.tcp.mss != usual.mss {
        Some("a segment size other than the first flow's")
    } else if !(536..=8948).contains(&flow.tcp.mss) {
        Some("a segment size that is not from 536 to 8948 bytes")
    } else if flow.tcp.receive_window < 1 << 20 {
        // A socket's buffer bounds the window too loosely to replace a small window.
        Some("a receive window below 1 MiB")
    } else if flow.tcp != usual {
        Some("settings of TCP that are not the defaults (but for algorithm, mss, window and gro)")
    } else if flow.dscp != 0 {
        Some("a code point")
    } else {
        None
    }
}

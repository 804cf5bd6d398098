//! Small plans for tests.

use tidegate_limiter::Rate;

use crate::plan::{ElementKind, ElementPlan, FlowPlan, Plan, QueueKind, Traffic};
use crate::tcp::TcpConfig;
use crate::{MILLISECOND, SECOND};

pub fn rate(bits: u64) -> Rate {
    Rate::from_bits_per_second(bits)
}

/// Ten seconds of all flows through all elements, one aggregate.
pub fn plan(elements: Vec<ElementPlan>, mut flows: Vec<FlowPlan>) -> Plan {
    for flow in &mut flows {
        flow.forward = (0..elements.len()).collect();
    }
    Plan {
        seed: 1,
        duration: 10 * SECOND,
        window: 250 * MILLISECOND,
        sample: None,
        connections: None,
        aggregates: vec!["all".into()],
        elements,
        nodes: Vec::new(),
        flows,
    }
}

pub fn element(name: &str, kind: ElementKind) -> ElementPlan {
    ElementPlan {
        name: name.into(),
        kind,
    }
}

/// A link with room for this many packets.
pub fn link(name: &str, bits: u64, packets: u64) -> ElementPlan {
    let queue = QueueKind::DropTail {
        bytes: None,
        packets: Some(packets),
    };
    let rate = rate(bits);
    element(name, ElementKind::Link { rate, queue })
}

/// A flow with a round trip of 20 ms.
pub fn flow(traffic: Traffic) -> FlowPlan {
    FlowPlan {
        name: "flow".into(),
        aggregate: 0,
        forward: vec![],
        back: vec![],
        delay: 20 * MILLISECOND,
        class: None,
        queue: None,
        dscp: 0,
        address: None,
        port: 443,
        client: None,
        start: 0,
        traffic,
        tcp: TcpConfig::default(),
    }
}

pub fn datagrams(bits: u64, bytes: u32) -> FlowPlan {
    flow(Traffic::Datagrams {
        rate: rate(bits),
        bytes,
        stop: None,
    })
}

pub fn bulk(bytes: Option<u64>) -> FlowPlan {
    flow(Traffic::Bulk { bytes })
}

//! Which elements the packets of a flow pass.

use crate::element::Element;
use crate::element::delay::Delay;
use crate::plan::{FlowPlan, Plan};
use crate::random::{Owner, Random};

/// The stages of a flow's two ways. Its own delay, half of it each way, is made into stages at the
/// end, and comes behind taps at the very front: they are beside the server and see what it sees.
pub fn paths<S>(
    plan: &Plan,
    flow: &FlowPlan,
    stages: &mut Vec<S>,
    stage: impl Fn(Element) -> S,
) -> [Box<[u32]>; 2] {
    let mut delay = |delay| {
        let random = Random::new(plan.seed, Owner::Element(stages.len()));
        stages.push(stage(Element::Delay(Delay::new(delay, 0, random))));
        stages.len() - 1
    };
    let half = flow.delay / 2;
    let delays = (flow.delay > 0).then(|| [delay(half), delay(flow.delay - half)]);
    let is_tap = |&&index: &&usize| plan.elements[index].kind.is_tap();
    let (mut forward, mut back) = (flow.forward.clone(), flow.back.clone());
    if let Some([there, home]) = delays {
        forward.insert(flow.forward.iter().take_while(is_tap).count(), there);
        let taps = flow.back.iter().rev().take_while(is_tap).count();
        back.insert(flow.back.len() - taps, home);
    }
    [forward, back].map(|path| path.into_iter().map(|index| index as u32).collect())
}

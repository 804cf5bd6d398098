//! Against generalised processor sharing [Parekh93]: the same policy served as a fluid.

use super::*;

/// A fluid server of rate 1 (bytes a microsecond) over a policy.
struct Fluid<'a> {
    program: &'a Program,
    /// By queue.
    held: Vec<f64>,
    sent: Vec<f64>,
    now: f64,
}

impl<'a> Fluid<'a> {
    fn new(program: &'a Program) -> Self {
        let queues = program.queues();
        Self {
            program,
            held: vec![0.0; queues],
            sent: vec![0.0; queues],
            now: 0.0,
        }
    }

    fn active(&self, number: usize) -> bool {
        match self.program.nodes()[number].kind {
            Kind::Queue(queue) => self.held[usize::from(queue)] > 1e-6,
            _ => {
                let mut children = self.program.nodes()[number].children();
                children.any(|child| self.active(child))
            }
        }
    }

    /// Splits the rate of a node to the queues below.
    fn share(&self, number: usize, rate: f64, rates: &mut [f64]) {
        let node = &self.program.nodes()[number];
        let active = || node.children().filter(|&child| self.active(child));
        match node.kind {
            Kind::Queue(queue) => rates[usize::from(queue)] = rate,
            Kind::Priority => active()
                .take(1)
                .for_each(|child| self.share(child, rate, rates)),
            Kind::Weighted => {
                let weight = |child: usize| f64::from(self.program.nodes()[child].weight);
                let sum: f64 = active().map(weight).sum();
                for child in active() {
                    self.share(child, rate * weight(child) / sum, rates);
                }
            }
        }
    }

    fn advance(&mut self, to: f64) {
        while self.now < to && self.active(0) {
            let mut rates = vec![0.0; self.held.len()];
            self.share(0, 1.0, &mut rates);
            let empty = self
                .held
                .iter()
                .zip(&rates)
                .filter(|(_, rate)| **rate > 0.0);
            let step = empty.fold(to - self.now, |step, (held, rate)| step.min(held / rate));
            for (queue, rate) in rates.into_iter().enumerate() {
                self.held[queue] = (self.held[queue] - rate * step).max(0.0);
                self.sent[queue] += rate * step;
            }
            self.now += step;
        }
        self.now = self.now.max(to);
    }
}

/// How far a node below weights may be from its share while all that has packets keeps having
/// them: its part of what its parent is off, its quantum, one packet of its own, and its part of
/// the packets that its siblings overdrew by.
fn bounds(program: &Program, busy: &[bool]) -> Vec<f64> {
    let nodes = program.nodes();
    let mut active = vec![false; nodes.len()];
    for number in (0..nodes.len()).rev() {
        active[number] = match nodes[number].kind {
            Kind::Queue(queue) => busy[usize::from(queue)],
            _ => nodes[number].children().any(|child| active[child]),
        };
    }
    let largest = f64::from(LARGEST);
    let mut off = vec![largest; nodes.len()];
    for number in 1..nodes.len() {
        let parent = usize::from(nodes[number].parent);
        off[number] = off[parent];
        if nodes[parent].kind == Kind::Weighted {
            let siblings = || nodes[parent].children();
            let weight = |child: usize| f64::from(nodes[child].weight);
            let least = siblings().map(weight).fold(f64::INFINITY, f64::min);
            let rivals = || siblings().filter(|&child| active[child]);
            let part = weight(number) / rivals().map(weight).sum::<f64>().max(1.0);
            let overdrawn = part * rivals().count() as f64 * largest;
            let quantum = weight(number) / least * largest;
            off[number] = part * off[parent] + quantum + largest + overdrawn;
        }
    }
    let leaves = (0..program.queues()).map(|queue| off[program.leaf(queue as u16)]);
    leaves.collect()
}

fn sizes(random: &mut u64) -> u32 {
    *random = random
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695);
    40 + (*random >> 33) as u32 % (LARGEST - 39)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Queues that always have packets get what the fluid gives them, all the time, however long.
    #[test]
    fn busy_queues_get_their_share(
        policy in policies(),
        idle: u64,
        mut random: u64,
    ) {
        let program = Arc::new(Program::new(&policy));
        // Of the queues, about half; one at least.
        let mut busy: Vec<bool> = (0..program.queues())
            .map(|queue| idle >> (queue % 64) & 1 == 0)
            .collect();
        busy[0] |= !busy.contains(&true);
        let mut shaper = Shaper::new(&config(program.clone(), RATE, 0), 0);
        let mut fluid = Fluid::new(&program);
        for queue in (0..program.queues()).filter(|&queue| busy[queue]) {
            fluid.held[queue] = 1e12;
            // The first is of the largest size, as quanta grow with it.
            for bytes in [LARGEST, sizes(&mut random)] {
                shaper.offer(0, &meta(queue as u16, bytes), (queue, bytes)).unwrap();
            }
        }
        let bounds = bounds(&program, &busy);
        let mut sent = vec![0.0; program.queues()];
        for _ in 0..1500 {
            let now = shaper.poll_timeout().unwrap();
            let (queue, bytes) = shaper.poll_release(now).unwrap();
            let next = sizes(&mut random);
            shaper.offer(now, &meta(queue as u16, next), (queue, next)).unwrap();
            sent[queue] += f64::from(bytes);
            fluid.advance(now as f64 / 1000.0);
            for (queue, bound) in bounds.iter().enumerate() {
                let off = (sent[queue] - fluid.sent[queue]).abs();
                prop_assert!(off <= *bound, "queue {}: {} of {}", queue, off, bound);
            }
        }
    }

    /// Queues that want less than their share get it, and others share the rest: what each was
    /// given in the end is as from the fluid, up to a bound that does not grow with time.
    #[test]
    fn shares_are_max_min_fair(
        policy in policies(),
        demands in prop::collection::vec(1u64..40, 20),
        mut random: u64,
    ) {
        let program = Arc::new(Program::new(&policy));
        let queues = program.queues();
        // Together twice the rate.
        let sum: u64 = (0..queues).map(|queue| demands[queue % 20]).sum();
        let end = 2_000_000_000;
        let mut packets = Vec::new();
        for queue in 0..queues {
            let mut at = 0;
            while at < end {
                let bytes = sizes(&mut random);
                packets.push(Packet { at, queue: queue as u16, bytes });
                at += u64::from(bytes) * 500 * sum / demands[queue % 20];
            }
        }
        packets.sort_by_key(|packet| packet.at);
        let mut shaper = Shaper::new(&config(program.clone(), RATE, 0), 0);
        let events = run(&mut shaper, &packets, || 0);
        let mut fluid = Fluid::new(&program);
        let mut sent = vec![0.0; queues];
        for event in events {
            match event {
                Event::Accepted(packet) => {
                    fluid.advance(packet.at as f64 / 1000.0);
                    fluid.held[usize::from(packet.queue)] += f64::from(packet.bytes);
                }
                Event::Released(packet) if packet.at <= end => {
                    sent[usize::from(packet.queue)] += f64::from(packet.bytes);
                }
                _ => {}
            }
        }
        fluid.advance(end as f64 / 1000.0);
        let bounds = bounds(&program, &vec![true; queues]);
        let all: f64 = bounds.iter().sum();
        for queue in 0..queues {
            let off = (sent[queue] - fluid.sent[queue]).abs();
            // Its own, and its part of what all others were late by.
            prop_assert!(off <= bounds[queue] + all, "queue {}: {} of {}", queue, off, all);
        }
    }
}

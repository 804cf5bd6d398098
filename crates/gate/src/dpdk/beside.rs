//! Limiters of the limiter crate beside those of the C code: FairPolicers, and shapers, whose packets wait in DPDK's memory.
//! Each core has its own; `dpdk/beside.h` calls them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_limiter::{
    Decision, FairPolicer, Fleet, FleetSettings, LimiterConfig, Nanos, PacketMeta, prefetch_all,
};

/// A packet on its way through such a limiter, as `struct offered` in `dpdk/beside.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Offered {
    /// The address of DPDK's buffer, which this code hands on.
    pub packet: usize,
    /// The number of its limiter.
    pub limiter: u32,
    /// The number of the limiter's plan.
    pub plan: u32,
    /// The version of the seat that gave it this plan.
    pub version: u32,
    /// The hash of its flow.
    pub flow: u32,
    /// Bytes that are charged.
    pub bytes: u32,
    /// Its queue.
    pub queue: u8,
    /// The port where it came in.
    pub from: u8,
    /// The direction that it is limited in.
    pub direction: u8,
    pub spare: u8,
}

/// The plans with such limiters, by number. A core looks one up when a limiter comes under it.
static PLANS: Mutex<BTreeMap<u32, LimiterConfig>> = Mutex::new(BTreeMap::new());

fn plans() -> MutexGuard<'static, BTreeMap<u32, LimiterConfig>> {
    PLANS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes the limiter of a plan before the plan is stored.
pub(super) fn note(number: u32, limiter: &LimiterConfig) {
    match limiter {
        LimiterConfig::FairPolicer(_) | LimiterConfig::Shaper(_) => {
            plans().insert(number, limiter.clone());
        }
        _ => {
            plans().remove(&number);
        }
    }
}

/// Forgets all plans.
pub(super) fn forget() {
    plans().clear();
}

/// Whether a plan lets packets wait.
pub(super) fn holds_packets() -> bool {
    let is_shaper = |limiter: &LimiterConfig| matches!(limiter, LimiterConfig::Shaper(_));
    plans().values().any(is_shaper)
}

/// No limiter of a kind.
const NONE: u32 = u32::MAX;
/// Nanoseconds by which packets may leave late.
const GRANULARITY: Nanos = 10_000;

/// The limiters of a core.
#[derive(Debug)]
pub(super) struct Limiters {
    /// By the limiter's number.
    all: Vec<One>,
    policers: Vec<FairPolicer>,
    shapers: Fleet<Offered>,
    /// Packets that may leave, for which there was no room yet.
    late: VecDeque<Offered>,
}

/// Which of them decides for a limiter's number.
#[derive(Debug, Clone, Copy)]
struct One {
    plan: u32,
    version: u32,
    kind: Kind,
    /// Its number among the policers and the shapers. It keeps both under other plans: packets may wait there.
    policer: u32,
    shaper: u32,
    /// The number of the last queue under a shaper.
    last_queue: u8,
}

impl One {
    /// Before the first packet.
    const FRESH: Self = Self {
        plan: 0,
        version: 0,
        kind: Kind::None,
        policer: NONE,
        shaper: NONE,
        last_queue: 0,
    };
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    None,
    Policer,
    Shaper,
}

impl Limiters {
    /// No limiters yet, which may hold this many packets together.
    pub(super) fn new(packets: usize) -> Self {
        let settings = FleetSettings {
            packets,
            granularity: GRANULARITY,
        };
        Self {
            all: Vec::new(),
            policers: Vec::new(),
            shapers: Fleet::new([], settings, 0),
            late: VecDeque::new(),
        }
    }

    /// Takes packets. `leave` returns whether there is room for a packet to be sent; `dropped` gets a 1 in the place of each packet
    /// that is dropped.
    pub(super) fn offer(
        &mut self,
        now: Nanos,
        offered: &[Offered],
        dropped: &mut [u8],
        mut leave: impl FnMut(Offered) -> bool,
    ) {
        let mut late = std::mem::take(&mut self.late);
        while late.front().is_some_and(|&one| leave(one)) {
            late.pop_front();
        }
        let mut go = |one: Offered| {
            if !late.is_empty() || !leave(one) {
                late.push_back(one);
            }
        };
        // What a limiter needs is fetched while others decide.
        for one in offered {
            self.all
                .get(one.limiter as usize)
                .inspect(|one| prefetch_all(*one));
        }
        for one in offered {
            let Some(limiter) = self.all.get(one.limiter as usize) else {
                continue;
            };
            match limiter.kind {
                Kind::None => {}
                Kind::Policer => prefetch_all(&self.policers[limiter.policer as usize]),
                Kind::Shaper => self.shapers.prefetch(limiter.shaper),
            }
        }
        for (one, dropped) in offered.iter().zip(dropped) {
            let known = self.all.get(one.limiter as usize);
            if known.is_none_or(|known| (known.plan, known.version) != (one.plan, one.version)) {
                self.follow(now, one);
            }
            let limiter = self.all[one.limiter as usize];
            let meta = PacketMeta {
                bytes: one.bytes,
                flow: one.flow,
                // No packet may stop the gate, also if its queue was chosen under another plan.
                queue: one.queue.min(limiter.last_queue).into(),
                ..PacketMeta::default()
            };
            match limiter.kind {
                Kind::None => go(*one),
                Kind::Shaper => {
                    let taken = self.shapers.offer(now, limiter.shaper, &meta, *one);
                    *dropped = u8::from(taken.is_err());
                }
                Kind::Policer => {
                    let policer = &mut self.policers[limiter.policer as usize];
                    match policer.offer(now, &meta) {
                        Decision::Drop => *dropped = 1,
                        _ => go(*one),
                    }
                }
            }
        }
        self.shapers.advance(now, |_, one| go(one));
        self.late = late;
    }

    /// Puts a limiter under the plan of a packet.
    fn follow(&mut self, now: Nanos, packet: &Offered) {
        let place = packet.limiter as usize;
        self.all.resize(self.all.len().max(place + 1), One::FRESH);
        let one = &mut self.all[place];
        (one.plan, one.version) = (packet.plan, packet.version);
        match plans().get(&packet.plan) {
            Some(LimiterConfig::FairPolicer(config)) => {
                let goes_on = matches!(one.kind, Kind::Policer);
                one.kind = Kind::Policer;
                match self.policers.get_mut(one.policer as usize) {
                    Some(policer) if goes_on => policer.adopt(now, config),
                    Some(policer) => *policer = FairPolicer::new(config, now),
                    None => {
                        one.policer = self.policers.len() as u32;
                        self.policers.push(FairPolicer::new(config, now));
                    }
                }
            }
            Some(LimiterConfig::Shaper(config)) => {
                one.kind = Kind::Shaper;
                one.last_queue = config.program().queues() as u8 - 1;
                match one.shaper {
                    NONE => one.shaper = self.shapers.add(now, config),
                    shaper => self.shapers.change(now, shaper, config),
                }
            }
            // Plans are noted before they are stored.
            _ => one.kind = Kind::None,
        }
    }

    /// Resets a limiter, before its number is used again. Its packets are `taken` out.
    pub(super) fn forget(&mut self, limiter: u32, mut taken: impl FnMut(Offered)) {
        let Some(one) = self.all.get_mut(limiter as usize) else {
            return;
        };
        let (policer, shaper) = (one.policer, one.shaper);
        *one = One {
            policer,
            shaper,
            ..One::FRESH
        };
        if shaper != NONE {
            self.shapers.empty(shaper, &mut taken);
        }
        let others = |one: &Offered| one.limiter != limiter;
        let late = std::mem::take(&mut self.late).into_iter();
        let (stay, go): (VecDeque<_>, VecDeque<_>) = late.partition(others);
        self.late = stay;
        go.into_iter().for_each(taken);
    }

    /// All packets that are held.
    pub(super) fn into_packets(self) -> impl Iterator<Item = Offered> {
        self.shapers.into_packets().chain(self.late)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate_limiter::{FairPolicerConfig, PolicyTree, Program, Rate, Shaper, ShaperConfig};

    use super::*;

    /// Plans that other tests of this process do not use.
    const FAIR: u32 = 100_001;
    const SHAPED: u32 = 100_002;
    const FASTER: u32 = 100_003;

    fn rate() -> Rate {
        Rate::from_bits_per_second(8_000_000)
    }

    /// 100 packets of four flows, 1 ms apart, twice as much as the rate.
    fn packets(plan: u32) -> impl Iterator<Item = (Nanos, Offered)> {
        (0..100u32).map(move |n| {
            let one = Offered {
                packet: n as usize,
                limiter: 5,
                plan,
                version: plan,
                flow: (n % 4) << 30,
                bytes: 2000,
                queue: (n % 4) as u8,
                from: 0,
                direction: 0,
                spare: 0,
            };
            (u64::from(n) * 1_000_000, one)
        })
    }

    #[test]
    fn fair_policers_decide_as_those_of_the_limiter_crate() {
        let config = FairPolicerConfig::new(rate(), 20_000).unwrap();
        note(FAIR, &config.clone().into());
        let (mut all, mut alone) = (Limiters::new(8), FairPolicer::new(&config, 0));
        let mut drops = 0;
        for (now, one) in packets(FAIR) {
            let (mut dropped, mut left) = ([0], Vec::new());
            all.offer(now, &[one], &mut dropped, |one| {
                left.push(one.packet);
                true
            });
            let meta = PacketMeta {
                bytes: one.bytes,
                flow: one.flow,
                ..PacketMeta::default()
            };
            let drop = alone.offer(now, &meta) == Decision::Drop;
            assert_eq!((dropped[0] == 1, left.is_empty()), (drop, drop));
            drops += u32::from(drop);
        }
        assert!((30..70).contains(&drops), "{drops}");
    }

    #[test]
    fn shapers_let_go_when_those_of_the_limiter_crate_do() {
        let program = Arc::new(Program::new(&PolicyTree::fair(4).unwrap()));
        let config = ShaperConfig::new(program, rate()).unwrap();
        let config = config.with_queue_bytes(10_000).unwrap();
        note(SHAPED, &config.clone().into());
        let (mut all, mut alone) = (Limiters::new(64), Shaper::new(&config, 0));
        let (mut left, mut expected, mut drops) = (Vec::new(), Vec::new(), 0);
        for (now, one) in packets(SHAPED) {
            let mut dropped = [0];
            all.offer(now, &[one], &mut dropped, |one| {
                left.push((now, one.packet));
                true
            });
            let meta = PacketMeta {
                bytes: one.bytes,
                queue: one.queue.into(),
                ..PacketMeta::default()
            };
            let refused = alone.offer(now, &meta, one.packet).is_err();
            assert_eq!(dropped[0] == 1, refused);
            drops += u32::from(refused);
            expected.extend(std::iter::from_fn(|| alone.poll_release(now)).map(|p| (now, p)));
        }
        assert_eq!(left, expected);
        assert!(drops > 20 && left.len() > 40, "{drops}, {}", left.len());
        // Ten times the rate: what waits goes on, and nothing is lost or sent twice.
        let faster = Rate::from_bits_per_second(80_000_000);
        let faster = ShaperConfig::new(Arc::clone(config.program()), faster).unwrap();
        note(FASTER, &faster.with_queue_bytes(10_000).unwrap().into());
        let waits = 100 - left.len() - drops as usize;
        let (_, mut one) = packets(FASTER).next().unwrap();
        one.packet = 100;
        for now in [100_000_000, 102_000_000, 104_000_000, 106_000_000] {
            let offered: &[Offered] = if now == 100_000_000 { &[one] } else { &[] };
            // There is never room for more than two.
            let mut room = 2;
            all.offer(now, offered, &mut [0], |one| {
                let has_room = room > 0;
                if has_room {
                    room -= 1;
                    left.push((now, one.packet));
                }
                has_room
            });
        }
        // Of another limiter, nothing is forgotten.
        all.forget(4, |_| panic!("it has no packets"));
        let mut late = Vec::new();
        all.forget(5, |one| late.push((0, one.packet)));
        assert_eq!(all.into_packets().count(), 0);
        let rest: Vec<_> = left.drain(expected.len()..).chain(late).collect();
        assert_eq!(rest.len(), waits + 1);
        let mut all: Vec<_> = rest
            .iter()
            .chain(&expected)
            .map(|(_, packet)| packet)
            .collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), rest.len() + expected.len());
    }
}

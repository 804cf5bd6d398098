//! The time that a limiter takes for a packet: every scheme on the same packets, in turn, and the
//! whole path of a packet through it.
//!
//! Packets of 1500 bytes come to 1, 1,000 or 100,000 aggregates in random order, to 16 queues each,
//! at 1.25 times the aggregates' rate. Before, each aggregate is sent a burst that fills its queues,
//! spread over a period of burst control, and then as much for one to two periods more: so all
//! queues are active, a fifth of the packets is too much, and periods end all the time. With
//! 100,000 aggregates a packet finds its limiter's state out of the caches.
//!
//! `NAME.N.time` is a scheme by itself, its queue known. `NAME.N.burst` is the same in bursts of 32
//! packets, as a software router receives them: the limiters' memory is asked for (policer's and
//! phantom queues') before the first of them decides. `NAME.N.path` is what a router does
//! for each packet of such bursts but for receiving and sending it: headers are read, the subscriber
//! is looked up by its address, the flow is hashed (where the scheme distinguishes flows), and the
//! limiter decides.

use std::collections::HashMap;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use tidegate_limiter::{
    BurstControl, Classifier, Decision, Ecn, FairPolicer, FairPolicerConfig, Fleet, FleetSettings,
    HashKey, Headers, Nanos, PacketMeta, PaperControl, PhantomQueuesConfig, PolicerConfig,
    PolicyTree, Ports, Program, Rate, ShaperConfig, SizedPhantomQueues, TokenBucket,
    WaterFillingConfig, WaterFillingPolicer,
};

use super::{Figures, median};

/// Phantom queues of the size that the policy takes, in place.
type Queues = SizedPhantomQueues<16, 1>;

const QUEUES: u16 = 16;
const BYTES: u32 = 1500;
/// Of each aggregate, in bit/s.
const RATE: u64 = 25_000_000;
/// A bucket of 100 ms in bytes, and phantom queues of ten times what Reno needs at 100 ms; without
/// burst control so small ones that they are full as well.
const BURST: u64 = 312_500;
const QUEUE: u64 = 36_000_000;
const SMALL_QUEUE: u64 = 30_000;
/// Packets to each queue at first, more than any of them takes.
const FILL: usize = 24;
/// Nanoseconds that the first packets of all aggregates are spread over, and when they have become
/// steady.
const PERIOD: f64 = 1e8;
const STEADY: f64 = 2.0 * PERIOD;
/// Packets of a burst.
const BURST_PACKETS: usize = 32;
/// Ethernet, IPv4 and TCP headers without options, and padding to a cache line.
const FRAME: usize = 64;

/// How much of a packet's way is measured.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// The limiter alone: aggregate and queue are given.
    Limiter,
    /// The same, in bursts.
    Burst,
    /// From the headers on, with or without finding the flow.
    Path { flows: bool },
}

/// Who sends to whom, and the time between two packets.
struct Arrivals {
    aggregates: u32,
    subscribers: HashMap<[u8; 4], u32>,
    classifier: Classifier,
    gap: f64,
}

/// The address of an aggregate's subscriber.
fn address(aggregate: u32) -> [u8; 4] {
    (Ipv4Addr::new(10, 0, 0, 0).to_bits() + aggregate).to_be_bytes()
}

/// Ethernet, IPv4 and TCP headers that lack only who they are for.
fn frame() -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    frame[12] = 8;
    frame[14] = 0x45;
    frame[23] = 6;
    frame[26..30].copy_from_slice(&[192, 0, 2, 1]);
    frame[34..36].copy_from_slice(&443u16.to_be_bytes());
    frame
}

impl Arrivals {
    fn new(aggregates: u32, program: &Program) -> Result<Self> {
        let rate = RATE as f64 * 1.25 * f64::from(aggregates);
        Ok(Self {
            aggregates,
            subscribers: (0..aggregates).map(|one| (address(one), one)).collect(),
            classifier: Classifier::new(
                program,
                Vec::new(),
                None,
                HashKey::from_bytes((2u128 << 64 | 1).to_le_bytes()),
            )?,
            gap: f64::from(BYTES) * 8e9 / rate,
        })
    }

    /// The addressee of a packet, and its queue or connection: the same on every machine, in no
    /// order [Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014]. There
    /// is no table, which would displace limiters from the caches.
    #[inline(always)]
    fn to(&self, number: usize) -> (u32, u16) {
        let mut word = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let below = |bits: u64, bound: u32| ((bits * u64::from(bound)) >> 32) as u32;
        (
            below(word >> 32, self.aggregates),
            below(word & 0xffff_ffff, QUEUES.into()) as u16,
        )
    }

    /// Receives a packet of one of a subscriber's connections, which are in as many queues as
    /// their hashes find.
    #[inline(always)]
    fn receive((aggregate, queue): (u32, u16), frame: &mut [u8; FRAME]) {
        frame[30..34].copy_from_slice(&address(aggregate));
        frame[36..38].copy_from_slice(&(50_000 + queue).to_be_bytes());
    }

    /// A packet to an aggregate: with its queue given, or by its headers.
    #[inline(always)]
    fn packet(
        &self,
        (aggregate, queue): (u32, u16),
        way: Way,
        frame: &[u8; FRAME],
    ) -> (u32, PacketMeta) {
        let flows = match way {
            Way::Limiter | Way::Burst => {
                let packet = PacketMeta {
                    bytes: BYTES,
                    queue,
                    dscp: 0,
                    ecn: Ecn::NotEct,
                    // Flows of different aggregates do not influence each other.
                    flow: u32::from(queue) * 0x9e37_79b9,
                    ..PacketMeta::default()
                };
                return (aggregate, packet);
            }
            Way::Path { flows } => flows,
        };
        let frame = black_box(frame);
        let four = |at: usize| [frame[at], frame[at + 1], frame[at + 2], frame[at + 3]];
        let two = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        // Packets that are not IPv4 without options take another path, which is not measured.
        assert!(two(12) == 0x0800 && frame[14] == 0x45);
        let aggregate = self.subscribers.get(&four(30)).copied().unwrap_or(0);
        let packet = if flows {
            let headers = Headers {
                source: Ipv4Addr::from(four(26)).into(),
                destination: Ipv4Addr::from(four(30)).into(),
                protocol: frame[23],
                ports: Some(Ports {
                    source: two(34),
                    destination: two(36),
                }),
                dscp: frame[15] >> 2,
            };
            self.classifier.classify(&headers.into(), BYTES)
        } else {
            PacketMeta {
                bytes: BYTES,
                dscp: frame[15] >> 2,
                ..PacketMeta::default()
            }
        };
        (aggregate, packet)
    }

    /// Times a number of packets. Before them the queues are filled with a number of packets each, settle if that is wanted (`each`
    /// gets one aggregate after the other then), and more packets warm the caches. `each` returns how many packets passed.
    #[inline(always)]
    fn time<S>(
        &self,
        way: Way,
        (fill, steady): (usize, bool),
        (warm, packets): (usize, usize),
        state: &mut S,
        prefetch: impl Fn(&S, u32, &PacketMeta),
        mut each: impl FnMut(&mut S, Nanos, u32, &PacketMeta) -> u64,
    ) -> Found {
        let mut frames = [frame(); BURST_PACKETS];
        let gap = self.gap * f64::from(self.aggregates);
        for aggregate in 0..self.aggregates {
            let now = f64::from(aggregate) / f64::from(self.aggregates) * PERIOD;
            for number in 0..fill * usize::from(QUEUES) {
                let to = (aggregate, number as u16 % QUEUES);
                Self::receive(to, &mut frames[0]);
                let (aggregate, packet) = self.packet(to, way, &frames[0]);
                each(state, now as Nanos, aggregate, &packet);
            }
            let more = if steady { (STEADY - now) / gap } else { 0.0 };
            for number in 0..more as usize {
                let to = (aggregate, self.to(number).1);
                Self::receive(to, &mut frames[0]);
                let (aggregate, packet) = self.packet(to, way, &frames[0]);
                let now = now + number as f64 * gap;
                each(state, now as Nanos, aggregate, &packet);
            }
        }
        let mut burst = [(0, PacketMeta::default()); BURST_PACKETS];
        let (mut began, mut passed, mut number) = (Instant::now(), 0, 0);
        while number < warm + packets {
            if number == warm {
                (began, passed) = (Instant::now(), 0);
            }
            let time = |number| (STEADY + number as f64 * self.gap) as Nanos;
            if way == Way::Limiter {
                let (aggregate, packet) = self.packet(self.to(number), way, &frames[0]);
                passed += each(state, time(number), aggregate, &packet);
                number += 1;
                continue;
            }
            // Long before it is read, as a network card does.
            if way != Way::Burst {
                for (at, frame) in frames.iter_mut().enumerate() {
                    Self::receive(self.to(number + at), frame);
                }
            }
            for (at, (one, frame)) in burst.iter_mut().zip(&frames).enumerate() {
                *one = self.packet(self.to(number + at), way, frame);
                prefetch(state, one.0, &one.1);
            }
            for (at, (aggregate, packet)) in burst.iter().enumerate() {
                passed += each(state, time(number + at), *aggregate, packet);
            }
            number += BURST_PACKETS;
        }
        let packets = packets as f64;
        (
            began.elapsed().as_secs_f64() * 1e9 / packets,
            passed as f64 / packets,
        )
    }
}

/// How a scheme is measured.
struct Run<'a> {
    arrivals: &'a Arrivals,
    aggregates: u32,
    way: Way,
    /// Packets before the clock starts, when queues are full, and after.
    packets: (usize, usize),
}

/// Time of a packet in nanoseconds, and how many of them passed.
type Found = (f64, f64);

impl Run<'_> {
    /// A bufferless scheme, an instance for each aggregate.
    fn bufferless<L>(
        &self,
        new: impl Fn() -> L,
        prefetch: impl Fn(&L, &PacketMeta),
        offer: impl Fn(&mut L, Nanos, &PacketMeta) -> Decision,
    ) -> Found {
        let mut limiters: Vec<L> = (0..self.aggregates).map(|_| new()).collect();
        self.arrivals.time(
            self.way,
            (FILL, true),
            self.packets,
            &mut limiters,
            |limiters, aggregate, packet| prefetch(&limiters[aggregate as usize], packet),
            |limiters, now, aggregate, packet| {
                let decision = alone(&offer, &mut limiters[aggregate as usize], now, packet);
                u64::from(decision == Decision::Pass)
            },
        )
    }

    /// The deficit round robin shaper with its buffering, as a middlebox runs it: a packet's first
    /// bytes are written when it comes (as receiving it would have), and read when it leaves (as a
    /// driver does).
    fn shaper(&self, config: &ShaperConfig) -> Found {
        // All queues full, or a gigabyte.
        let held = (self.aggregates as usize * 16 * 48).min(700_000);
        let shapers = (0..self.aggregates).map(|_| config.clone());
        let settings = FleetSettings {
            packets: held,
            granularity: 10_000,
        };
        let fleet = &mut Fleet::new(shapers, settings, 0);
        let mut buffers = vec![[0u8; 1536]; held + 1];
        let mut free: Vec<u32> = (0..=held as u32).collect();
        let each = |fleet: &mut Fleet<u32>, now, aggregate: u32, packet: &PacketMeta| {
            let mut sent = 0;
            if let Some(buffer) = free.pop() {
                buffers[buffer as usize][..4].copy_from_slice(&aggregate.to_le_bytes());
                if fleet.offer(now, aggregate, packet, buffer).is_err() {
                    free.push(buffer);
                }
            }
            fleet.advance(now, |_, buffer| {
                black_box(buffers[buffer as usize][0]);
                free.push(buffer);
                sent += 1;
            });
            sent
        };
        let fill = held / (self.aggregates as usize * usize::from(QUEUES));
        let (way, packets) = (self.way, self.packets);
        self.arrivals
            .time(way, (fill, false), packets, fleet, |_, _, _| {}, each)
    }

    /// A scheme by its name.
    fn scheme(&self, name: &str, program: &Arc<Program>) -> Result<Found> {
        let rate = Rate::from_bits_per_second(RATE);
        let phantom = |config: &PhantomQueuesConfig| {
            self.bufferless(
                || Queues::new(config, 0).expect("16 queues"),
                |limiter, packet| limiter.prefetch(packet.queue),
                Queues::offer,
            )
        };
        Ok(match name {
            "policer" => {
                let config = PolicerConfig::new(rate, BURST)?;
                self.bufferless(
                    || TokenBucket::new(&config, 0),
                    |bucket, _| bucket.prefetch(),
                    TokenBucket::offer,
                )
            }
            "pqp" => phantom(&PhantomQueuesConfig::new(
                Arc::clone(program),
                rate,
                SMALL_QUEUE,
            )?),
            "bc-pqp" => {
                let config = PhantomQueuesConfig::new(Arc::clone(program), rate, QUEUE)?;
                phantom(&config.with_burst_control(BurstControl::DEFAULT))
            }
            "bc-pqp-paper" => {
                let config = PhantomQueuesConfig::new(Arc::clone(program), rate, QUEUE)?;
                let paper = BurstControl::Paper(PaperControl::DEFAULT);
                phantom(&config.with_burst_control(paper))
            }
            "fair-policer.exact" => {
                let config = FairPolicerConfig::new(rate, BURST)?.with_flows(QUEUES);
                self.bufferless(
                    || FairPolicer::new(&config, 0),
                    |_, _| {},
                    FairPolicer::offer,
                )
            }
            "fair-policer.water-filling" => {
                let config = WaterFillingConfig::new(rate, BURST, &[1; QUEUES as usize])?;
                self.bufferless(
                    || WaterFillingPolicer::new(&config, 0),
                    |_, _| {},
                    WaterFillingPolicer::offer,
                )
            }
            "shaper.drr" => {
                let config = ShaperConfig::new(Arc::clone(program), rate)?;
                let config = config.with_burst(BYTES.into());
                self.shaper(&config.with_queue_packets(48)?)
            }
            _ => self.bufferless(
                || (),
                |(), _| {},
                |(), now, packet| {
                    black_box((now, packet));
                    Decision::Pass
                },
            ),
        })
    }
}

/// Decides in a function of its own, as a data path that calls the library does. Else the compiler weaves the scheme into the loop,
/// and instructions of two schemes, or of two versions of one, cannot be compared.
#[inline(never)]
fn alone<L>(
    offer: impl Fn(&mut L, Nanos, &PacketMeta) -> Decision,
    limiter: &mut L,
    now: Nanos,
    packet: &PacketMeta,
) -> Decision {
    offer(limiter, now, packet)
}

/// In the order of being measured; the first is the loop and the way to the limiter, without one.
const SCHEMES: [&str; 8] = [
    "none",
    "policer",
    "pqp",
    "bc-pqp",
    "bc-pqp-paper",
    "fair-policer.exact",
    "fair-policer.water-filling",
    "shaper.drr",
];

/// Sends this number of packets to one aggregate through one scheme, for tools that count instructions.
pub fn once(name: &str, packets: usize) -> Result<()> {
    ensure!(SCHEMES.contains(&name), "the schemes are {SCHEMES:?}");
    let program = Arc::new(Program::new(&PolicyTree::fair(QUEUES)?));
    let run = Run {
        arrivals: &Arrivals::new(1, &program)?,
        aggregates: 1,
        way: Way::Limiter,
        packets: (0, packets),
    };
    let (_, passed) = run.scheme(name, &program)?;
    println!("{:.2} % of {packets} packets passed", passed * 100.0);
    Ok(())
}

/// Measures every scheme `rounds` times, in turn, and adds the medians.
pub fn measure(rounds: usize, figures: &mut Figures) -> Result<()> {
    let program = Arc::new(Program::new(&PolicyTree::fair(QUEUES)?));
    let size = size_of::<Queues>() as f64;
    figures.add("bc-pqp.memory_of_16_queues", size, "bytes");
    for aggregates in [1u32, 1_000, 100_000] {
        let arrivals = Arrivals::new(aggregates, &program)?;
        for what in ["time", "burst", "path"] {
            let mut times = vec![Vec::new(); SCHEMES.len()];
            let mut passed = [0.0; SCHEMES.len()];
            for _ in 0..rounds {
                for (scheme, name) in SCHEMES.into_iter().enumerate() {
                    let flows = !matches!(name, "none" | "policer");
                    let run = Run {
                        arrivals: &arrivals,
                        aggregates,
                        way: match what {
                            "time" => Way::Limiter,
                            "burst" => Way::Burst,
                            _ => Way::Path { flows },
                        },
                        // Some packets for each queue first.
                        packets: ((aggregates as usize * 40).max(200_000), 2_000_000),
                    };
                    let (time, share) = run.scheme(name, &program)?;
                    times[scheme].push(time);
                    passed[scheme] = share;
                }
            }
            let times: Vec<f64> = times.into_iter().map(median).collect();
            for (scheme, name) in SCHEMES.into_iter().enumerate() {
                figures.add(format!("{name}.{aggregates}.{what}"), times[scheme], "ns");
                if what == "time" {
                    let percent = passed[scheme] * 100.0;
                    figures.add(format!("{name}.{aggregates}.passed"), percent, "%");
                }
            }
            let [_, policer, _, bc_pqp, _, _, _, shaper] = times[..] else {
                unreachable!("as many times as schemes");
            };
            let ratios = [
                ("bc-pqp_over_policer", bc_pqp / policer),
                ("shaper_over_bc-pqp", shaper / bc_pqp),
            ];
            for (name, ratio) in ratios {
                figures.add(format!("{name}.{aggregates}.{what}"), ratio, "times");
            }
        }
    }
    Ok(())
}

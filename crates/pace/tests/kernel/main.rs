//! The clamp in this machine's kernel, observed from outside with `ss`.

// Helpers of tests are tests.
#![allow(clippy::unwrap_used)]

mod library;
mod many;
mod net;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;
use tidegate_limiter::{Bytes, Rate};
use tidegate_pace::{Hold, Mode, Options, Pacer, Phase, Ready, Stats, Target, Way, Writer};

use self::net::{Net, SERVER, SERVER6};

/// One at a time: they share the machine's time, and count what is in the kernel.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const MS: Duration = Duration::from_millis(1);

fn target(bits_per_second: u64) -> Target {
    Target::new(Rate::from_bits_per_second(bits_per_second)).unwrap()
}

fn open(net: &Net) -> Pacer {
    let mut options = Options::default();
    options.cgroup = Some(net.cgroup.clone());
    let pace = Pacer::open_with(&options);
    assert!(matches!(pace.mode(), Mode::Kernel), "{:?}", pace.mode());
    pace
}

/// A connection with a client that reads all; run on the server's side.
fn connection(net: &Net, listen: &str, connect: &str) -> TcpStream {
    let listener = TcpListener::bind((listen, 0)).unwrap();
    SockRef::from(&listener)
        .set_tcp_congestion(b"cubic")
        .unwrap();
    let to = (connect.to_owned(), listener.local_addr().unwrap().port());
    net.client(move || read_all(TcpStream::connect(to).unwrap()));
    listener.accept().unwrap().0
}

fn read_all(mut socket: TcpStream) {
    let mut buffer = vec![0; 1 << 16];
    socket.set_read_timeout(Some(10_000 * MS)).unwrap();
    while socket.read(&mut buffer).is_ok_and(|length| length > 0) {}
}

/// Writes as much as TCP takes, while `meanwhile` runs.
fn writing<T>(socket: &TcpStream, meanwhile: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    let block = vec![0; 1 << 16];
    socket.set_write_timeout(Some(100 * MS)).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = (&*socket).write(&block);
            }
        });
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _stop = Stop(&stop);
        meanwhile()
    })
}

/// What `ss -tin` says of the only connection's congestion window.
fn window() -> u32 {
    let output = Command::new("ss")
        .args(["-tinH", "state", "established"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    if text.is_empty() {
        return 0;
    }
    let field = text
        .split_whitespace()
        .find_map(|word| word.strip_prefix("cwnd:"));
    field.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

fn wait_for(what: &str, limit: Duration, mut until: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !until() {
        assert!(begin.elapsed() < limit, "not within {limit:?}: {what}");
        thread::sleep(20 * MS);
    }
}

fn near(value: u32, expected: u32, per_cent: u32) -> bool {
    value.abs_diff(expected) * 100 <= expected * per_cent
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn the_clamp_moves_tenfold_with_the_round_trip() {
    let _alone = alone();
    let Some(net) = Net::new("the_clamp_moves_tenfold_with_the_round_trip") else {
        return;
    };
    net.server(|| {
        net.link.set_rtt(20 * MS);
        let pace = open(&net);
        let socket = connection(&net, SERVER, SERVER);
        // 1.2 · 1,250,000 bytes/s · 20 ms / 1448 = 20.7; tenfold 207.
        pace.pace(&socket, &target(10_000_000)).unwrap();
        writing(&socket, || {
            let mut windows = vec![];
            for (rtt, expected) in [(20, 21), (200, 207), (20, 21)] {
                net.link.set_rtt(rtt * MS);
                let state = || -> Stats { pace.stats(&socket).unwrap() };
                wait_for(&format!("clamp of {expected}"), 20_000 * MS, || {
                    let stats = state();
                    stats.hold == Hold::Clamped
                        && near(stats.clamp, expected, 25)
                        && near(window(), stats.clamp, 12)
                });
                windows.push((rtt, window(), state()));
            }
            println!("{windows:#?}");
        });
    });
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn congestion_lifts_the_clamp_and_it_comes_back() {
    let _alone = alone();
    let Some(net) = Net::new("congestion_lifts_the_clamp_and_it_comes_back") else {
        return;
    };
    net.server(|| {
        net.link.set_rtt(20 * MS);
        net.link.set_queue(60_000);
        let pace = open(&net);
        let socket = connection(&net, SERVER, SERVER);
        pace.pace(&socket, &target(10_000_000)).unwrap();
        writing(&socket, || {
            let state = || pace.stats(&socket).unwrap();
            let clamped = |window: u32| {
                let stats = state();
                stats.hold == Hold::Clamped && near(window, 21, 25)
            };
            wait_for("the clamp", 10_000 * MS, || clamped(window()));
            // A third of the rate: the lead is soon used up.
            net.link.set_rate(3_000_000);
            wait_for("behind", 15_000 * MS, || state().hold == Hold::Behind);
            thread::sleep(1_500 * MS);
            let deficit = state();
            assert!(deficit.delivered < deficit.due, "{deficit:?}");
            // Room again: it goes beyond the clamp, until nothing is behind.
            net.link.set_rate(40_000_000);
            let mut widest = 0;
            wait_for("the clamp again", 20_000 * MS, || {
                let window = window();
                if state().hold == Hold::Behind {
                    widest = widest.max(window);
                }
                clamped(window)
            });
            let after = state();
            assert!(widest > 35, "{widest} {after:?}");
            assert!(
                after.lifts >= 1 && after.delivered >= after.due,
                "{after:?}"
            );
        });
    });
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn losses_are_not_undone_by_the_clamp() {
    let _alone = alone();
    let Some(net) = Net::new("losses_are_not_undone_by_the_clamp") else {
        return;
    };
    net.server(|| {
        // The clamp, 1.2 · 30 Mbit/s · 30 ms, would be 93 and more, and 20 Mbit/s with 30 kB hold 72.
        net.link.set_rtt(30 * MS);
        net.link.set_rate(20_000_000);
        net.link.set_queue(30_000);
        let measure = |paced: bool| {
            let pace = open(&net);
            let socket = connection(&net, SERVER, SERVER);
            pace.pace(&socket, &target(30_000_000)).unwrap();
            if !paced {
                pace.remove(&socket).unwrap();
            }
            let target = target(30_000_000);
            writing(&socket, || {
                // Past slow start.
                thread::sleep(2_000 * MS);
                let lost = net.link.dropped();
                thread::sleep(4_000 * MS);
                if !paced {
                    pace.pace(&socket, &target).unwrap();
                }
                (net.link.dropped() - lost, pace.stats(&socket).unwrap())
            })
        };
        let (plain, _) = measure(false);
        let (paced, stats) = measure(true);
        println!("losses: plain {plain}, paced {paced}: {stats:?}");
        assert_eq!(stats.hold, Hold::Behind, "{stats:?}");
        assert!(
            paced <= 2 * plain + 20,
            "plain {plain}, paced {paced}: {stats:?}"
        );
    });
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn both_families_are_paced() {
    let _alone = alone();
    let Some(net) = Net::new("both_families_are_paced") else {
        return;
    };
    net.server(|| {
        net.link.set_rtt(20 * MS);
        let pace = open(&net);
        // Of IPv6, and of IPv4 mapped into it.
        for connect in [SERVER6, SERVER] {
            let socket = connection(&net, "::", connect);
            pace.pace(&socket, &target(10_000_000)).unwrap();
            writing(&socket, || {
                wait_for(connect, 10_000 * MS, || near(window(), 21, 25));
                assert_eq!(pace.hold(&socket).unwrap(), Hold::Clamped);
            });
            // At once, with all that is still to be sent.
            SockRef::from(&socket)
                .set_linger(Some(Duration::ZERO))
                .unwrap();
            drop(socket);
            wait_for("the end", 10_000 * MS, || !established());
        }
    });
}

fn established() -> bool {
    let output = Command::new("ss")
        .args(["-tnH", "state", "connected"])
        .output()
        .unwrap();
    !output.stdout.is_empty()
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn start_up_is_not_clamped() {
    let _alone = alone();
    let Some(net) = Net::new("start_up_is_not_clamped") else {
        return;
    };
    net.server(|| {
        net.link.set_rtt(20 * MS);
        net.link.set_rate(50_000_000);
        net.link.set_queue(200_000);
        let pace = open(&net);
        let socket = connection(&net, SERVER, SERVER);
        SockRef::from(&socket)
            .set_send_buffer_size(4 << 20)
            .unwrap();
        // Two megabytes in the socket's buffer: 16 s at 1 Mbit/s, 0.4 s at the link's rate.
        (&socket).write_all(&vec![0; 2 << 20]).unwrap();
        let begin = Instant::now();
        pace.pace(&socket, &target(1_000_000)).unwrap();
        assert_eq!(pace.hold(&socket).unwrap(), Hold::StartUp);
        writing(&socket, || {
            wait_for("the end of start-up", 3_000 * MS, || {
                pace.hold(&socket).unwrap() != Hold::StartUp
            });
            println!("start-up took {:?}", begin.elapsed());
            wait_for("the clamp", 5_000 * MS, || window() == 10);
        });
    });
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn at_the_floor_the_writer_keeps_the_rate_in_small_bursts() {
    let _alone = alone();
    let Some(net) = Net::new("at_the_floor_the_writer_keeps_the_rate_in_small_bursts") else {
        return;
    };
    net.server(|| {
        net.link.set_rtt(10 * MS);
        let pace = open(&net);
        let socket = connection(&net, SERVER, SERVER);
        socket.set_nodelay(true).unwrap();
        // 1 Mbit/s · 10 ms is not one segment.
        let mut writer = Writer::new(
            Way::TRICKLE,
            Rate::from_bits_per_second(1_000_000),
            Bytes::new(30_000),
        );
        let begin = Instant::now();
        let now = || begin.elapsed().as_nanos() as u64;
        let block = vec![0; 1 << 16];
        let mut paced = None;
        let mut behind = 0;
        let mut stalled = Duration::ZERO;
        while begin.elapsed() < 6_000 * MS {
            if writer.phase() == Phase::Throttling && paced.is_none() {
                let target = Target::new(writer.settings().clamp.unwrap()).unwrap();
                pace.pace(&socket, &target).unwrap();
                paced = Some((Instant::now(), pace.stats(&socket).unwrap().delivered));
                net.link.clear();
            }
            let state = paced.map(|_| pace.hold(&socket).unwrap());
            if state == Some(Hold::StartUp) {
                net.link.clear();
            }
            behind += u32::from(state == Some(Hold::Behind));
            match writer.ready(now(), state) {
                Ready::Write(bytes) => {
                    let bytes = bytes.min(block.len() as u64) as usize;
                    (&socket).write_all(&block[..bytes]).unwrap();
                    writer.wrote(Bytes::new(bytes as u64), now());
                }
                Ready::Wait(wait) => {
                    let wait = Duration::from_nanos(wait).min(50 * MS);
                    let asleep = Instant::now();
                    thread::sleep(wait);
                    stalled = stalled.max(asleep.elapsed() - wait);
                }
            }
        }
        let (since, _) = paced.unwrap();
        let stats = pace.stats(&socket).unwrap();
        let rate = stats.delivered as f64 * 8.0 / since.elapsed().as_secs_f64();
        let burst = net.link.longest_burst();
        println!("{rate:.0} bit/s, longest burst {burst}, behind {behind} times, {stats:?}");
        assert_eq!((stats.hold, stats.clamp), (Hold::Spaced, 10), "{stats:?}");
        assert!((600_000.0..1_050_000.0).contains(&rate), "{rate}");
        // Where this thread was not run in time, it could not keep the rate, nor the link the gaps.
        if stalled < 50 * MS {
            assert!(rate > 900_000.0, "{rate}");
            assert!(burst <= 10, "{burst}");
            assert_eq!(behind, 0, "{stats:?}");
        }
    });
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn the_wide_window_of_a_start_up_is_spaced_from_the_first_round_trip() {
    let _alone = alone();
    let Some(net) = Net::new("the_wide_window_of_a_start_up_is_spaced_from_the_first_round_trip")
    else {
        return;
    };
    net.server(|| {
        // A queue of 170 ms: the round trip and the window are large when the start-up ends.
        net.link.set_rtt(40 * MS);
        net.link.set_rate(6_000_000);
        net.link.set_queue(128_000);
        let pace = open(&net);
        let socket = connection(&net, SERVER, SERVER);
        (&socket).write_all(&vec![0; 1 << 20]).unwrap();
        pace.pace(&socket, &target(1_000_000)).unwrap();
        wait_for("the end of start-up", 5_000 * MS, || {
            // About R: a burst of ten packets in 116 ms.
            thread::sleep(96 * MS);
            (&socket).write_all(&vec![0; 14_480]).unwrap();
            pace.hold(&socket).unwrap() != Hold::StartUp
        });
        net.link.clear();
        // As a writer does while the clamp is above its floor.
        writing(&socket, || thread::sleep(2_000 * MS));
        let (burst, stats) = (net.link.longest_burst(), pace.stats(&socket).unwrap());
        println!("longest burst {burst}, {stats:?}");
        assert_eq!(stats.pacing, 150_000, "{stats:?}");
        assert!(burst <= 4, "{burst}: {stats:?}");
    });
}

/// Killed at the end, also of a test that fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn a_window_that_does_not_limit_is_paced_instead() {
    let _alone = alone();
    let Some(net) = Net::new("a_window_that_does_not_limit_is_paced_instead") else {
        return;
    };
    net.server(|| {
        net.link.set_rtt(20 * MS);
        let pace = open(&net);
        let listener = TcpListener::bind((SERVER, 0)).unwrap();
        SockRef::from(&listener)
            .set_tcp_congestion(b"cubic")
            .unwrap();
        let address = listener.local_addr().unwrap();
        // 140 kB at most under way: 56 Mbit/s, and the congestion window grows beyond that.
        net.client(move || {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
            let socket = socket.unwrap();
            socket.set_recv_buffer_size(140_000).unwrap();
            socket.connect(&address.into()).unwrap();
            read_all(socket.into());
        });
        let socket = listener.accept().unwrap().0;
        writing(&socket, || {
            wait_for("a wide window", 10_000 * MS, || window() > 60);
            pace.pace(&socket, &target(10_000_000)).unwrap();
            wait_for("pacing", 10_000 * MS, || {
                pace.stats(&socket).unwrap().pacing == 1_500_000
            });
            thread::sleep(500 * MS);
            let first = pace.stats(&socket).unwrap();
            let begin = Instant::now();
            thread::sleep(3_000 * MS);
            let last = pace.stats(&socket).unwrap();
            let bits = (last.delivered - first.delivered) as f64 * 8.0;
            let rate = bits / begin.elapsed().as_secs_f64();
            println!("{rate:.0} bit/s {last:?}");
            assert!(
                (10_000_000.0..12_600_000.0).contains(&rate),
                "{rate} {last:?}"
            );
            // The paper's algorithm alone does not hold it.
            let alone = target(10_000_000).clamp_only(true);
            pace.change(&socket, &alone).unwrap();
            wait_for("no pacing", 10_000 * MS, || {
                pace.stats(&socket).unwrap().pacing == 0
            });
            let (begin, first) = (Instant::now(), pace.stats(&socket).unwrap());
            thread::sleep(2_000 * MS);
            let bits = (pace.stats(&socket).unwrap().delivered - first.delivered) as f64 * 8.0;
            let rate = bits / begin.elapsed().as_secs_f64();
            println!("by the clamp alone {rate:.0} bit/s");
            assert!(rate > 15_000_000.0, "{rate}");
            pace.remove(&socket).unwrap();
            let output = Command::new("ss").args(["-tinH"]).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(!text.contains("bps/"), "no maximum is left: {text}");
        });
    });
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn the_average_is_held_where_it_is_asked_for() {
    let _alone = alone();
    let Some(net) = Net::new("the_average_is_held_where_it_is_asked_for") else {
        return;
    };
    net.server(|| {
        net.link.set_rtt(40 * MS);
        let pace = open(&net);
        let mut rates = vec![];
        for hold in [false, true] {
            let socket = connection(&net, SERVER, SERVER);
            let target = target(10_000_000).hold_average(hold);
            pace.pace(&socket, &target).unwrap();
            writing(&socket, || {
                let delivered = || pace.stats(&socket).unwrap().delivered;
                wait_for("the begin", 5_000 * MS, || delivered() > 0);
                thread::sleep(1_000 * MS);
                let (begin, first) = (Instant::now(), delivered());
                thread::sleep(5_000 * MS);
                let bits = (delivered() - first) as f64 * 8.0;
                rates.push(bits / begin.elapsed().as_secs_f64() / 1e7);
            });
            // Behind in its slow start at most.
            let stats = pace.stats(&socket).unwrap();
            assert!(stats.lifts <= 1, "{stats:?}");
        }
        println!("of R, by the headroom and by the average: {rates:?}");
        assert!((1.05..1.25).contains(&rates[0]), "{rates:?}");
        assert!((0.94..1.04).contains(&rates[1]), "{rates:?}");
    });
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn bbr_is_bounded_too() {
    let _alone = alone();
    let Some(net) = Net::new("bbr_is_bounded_too") else {
        return;
    };
    net.server(|| {
        net.link.set_rtt(20 * MS);
        net.link.set_rate(40_000_000);
        net.link.set_queue(100_000);
        let pace = open(&net);
        let socket = connection(&net, SERVER, SERVER);
        if SockRef::from(&socket).set_tcp_congestion(b"bbr").is_err() {
            let mut stderr = std::io::stderr();
            writeln!(
                stderr,
                "skipped TEST: bbr_is_bounded_too: needs a kernel with bbr"
            )
            .unwrap();
            return;
        }
        writing(&socket, || {
            wait_for("a wide window", 10_000 * MS, || window() > 60);
            pace.pace(&socket, &target(10_000_000)).unwrap();
            wait_for("the clamp", 10_000 * MS, || near(window(), 21, 25));
            assert_eq!(pace.hold(&socket).unwrap(), Hold::Clamped);
        });
    });
}

//! The clamp at work, in this machine's kernel: seen from outside, by `ss`.

mod net;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;
use tidegate_pace::{Mode, Options, Pace, State, Stats, Target};

use self::net::{Net, SERVER, SERVER6};

const MS: Duration = Duration::from_millis(1);

fn open(net: &Net) -> Pace {
    let mut options = Options::default();
    options.cgroup = Some(net.cgroup.clone());
    let pace = Pace::open_with(&options);
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
    net.client(move || {
        let mut socket = TcpStream::connect(to).unwrap();
        let mut buffer = vec![0; 1 << 16];
        while socket.read(&mut buffer).is_ok_and(|length| length > 0) {}
    });
    listener.accept().unwrap().0
}

/// Writes as much as TCP takes, while something else goes on.
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
fn the_clamp_moves_tenfold_with_the_round_trip() {
    let Some(net) = Net::new("the_clamp_moves_tenfold_with_the_round_trip") else {
        return;
    };
    net.server(|| {
        net.link.set_rtt(20 * MS);
        let pace = open(&net);
        let socket = connection(&net, SERVER, SERVER);
        // 1.2 · 1,250,000 bytes/s · 20 ms / 1448 = 20.7; tenfold 207.
        pace.pace(&socket, &Target::new(10_000_000)).unwrap();
        writing(&socket, || {
            let mut windows = vec![];
            for (rtt, expected) in [(20, 21), (200, 207), (20, 21)] {
                net.link.set_rtt(rtt * MS);
                let state = || -> Stats { pace.stats(&socket).unwrap() };
                wait_for(&format!("clamp of {expected}"), 20_000 * MS, || {
                    let stats = state();
                    stats.state == State::Clamped
                        && near(stats.clamp, expected, 12)
                        && near(window(), stats.clamp, 12)
                });
                windows.push((rtt, window(), state()));
            }
            println!("{windows:#?}");
        });
    });
}

//! Many sockets at once, and what an acknowledgement costs.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::thread;

use socket2::SockRef;
use tidegate_pace::{Pace, State, Target};

use super::net::Net;
use super::{MS, alone, open, wait_for};

const SOCKETS: usize = 10_000;
/// For each socket: some round trips of ten segments.
const BYTES: usize = 100_000;

/// Lets the kernel count what programs take, for as long as it lives.
fn counting() -> OwnedFd {
    // SAFETY: returns a new file descriptor, or a negative number.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    assert!(fd >= 0, "{fd}");
    // SAFETY: new, and nobody else's.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Runs and nanoseconds of a program, by name.
fn cost(pace: &Pace) -> HashMap<String, (u64, u64)> {
    libbpf_rs::query::ProgInfoIter::default()
        .filter(|info| pace.programs().contains(&info.id))
        .map(|info| {
            (
                info.name.to_str().unwrap().to_owned(),
                (info.run_cnt, info.run_time_ns),
            )
        })
        .collect()
}

/// Segments that came in, in this thread's namespace.
fn segments() -> u64 {
    let counters = fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = counters.lines().filter(|line| line.starts_with("Tcp: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|name| name == "InSegs").unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

/// As many files as the system allows a process.
fn many_files() {
    let limit = libc::rlimit {
        rlim_cur: 100_000,
        rlim_max: 100_000,
    };
    // SAFETY: reads one rlimit.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Sends on all, a piece a socket in turn, to readers on the same machine; returns what each run of
/// the clamp costs, its runs, and the segments that came in.
fn transfer(pace: &Pace, sockets: &[(TcpStream, TcpStream)]) -> (u64, u64, u64) {
    let before = (cost(pace)["tidegate_clamp"], segments());
    let block = vec![0; BYTES / 10];
    let mut buffer = vec![0; 1 << 16];
    for _ in 0..10 {
        for (server, _) in sockets {
            let _ = (&*server).write(&block);
        }
        for (_, client) in sockets {
            while (&*client).read(&mut buffer).is_ok_and(|length| length > 0) {}
        }
    }
    // What is still under way.
    thread::sleep(200 * MS);
    let after = (cost(pace)["tidegate_clamp"], segments());
    let (runs, time) = (after.0.0 - before.0.0, after.0.1 - before.0.1);
    (runs, time, after.1 - before.1)
}

#[test]
fn ten_thousand_sockets_at_once() {
    let _alone = alone();
    let Some(net) = Net::new("ten_thousand_sockets_at_once") else {
        return;
    };
    many_files();
    net.server(|| {
        // Packets of the usual size, also here.
        let mtu = ["link", "set", "lo", "mtu", "1500"];
        assert!(Command::new("ip").args(mtu).status().unwrap().success());
        let _counting = counting();
        let pace = open(&net);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        SockRef::from(&listener).set_tcp_congestion(b"cubic").unwrap();
        let address = listener.local_addr().unwrap();
        let before = cost(&pace)["tidegate_clamp"];
        let sockets: Vec<_> = (0..SOCKETS)
            .map(|_| {
                let client = TcpStream::connect(address).unwrap();
                let server = listener.accept().unwrap().0;
                client.set_nonblocking(true).unwrap();
                server.set_nonblocking(true).unwrap();
                (server, client)
            })
            .collect();
        let after = cost(&pace)["tidegate_clamp"];
        let (runs, time) = (after.0 - before.0, after.1 - before.1);
        println!(
            "handshakes: {} runs and {} ns each, both ends",
            runs / SOCKETS as u64,
            time / SOCKETS as u64
        );

        // Nobody's: the program does not run.
        let (runs, _, acks) = transfer(&pace, &sockets[..100]);
        println!("not paced: {runs} runs for {acks} segments");
        assert_eq!(runs, 0);
        assert!(acks > 1000, "{acks}");

        for (server, _) in &sockets {
            pace.pace(server, &Target::new(2_500_000)).unwrap();
        }
        let (runs, time, segments) = transfer(&pace, &sockets);
        // Of the segments that came in, all but those with data are acknowledgements.
        let data = (sockets.len() * BYTES.div_ceil(1448)) as u64;
        let acks = segments.saturating_sub(data);
        println!(
            "paced: {} ns each of {runs} runs; {segments} segments, {acks} acknowledgements: {:.0} ns \
            for each of these",
            time / runs,
            time as f64 / acks.max(1) as f64
        );
        assert!(runs as usize >= sockets.len(), "{runs}");
        for (server, _) in &sockets {
            let stats = pace.stats(server).unwrap();
            assert!(stats.round_trips > 0 && stats.delivered > 0, "{stats:?}");
            assert_eq!((stats.state, stats.clamp), (State::Floor, 10), "{stats:?}");
        }
        let (arm_runs, arm_time) = cost(&pace)["tidegate_arm"];
        println!("set: {} ns each of {arm_runs} runs", arm_time / arm_runs.max(1));

        // Limits go with their sockets: the same numbers of files, other sockets.
        let numbers: Vec<_> = sockets.iter().map(|(server, _)| server.as_raw_fd()).collect();
        drop(sockets);
        wait_for("the end", 10_000 * MS, || {
            let client = TcpStream::connect(address).unwrap();
            let server = listener.accept().unwrap().0;
            assert!(pace.stats(&server).is_err());
            drop(client);
            numbers.contains(&server.as_raw_fd())
        });
    });
}

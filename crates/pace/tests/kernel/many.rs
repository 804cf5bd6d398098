//! Many sockets at once, and the cost of an acknowledgement.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use socket2::SockRef;
use tidegate_pace::{Hold, PaceError, Pacer};

use super::net::Net;
use super::{Killed, MS, alone, open, target, wait_for};

const SOCKETS: usize = 10_000;
/// Further connections, which are not paced.
const OTHERS: usize = 100;
/// For each socket: some round trips of ten segments.
const BYTES: usize = 100_000;

/// Where the clients' process connects to.
const ADDRESS: &str = "TIDEGATE_PACE_TEST_ADDRESS";

/// Lets the kernel count what programs take, for as long as it lives.
fn counting() -> OwnedFd {
    // SAFETY: returns a new file descriptor, or a negative number.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    assert!(fd >= 0, "{fd}");
    // SAFETY: new, and owned by no one else.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Runs and nanoseconds of a program, by name.
fn cost(pace: &Pacer) -> HashMap<String, (u64, u64)> {
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

/// Segments that came in on these sockets: the client sends nothing but acknowledgements.
fn acknowledgements(sockets: &[TcpStream]) -> u64 {
    let mut sum = 0;
    for socket in sockets {
        let mut info = [0u32; 60];
        let mut length = size_of_val(&info) as libc::socklen_t;
        let (fd, to) = (socket.as_raw_fd(), info.as_mut_ptr().cast());
        // SAFETY: TCP_INFO writes at most `length` bytes, which `info` has.
        let result =
            unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut length) };
        assert_eq!(result, 0);
        sum += u64::from(info[35]); // tcpi_segs_in
    }
    sum
}

/// As many files as a process may have.
fn many_files() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: writes one rlimit, and reads it.
    let results = unsafe {
        let read = libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        [read, libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit)]
    };
    assert_eq!(results, [0, 0], "{}", std::io::Error::last_os_error());
    limit.rlim_max
}

/// Nanoseconds for setting an option of the kernel's own, the least of some tries.
fn option(socket: &TcpListener) -> u128 {
    let socket = SockRef::from(socket);
    let time = |_| {
        let begin = Instant::now();
        for _ in 0..1_000 {
            socket.set_keepalive(true).unwrap();
        }
        begin.elapsed().as_nanos() / 1_000
    };
    (0..100).map(time).min().unwrap()
}

/// Sends on all, a piece a socket in turn; returns the clamp's runs, their nanoseconds, and
/// the acknowledgements.
fn transfer(pace: &Pacer, sockets: &[TcpStream]) -> (u64, u64, u64) {
    let before = (cost(pace)["tidegate_clamp"], acknowledgements(sockets));
    let block = vec![0; BYTES / 10];
    for _ in 0..10 {
        for mut socket in sockets {
            socket.write_all(&block).unwrap();
        }
    }
    // What is still under way.
    thread::sleep(1_000 * MS);
    let after = (cost(pace)["tidegate_clamp"], acknowledgements(sockets));
    let (runs, time) = (after.0.0 - before.0.0, after.0.1 - before.0.1);
    (runs, time, after.1 - before.1)
}

/// Not a test: the other process of the one below. Reads on all sockets until it is killed.
#[test]
#[ignore = "a part of another test"]
fn the_clients_of_many() {
    let Ok(address) = std::env::var(ADDRESS) else {
        return;
    };
    many_files();
    let connect = |_| {
        let socket = TcpStream::connect(&address).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    let sockets: Vec<_> = (0..SOCKETS + OTHERS).map(connect).collect();
    let mut buffer = vec![0; 1 << 16];
    loop {
        for mut socket in &sockets {
            let _ = socket.read(&mut buffer);
        }
        thread::sleep(5 * MS);
    }
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
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
        let one_by_one = ["-K", "lo", "tso", "off", "gso", "off", "gro", "off"];
        assert!(
            Command::new("ethtool")
                .args(one_by_one)
                .output()
                .unwrap()
                .status
                .success()
        );
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let without = option(&listener);
        let pace = open(&net);
        println!(
            "another option: {without} ns, with the programs {} ns",
            option(&listener)
        );
        let _counting = counting();
        SockRef::from(&listener)
            .set_tcp_congestion(b"cubic")
            .unwrap();
        let address = listener.local_addr().unwrap();
        let before = cost(&pace)["tidegate_clamp"];
        // The clients are another process, since one process may not open files for both sides.
        let client = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "many::the_clients_of_many"])
            .env(ADDRESS, address.to_string())
            .stdout(Stdio::null())
            .spawn();
        let _client = Killed(client.unwrap());
        let all: Vec<_> = (0..SOCKETS + OTHERS)
            .map(|_| listener.accept().unwrap().0)
            .collect();
        let after = cost(&pace)["tidegate_clamp"];
        let (runs, time) = (after.0 - before.0, after.1 - before.1);
        println!(
            "handshakes: {} runs and {} ns each, both ends",
            runs / SOCKETS as u64,
            time / SOCKETS as u64
        );

        // These sockets are not paced: the program does not run.
        let (others, sockets) = all.split_at(OTHERS);
        let (runs, _, acks) = transfer(&pace, others);
        println!("not paced: {runs} runs for {acks} acknowledgements");
        assert_eq!(runs, 0);
        assert!(acks > 1000, "{acks}");

        // So slow that all are ahead of it. Windows begin at 10, and would grow beyond the clamp. A socket that the
        // kernel spaces would not fill its window.
        let slow = target(8_000).floor(12).unwrap().clamp_only(true);
        for socket in sockets {
            pace.pace(socket, &slow).unwrap();
        }
        let (runs, time, acks) = transfer(&pace, sockets);
        println!(
            "paced: {runs} runs of {} ns; {acks} acknowledgements, {} ns for each",
            time / runs,
            time / acks
        );
        for socket in sockets {
            let stats = pace.stats(socket).unwrap();
            assert!(stats.round_trips > 1 && stats.delivered > 0, "{stats:?}");
            assert_eq!((stats.hold, stats.clamp), (Hold::Floor, 12), "{stats:?}");
        }
        let port = format!(":{}", address.port());
        let output = Command::new("ss")
            .args(["-tinH", "sport", "=", &port])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let windows = text.matches(" cwnd:12 ").count();
        println!("ss: {windows} windows of 12");
        assert_eq!(windows, SOCKETS, "{windows}");
        let (arm_runs, arm_time) = cost(&pace)["tidegate_arm"];
        println!(
            "set: {} ns each of {arm_runs} runs",
            arm_time / arm_runs.max(1)
        );

        // Limits go with their sockets: the same numbers of files, other sockets.
        let numbers: Vec<_> = all.iter().map(AsRawFd::as_raw_fd).collect();
        drop(all);
        // Lower numbers may be free as well: those that are taken are kept.
        let mut held = Vec::new();
        wait_for("the end", 10_000 * MS, || {
            let client = TcpStream::connect(address).unwrap();
            let server = listener.accept().unwrap().0;
            let hold = pace.hold(&server);
            assert!(matches!(hold, Err(PaceError::NotPaced { .. })), "{hold:?}");
            let again = numbers.contains(&server.as_raw_fd());
            held.push((client, server));
            again
        });
    });
}

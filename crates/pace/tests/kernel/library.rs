//! The library as servers see it: change, removal, rejection, fallback, C.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use socket2::SockRef;
use tidegate_pace::{Hold, Mode, Options, PaceError, Pacer};

use super::net::{Net, SERVER};
use super::{
    Killed, MS, alone, connection, near, open, read_all, target, wait_for, window, writing,
};

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn a_rate_is_changed_and_removed_and_goes_with_the_library() {
    let _alone = alone();
    let Some(net) = Net::new("a_rate_is_changed_and_removed_and_goes_with_the_library") else {
        return;
    };
    net.server(|| {
        net.link.set_rtt(20 * MS);
        let pace = open(&net);
        let programs = pace.programs().to_vec();
        assert_eq!(loaded(&programs), 2);
        let socket = connection(&net, SERVER, SERVER);
        assert!(matches!(
            pace.stats(&socket),
            Err(PaceError::NotPaced { .. })
        ));
        pace.pace(&socket, &target(10_000_000)).unwrap();
        writing(&socket, || {
            wait_for("21", 10_000 * MS, || near(window(), 21, 25));
            let before = pace.stats(&socket).unwrap();
            pace.change(&socket, &target(20_000_000)).unwrap();
            wait_for("41", 10_000 * MS, || near(window(), 41, 25));
            let after = pace.stats(&socket).unwrap();
            assert!(
                after.delivered > before.delivered && after.due > before.due,
                "same phase"
            );
            pace.remove(&socket).unwrap();
            assert!(matches!(
                pace.hold(&socket),
                Err(PaceError::NotPaced { .. })
            ));
            wait_for("no clamp", 10_000 * MS, || window() > 60);
            // Again, and then the library goes.
            pace.pace(&socket, &target(10_000_000)).unwrap();
            wait_for("21 again", 10_000 * MS, || near(window(), 21, 25));
            drop(pace);
            wait_for("no clamp again", 10_000 * MS, || window() > 60);
            wait_for("no programs", 5_000 * MS, || loaded(&programs) == 0);
        });
    });
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn several_in_one_cgroup_leave_each_other_s_sockets_alone() {
    let _alone = alone();
    let Some(net) = Net::new("several_in_one_cgroup_leave_each_other_s_sockets_alone") else {
        return;
    };
    net.server(|| {
        net.link.set_rtt(20 * MS);
        let first = open(&net);
        let socket = connection(&net, SERVER, SERVER);
        first.pace(&socket, &target(10_000_000)).unwrap();
        let second = open(&net);
        // Sockets of before the other began, and after.
        let later = connection(&net, SERVER, SERVER);
        first.pace(&later, &target(10_000_000)).unwrap();
        for socket in [&socket, &later] {
            first.change(socket, &target(20_000_000)).unwrap();
            assert_eq!(first.stats(socket).unwrap().rate, 2_500_000);
            for refused in [
                second.hold(socket).map(drop),
                second.change(socket, &target(5_000_000)),
                second.remove(socket),
            ] {
                assert!(
                    matches!(refused, Err(PaceError::NotPaced { .. })),
                    "{refused:?}"
                );
            }
        }
        first.remove(&socket).unwrap();
        let removed = first.change(&socket, &target(5_000_000));
        assert!(
            matches!(removed, Err(PaceError::NotPaced { .. })),
            "{removed:?}"
        );
        drop(second);
        first.change(&later, &target(5_000_000)).unwrap();
    });
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn a_socket_is_the_same_by_another_descriptor() {
    let _alone = alone();
    let Some(net) = Net::new("a_socket_is_the_same_by_another_descriptor") else {
        return;
    };
    net.server(|| {
        net.link.set_rtt(20 * MS);
        let pace = open(&net);
        let socket = connection(&net, SERVER, SERVER);
        pace.pace(&socket, &target(20_000_000)).unwrap();
        let duplicate = socket.try_clone().unwrap();
        drop(socket);
        pace.change(&duplicate, &target(10_000_000)).unwrap();
        assert_eq!(pace.stats(&duplicate).unwrap().rate, 1_250_000);
        writing(&duplicate, || {
            wait_for("21", 10_000 * MS, || near(window(), 21, 25));
            drop(pace);
            wait_for("no clamp", 10_000 * MS, || window() > 60);
        });
    });
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn a_change_after_a_silence_does_not_lift_the_clamp() {
    let _alone = alone();
    let Some(net) = Net::new("a_change_after_a_silence_does_not_lift_the_clamp") else {
        return;
    };
    net.server(|| {
        net.link.set_rtt(20 * MS);
        let pace = open(&net);
        let socket = connection(&net, SERVER, SERVER);
        SockRef::from(&socket)
            .set_send_buffer_size(100_000)
            .unwrap();
        pace.pace(&socket, &target(10_000_000)).unwrap();
        let state = || pace.stats(&socket).unwrap();
        writing(&socket, || {
            // Ahead by 0.4 s of R, by the headroom.
            wait_for("being ahead", 20_000 * MS, || {
                let stats = state();
                stats.hold == Hold::Clamped && stats.delivered > stats.due + 500_000
            });
        });
        let begin = Instant::now();
        wait_for("silence", 2_000 * MS, || {
            let first = state().delivered;
            thread::sleep(60 * MS);
            state().delivered == first
        });
        let before = state();
        thread::sleep(100 * MS);
        pace.change(&socket, &target(200_000_000)).unwrap();
        let after = state();
        let silence = begin.elapsed() + 100 * MS;
        // Of the silence, at the old rate; at the new one it would be 2.5 MB and more.
        let due = after.due - before.due;
        assert!(due >= 125_000, "{before:?} {after:?}");
        assert!(
            u128::from(due) <= 1_250_000 * silence.as_micros() / 1_000_000,
            "{silence:?} {before:?} {after:?}"
        );
        assert_eq!(
            (after.hold, after.lifts, after.sets),
            (Hold::Clamped, before.lifts, before.sets)
        );
    });
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn removing_a_clamp_does_not_forget_a_loss() {
    let _alone = alone();
    let Some(net) = Net::new("removing_a_clamp_does_not_forget_a_loss") else {
        return;
    };
    net.server(|| {
        // 100 kB of queue and 150 kB under way: 170 packets.
        net.link.set_rtt(30 * MS);
        net.link.set_rate(40_000_000);
        net.link.set_queue(100_000);
        let pace = open(&net);
        let socket = connection(&net, SERVER, SERVER);
        writing(&socket, || {
            // Its slow start has ended in losses.
            thread::sleep(2_000 * MS);
            let before = net.link.dropped();
            assert!(before > 0);
            pace.pace(&socket, &target(5_000_000)).unwrap();
            wait_for("the clamp", 10_000 * MS, || {
                window() < 30 && pace.hold(&socket).is_ok_and(|s| s == Hold::Clamped)
            });
            let clamped = net.link.dropped();
            pace.remove(&socket).unwrap();
            wait_for("a window without a clamp", 5_000 * MS, || window() > 40);
            thread::sleep(1_000 * MS);
            let lost = net.link.dropped() - clamped;
            println!("lost {before} in slow start, {lost} after the clamp went");
            // Two runs each: 28 and 31, and with infinity at once 147 and 243.
            assert!(lost <= 80, "{lost}, and {before} at the beginning");
        });
    });
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn a_socket_of_another_cgroup_is_refused_with_words() {
    let _alone = alone();
    let Some(net) = Net::new("a_socket_of_another_cgroup_is_refused_with_words") else {
        return;
    };
    // Not in the net's cgroup: the test's own thread.
    let pace = open(&net);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (socket, _) = listener.accept().unwrap();
    let refused = pace.pace(&socket, &target(1_000_000)).unwrap_err();
    assert!(
        matches!(refused, PaceError::OtherCgroup { .. }),
        "{refused}"
    );
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn without_the_kernel_s_help_it_falls_back_and_says_so() {
    let _alone = alone();
    let Some(net) = Net::new("without_the_kernel_s_help_it_falls_back_and_says_so") else {
        return;
    };
    net.server(|| {
        net.link.set_rtt(20 * MS);
        let mut options = Options::default();
        options.cgroup = Some("/proc/self".into());
        let pace = Pacer::open_with(&options);
        let Mode::Fallback { why: Some(why) } = pace.mode() else {
            panic!("{:?}", pace.mode());
        };
        assert!(why.to_string().contains("cgroup /proc/self"), "{why}");
        let socket = connection(&net, SERVER, SERVER);
        pace.pace(&socket, &target(4_000_000)).unwrap();
        writing(&socket, || {
            thread::sleep(500 * MS);
            let first = pace.stats(&socket).unwrap();
            thread::sleep(2_000 * MS);
            let last = pace.stats(&socket).unwrap();
            assert_eq!(last.hold, Hold::Fallback);
            // The kernel paces at 1.2 R; the average is for the writer.
            let rate = (last.delivered - first.delivered) * 8 / 2;
            assert!((4_300_000..5_200_000).contains(&rate), "{rate}");
        });
        pace.remove(&socket).unwrap();
    });
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn a_c_program_paces_and_its_death_leaves_nothing() {
    let _alone = alone();
    let Some(net) = Net::new("a_c_program_paces_and_its_death_leaves_nothing") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("send");
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    // Beside this test: the library as cargo built it for it.
    let libraries = std::env::current_exe()
        .unwrap()
        .parent()
        .unwrap()
        .to_owned();
    let compiled = Command::new("cc")
        .args([
            "-std=c99",
            "-D_GNU_SOURCE",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            "-o",
        ])
        .args([&program, &here.join("tests/c/send.c")])
        .arg("-I")
        .arg(here.join("include"))
        .arg("-L")
        .arg(&libraries)
        .arg("-ltidegate_pace")
        .status();
    assert!(compiled.unwrap().success());
    // By the name under which the loader looks for it.
    let library = libraries.join("libtidegate_pace.so");
    std::os::unix::fs::symlink(library, folder.path().join("libtidegate_pace.so.0")).unwrap();
    let run = |seconds: &str| {
        let child = Command::new(&program)
            .arg(&net.cgroup)
            .args(["10000000", seconds])
            .env("LD_LIBRARY_PATH", folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut child = Killed(child);
        let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
        let mut line = move || lines.next().transpose().unwrap().unwrap_or_default();
        assert_eq!(line(), "mode 1 ");
        let port: u16 = line().strip_prefix("port ").unwrap().parse().unwrap();
        let reader = net.client(move || read_all(TcpStream::connect((SERVER, port)).unwrap()));
        assert!(line().contains("is out of range for a target rate"));
        (child, line, reader)
    };
    net.server(|| {
        net.link.set_rtt(20 * MS);
        let (mut child, mut line, reader) = run("3");
        let stats = line();
        println!("{stats}");
        let words: Vec<_> = stats.split(' ').collect();
        assert_eq!(
            (words[0], words[1], words[9]),
            ("state", "1", "10000000"),
            "{stats}"
        );
        // 1.2 · 1,250,000 bytes/s, with the round trip that there was.
        let srtt: u32 = words[7].parse().unwrap();
        let expected = srtt * 3 / 2 / 1448;
        assert!(near(words[3].parse().unwrap(), expected, 15), "{stats}");
        assert!(near(words[5].parse().unwrap(), expected, 15), "{stats}");
        assert_eq!(line(), "done");
        assert!(child.0.wait().unwrap().success());
        reader.join().unwrap();

        let before = all_loaded();
        let (mut child, _line, reader) = run("60");
        wait_for("the clamp", 10_000 * MS, || near(window(), 21, 25));
        let mut new = all_loaded();
        new.retain(|id| !before.contains(id));
        assert!(new.len() >= 2, "{new:?}");
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        reader.join().unwrap();
        // Two fewer, if others have some.
        wait_for("no programs", 5_000 * MS, || loaded(&new) + 2 <= new.len());
    });
}

/// How many of these programs the kernel has.
fn loaded(programs: &[u32]) -> usize {
    libbpf_rs::query::ProgInfoIter::default()
        .filter(|info| programs.contains(&info.id))
        .count()
}

/// The programs of this library that the kernel has, of all processes.
fn all_loaded() -> Vec<u32> {
    let ours = |info: &libbpf_rs::query::ProgramInfo| {
        ["tidegate_clamp", "tidegate_arm"].contains(&info.name.to_str().unwrap_or_default())
    };
    let all = libbpf_rs::query::ProgInfoIter::default();
    all.filter(ours).map(|info| info.id).collect()
}

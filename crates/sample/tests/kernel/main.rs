//! The sampler on devices of its own namespaces, beside tcpdump.

#![cfg(target_os = "linux")]

mod guest;
mod interfaces;
mod tunnels;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use tidegate_sample::{
    By, Choice, Event, Fraction, Key, Options, Place, Requests, Sampler, Source,
};
use tidegate_testbed::TestbedError;
use tidegate_testbed::namespace::Namespace;
use tidegate_trace::read::Capture;
use tidegate_trace::wire::decode;
use tidegate_trace::write::{Ends, TcpFrame, UdpFrame};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs a test at a packet socket, and at the hooks of traffic control.
macro_rules! at_both_places {
    ($($test:ident),+ $(,)?) => {
        $(mod $test {
            #[test]
            fn at_a_socket() -> Result<(), crate::Failure> {
                super::$test(tidegate_sample::Place::Socket)
            }

            #[test]
            fn at_traffic_control() -> Result<(), crate::Failure> {
                super::$test(tidegate_sample::Place::TrafficControl)
            }
        })+
    };
}
use at_both_places;

at_both_places!(
    every_packet_of_sampled_flows_and_none_of_others,
    frames_are_cut_behind_the_tcp_header_whatever_surrounds_it,
    overload_lowers_the_share_and_the_next_file_says_so,
    addresses_are_written_as_pseudonyms_and_another_key_begins_another_file,
);

/// A namespace, or `None` where rights are missing.
fn namespace(test: &str) -> Result<Option<Namespace>, Failure> {
    match Namespace::new() {
        Err(TestbedError::Rights { .. } | TestbedError::NoTun) => {
            writeln!(
                std::io::stderr(),
                "skipped {test}: needs root and /dev/net/tun"
            )?;
            Ok(None)
        }
        other => Ok(Some(other?)),
    }
}

fn choice(fraction: f64) -> Choice {
    let fraction = Fraction::new(fraction).expect("a share");
    let key = Key::from_bytes([3; 32]);
    let by = By::Flow;
    Choice { by, fraction, key }
}

/// Samples while the work is done. Returns the files, and how many packets the kernel lost.
fn sampled(space: &Namespace, options: Options, work: impl FnOnce()) -> (Vec<PathBuf>, u64) {
    let source = space
        .enter(|| Source::open(&options))
        .expect("the namespace")
        .expect("rights");
    let mut sampler = Sampler::new(source, options).expect("a folder");
    let requests = Requests::default();
    let mut files = Vec::new();
    let mut lost = 0;
    thread::scope(|scope| {
        let running = scope.spawn(|| {
            sampler.run(&requests, &mut |event| {
                if let Event::Closed(closed) = event {
                    assert!(closed.packets > 0 && closed.bytes > 0);
                    lost += closed.dropped;
                    files.push(closed.path);
                }
            })
        });
        work();
        requests.stop.store(true, Ordering::Relaxed);
        running.join().expect("no panic").expect("sampled");
    });
    (files, lost)
}

/// Of each direction of each flow: packets and bytes on the wire. Also the first bytes that contradict the cut.
type Flows = BTreeMap<(SocketAddr, SocketAddr), (u64, u64)>;

fn flows(files: &[PathBuf]) -> Flows {
    let mut flows = Flows::new();
    for file in files {
        let mut capture = Capture::new(File::open(file).expect("a file")).expect("a capture");
        while let Some(frame) = capture.frame().expect("whole") {
            let packet = decode(&frame).expect("a TCP packet");
            let address =
                |end: tidegate_trace::wire::Endpoint| SocketAddr::new(end.ip(), end.port());
            let entry = flows
                .entry((address(packet.src), address(packet.dst)))
                .or_default();
            entry.0 += 1;
            entry.1 += u64::from(frame.wire_len);
        }
    }
    flows
}

/// A connection that brings so many bytes to the client.
fn fetch(server: SocketAddr, bytes: u32) -> Result<(), Failure> {
    let mut stream = TcpStream::connect(server)?;
    stream.write_all(&bytes.to_be_bytes())?;
    let mut all = Vec::new();
    stream.read_to_end(&mut all)?;
    assert_eq!(all.len(), bytes as usize);
    Ok(())
}

fn serve(listener: &TcpListener, connections: usize) -> Result<(), Failure> {
    for stream in listener.incoming().take(connections) {
        let mut stream = stream?;
        let mut wanted = [0; 4];
        stream.read_exact(&mut wanted)?;
        stream.write_all(&vec![7; u32::from_be_bytes(wanted) as usize])?;
    }
    Ok(())
}

fn tcpdump(space: &Namespace, to: &Path) -> Result<tidegate_testbed::namespace::Process, Failure> {
    let mut command = Command::new("tcpdump");
    // At once: otherwise it would not write what came in the second before it is interrupted.
    command.args([
        "--immediate-mode",
        "-i",
        "inside",
        "-s",
        "160",
        "-B",
        "16384",
        "-w",
    ]);
    command
        .arg(to)
        .args(["-Z", "root", "tcp"])
        .stderr(Stdio::piped());
    let mut process = space.start(&mut command)?;
    let mut said = BufReader::new(process.child().stderr.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("listening on") {
        line.clear();
        assert!(said.read_line(&mut line)? > 0, "tcpdump ended");
    }
    Ok(process)
}

fn interrupt(process: &mut tidegate_testbed::namespace::Process) -> Result<(), Failure> {
    process.interrupt()?;
    process.child().wait()?;
    Ok(())
}

/// Two namespaces with a cable between `inside` and `outside`, with addresses of both versions.
fn pair(test: &str) -> Result<Option<(Namespace, Namespace)>, Failure> {
    let Some(server) = namespace(test)? else {
        return Ok(None);
    };
    let client = Namespace::new()?;
    server.veth("inside", &client, "outside")?;
    for (space, device, v4, v6) in [
        (&server, "inside", "192.0.2.1", "2001:db8::1"),
        (&client, "outside", "192.0.2.2", "2001:db8::2"),
    ] {
        space.address(device, v4.parse()?, 24)?;
        space.address(device, v6.parse()?, 64)?;
    }
    Ok(Some((server, client)))
}

fn every_packet_of_sampled_flows_and_none_of_others(place: Place) -> Result<(), Failure> {
    const FLOWS: usize = 300;
    let test = "every_packet_of_sampled_flows_and_none_of_others";
    let Some((server, client)) = pair(test)? else {
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let truth = folder.path().join("truth.pcap");
    let mut dump = tcpdump(&server, &truth)?;
    let choice = choice(0.25);
    let mut options = Options::new("inside", folder.path().join("out"), choice.clone());
    options.place = place;
    let (files, lost) = sampled(&server, options, || {
        for address in ["192.0.2.1:4000", "[2001:db8::1]:4000"] {
            let address: SocketAddr = address.parse().expect("an address");
            let listener = server.enter(|| TcpListener::bind(address));
            let listener = listener.expect("the namespace").expect("bound");
            thread::scope(|scope| {
                scope.spawn(|| serve(&listener, FLOWS / 2).expect("served"));
                let all = || (0..FLOWS / 2).try_for_each(|i| fetch(address, 100 * i as u32));
                client.enter(all).expect("the namespace").expect("fetched");
            });
        }
        // Of the last packets, tcpdump may see some a little later.
        thread::sleep(Duration::from_millis(300));
    });
    interrupt(&mut dump)?;
    let (truth, found) = (flows(&[truth]), flows(&files));
    assert_eq!(truth.len(), 2 * FLOWS);
    assert_eq!(lost, 0);
    let expected: Flows = truth
        .into_iter()
        .filter(|((src, dst), _)| choice.takes_flow(*src, *dst))
        .collect();
    assert_eq!(found, expected);
    // 300 flows at 25 %: 75, with a standard deviation of 7.5.
    assert!((45..=105).contains(&(found.len() / 2)), "{}", found.len());
    for (src, dst) in found.keys() {
        assert!(found.contains_key(&(*dst, *src)), "one direction only");
    }
    Ok(())
}

/// The interface description and the headers are those that tcpdump finds.
fn frames_are_cut_behind_the_tcp_header_whatever_surrounds_it(place: Place) -> Result<(), Failure> {
    let test = "frames_are_cut_behind_the_tcp_header_whatever_surrounds_it";
    let Some(space) = namespace(test)? else {
        return Ok(());
    };
    let port = space.port("tap")?;
    let folder = tempfile::tempdir()?;
    let ends4 = Ends {
        src: "192.0.2.1:1000".parse()?,
        dst: "192.0.2.2:2000".parse()?,
    };
    let ends6 = Ends {
        src: "[2001:db8::1]:1000".parse()?,
        dst: "[2001:db8::2]:2000".parse()?,
    };
    let mut frames = Vec::new();
    for ends in [ends4, ends6] {
        for mss in [None, Some(1460)] {
            for around in [
                &[][..],
                &[0x81, 0, 0, 5],
                &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 5],
                PPPOE,
            ] {
                frames.push(framed(ends, mss, around));
            }
        }
    }
    let mut udp = Vec::new();
    UdpFrame::new(ends4).encode(&mut udp);
    let mut options = Options::new("tap", folder.path(), choice(1.0));
    options.place = place;
    let (files, _) = sampled(&space, options, || {
        for frame in frames.iter().map(|(frame, _)| frame).chain([&udp]) {
            port.send(frame).expect("sent");
            // A cut frame, and one that is short, are not sampled, and disturb nothing.
            port.send(&frame[..40]).expect("sent");
        }
        hostile(&frames, |frame| drop(port.send(frame)));
        // The last one, so that it is known that all were received.
        port.send(&frames[0].0).expect("sent");
    });
    let mut capture = Capture::new(File::open(&files[0])?)?;
    for (frame, headers) in &frames {
        let found = capture.frame()?.expect("a frame");
        assert_eq!(found.data, &frame[..*headers]);
        assert_eq!(found.wire_len as usize, frame.len());
    }
    // Of hostile packets, only those are kept that can be read.
    let (mut last, mut more) = (Vec::new(), 0);
    while let Some(found) = capture.frame()? {
        assert!(found.data.len() <= 14 + 16 + 8 + 60 + 8 * 2048 + 60);
        last = found.data.to_vec();
        more += 1;
    }
    assert_eq!(last, frames[0].0[..frames[0].1]);
    assert!(more > 100, "{more}");
    Ok(())
}

/// A PPPoE session header; length and protocol follow.
const PPPOE: &[u8] = &[0x88, 0x64, 0x11, 0, 0, 1];

/// A frame with what is around IP, and the length of its headers.
fn framed(ends: Ends, mss: Option<u16>, around: &[u8]) -> (Vec<u8>, usize) {
    let mut frame = Vec::new();
    let packet = TcpFrame {
        payload: 100,
        mss,
        ..TcpFrame::new(ends)
    };
    packet.encode(&mut frame);
    let kind = [frame[12], frame[13]];
    let headers = frame.len() - 100;
    if around == PPPOE {
        let length = (frame.len() - 14 + 2) as u16;
        let protocol = if kind == [8, 0] { [0, 0x21] } else { [0, 0x57] };
        let session = [around, &length.to_be_bytes(), &protocol].concat();
        frame.splice(12..14, session);
        return (frame, headers + 8);
    }
    frame.splice(12..12, around.iter().copied());
    (frame, headers + around.len())
}

/// Frames with wrong bytes, the same in every run.
fn hostile(frames: &[(Vec<u8>, usize)], mut send: impl FnMut(&[u8])) {
    let mut state = 1u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize
    };
    for _ in 0..3000 {
        let (frame, headers) = &frames[random() % frames.len()];
        let mut frame = frame.clone();
        for _ in 0..1 + random() % 4 {
            let at = 12 + random() % (headers - 12);
            frame[at] = random() as u8;
        }
        frame.truncate(frame.len() - random() % 120);
        send(&frame);
    }
}

#[test]
fn files_rotate_by_size_and_an_earlier_process_leaves_nothing() -> Result<(), Failure> {
    let test = "files_rotate_by_size_and_an_earlier_process_leaves_nothing";
    let Some(space) = namespace(test)? else {
        return Ok(());
    };
    let port = space.port("tap")?;
    let folder = tempfile::tempdir()?;
    let mut options = Options::new("tap", folder.path(), choice(1.0));
    options.host = "web/1".to_owned();
    options.rotation.size = 1;
    // What a killed process left, and what belongs to others.
    let left = folder
        .path()
        .join(".web_1-tap-20261123T190500.123456Z.part");
    let others = folder
        .path()
        .join(".web_1-tap-2-20261123T190500.123456Z.part");
    fs::write(&left, "half")?;
    fs::write(&others, "half")?;
    let packet = TcpFrame::new(Ends {
        src: "192.0.2.1:1000".parse()?,
        dst: "192.0.2.2:2000".parse()?,
    });
    let mut frame = Vec::new();
    packet.encode(&mut frame);
    let sent = 2000;
    let (files, lost) = sampled(&space, options.clone(), || {
        let second = space
            .enter(|| Source::open(&options))
            .expect("the namespace");
        let second = Sampler::new(second.expect("rights"), options.clone());
        let error = second.err().expect("busy");
        assert!(error.to_string().contains("another sampler"), "{error}");
        for _ in 0..sent {
            port.send(&frame).expect("sent");
        }
    });
    assert!(!left.exists() && others.exists());
    assert!(files.len() > 1, "{files:?}");
    let src: IpAddr = "192.0.2.1".parse()?;
    let packets: u64 = flows(&files).values().map(|(packets, _)| packets).sum();
    assert_eq!((packets, lost), (sent, 0));
    assert!(flows(&files).keys().all(|(from, _)| from.ip() == src));
    let mut names: Vec<_> = fs::read_dir(folder.path())?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    names.retain(|name| name.to_string_lossy().ends_with(".zst"));
    names.sort();
    assert_eq!(names, files);
    Ok(())
}

/// The ring is as small as it can be, and nobody empties it while packets come. So the kernel has to drop some.
fn overload_lowers_the_share_and_the_next_file_says_so(place: Place) -> Result<(), Failure> {
    let test = "overload_lowers_the_share_and_the_next_file_says_so";
    let Some(space) = namespace(test)? else {
        return Ok(());
    };
    let port = space.port("tap")?;
    let folder = tempfile::tempdir()?;
    let mut options = Options::new("tap", folder.path(), choice(1.0));
    options.ring = 0;
    options.place = place;
    let send = |flow: u16, packets: usize| {
        let packet = TcpFrame::new(Ends {
            src: ([192, 0, 2, 1], flow).into(),
            dst: ([192, 0, 2, 2], 443).into(),
        });
        let mut frame = Vec::new();
        packet.encode(&mut frame);
        for _ in 0..packets {
            port.send(&frame).expect("sent");
        }
    };
    let source = space.enter(|| Source::open(&options))??;
    // Two blocks of 1 MiB hold about 13,000 packets, and a ring of records half of them.
    for flow in 1..=300 {
        send(flow, 100);
    }
    let mut sampler = Sampler::new(source, options.clone())?;
    let requests = Requests::default();
    let (mut files, mut dropped, mut shares) = (Vec::new(), 0, Vec::new());
    let (happened, events) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let running = scope.spawn(|| {
            sampler.run(&requests, &mut |event| match event {
                Event::Closed(closed) => {
                    dropped += closed.dropped;
                    files.push(closed.path);
                    happened.send("written").expect("the test listens");
                }
                Event::Share { before, now } => {
                    shares.push((before.get(), now.get()));
                    happened.send("lowered").expect("the test listens");
                }
                other => panic!("{other:?}"),
            })
        });
        // Until the share is lower, and what was sampled before is written; then a while in which nothing comes.
        let mut waiting = vec!["written", "lowered"];
        while !waiting.is_empty() {
            let event = events.recv_timeout(Duration::from_secs(30));
            waiting.retain(|&awaited| Ok(awaited) != event);
            assert!(event.is_ok(), "{waiting:?}");
        }
        thread::sleep(Duration::from_millis(500));
        for flow in 1001..=1200 {
            send(flow, 1);
        }
        requests.stop.store(true, Ordering::Relaxed);
        running.join().expect("no panic").expect("sampled");
    });
    assert!(dropped > 10_000, "{dropped}");
    assert_eq!(shares.first(), Some(&(1.0, 0.5)));
    // From then on, only flows of the lower share are there, each in whole.
    let (_, last) = shares[shares.len() - 1];
    let lower = choice(last);
    let server = "192.0.2.2:443".parse()?;
    let expected: Flows = (1001..=1200)
        .map(|flow| SocketAddr::from(([192, 0, 2, 1], flow)))
        .filter(|client| lower.takes_flow(*client, server))
        .map(|client| ((client, server), (1, 54)))
        .collect();
    let last_file = files.last().expect("files").clone();
    assert_eq!(flows(std::slice::from_ref(&last_file)), expected);
    let text = zstd::decode_all(File::open(last_file)?)?;
    let said = String::from_utf8_lossy(&text[..400]).into_owned();
    let words = format!("fraction={last} by=flow addresses=keep key=");
    assert!(
        said.contains(&words) && said.contains(" asked=1 lowered=overload"),
        "{said}"
    );
    Ok(())
}

fn addresses_are_written_as_pseudonyms_and_another_key_begins_another_file(
    place: Place,
) -> Result<(), Failure> {
    let test = "addresses_are_written_as_pseudonyms_and_another_key_begins_another_file";
    let Some(space) = namespace(test)? else {
        return Ok(());
    };
    let port = space.port("tap")?;
    let folder = tempfile::tempdir()?;
    let key_file = folder.path().join("key");
    fs::write(&key_file, "01".repeat(32))?;
    let mut options = Options::new("tap", folder.path().join("out"), choice(1.0));
    options.choice.key = Key::read(&key_file)?;
    options.key_file = Some(key_file.clone());
    options.addresses = "pseudonym".parse()?;
    options.place = place;
    let mut frame = Vec::new();
    TcpFrame::new(Ends {
        src: "192.0.2.1:1000".parse()?,
        dst: "192.0.2.2:443".parse()?,
    })
    .encode(&mut frame);
    let source = space.enter(|| Source::open(&options))??;
    let mut sampler = Sampler::new(source, options)?;
    let requests = Requests::default();
    let (happened, events) = std::sync::mpsc::channel();
    let mut files = Vec::new();
    thread::scope(|scope| -> Result<(), Failure> {
        scope.spawn(|| {
            sampler
                .run(&requests, &mut |event| drop(happened.send(event)))
                .expect("sampled")
        });
        port.send(&frame)?;
        let ask = || requests.reload.store(true, Ordering::Relaxed);
        // Blocks are handed over after 100 ms.
        thread::sleep(Duration::from_millis(500));
        fs::write(&key_file, "no key")?;
        ask();
        assert!(matches!(events.recv()?, Event::KeyKept(_)));
        fs::write(&key_file, "02".repeat(32))?;
        ask();
        let mut next = events.recv()?;
        if let Event::Closed(closed) = next {
            files.push(closed.path);
            next = events.recv()?;
        }
        assert!(matches!(next, Event::Key(_)), "{next:?}");
        port.send(&frame)?;
        thread::sleep(Duration::from_millis(500));
        requests.stop.store(true, Ordering::Relaxed);
        Ok(())
    })?;
    files.extend(events.try_iter().filter_map(|event| match event {
        Event::Closed(closed) => Some(closed.path),
        _ => None,
    }));
    assert_eq!(files.len(), 2, "{files:?}");
    let pseudonyms =
        |file: &PathBuf| -> Vec<_> { flows(std::slice::from_ref(file)).into_keys().collect() };
    let (first, second) = (pseudonyms(&files[0]), pseudonyms(&files[1]));
    assert_eq!((first.len(), second.len()), (1, 1));
    let ((src, dst), (other, _)) = (first[0], second[0]);
    assert_ne!(src.ip(), other.ip());
    assert_eq!((src.port(), dst.port()), (1000, 443));
    // The same 30 bits in front, and other ones behind.
    let bits = |address: SocketAddr| match address.ip() {
        IpAddr::V4(address) => u32::from(address),
        IpAddr::V6(_) => panic!("not IPv4"),
    };
    assert_eq!((bits(src) ^ bits(dst)).leading_zeros(), 30);
    assert_ne!(src.ip().to_string(), "192.0.2.1");
    Ok(())
}

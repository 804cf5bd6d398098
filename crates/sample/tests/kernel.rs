//! The sampler on devices of its own namespaces, beside tcpdump.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tidegate_sample::{By, Choice, Event, Fraction, Key, Options, Sampler, Source};
use tidegate_testbed::TestbedError;
use tidegate_testbed::namespace::Namespace;
use tidegate_trace::read::Capture;
use tidegate_trace::wire::decode;
use tidegate_trace::write::{Ends, TcpFrame, UdpFrame};

type Failure = Box<dyn std::error::Error + Send + Sync>;

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
    let stop = AtomicBool::new(false);
    let mut files = Vec::new();
    let mut lost = 0;
    thread::scope(|scope| {
        let running = scope.spawn(|| {
            sampler.run(&stop, &mut |event| {
                if let Event::Closed(closed) = event {
                    assert!(closed.packets > 0 && closed.bytes > 0);
                    lost += closed.dropped;
                    files.push(closed.path);
                }
            })
        });
        work();
        stop.store(true, Ordering::Relaxed);
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
    command.args(["-i", "inside", "-s", "160", "-B", "16384", "-w"]);
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
    let id = process.child().id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status()?.success());
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

#[test]
fn every_packet_of_sampled_flows_and_none_of_others() -> Result<(), Failure> {
    const FLOWS: usize = 300;
    let test = "every_packet_of_sampled_flows_and_none_of_others";
    let Some((server, client)) = pair(test)? else {
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let truth = folder.path().join("truth.pcap");
    let mut dump = tcpdump(&server, &truth)?;
    let choice = choice(0.25);
    let options = Options::new("inside", folder.path().join("out"), choice.clone());
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
#[test]
fn frames_are_cut_behind_the_tcp_header_whatever_surrounds_it() -> Result<(), Failure> {
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
    let options = Options::new("tap", folder.path(), choice(1.0));
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

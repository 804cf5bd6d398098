//! A server, its client, and a sampler between them.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_testbed::TestbedError;
use tidegate_testbed::namespace::{Namespace, Process};

use crate::program::{run, tidegate};

/// A server and a client with a cable between `inside` and `outside`, or `None` where rights are missing.
pub fn pair(test: &str) -> Option<(Namespace, Namespace)> {
    let server = match Namespace::new() {
        Err(TestbedError::Rights { .. }) => {
            writeln!(std::io::stderr(), "skipped {test}: needs root").expect("standard error");
            return None;
        }
        other => other.expect("a namespace"),
    };
    let client = Namespace::new().expect("a namespace");
    server.veth("inside", &client, "outside").expect("a cable");
    let address = |text: &str| text.parse().expect("an address");
    server
        .address("inside", address("192.0.2.1"), 24)
        .expect("an address");
    client
        .address("outside", address("192.0.2.2"), 24)
        .expect("an address");
    Some((server, client))
}

/// A socket that listens here. A program that another test starts has the one before until it is executed, and the port with it.
fn listen(server: &Namespace, address: SocketAddr) -> TcpListener {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let bound = server.enter(|| TcpListener::bind(address));
        match bound.expect("the namespace") {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < end => {
                thread::sleep(Duration::from_millis(5));
            }
            bound => return bound.expect("bound"),
        }
    }
}

/// Connections that bring so many bytes to the client, one after the other.
pub fn transfers(server: &Namespace, client: &Namespace, count: usize, bytes: usize) {
    let address: SocketAddr = "192.0.2.1:8080".parse().expect("an address");
    let listener = listen(server, address);
    thread::scope(|scope| {
        scope.spawn(|| {
            for stream in listener.incoming().take(count) {
                let mut stream = stream.expect("a connection");
                stream.read_exact(&mut [0; 1]).expect("a request");
                stream.write_all(&vec![7; bytes]).expect("sent");
            }
        });
        let fetch = || {
            for _ in 0..count {
                let mut stream = TcpStream::connect(address).expect("connected");
                stream.write_all(b"x").expect("sent");
                let mut all = Vec::new();
                assert_eq!(stream.read_to_end(&mut all).expect("received"), bytes);
            }
        };
        client.enter(fetch).expect("the namespace");
    });
}

/// So many requests in one connection, with a response of 1,000 bytes each.
pub fn requests(server: &Namespace, client: &Namespace, count: usize) {
    let address: SocketAddr = "192.0.2.1:7070".parse().expect("an address");
    let listener = listen(server, address);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("a connection");
            for _ in 0..count {
                stream.read_exact(&mut [0; 1]).expect("a request");
                stream.write_all(&[7; 1000]).expect("sent");
            }
        });
        let fetch = || {
            let mut stream = TcpStream::connect(address).expect("connected");
            for _ in 0..count {
                stream.write_all(b"x").expect("sent");
                stream.read_exact(&mut [0; 1000]).expect("received");
                thread::sleep(Duration::from_millis(1));
            }
        };
        client.enter(fetch).expect("the namespace");
    });
}

/// A sampler that is running.
pub struct Sampler {
    pub process: Process,
    said: BufReader<ChildStderr>,
    pub heard: String,
}

impl Sampler {
    pub fn start(space: &Namespace, folder: &Path, arguments: &[&str]) -> Self {
        let mut command = tidegate(&["sample", "inside", "--out"]);
        command.arg(folder).args(arguments).stderr(Stdio::piped());
        Self::run(space, &mut command)
    }

    pub fn run(space: &Namespace, command: &mut Command) -> Self {
        let mut process = space.start(command).expect("tidegate runs");
        let said = BufReader::new(process.child().stderr.take().expect("piped"));
        let mut this = Self {
            process,
            said,
            heard: String::new(),
        };
        this.until("sampling");
        this
    }

    /// Reads what it says, up to a line with this word.
    pub fn until(&mut self, word: &str) {
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            let read = self.said.read_line(&mut line).expect("text");
            assert!(read > 0, "it ended without '{word}': {}", self.heard);
            self.heard.push_str(&line);
        }
    }

    pub fn signal(&mut self, name: &str) {
        let id = self.process.child().id().to_string();
        let killed = Command::new("kill").args(["-s", name, &id]).status();
        assert!(killed.expect("kill runs").success());
    }

    /// Its exit code, and all that it said, after a signal.
    pub fn end(mut self, signal: &str) -> (Option<i32>, String) {
        self.signal(signal);
        let status = self.process.child().wait().expect("it ends");
        self.said.read_to_string(&mut self.heard).expect("text");
        (status.code(), self.heard)
    }
}

pub fn complete(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.retain(|path| {
        !path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'))
    });
    files.sort();
    files
}

/// What `detect` finds in the folder: a line for each flow.
pub fn detected(folder: &Path) -> usize {
    let folder = folder.to_str().expect("text");
    let (code, rows, problems) = run(&["detect", "--join", folder, "--by", "flow", "-f", "jsonl"]);
    assert_eq!((code, problems), (0, String::new()));
    rows.lines().count()
}

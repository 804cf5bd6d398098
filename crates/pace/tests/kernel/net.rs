//! A server's namespace and cgroup, a client's namespace, and between them a link whose delay, rate
//! and queue can be changed while packets are on it.

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidegate_limiter::{Prefix, Rate};
use tidegate_testbed::link::{Arrival, ElementKind, Ends, Link, LinkPlan, QueueKind};
use tidegate_testbed::namespace::Namespace;

/// The link, and the packets that it saw.
pub struct Line {
    link: Link,
    settings: Mutex<Settings>,
    arrivals: Mutex<Receiver<Arrival>>,
}

#[derive(Clone, Copy, Default)]
struct Settings {
    rtt: Duration,
    /// Towards the client, bit/s; 0 for no limit.
    rate: u64,
    /// Bytes that may wait for the rate.
    queue: u64,
}

impl Settings {
    fn plan(self) -> LinkPlan {
        let link = ElementKind::Link {
            rate: Rate::from_bits_per_second(self.rate),
            queue: QueueKind::DropTail {
                bytes: Some(self.queue),
                packets: None,
            },
        };
        LinkPlan {
            forward: (self.rate > 0).then_some(link).into_iter().collect(),
            round_trips: vec![(Prefix::ALL, self.rtt.as_nanos() as u64)],
            ..LinkPlan::default()
        }
    }
}

impl Line {
    pub fn set_rtt(&self, rtt: Duration) {
        self.change(|settings| settings.rtt = rtt);
    }

    /// Towards the client.
    pub fn set_rate(&self, bits_per_second: u64) {
        self.change(|settings| settings.rate = bits_per_second);
    }

    /// Bytes that may wait for the rate.
    pub fn set_queue(&self, bytes: u64) {
        self.change(|settings| settings.queue = bytes);
    }

    fn change(&self, change: impl FnOnce(&mut Settings)) {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut settings);
        self.link.set(&settings.plan()).unwrap();
    }

    /// Packets that found the queue full.
    pub fn dropped(&self) -> u64 {
        self.link.report().unwrap().dropped[0]
    }

    /// Forgets what has arrived so far.
    pub fn clear(&self) {
        self.arrivals.lock().unwrap().try_iter().for_each(drop);
    }

    /// The longest run of data packets from the server at most 1 ms apart [Trickle §3.2], of those
    /// that arrived since the last call or [`clear`](Self::clear).
    pub fn longest_burst(&self) -> usize {
        let (mut longest, mut run, mut last) = (0, 0, 0);
        // Acknowledgements are shorter.
        let data = |arrival: &Arrival| arrival.forward && arrival.bytes > 214;
        for arrival in self.arrivals.lock().unwrap().try_iter().filter(data) {
            let joins = run > 0 && arrival.at - last <= 1_000_000;
            run = if joins { run + 1 } else { 1 };
            last = arrival.at;
            longest = longest.max(run);
        }
        longest
    }
}

/// The server's namespace and cgroup, the client's namespace, the link.
pub struct Net {
    server: Namespace,
    client: Namespace,
    pub link: Line,
    pub cgroup: PathBuf,
    /// The cgroup that this process was in.
    root: PathBuf,
}

pub const SERVER: &str = "10.83.0.1";
pub const SERVER6: &str = "fd83::1";

impl Net {
    /// `None`, and a line on standard error, if rights are missing.
    pub fn new(test: &str) -> Option<Self> {
        match Self::make() {
            Ok(net) => Some(net),
            Err(error) => {
                let mut stderr = io::stderr();
                let needs = "needs root, /dev/net/tun and cgroup2";
                writeln!(stderr, "skipped TEST: {test}: {needs}: {error}").unwrap();
                None
            }
        }
    }

    fn make() -> Result<Self, Box<dyn Error>> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let (server, client) = (Namespace::new()?, Namespace::new()?);
        let ends = Ends {
            near: server.port("pace0")?,
            far: client.port("pace0")?,
        };
        let settings = Settings::default();
        let link = Link::new(ends, &settings.plan())?;
        for (side, host) in [(&server, 1), (&client, 2)] {
            // The kernel's defaults: with the testbed's, connections without a limit flood the link.
            side.enter(|| {
                fs::write("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 6291456")?;
                fs::write("/proc/sys/net/ipv4/tcp_wmem", "4096 16384 4194304")
            })??;
            side.address("pace0", [10, 83, 0, host].into(), 24)?;
            let v6 = [0xfd83, 0, 0, 0, 0, 0, 0, u16::from(host)];
            side.address("pace0", v6.into(), 64)?;
        }
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = tidegate_pace::own_cgroup()?;
        let cgroup = root.join(format!("pace{}-{count}", std::process::id()));
        // From here on, dropping it removes the cgroup.
        let net = Self {
            link: Line {
                arrivals: Mutex::new(link.watch()),
                link,
                settings: Mutex::new(settings),
            },
            server,
            client,
            cgroup,
            root,
        };
        fs::create_dir(&net.cgroup)?;
        // Threads of this process go in and out one by one.
        fs::write(net.cgroup.join("cgroup.type"), "threaded")?;
        Ok(net)
    }

    /// Runs this in a thread of the server's namespace and cgroup.
    pub fn server<T: Send>(&self, run: impl FnOnce() -> T + Send) -> T {
        let entered = self.server.enter(|| {
            fs::write(self.cgroup.join("cgroup.threads"), "0").unwrap();
            run()
        });
        entered.unwrap()
    }

    /// Runs this in a thread of the client's namespace, until it ends.
    pub fn client<T: Send + 'static>(
        &self,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let client = self.client.try_clone().unwrap();
        let threads = self.root.join("cgroup.threads");
        thread::spawn(move || {
            // Not in the cgroup of the thread that began this one.
            fs::write(&threads, "0").unwrap();
            client.enter(run).unwrap()
        })
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // Also processes that a failed test has left running.
        let threads = fs::read_to_string(self.cgroup.join("cgroup.threads")).unwrap_or_default();
        for thread in threads.lines() {
            let _ = fs::write(self.root.join("cgroup.threads"), thread);
        }
        // Threads that have just ended may still be counted.
        for _ in 0..100 {
            if fs::remove_dir(&self.cgroup).is_ok() || !self.cgroup.exists() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

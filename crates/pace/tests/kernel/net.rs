//! Two namespaces, and between them a link whose delay, rate and queue can be changed at work.
//!
//! The link is a thread between two TUN devices, so packets are as on a wire: of MTU size, each with
//! the time at which it came.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What the link does, and what it saw.
#[derive(Default)]
pub struct Link {
    /// One way, ns.
    pub delay: AtomicU64,
    /// Towards the client, bit/s; 0 for no limit.
    pub rate: AtomicU64,
    /// Bytes that may wait for the rate.
    pub queue: AtomicU64,
    pub dropped: AtomicU64,
    /// When which packets with payload came from the server.
    pub data: Mutex<Vec<(Instant, usize)>>,
    stop: AtomicBool,
}

impl Link {
    pub fn set_rtt(&self, rtt: Duration) {
        self.delay
            .store(rtt.as_nanos() as u64 / 2, Ordering::Relaxed);
    }

    /// The longest run of packets at most 1 ms apart [Trickle §3.2].
    pub fn longest_burst(&self) -> usize {
        let data = self.data.lock().unwrap();
        let (mut longest, mut run) = (0, 0);
        for (i, (at, _)) in data.iter().enumerate() {
            let joins = i > 0 && *at - data[i - 1].0 <= Duration::from_millis(1);
            run = if joins { run + 1 } else { 1 };
            longest = longest.max(run);
        }
        longest
    }
}

/// The server's namespace and cgroup, the client's namespace, the link.
pub struct Net {
    server: String,
    client: String,
    pub cgroup: PathBuf,
    /// The cgroup that this process was in.
    root: PathBuf,
    pub link: Arc<Link>,
    thread: Option<JoinHandle<()>>,
}

pub const SERVER: &str = "10.83.0.1";
pub const SERVER6: &str = "fd83::1";

impl Net {
    /// `None`, and a line on standard error, where this needs more rights than there are.
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

    fn make() -> io::Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        if unsafe { libc::geteuid() } != 0 {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        let name = format!(
            "pace{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let root = tidegate_pace::own_cgroup().map_err(io::Error::other)?;
        let cgroup = root.join(&name);
        // From here on, dropping it removes what there is.
        let mut net = Self {
            server: format!("{name}s"),
            client: format!("{name}c"),
            cgroup,
            root,
            link: Arc::default(),
            thread: None,
        };
        fs::create_dir(&net.cgroup)?;
        // Threads of this process go in and out one by one.
        fs::write(net.cgroup.join("cgroup.type"), "threaded")?;
        for side in [&net.server, &net.client] {
            ip(&["netns", "add", side])?;
        }
        let link = net.link.clone();
        let (server, client) = (net.server.clone(), net.client.clone());
        let (made, ready) = std::sync::mpsc::channel();
        net.thread = Some(thread::spawn(move || {
            let devices = tun_in(&server).and_then(|server| Ok((server, tun_in(&client)?)));
            match devices {
                Ok((server, client)) => {
                    made.send(Ok(())).unwrap();
                    forward(&link, server, client);
                }
                Err(error) => made.send(Err(error)).unwrap(),
            }
        }));
        ready.recv().map_err(io::Error::other)??;
        for (side, host) in [(&net.server, 1), (&net.client, 2)] {
            let (v4, v6) = (format!("10.83.0.{host}/24"), format!("fd83::{host}/64"));
            ip(&["-n", side, "addr", "add", &v4, "dev", "pace0"])?;
            ip(&["-n", side, "addr", "add", &v6, "dev", "pace0", "nodad"])?;
            ip(&["-n", side, "link", "set", "pace0", "up"])?;
            ip(&["-n", side, "link", "set", "lo", "up"])?;
        }
        Ok(net)
    }

    /// Runs this in a thread of the server's namespace and cgroup.
    pub fn server<T: Send>(&self, run: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                enter(&self.server).unwrap();
                fs::write(self.cgroup.join("cgroup.threads"), "0").unwrap();
                run()
            });
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs this in a thread of the client's namespace, until it ends.
    pub fn client<T: Send + 'static>(
        &self,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let client = self.client.clone();
        let threads = self.root.join("cgroup.threads");
        thread::spawn(move || {
            enter(&client).unwrap();
            // Not in the cgroup of the thread that began this one.
            fs::write(threads, "0").unwrap();
            run()
        })
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.link.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for side in [&self.server, &self.client] {
            let _ = ip(&["netns", "del", side]);
        }
        // What still runs of a test that failed, too.
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

fn ip(arguments: &[&str]) -> io::Result<()> {
    let output = Command::new("ip").args(arguments).output()?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(format!(
        "ip {}: {words}",
        arguments.join(" ")
    )))
}

fn enter(namespace: &str) -> io::Result<()> {
    let file = File::open(Path::new("/run/netns").join(namespace))?;
    // SAFETY: an open file descriptor; changes only this thread.
    match unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes a TUN device in this namespace, where the thread stays.
fn tun_in(namespace: &str) -> io::Result<File> {
    enter(namespace)?;
    let path = "/dev/net/tun";
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    // SAFETY: all zeros is a request; the name is shorter than its field.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request
        .ifr_name
        .iter_mut()
        .zip(CString::new("pace0")?.as_bytes())
    {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads an ifreq, and `request` is one; F_SETFL takes an int.
    let results = unsafe {
        [
            libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request),
            libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK),
        ]
    };
    if results == [0, 0] {
        Ok(file)
    } else {
        Err(io::Error::last_os_error())
    }
}

fn forward(link: &Link, server: File, client: File) {
    let mut ways = [
        Way {
            from: server.try_clone().unwrap(),
            to: client.try_clone().unwrap(),
            waiting: VecDeque::new(),
        },
        Way {
            from: client,
            to: server,
            waiting: VecDeque::new(),
        },
    ];
    let mut free = Instant::now();
    let mut buffer = [0; 2048];
    while !link.stop.load(Ordering::Relaxed) {
        let delay = Duration::from_nanos(link.delay.load(Ordering::Relaxed));
        for (i, way) in ways.iter_mut().enumerate() {
            while let Ok(length) = way.from.read(&mut buffer) {
                let now = Instant::now();
                let mut leaves = now;
                if i == 0 {
                    if length > 200 {
                        link.data.lock().unwrap().push((now, length));
                    }
                    let rate = link.rate.load(Ordering::Relaxed);
                    if rate > 0 {
                        let waits = free.saturating_duration_since(now).as_secs_f64();
                        if waits * rate as f64 / 8.0 > link.queue.load(Ordering::Relaxed) as f64 {
                            link.dropped.fetch_add(1, Ordering::Relaxed);
                            continue;
                        }
                        free = free.max(now)
                            + Duration::from_secs_f64(length as f64 * 8.0 / rate as f64);
                        leaves = free;
                    }
                }
                way.waiting
                    .push_back((leaves + delay, buffer[..length].to_vec()));
            }
            while let Some((at, packet)) = way.waiting.front() {
                if *at > Instant::now() {
                    break;
                }
                let _ = way.to.write(packet);
                way.waiting.pop_front();
            }
        }
        let next = ways
            .iter()
            .filter_map(|way| way.waiting.front())
            .map(|(at, _)| *at)
            .min();
        let wait = next.map_or(Duration::from_millis(5), |at| {
            at.saturating_duration_since(Instant::now())
        });
        let wait = wait.min(Duration::from_millis(5));
        let mut fds = [&ways[0], &ways[1]].map(|way| libc::pollfd {
            fd: way.from.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        });
        let wait = libc::timespec {
            tv_sec: 0,
            tv_nsec: wait.as_nanos() as libc::c_long,
        };
        // SAFETY: two descriptors that live as long as the call.
        unsafe { libc::ppoll(fds.as_mut_ptr(), 2, &raw const wait, std::ptr::null()) };
    }
}

struct Way {
    from: File,
    to: File,
    waiting: VecDeque<(Instant, Vec<u8>)>,
}

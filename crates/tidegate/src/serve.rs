//! `tidegate serve` and `tidegate make-video`.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use rustix::process::{Resource, getrlimit, setrlimit};
use tidegate_serve::media::make;
use tidegate_serve::server::{self, Config, Limits, LogTo, Reloads, ServeError, Server};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;

use crate::cli::serve::{Layout, LogFormat, MakeVideo, Serve};
use crate::cli::{Common, UsageError};
use crate::exit::Exit;

/// Files that may be sent at a time, for each connection that may be open: each stream of HTTP/2 sends one.
const FILES: usize = 2;
/// Descriptors for everything else: each of tokio's 512 threads for the disk needs one more for a moment.
const OTHERS: u64 = 512 + 100;

pub fn run(options: &Serve, common: &Common) -> anyhow::Result<Exit> {
    // Accepts connections, which the server's threads serve.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(16)
        // The main thread opens everything that needs privileges. The others never need any.
        .on_thread_start(|| {
            if let Err(error) = server::drop_privileges() {
                tracing::error!("a thread cannot give up its privileges: {error}");
            }
        })
        .build()
        .context("cannot start the server's threads")?;
    // Messages beside the access log: RUST_LOG=tidegate_serve=debug says why connections end.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    // It would say that it cannot write, and end the program if it cannot say that.
    let messages = tracing_subscriber::fmt()
        .log_internal_errors(false)
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal());
    // It fails only if it was done before.
    let _ = messages.with_writer(io::stderr).try_init();
    let reopen = Arc::new(AtomicBool::new(false));
    let log = open_log(options, &reopen)?;
    let connections = allow_connections(options.max_connections);
    runtime.block_on(serve(options, common, (log, reopen), connections))
}

async fn serve(
    options: &Serve,
    common: &Common,
    (log, reopen): (Option<LogTo>, Arc<AtomicBool>),
    connections: u32,
) -> anyhow::Result<Exit> {
    let tls = options.cert.clone().zip(options.key.clone());
    let groups = match &options.split[..] {
        [] => vec![options.way.into()],
        split => split.to_vec(),
    };
    let list: Vec<String> = groups.iter().map(ToString::to_string).collect();
    let ways = match &groups[..] {
        [one] => one.way.to_string(),
        _ => list.join(", "),
    };
    let config = Config {
        folder: options.folder.clone(),
        listen: options.listen.clone(),
        redirect: options.redirect,
        tls,
        http3: options.http3,
        groups,
        seed: options.seed,
        start_up: options.start_up,
        throttle_percent: options.percent,
        rate: options.rate,
        session: options.session.clone(),
        index: options.index,
        cors: options.cors.clone(),
        cache: options.cache.clone(),
        limits: Limits {
            connections: connections as usize,
            files: connections as usize * FILES,
            per_address: options.max_per_address as usize,
            header_timeout: options.header_timeout,
            stall_timeout: options.stall_timeout,
            grace: options.grace,
        },
        metrics: options.metrics,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    // Before the server listens, so that no signal is missed once a client can know of it.
    let term = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let interrupt = signal(SignalKind::interrupt()).context("cannot wait for Ctrl-C")?;
    let hangup = signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?;
    let user = signal(SignalKind::user_defined1()).context("cannot wait for SIGUSR1")?;
    let server = Server::bind(config, log)
        .await
        .map_err(|error| match error {
            ServeError::Config(what) => UsageError(what.to_owned()).into(),
            error => anyhow::Error::from(error),
        })?;
    // Everything that needs privileges is open now: sockets, certificate, log, and the clamp's programs and maps.
    server::drop_privileges().context("cannot give up privileges")?;
    let addresses = server.addresses().context("cannot listen")?;
    let addresses: Vec<String> = addresses
        .iter()
        .map(|(address, tls)| format!("http{}://{address}/", if *tls { "s" } else { "" }))
        .collect();
    let instead = match server.remark() {
        Some(remark) => {
            eprintln!("tidegate: {remark}");
            "; trickle falls back here"
        }
        None => "",
    };
    let too = if options.http3 { ", with HTTP/3" } else { "" };
    eprintln!(
        "tidegate: serving {} at {}{too}, paced by {ways}{instead}",
        options.folder.display(),
        addresses.join(", ")
    );
    if let Some(metrics) = server.metrics_address() {
        eprintln!("tidegate: metrics at http://{metrics}/metrics");
    }
    tokio::spawn(reload(hangup, user, server.reloads(), reopen));
    let quiet = common.quiet;
    let (signals, mut first) = watch::channel(0);
    tokio::spawn(count_signals(term, interrupt, signals));
    let mut second = first.clone();
    let interrupted = Cell::new(false);
    let shutdown = async {
        // It fails only with the task that counts, which does not end.
        let _ = first.wait_for(|&count| count >= 1).await;
        if !quiet {
            eprintln!(
                "tidegate: waiting for responses to complete; a second signal ends them at once"
            );
        }
    };
    let at_once = async {
        let _ = second.wait_for(|&count| count >= 2).await;
        interrupted.set(true);
    };
    server.run_until(shutdown, at_once).await;
    Ok(match interrupted.get() {
        true => Exit::Interrupted,
        false => Exit::Done,
    })
}

/// Opens the access log again at each SIGHUP and SIGUSR1, as programs that rotate logs want it. At SIGHUP also reads
/// the certificate and opens the folder again.
async fn reload(mut hangup: Signal, mut user: Signal, reloads: Reloads, reopen: Arc<AtomicBool>) {
    loop {
        let hung_up = tokio::select! {
            Some(()) = hangup.recv() => true,
            Some(()) = user.recv() => false,
            else => return,
        };
        reopen.store(true, Ordering::Relaxed);
        if hung_up {
            for error in reloads.reload() {
                eprintln!("tidegate: the server keeps what it had: {error}");
            }
        }
    }
}

/// Counts the signals that end the server: the first one lets responses complete, and the second one does not. Either way the log is
/// written to its end.
async fn count_signals(mut term: Signal, mut interrupt: Signal, signals: watch::Sender<u32>) {
    loop {
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
        signals.send_modify(|count| *count = count.saturating_add(1));
    }
}

fn open_log(options: &Serve, reopen: &Arc<AtomicBool>) -> anyhow::Result<Option<LogTo>> {
    if options.no_log {
        return Ok(None);
    }
    let format = match options.log_format {
        LogFormat::Common => server::LogFormat::Common,
        LogFormat::Json => server::LogFormat::Json,
    };
    let to: Box<dyn Write + Send> = if options.log.as_os_str() == "-" {
        Box::new(io::stdout())
    } else {
        let file = append_to(&options.log).and_then(|mut file| {
            end_line(&options.log, &mut file)?;
            Ok(file)
        });
        Box::new(LogFile {
            file: file.with_context(|| format!("cannot write {}", options.log.display()))?,
            path: options.log.clone(),
            reopen: Arc::clone(reopen),
        })
    };
    Ok(Some((format, to)))
}

/// The file of the access log. Before a line it is opened again, if that was asked for.
struct LogFile {
    file: File,
    path: PathBuf,
    reopen: Arc<AtomicBool>,
}

fn append_to(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).open(path)
}

/// Ends the line that an earlier server left unfinished, because the disk was full until its end.
fn end_line(path: &Path, log: &mut File) -> io::Result<()> {
    let meta = log.metadata()?;
    if !meta.is_file() || meta.len() == 0 {
        return Ok(());
    }
    // What may only be written says nothing.
    let Ok(mut file) = File::open(path) else {
        return Ok(());
    };
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    match last {
        [b'\n'] => Ok(()),
        // While the disk is still full, lines are lost anyway.
        _ => log.write(b"\n").map(drop).or(Ok(())),
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.reopen.swap(false, Ordering::Relaxed) {
            match append_to(&self.path) {
                Ok(file) => self.file = file,
                Err(error) => {
                    let path = self.path.display();
                    eprintln!(
                        "tidegate: {path} cannot be opened again, and its old file is kept: {error}"
                    );
                }
            }
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Raises the limit of open files as far as connections and their files need it. Returns how many connections there is room for.
fn allow_connections(connections: u32) -> u32 {
    let each = 1 + FILES as u64;
    let wanted = u64::from(connections) * each + OTHERS;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(limit.maximum.map_or(wanted, |most| most.min(wanted)));
        // If that is refused, the present limit decides.
        let _ = setrlimit(Resource::Nofile, limit);
    }
    let now = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if now >= wanted {
        return connections;
    }
    let room = (now.saturating_sub(OTHERS) / each).max(1);
    eprintln!(
        "tidegate: {now} files may be open, which is enough for {room} connections. For {connections} raise the limit: ulimit -n {wanted}"
    );
    u32::try_from(room).unwrap_or(connections)
}

pub fn make_video(options: &MakeVideo) -> anyhow::Result<Exit> {
    let layout = match options.layout {
        Layout::Mp4 => make::Layout::Mp4,
        Layout::Mp4HeadersLast => make::Layout::Mp4HeadersLast,
        Layout::Mp4Fragmented => make::Layout::Mp4Fragmented,
        Layout::Webm => make::Layout::WebM,
    };
    let size = match (options.size, options.rate) {
        (Some(size), _) => size.get(),
        (None, Some(rate)) => {
            let bytes = rate.bits_per_second() as f64 / 8.0 * options.duration.as_secs_f64();
            bytes.round() as u64
        }
        (None, None) => {
            return Err(UsageError("the size is missing: give --size or --rate".into()).into());
        }
    };
    make::video(&options.file, layout, options.duration, size)
        .with_context(|| format!("cannot write {}", options.file.display()))?;
    Ok(Exit::Done)
}

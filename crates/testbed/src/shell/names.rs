//! Names in a shell. A server at a loopback address, such as 127.0.0.53, or at a link-local one, such as 169.254.169.254, is not reached from
//! there. One at another address of this machine may answer from the gateway's address, and then programs do not take its answers. So questions of
//! the shell to its gateway are passed on to it, and `/etc/resolv.conf` of the shell names the gateway: questions pass the elements.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::pipe2;

use super::reach::travels;
use crate::TestbedError;

/// Where programs find their servers.
pub(super) const FILE: &str = "/etc/resolv.conf";
/// The server if the file names none, resolv.conf(5).
const USUAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The port of DNS, RFC 1035 §4.2.
const PORT: u16 = 53;
/// Questions that wait for an answer at a time, and connections. The oldest question gives way to a new one.
const MOST_QUESTIONS: usize = 100;
const MOST_CONNECTIONS: usize = 16;
/// How long a server may take; programs ask again after 5 s, as a rule.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes of a message.
const MOST_BYTES: usize = 65_535;

/// The text of the file; `None` if it is missing or cannot be read.
pub(super) fn file() -> Option<String> {
    let bytes = std::fs::read(FILE).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether a file names a server.
pub(super) fn has_servers(text: &str) -> bool {
    text.lines().any(|line| server(line).is_some())
}

/// The addresses of a file's servers.
pub(super) fn servers(text: &str) -> impl Iterator<Item = IpAddr> {
    let lines = text.lines().filter_map(server);
    lines.filter_map(|address| address.parse().ok())
}

fn server(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    (words.next() == Some("nameserver")).then(|| words.next())?
}

/// The first server of a file whose answers do not reach a shell. `own` are addresses of the machine at which they do not.
pub(super) fn unreached(text: &str, own: &[IpAddr]) -> Option<IpAddr> {
    if !has_servers(text) {
        return Some(USUAL);
    }
    servers(text).find(|server| !answers(*server, own))
}

/// Whether the answers of this server reach a shell.
fn answers(server: IpAddr, own: &[IpAddr]) -> bool {
    travels(server) && !own.contains(&server)
}

/// The file with another address for servers whose answers do not reach a shell, and for the usual one; `None` if all do.
pub(super) fn rewritten(text: &str, own: &[IpAddr], address: IpAddr) -> Option<String> {
    unreached(text, own)?;
    let is_unreached = |line| {
        server(line)
            .and_then(|text| text.parse().ok())
            .is_some_and(|server| !answers(server, own))
    };
    let lines = text.lines().map(|line| match is_unreached(line) {
        true => format!("nameserver {address}\n"),
        false => format!("{line}\n"),
    });
    let mut all: String = lines.collect();
    if !has_servers(text) {
        all += &format!("nameserver {address}\n");
    }
    Some(all)
}

/// Passes questions on, until it is dropped.
#[derive(Debug)]
pub(super) struct Names {
    /// Closing it ends the thread.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Names {
    /// Questions of a shell to its gateway, in the calling thread's network, go to this server. `None` if another program answers there.
    pub(super) fn new(
        shell: Ipv4Addr,
        gateway: Ipv4Addr,
        server: IpAddr,
    ) -> Result<Option<Self>, TestbedError> {
        Self::between(shell.into(), (gateway, PORT).into(), (server, PORT).into())
            .map_err(TestbedError::system("answer questions for names"))
    }

    fn between(shell: IpAddr, gateway: SocketAddr, server: SocketAddr) -> io::Result<Option<Self>> {
        let bind = || Ok((UdpSocket::bind(gateway)?, TcpListener::bind(gateway)?));
        let (udp, tcp) = match bind() {
            Ok(sockets) => sockets,
            // A server that listens at all addresses answers by itself.
            Err(error) if io::Error::kind(&error) == io::ErrorKind::AddrInUse => return Ok(None),
            Err(error) => return Err(error),
        };
        udp.set_nonblocking(true)?;
        tcp.set_nonblocking(true)?;
        // Programs in the shell must not inherit them.
        let (stopped, stop) = pipe2(OFlag::O_CLOEXEC)?;
        let mut desk = Desk {
            shell,
            udp,
            tcp,
            server,
            stopped,
            questions: Vec::new(),
            connections: Arc::new(()),
        };
        let thread = thread::Builder::new()
            .name("names".into())
            .spawn(move || while desk.turn().is_ok() {})?;
        Ok(Some(Self {
            stop: Some(stop),
            thread: Some(thread),
        }))
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A question that waits for its answer: the socket over which it was passed on, who asked, and when.
struct Question {
    text: Vec<u8>,
    socket: UdpSocket,
    from: SocketAddr,
    at: Instant,
}

struct Desk {
    /// Who may ask. Linux takes packets for the gateway's address from any device, so neighbours of the machine can send some.
    shell: IpAddr,
    udp: UdpSocket,
    tcp: TcpListener,
    server: SocketAddr,
    stopped: OwnedFd,
    questions: Vec<Question>,
    /// Each connection holds it.
    connections: Arc<()>,
}

impl Desk {
    /// Waits for something, and does it. An error is the end.
    fn turn(&mut self) -> io::Result<()> {
        let wait = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut all = vec![
            wait(self.stopped.as_fd()),
            wait(self.udp.as_fd()),
            wait(self.tcp.as_fd()),
        ];
        all.extend(
            self.questions
                .iter()
                .map(|question| wait(question.socket.as_fd())),
        );
        // Questions without an answer are forgotten at the next turn.
        match poll(&mut all, PollTimeout::NONE) {
            Err(Errno::EINTR) => return Ok(()),
            done => done?,
        };
        let ready: Vec<bool> = all.iter().map(|one| one.any().unwrap_or(true)).collect();
        drop(all);
        if ready[0] {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut answers = ready[3..].iter();
        self.questions.retain(|question| {
            let has_answer = answers.next().copied().unwrap_or(false);
            if has_answer {
                // Whatever goes wrong, the program asks again.
                let _ = answer(&self.udp, question);
            }
            !has_answer && question.at.elapsed() < PATIENCE
        });
        if ready[1] {
            let _ = self.ask();
        }
        if ready[2]
            && let Ok((stream, from)) = self.tcp.accept()
            && from.ip() == self.shell
        {
            let (held, server) = (Arc::clone(&self.connections), self.server);
            if Arc::strong_count(&held) <= MOST_CONNECTIONS + 1 {
                let pass = move || {
                    let _ = connection(stream, server);
                    drop(held);
                };
                let _ = thread::Builder::new().name("name".into()).spawn(pass);
            }
        }
        Ok(())
    }

    /// Passes a question on, over a socket of its own: by its port the answer is known.
    fn ask(&mut self) -> io::Result<()> {
        let mut buffer = [0; MOST_BYTES];
        let (bytes, from) = self.udp.recv_from(&mut buffer)?;
        if from.ip() != self.shell {
            return Ok(());
        }
        let any: IpAddr = if self.server.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            std::net::Ipv6Addr::UNSPECIFIED.into()
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(self.server)?;
        socket.set_nonblocking(true)?;
        socket.send(&buffer[..bytes])?;
        if self.questions.len() == MOST_QUESTIONS {
            self.questions.remove(0);
        }
        self.questions.push(Question {
            text: buffer[..bytes].to_vec(),
            socket,
            from,
            at: Instant::now(),
        });
        Ok(())
    }
}

fn answer(udp: &UdpSocket, question: &Question) -> io::Result<()> {
    let mut buffer = [0; MOST_BYTES];
    let found = match question.socket.recv(&mut buffer) {
        Ok(bytes) => &buffer[..bytes],
        // Nothing listens there. Programs that are told so do not wait.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => &failure(&question.text),
        Err(error) => return Err(error),
    };
    udp.send_to(found, question.from).map(drop)
}

/// The response to a question that says that the server has failed (QR, and RCODE 2), RFC 1035 §4.1.1.
fn failure(question: &[u8]) -> Vec<u8> {
    let mut response = question.to_vec();
    if let Some([_, _, first, second]) = response.first_chunk_mut() {
        *first |= 0x80;
        *second = *second & 0xf0 | 2;
    }
    response
}

/// Questions and answers over TCP take turns, each after its length, RFC 1035 §4.2.2.
fn connection(mut client: TcpStream, server: SocketAddr) -> io::Result<()> {
    client.set_nonblocking(false)?;
    let mut server = TcpStream::connect_timeout(&server, PATIENCE)?;
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
    }
    loop {
        message(&mut client, &mut server)?;
        message(&mut server, &mut client)?;
    }
}

fn message(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut length = [0; 2];
    from.read_exact(&mut length)?;
    let mut whole = length.to_vec();
    whole.resize(2 + usize::from(u16::from_be_bytes(length)), 0);
    from.read_exact(&mut whole[2..])?;
    to.write_all(&whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUB: &str =
        "# systemd-resolved\nnameserver 127.0.0.53\noptions edns0 trust-ad\nsearch example.org\n";

    #[test]
    fn servers_that_are_not_reached_are_replaced() {
        let gateway = "100.64.0.1".parse().unwrap();
        let wanted = STUB.replace("127.0.0.53", "100.64.0.1");
        assert_eq!(rewritten(STUB, &[], gateway), Some(wanted));
        let cloud = rewritten("nameserver 169.254.169.254\n", &[], gateway);
        assert_eq!(cloud.as_deref(), Some("nameserver 100.64.0.1\n"));
        let both = "nameserver ::1\nnameserver\t192.0.2.53 # office\n";
        let wanted = "nameserver 100.64.0.1\nnameserver\t192.0.2.53 # office\n";
        assert_eq!(rewritten(both, &[], gateway).as_deref(), Some(wanted));
        for plain in ["nameserver 192.0.2.53\n", "nameserver soon"] {
            assert_eq!(rewritten(plain, &[], gateway), None, "{plain}");
        }
    }

    #[test]
    fn servers_at_the_machine_s_own_addresses_are_replaced() {
        let gateway = "100.64.0.1".parse().unwrap();
        let own = ["192.0.2.2", "2001:db8::2"].map(|own| own.parse().unwrap());
        let text = "nameserver 192.0.2.53\nnameserver 192.0.2.2\nnameserver 2001:db8::2\n";
        assert_eq!(unreached(text, &own), Some(own[0]));
        let wanted = "nameserver 192.0.2.53\nnameserver 100.64.0.1\nnameserver 100.64.0.1\n";
        assert_eq!(rewritten(text, &own, gateway).as_deref(), Some(wanted));
        assert_eq!(rewritten(text, &[], gateway), None);
    }

    #[test]
    fn a_file_without_servers_means_the_local_machine() {
        let gateway = "100.64.0.1".parse().unwrap();
        for plain in [
            "",
            "nameserver\n",
            "#nameserver 192.0.2.53\n",
            "search example.org\n",
        ] {
            assert_eq!(unreached(plain, &[]), Some(USUAL), "{plain}");
            let wanted = format!("{plain}nameserver 100.64.0.1\n");
            assert_eq!(rewritten(plain, &[], gateway), Some(wanted), "{plain}");
        }
    }

    #[test]
    fn a_response_that_the_server_failed_has_the_question() {
        let question = [7, 9, 1, 0x20, 0, 1, 5];
        assert_eq!(failure(&question), [7, 9, 0x81, 0x22, 0, 1, 5]);
        assert_eq!(failure(&[7, 9, 1]), [7, 9, 1]);
    }

    /// A port for UDP and TCP at an address.
    fn free(address: &str) -> SocketAddr {
        let socket = UdpSocket::bind((address, 0)).unwrap();
        socket.local_addr().unwrap()
    }

    /// Linux takes packets for the gateway's address from any device.
    #[test]
    fn only_the_shell_is_answered() {
        let shell: IpAddr = "127.0.0.4".parse().unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = far.local_addr().unwrap();
        let gateway = free("127.0.0.2");
        let _names = Names::between(shell, gateway, server).unwrap().unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        other.send_to(b"other", gateway).unwrap();
        let near = UdpSocket::bind((shell, 0)).unwrap();
        near.send_to(b"shell", gateway).unwrap();
        // The first question that comes is not the first one that was sent.
        far.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut buffer = [0; 5];
        far.recv(&mut buffer).unwrap();
        assert_eq!(&buffer, b"shell");
        let mut other = TcpStream::connect(gateway).unwrap();
        other.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(matches!(other.read(&mut buffer), Ok(0)));
    }

    #[test]
    fn programs_do_not_wait_where_nothing_listens() {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (gateway, server) = (free("127.0.0.2"), free("127.0.0.1"));
        let shell = near.local_addr().unwrap().ip();
        let _names = Names::between(shell, gateway, server).unwrap().unwrap();
        near.set_read_timeout(Some(PATIENCE)).unwrap();
        near.send_to(&[7, 9, 1, 0, 0, 1], gateway).unwrap();
        let mut buffer = [0; 100];
        let bytes = near.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..bytes], [7, 9, 0x81, 2, 0, 1]);
    }

    /// A server that answers each question with its bytes in reverse.
    #[test]
    fn questions_are_answered_over_udp_and_tcp() {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = far.local_addr().unwrap();
        let listener = TcpListener::bind(server).unwrap();
        // A port that is free for both.
        let free = free("127.0.0.2");
        let shell = "127.0.0.1".parse().unwrap();
        let names = Names::between(shell, free, server).unwrap().unwrap();
        assert!(Names::between(shell, free, server).unwrap().is_none());
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2 {
                    let mut buffer = [0; 100];
                    let (bytes, from) = far.recv_from(&mut buffer).unwrap();
                    buffer[..bytes].reverse();
                    far.send_to(&buffer[..bytes], from).unwrap();
                }
                let (mut stream, _) = listener.accept().unwrap();
                for _ in 0..2 {
                    let mut buffer = [0; 5];
                    stream.read_exact(&mut buffer).unwrap();
                    buffer[2..].reverse();
                    stream.write_all(&buffer).unwrap();
                }
            });
            for question in [&b"first"[..], b"second"] {
                let near = UdpSocket::bind("127.0.0.1:0").unwrap();
                near.set_read_timeout(Some(PATIENCE)).unwrap();
                near.send_to(question, free).unwrap();
                let mut buffer = [0; 100];
                let (bytes, from) = near.recv_from(&mut buffer).unwrap();
                buffer[..bytes].reverse();
                assert_eq!((&buffer[..bytes], from), (question, free));
            }
            let mut stream = TcpStream::connect(free).unwrap();
            for _ in 0..2 {
                stream.write_all(&[0, 3, 7, 8, 9]).unwrap();
                let mut buffer = [0; 5];
                stream.read_exact(&mut buffer).unwrap();
                assert_eq!(buffer, [0, 3, 9, 8, 7]);
            }
        });
        drop(names);
        // A program that another test starts has the sockets until it is loaded.
        let gone = (0..100).any(|_| {
            let gone = UdpSocket::bind(free).is_ok();
            if !gone {
                thread::sleep(Duration::from_millis(50));
            }
            gone
        });
        assert!(gone, "something still listens there");
    }
}

//! Where the server listens: several addresses, each plain or with TLS.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::task::Poll;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::error::ServeError;

/// Connections that may wait to be accepted; the kernel takes net.core.somaxconn if that is less.
const BACKLOG: u32 = 4096;

/// An address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// Address and port; port 0 takes a free one.
    pub address: SocketAddr,
    /// Whether it speaks TLS; `None`: if the server has a certificate.
    pub tls: Option<bool>,
}

/// A text that is no [`Listen`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not an address to listen on: write ADDRESS:PORT, such as 0.0.0.0:8080 or [::]:443, or http:// or https:// before it"
)]
pub struct ListenError(String);

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Self {
        Self { address, tls: None }
    }
}

impl FromStr for Listen {
    type Err = ListenError;

    /// `ADDRESS:PORT`, or the same with `http://` or `https://` before it.
    fn from_str(text: &str) -> Result<Self, ListenError> {
        let (tls, address) = match text.split_once("://") {
            None => (None, text),
            Some(("http", address)) => (Some(false), address),
            Some(("https", address)) => (Some(true), address),
            Some(_) => return Err(ListenError(text.to_owned())),
        };
        let address = address.strip_suffix('/').unwrap_or(address);
        let address = address.parse().map_err(|_| ListenError(text.to_owned()))?;
        Ok(Self { address, tls })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.tls {
            None => "",
            Some(false) => "http://",
            Some(true) => "https://",
        };
        write!(f, "{scheme}{}", self.address)
    }
}

/// Whether a socket of this address leaves IPv4 to another one. `[::]` takes IPv4 too, unless all of that has a socket of its own at the
/// same port (RFC 3493, section 5.3).
pub(super) fn leaves_ipv4(address: SocketAddr, all: &[SocketAddr]) -> bool {
    let same = |other: &SocketAddr| other.port() == address.port();
    let takes_all = |other: &SocketAddr| other.is_ipv4() && other.ip().is_unspecified();
    address.is_ipv6() && all.iter().any(|other| takes_all(other) && same(other))
}

/// Opens a socket that listens at one of these addresses.
pub(super) fn bind(address: SocketAddr, all: &[SocketAddr]) -> Result<TcpListener, ServeError> {
    let listen = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        if leaves_ipv4(address, all) {
            SockRef::from(&socket).set_only_v6(true)?;
        }
        // A server that is restarted need not wait for connections of the previous one.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|error| ServeError::Listen { address, error })
}

/// A connection, its client, and whether it is to speak TLS.
pub(super) type Arrival = (TcpStream, SocketAddr, bool);

/// All sockets that listen.
#[derive(Debug)]
pub(super) struct Listeners {
    /// Each with whether it speaks TLS.
    sockets: Vec<(TcpListener, bool)>,
    /// The one that is asked first, so that clients of one do not keep those of another waiting.
    next: usize,
}

impl Listeners {
    /// Opens all of them. `certificate`: whether the server has one.
    pub fn open(all: &[Listen], certificate: bool) -> Result<Self, ServeError> {
        let tls = |listen: &Listen| listen.tls.unwrap_or(certificate);
        if all.is_empty() {
            return Err(ServeError::Config("name at least one address to listen on"));
        }
        if !certificate && all.iter().any(tls) {
            return Err(ServeError::Config(
                "an address of https needs a certificate and a key: give --cert and --key",
            ));
        }
        if certificate && !all.iter().any(tls) {
            return Err(ServeError::Config(
                "no address uses the certificate: listen on one of https too",
            ));
        }
        let addresses: Vec<SocketAddr> = all.iter().map(|listen| listen.address).collect();
        let sockets = all
            .iter()
            .map(|listen| Ok((bind(listen.address, &addresses)?, tls(listen))));
        Ok(Self {
            sockets: sockets.collect::<Result<_, ServeError>>()?,
            next: 0,
        })
    }

    /// Where it listens, and whether it speaks TLS there.
    pub fn addresses(&self) -> io::Result<Vec<(SocketAddr, bool)>> {
        let address = |(socket, tls): &(TcpListener, bool)| Ok((socket.local_addr()?, *tls));
        self.sockets.iter().map(address).collect()
    }

    /// Where it speaks TLS.
    pub fn secure(&self) -> Result<Vec<SocketAddr>, ServeError> {
        let secure = self.sockets.iter().filter(|(_, tls)| *tls);
        let addresses: io::Result<_> = secure.map(|(socket, _)| socket.local_addr()).collect();
        addresses.map_err(|error| ServeError::System("cannot tell a port", error))
    }

    /// The port with TLS that requests without it are led to.
    pub fn redirect(&self) -> Result<u16, ServeError> {
        let address = |(socket, _): &(TcpListener, bool)| socket.local_addr();
        let to = self.sockets.iter().find(|(_, tls)| *tls).map(address);
        let plain = self.sockets.iter().any(|(_, tls)| !tls);
        match to.filter(|_| plain) {
            Some(Ok(to)) => Ok(to.port()),
            Some(Err(error)) => Err(ServeError::System("cannot tell a port", error)),
            None => Err(ServeError::Config(
                "to lead clients to TLS, listen on an address of http and on one of https",
            )),
        }
    }

    /// The next connection.
    pub async fn accept(&mut self) -> io::Result<Arrival> {
        poll_fn(|cx| {
            let count = self.sockets.len();
            for place in 0..count {
                let at = (self.next + place) % count;
                let (socket, tls) = &self.sockets[at];
                if let Poll::Ready(accepted) = socket.poll_accept(cx) {
                    self.next = at + 1;
                    return Poll::Ready(accepted.map(|(socket, peer)| (socket, peer, *tls)));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The connections that wait now. The kernel is asked directly, because tokio may not know of them yet.
    pub fn drain(self, mut admit: impl FnMut(Arrival)) {
        for (socket, tls) in self.sockets {
            let Ok(socket) = socket.into_std() else {
                continue;
            };
            while let Ok((connection, peer)) = socket.accept() {
                if connection.set_nonblocking(true).is_ok()
                    && let Ok(connection) = TcpStream::from_std(connection)
                {
                    admit((connection, peer, tls));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_families_may_have_a_socket_of_their_own() {
        // A port that is free for both.
        let Ok(free) = std::net::TcpListener::bind("[::]:0") else {
            eprintln!("skipped: no IPv6 here");
            return;
        };
        let port = free.local_addr().unwrap().port();
        drop(free);
        let (four, six) = (format!("0.0.0.0:{port}"), format!("[::]:{port}"));
        for texts in [[&four, &six], [&six, &four]] {
            let all = texts.map(|text| text.parse().unwrap());
            let mut listeners = Listeners::open(&all, false).unwrap();
            for client in ["127.0.0.1", "::1"] {
                let client: std::net::IpAddr = client.parse().unwrap();
                let _stream = TcpStream::connect((client, port)).await.unwrap();
                let (_, peer, _) = listeners.accept().await.unwrap();
                assert_eq!(peer.ip(), client);
            }
        }
        // One socket alone has both.
        let mut listeners = Listeners::open(&[six.parse().unwrap()], false).unwrap();
        let _stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let (_, peer, _) = listeners.accept().await.unwrap();
        assert_eq!(peer.ip().to_canonical().to_string(), "127.0.0.1");
    }

    #[test]
    fn addresses_may_say_how_they_speak() {
        for (text, tls) in [
            ("127.0.0.1:8080", None),
            ("http://[::]:80", Some(false)),
            ("https://0.0.0.0:443/", Some(true)),
        ] {
            let read: Listen = text.parse().unwrap();
            assert_eq!(read.tls, tls, "{text}");
            assert_eq!(read.to_string(), text.trim_end_matches('/'));
        }
        for wrong in [
            "",
            "8080",
            "ftp://1.2.3.4:1",
            "http://localhost:80",
            "https://",
        ] {
            assert!(wrong.parse::<Listen>().is_err(), "{wrong}");
        }
    }
}

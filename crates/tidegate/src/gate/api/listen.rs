//! Sockets that are served: a Unix socket that few users can open, or an address.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tidegate_gate::config::{Listen, Tls};
use tidegate_serve::server::Certificate;

use super::access::{Access, Token, private};

/// A socket that is open.
pub enum Socket {
    /// A Unix socket. Its name is removed with it.
    Unix(UnixListener, Name),
    /// An address and port, and its certificate if it speaks TLS.
    Tcp(TcpListener, Option<Certificate>),
}

/// The name of a Unix socket, which is removed when this is dropped.
pub struct Name(PathBuf);

impl Drop for Name {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Which requests are allowed at an address.
///
/// # Errors
/// If the address can be reached from other machines and there is no token, or the token cannot be
/// read.
pub fn access(
    address: &Listen,
    token: Option<&Path>,
    reader: Option<&Path>,
) -> anyhow::Result<Access> {
    match (address, token) {
        (_, Some(path)) => {
            let reader = reader.map(Token::read).transpose()?;
            Ok(Access::Token(Token::read(path)?, reader))
        }
        (Listen::Unix(_), None) => Ok(Access::Anybody),
        (Listen::Tcp(at), None) if at.ip().to_canonical().is_loopback() => Ok(Access::Local),
        (Listen::Tcp(at), None) => anyhow::bail!(
            "other machines can reach {at}: set `token` to a file with a secret that requests must \
             carry, or listen on a Unix socket or 127.0.0.1"
        ),
    }
}

/// Opens the socket. A Unix socket can be used by its group if one is given, else only by its owner.
pub fn open(
    address: &Listen,
    group: Option<u32>,
    certificate: Option<Certificate>,
) -> anyhow::Result<Socket> {
    let socket = match address {
        Listen::Unix(path) => unix(path, group),
        Listen::Tcp(at) => TcpListener::bind(at)
            .and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok(Socket::Tcp(listener, certificate))
            })
            .map_err(anyhow::Error::from),
    };
    socket.with_context(|| format!("cannot listen on {address}"))
}

/// Reads a certificate and its key, which not every user may read.
pub fn certificate(tls: &Tls) -> anyhow::Result<Certificate> {
    private(&tls.key, "private key")?;
    Ok(Certificate::read(
        &tls.certificate,
        &tls.key,
        &["http/1.1"],
    )?)
}

/// The number of a group, given by its name in /etc/group or as a number.
pub fn group(name: &str) -> anyhow::Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let groups = fs::read_to_string("/etc/group").context("cannot read /etc/group")?;
    // name:password:number:members
    let number = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    });
    number.with_context(|| format!("there is no group `{name}` in /etc/group"))
}

fn unix(path: &Path, group: Option<u32>) -> anyhow::Result<Socket> {
    match UnixStream::connect(path) {
        Ok(_) => anyhow::bail!("a process listens there: is another `tidegate gate run` running?"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // The socket of a daemon that was killed is replaced. Other files are not.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            use std::os::unix::fs::FileTypeExt;
            let kind = fs::symlink_metadata(path)?.file_type();
            anyhow::ensure!(
                kind.is_socket(),
                "there is a file that is not a socket: remove it, or choose another path"
            );
        }
        Err(error) => return Err(error.into()),
    }
    // Other users cannot open it where it is made. It is moved once it has its mode.
    let folder = path.parent().context("the path names no folder")?;
    fs::create_dir_all(folder)?;
    let hidden = folder.join(format!(".socket-{}", std::process::id()));
    let _ = fs::remove_dir_all(&hidden);
    fs::DirBuilder::new().mode(0o700).create(&hidden)?;
    let made = || {
        let name = hidden.join("s");
        let listener = UnixListener::bind(&name)?;
        listener.set_nonblocking(true)?;
        if group.is_some() {
            chown(&name, None, group)?;
        }
        let mode = if group.is_some() { 0o660 } else { 0o600 };
        fs::set_permissions(&name, fs::Permissions::from_mode(mode))?;
        fs::rename(&name, path)?;
        io::Result::Ok(listener)
    };
    let listener = made();
    let _ = fs::remove_dir_all(&hidden);
    Ok(Socket::Unix(listener?, Name(path.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_unix_socket_is_its_owners_and_goes_with_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run/api.sock");
        let address = Listen::Unix(path.clone());
        let socket = open(&address, None, None).expect("open");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
        let error = open(&address, None, None).err().expect("taken");
        let text = format!("{error:#}");
        assert!(text.contains("another `tidegate gate run`"), "{text}");
        drop(socket);
        assert_eq!(
            fs::read_dir(folder.path().join("run"))
                .expect("a folder")
                .count(),
            0
        );

        // For a group.
        let group = fs::metadata(folder.path()).expect("a folder").gid();
        let _socket = open(&address, Some(group), None).expect("open");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o660);
    }

    #[test]
    fn groups_have_names_and_numbers() {
        assert_eq!(group("root").expect("there"), 0);
        assert_eq!(group("17").expect("a number"), 17);
        let error = group("no such group").expect_err("none").to_string();
        assert_eq!(error, "there is no group `no such group` in /etc/group");
    }

    #[test]
    fn a_socket_that_was_left_is_replaced_and_a_file_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("api.sock");
        drop(UnixListener::bind(&path).expect("bound"));
        assert!(path.exists(), "left");
        drop(open(&Listen::Unix(path.clone()), None, None).expect("replaced"));

        fs::write(&path, "precious").expect("written");
        assert!(open(&Listen::Unix(path.clone()), None, None).is_err());
        assert_eq!(fs::read(&path).expect("there"), b"precious");
    }

    #[test]
    fn what_can_be_reached_from_elsewhere_needs_a_token() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        fs::write(&path, "0123456789abcdef\n").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
        let tcp = |text: &str| Listen::Tcp(text.parse().expect("an address"));
        for open in ["0.0.0.0:1", "[::]:1", "10.1.2.3:1", "[2001:db8::1]:1"] {
            let error = access(&tcp(open), None, None)
                .err()
                .expect("refused")
                .to_string();
            assert!(error.contains("`token`"), "{error}");
            assert!(matches!(
                access(&tcp(open), Some(&path), None),
                Ok(Access::Token(_, None))
            ));
        }
        for local in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(matches!(access(&tcp(local), None, None), Ok(Access::Local)));
        }
        let unix = Listen::Unix("/run/x.sock".into());
        assert!(matches!(access(&unix, None, None), Ok(Access::Anybody)));

        // Files without a valid token.
        let refused = || {
            access(&tcp("0.0.0.0:1"), Some(&path), None)
                .err()
                .expect("refused")
        };
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
        assert!(refused().to_string().contains("mode 644"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
        for bad in ["", "short", "0123456789 abcdef", "0123456789abcdef\n\nmore"] {
            fs::write(&path, bad).expect("written");
            assert!(refused().to_string().contains("one word"), "{bad}");
        }
        fs::remove_file(&path).expect("removed");
        assert!(refused().to_string().contains("cannot read"));
    }
}

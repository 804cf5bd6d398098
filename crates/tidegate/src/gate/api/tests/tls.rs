//! The API over TLS.

use std::net::TcpStream;
use std::path::PathBuf;

use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tidegate_gate::config::{Listen, Tls};

use super::*;

/// Writes a certificate for this machine, and its key.
fn make(folder: &std::path::Path) -> Tls {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a key");
    let write = |name: &str, text: String| -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).expect("set");
        path
    };
    Tls {
        certificate: write("crt", made.cert.pem()),
        key: write("key", made.signing_key.serialize_pem()),
    }
}

/// The answer to a client that trusts this certificate only.
fn ask(port: u16, trusted: &std::path::Path) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(trusted).expect("PEM");
    roots.add(certificate).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let client = ClientConnection::new(Arc::new(config), name).expect("a client");
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    let mut stream = StreamOwned::new(client, stream);
    stream.write_all(b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn answers_over_tls_and_takes_new_certificates() {
    let folder = tempfile::tempdir().expect("a folder");
    let tls = make(folder.path());
    let certificate = listen::certificate(&tls).expect("a certificate");
    let at = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let at = at.expect("a port");
    let socket = listen::open(&Listen::Tcp(at), None, Some(certificate.clone())).expect("open");
    let gate = Running::on(socket, Fake::new(1), Access::Local, vec![certificate]);
    let answer = ask(at.port(), &tls.certificate).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // A client without TLS gets nothing, and keeps nobody from it.
    let mut plain = TcpStream::connect(at).expect("connected");
    plain
        .write_all(b"GET /v1/status HTTP/1.1\r\n\r\n")
        .expect("sent");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");

    // A reload reads new files, and leaves the former ones in use where the new ones are damaged.
    let old = folder.path().join("old");
    std::fs::copy(&tls.certificate, &old).expect("copied");
    make(folder.path());
    gate.api.reload(None, false, "a test").expect("reloaded");
    assert!(ask(at.port(), &old).is_err());
    assert!(ask(at.port(), &tls.certificate).is_ok());
    let new = folder.path().join("new");
    std::fs::copy(&tls.certificate, &new).expect("copied");
    std::fs::write(&tls.certificate, "nothing").expect("written");
    gate.api.reload(None, false, "a test").expect("reloaded");
    assert!(ask(at.port(), &new).is_ok());
}

#[test]
fn a_key_that_everybody_may_read_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let tls = make(folder.path());
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&tls.key, mode).expect("set");
    let error = listen::certificate(&tls).expect_err("refused").to_string();
    assert!(
        error.starts_with("every user can read the private key file"),
        "{error}"
    );
}

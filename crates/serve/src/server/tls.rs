//! TLS by rustls: certificate and key from PEM files, HTTP/2 and HTTP/1.1 by ALPN.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ServerConfig;
use rustls::crypto::ring::Ticketer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ProducesTickets;
use tokio_rustls::TlsAcceptor;

use super::error::ServeError;

/// A certificate and its key, as their files were when they were read last.
#[derive(Clone)]
pub struct Certificate(Arc<Files>);

struct Files {
    certificate: PathBuf,
    key: PathBuf,
    protocols: &'static [&'static str],
    /// Seals what clients need to resume a session, so that the server keeps nothing, however many there are.
    tickets: Arc<dyn ProducesTickets>,
    acceptor: Mutex<TlsAcceptor>,
}

impl Certificate {
    /// Reads both files, for a server of these protocols (ALPN).
    ///
    /// # Errors
    /// If they are missing, damaged, or do not go together.
    pub fn read(
        certificate: &Path,
        key: &Path,
        protocols: &'static [&'static str],
    ) -> Result<Self, ServeError> {
        let tickets = Ticketer::new().map_err(|error| ServeError::Tls {
            path: key.to_owned(),
            what: format!("no tickets for sessions: {error}"),
        })?;
        let acceptor = acceptor((certificate, key), protocols, Arc::clone(&tickets))?;
        Ok(Self(Arc::new(Files {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            protocols,
            tickets,
            acceptor: Mutex::new(acceptor),
        })))
    }

    /// Reads the files again, for connections that come from now on.
    ///
    /// # Errors
    /// If they are missing, damaged, or do not go together. The server keeps what it had.
    pub fn reload(&self) -> Result<(), ServeError> {
        let files = (&*self.0.certificate, &*self.0.key);
        let new = acceptor(files, self.0.protocols, Arc::clone(&self.0.tickets))?;
        *self.present() = new;
        Ok(())
    }

    /// What takes connections, with the files as they were read last.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.present().clone()
    }

    /// The settings of TLS with these files, for another protocol.
    pub(super) fn speaking(&self, protocol: &[u8]) -> ServerConfig {
        let mut config = ServerConfig::clone(self.present().config());
        config.alpn_protocols = vec![protocol.to_vec()];
        config
    }

    fn present(&self) -> MutexGuard<'_, TlsAcceptor> {
        self.0
            .acceptor
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Certificate")
            .field(&self.0.certificate)
            .finish()
    }
}

fn acceptor(
    (certificate, key): (&Path, &Path),
    protocols: &[&str],
    tickets: Arc<dyn ProducesTickets>,
) -> Result<TlsAcceptor, ServeError> {
    let wrong = |path: &Path, what: String| ServeError::Tls {
        path: path.to_owned(),
        what,
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(certificate, unread("certificate", &error)))?;
    if chain.is_empty() {
        return Err(wrong(certificate, "it holds no certificate in PEM".into()));
    }
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| wrong(key, unread("private key", &error)))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(certificate, error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| wrong(certificate, format!("it does not go with the key: {error}")))?;
    config.ticketer = tickets;
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// What is wrong with a file in which something should be.
fn unread(what: &str, error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => format!("cannot be read: {error}"),
        error => format!("no {what} in PEM: {error}"),
    }
}

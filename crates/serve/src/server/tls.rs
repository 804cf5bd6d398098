//! TLS by rustls: certificate and key from PEM files, HTTP/2 and HTTP/1.1 by ALPN.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::error::ServeError;

/// A certificate and its key, as their files were when they were read last.
#[derive(Clone)]
pub struct Certificate(Arc<Files>);

struct Files {
    certificate: PathBuf,
    key: PathBuf,
    protocols: &'static [&'static str],
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
        Ok(Self(Arc::new(Files {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            protocols,
            acceptor: Mutex::new(acceptor(certificate, key, protocols)?),
        })))
    }

    /// Reads the files again, for connections that come from now on.
    ///
    /// # Errors
    /// If they are missing, damaged, or do not go together. The server keeps what it had.
    pub fn reload(&self) -> Result<(), ServeError> {
        let new = acceptor(&self.0.certificate, &self.0.key, self.0.protocols)?;
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

fn acceptor(certificate: &Path, key: &Path, protocols: &[&str]) -> Result<TlsAcceptor, ServeError> {
    let wrong = |path: &Path, what: String| ServeError::Tls {
        path: path.to_owned(),
        what,
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(certificate, format!("no certificate in PEM: {error}")))?;
    if chain.is_empty() {
        return Err(wrong(certificate, "it holds no certificate in PEM".into()));
    }
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| wrong(key, format!("no private key in PEM: {error}")))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(certificate, error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| wrong(certificate, format!("it does not go with the key: {error}")))?;
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

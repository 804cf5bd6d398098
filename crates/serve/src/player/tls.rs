//! Which servers a player trusts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;

use super::error::PlayError;

/// Which servers a player trusts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Those with a certificate that the system trusts.
    System,
    /// Servers whose certificate is signed by one in this PEM file, and no others.
    File(PathBuf),
    /// Every server, with any certificate.
    Anybody,
}

/// A connector for TLS sessions with one of these protocols (ALPN, RFC 7301).
pub(super) fn connector(trust: &Trust, protocols: Vec<Vec<u8>>) -> Result<TlsConnector, PlayError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| PlayError::Setting {
            what: "TLS cannot be set up",
            problem: error.to_string(),
        })?;
    let builder = match trust {
        Trust::Anybody => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider))),
        Trust::System => builder.with_root_certificates(of_system()?),
        Trust::File(path) => builder.with_root_certificates(of_file(path)?),
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = protocols;
    Ok(TlsConnector::from(Arc::new(config)))
}

fn of_file(path: &Path) -> Result<RootCertStore, PlayError> {
    let wrong = |why: Option<String>| PlayError::Certificates {
        path: path.to_owned(),
        why,
    };
    let mut roots = RootCertStore::empty();
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|error| wrong(Some(error.to_string())))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| wrong(Some(error.to_string())))?;
        roots
            .add(certificate)
            .map_err(|error| wrong(Some(error.to_string())))?;
    }
    if roots.is_empty() {
        return Err(wrong(None));
    }
    Ok(roots)
}

fn of_system() -> Result<RootCertStore, PlayError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    // Among hundreds, a few unusable ones are normal.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first();
        let why = why.map_or_else(String::new, |error| format!(" ({error})"));
        return Err(PlayError::NoRoots(why));
    }
    Ok(roots)
}

/// Trusts every server that has the key of its certificate.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _above: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

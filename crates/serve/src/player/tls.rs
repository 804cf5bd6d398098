//! Which servers a player trusts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::error::PlayError;

/// Which servers a player trusts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Those with a certificate that the system trusts.
    System,
    /// Servers whose certificate is in this PEM file or signed by one there, and no others.
    File(PathBuf),
    /// Every server, with any certificate.
    Anybody,
}

/// TLS sessions with one of these protocols (ALPN, RFC 7301).
pub(super) fn config(trust: &Trust, protocols: Vec<Vec<u8>>) -> Result<ClientConfig, PlayError> {
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
            .with_custom_certificate_verifier(Arc::new(Verifier(provider, Rule::Anybody))),
        Trust::System => builder.with_root_certificates(of_system()?),
        Trust::File(path) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(of_file(path, provider)?)),
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = protocols;
    Ok(config)
}

fn of_file(path: &Path, provider: Arc<CryptoProvider>) -> Result<Verifier, PlayError> {
    let wrong = |why: Option<String>| PlayError::Certificates {
        path: path.to_owned(),
        why,
    };
    let why = |error: &dyn std::error::Error| wrong(Some(error.to_string()));
    let listed: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| why(&error))?;
    let mut roots = RootCertStore::empty();
    for certificate in &listed {
        roots
            .add(certificate.clone())
            .map_err(|error| why(&error))?;
    }
    if roots.is_empty() {
        return Err(wrong(None));
    }
    let signed = WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
    let signed = signed.build().map_err(|error| why(&error))?;
    Ok(Verifier(provider, Rule::Listed(listed, signed)))
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

/// Trusts servers that have the key of their certificate, by a rule.
#[derive(Debug)]
struct Verifier(Arc<CryptoProvider>, Rule);

/// Which certificates are trusted.
#[derive(Debug)]
enum Rule {
    Anybody,
    /// These, and those that they signed.
    Listed(Vec<CertificateDer<'static>>, Arc<WebPkiServerVerifier>),
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        above: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.1 {
            Rule::Anybody => Ok(ServerCertVerified::assertion()),
            // A self-signed certificate has nobody above it, and must only be for this name.
            Rule::Listed(listed, _) if listed.contains(certificate) => {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            Rule::Listed(_, signed) => {
                signed.verify_server_cert(certificate, above, name, ocsp, now)
            }
        }
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

//! What a server reads again while it runs.

use std::sync::Arc;

use super::error::ServeError;
use super::shared::Shared;
use super::tls::Certificate;

/// The files that a server can read again.
pub struct Reloads {
    pub(super) certificate: Option<Certificate>,
    pub(super) shared: Arc<Shared>,
}

impl std::fmt::Debug for Reloads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reloads").finish_non_exhaustive()
    }
}

impl Reloads {
    /// Reads the certificate and its key again, and opens the folder again: it may be a link that leads elsewhere now. Both hold for
    /// connections and requests from now on. Returns what failed; there the server keeps what it had.
    pub fn reload(&self) -> Vec<ServeError> {
        let certificate = self.certificate.as_ref().map(Certificate::reload);
        let folder = self.shared.folder.reopen().map_err(|error| {
            let path = self.shared.config.folder.clone();
            ServeError::Folder { path, error }
        });
        let both = certificate.into_iter().chain([folder]);
        both.filter_map(Result::err).collect()
    }
}

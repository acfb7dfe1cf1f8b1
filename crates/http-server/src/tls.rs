//! TLS of a server.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

/// Age at which the files are read again.
const READ_AGAIN: Duration = Duration::from_mins(1);

/// Files that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", file.display())]
pub struct TlsError {
    file: PathBuf,
    reason: String,
}

/// TLS with a certificate and a key from files, which are read again each minute, so that renewed ones apply without a restart.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    current: Mutex<(TlsAcceptor, Instant)>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads PEM files: the certificate with its chain, and its key.
    ///
    /// # Errors
    /// Fails if a file cannot be read or used, or the key is not that of the certificate.
    pub fn read(certificate: &Path, key: &Path) -> Result<Arc<Self>, TlsError> {
        let current = Mutex::new((acceptor(certificate, key)?, Instant::now()));
        Ok(Arc::new(Self { certificate: certificate.to_owned(), key: key.to_owned(), current }))
    }

    /// Returns the current certificate. Files that cannot be used change nothing.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.1.elapsed() >= READ_AGAIN {
            current.1 = Instant::now();
            match acceptor(&self.certificate, &self.key) {
                Ok(renewed) => current.0 = renewed,
                Err(error) => tracing::warn!(%error, "the certificate could not be read again; the former one is kept"),
            }
        }
        current.0.clone()
    }
}

fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let failed = |file: &Path, reason: String| TlsError { file: file.to_owned(), reason };
    let unreadable = |file: &'static str| move |error: rustls::pki_types::pem::Error| format!("no {file}: {error}");
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(unreadable("certificate")).map_err(|reason| failed(certificate, reason))?;
    if chain.is_empty() {
        return Err(failed(certificate, "no certificate: the file has none in PEM".to_owned()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(unreadable("key")).map_err(|reason| failed(key, reason))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    let builder =
        builder.with_safe_default_protocol_versions().map_err(|error| failed(certificate, error.to_string()))?;
    let config = builder.with_no_client_auth().with_single_cert(chain, private);
    let mut config = config.map_err(|error| failed(key, error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config).into())
}

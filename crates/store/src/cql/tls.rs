//! TLS to the nodes. Certificates and keys are read from their files whenever a session is opened, so that renewed ones
//! apply without a restart.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;

use super::CqlConfig;

/// Creates the TLS settings of a session; `None` without TLS.
pub(super) fn client_config(config: &CqlConfig) -> Result<Option<Arc<ClientConfig>>, String> {
    if !config.tls {
        return Ok(None);
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match &config.tls_ca {
        Some(file) => {
            let named = |error: &dyn std::fmt::Display| format!("`cql.tls_ca` ({file}): {error}");
            let mut roots = RootCertStore::empty();
            for certificate in certificates("tls_ca", file)? {
                roots.add(certificate).map_err(|error| named(&error))?;
            }
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .map_err(|error| named(&error))?
        }
        None => Arc::new(Verifier::new(Arc::clone(&provider)).map_err(|error| format!("`cql.tls`: {error}"))?),
    };
    let verifier = match &config.tls_name {
        Some(name) => {
            let name =
                ServerName::try_from(name.clone()).map_err(|error| format!("`cql.tls_name` ({name}): {error}"))?;
            Arc::new(OneName { verifier, name })
        }
        None => verifier,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("`cql.tls`: {error}"))?
        // The verifiers are those of the platform and of webpki; only the name to compare may be replaced.
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match (&config.tls_certificate, &config.tls_key) {
        (Some(chain), Some(key)) => {
            let chain = certificates("tls_certificate", chain)?;
            let named = |error: &dyn std::fmt::Display| format!("`cql.tls_key` ({key}): {error}");
            let private = PrivateKeyDer::from_pem_file(Path::new(key)).map_err(|error| named(&error))?;
            builder.with_client_auth_cert(chain, private).map_err(|error| named(&error))?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(Some(Arc::new(config)))
}

/// Reads the certificates of a PEM file, at least one.
fn certificates(setting: &str, file: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let named = |error: &dyn std::fmt::Display| format!("`cql.{setting}` ({file}): {error}");
    let read = CertificateDer::pem_file_iter(Path::new(file)).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let read = read.map_err(|error| named(&error))?;
    if read.is_empty() { Err(named(&"no certificate in PEM form")) } else { Ok(read) }
}

/// Verifier that checks every node's certificate for one name. Nodes are known by address, and certificates rarely
/// contain it.
#[derive(Debug)]
struct OneName {
    verifier: Arc<dyn ServerCertVerifier>,
    name: ServerName<'static>,
}

impl ServerCertVerifier for OneName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _address: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verifier.verify_server_cert(end_entity, intermediates, &self.name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_its_setting() {
        let dir = tempfile::tempdir().unwrap();
        let empty = dir.path().join("empty.pem").display().to_string();
        std::fs::write(&empty, "no certificate\n").unwrap();
        let with_ca = |file: &str| CqlConfig { tls: true, tls_ca: Some(file.to_owned()), ..CqlConfig::default() };
        for file in ["/nowhere/ca.pem", &empty] {
            let error = client_config(&with_ca(file)).unwrap_err();
            assert!(error.contains("`cql.tls_ca`") && error.contains(file), "{error}");
        }
        assert!(client_config(&CqlConfig::default()).unwrap().is_none());
    }
}

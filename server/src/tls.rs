//! The certificate of a server, which all its listeners use.

use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// Reason why a certificate can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The texts aren't PEM of certificates and of a private key.
    #[error("no certificate or private key in PEM: {0}")]
    Pem(#[from] pem::Error),
    /// The certificate and the key don't fit each other, or are of an unknown kind.
    #[error(transparent)]
    Certificate(#[from] rustls::Error),
}

/// The certificate of a server, with its private key.
#[derive(Clone)]
pub struct Tls(ServerConfig);

impl Tls {
    /// Reads a chain of certificates and a private key from PEM.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Tls, TlsError> {
        let chain = CertificateDer::pem_slice_iter(certificates).collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(key)?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        Ok(Tls(config))
    }

    /// Returns what negotiates TLS for the protocols named `protocols` (ALPN, RFC 7301); none are
    /// negotiated if there are no names.
    pub(crate) fn acceptor(self, protocols: &[&[u8]]) -> TlsAcceptor {
        let mut config = self.0;
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

//! The key of a cluster: one file with a certificate and its private key, which all processes and
//! clients have. Who has it is a member: connections are encrypted (TLS 1.3), and both sides prove
//! that they have the key. Without one, processes listen on loopback addresses only.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use ballista_core::extension::{BallistaConfigGrpcEndpoint, EndpointOverrideFn};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, KeyPair};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, Uri};

use crate::error::ClusterError;

/// The name in the certificate of every cluster: members are known by their key, wherever they are.
const NAME: &str = "gristmill-cluster";

/// The protocol of gRPC (ALPN, RFC 7301).
const HTTP2: &[u8] = b"h2";

/// How long a member may take to accept a connection.
const CONNECT_TIME: Duration = Duration::from_secs(20);

/// How often an idle connection is tested, and how long the answer may take.
const KEEP_ALIVE_TIME: Duration = Duration::from_secs(10);

/// Bytes on the way to a reader: of one stream, and of a connection.
const STREAM_WINDOW: u32 = 16 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;

/// The key of a cluster.
#[derive(Clone)]
pub struct ClusterKey {
    server: Arc<ServerConfig>,
    client: ClientTlsConfig,
}

impl std::fmt::Debug for ClusterKey {
    /// Shows nothing of the key.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ClusterKey")
    }
}

impl ClusterKey {
    /// Makes a key for a new cluster and returns its file: a certificate and a private key in PEM.
    ///
    /// # Errors
    /// [`ClusterError::Key`] if the system has no random numbers.
    pub fn generate() -> Result<String, ClusterError> {
        let generate = || {
            let key = KeyPair::generate()?;
            let mut certificate = CertificateParams::new([NAME.to_owned()])?;
            certificate.extended_key_usages = vec![
                ExtendedKeyUsagePurpose::ServerAuth,
                ExtendedKeyUsagePurpose::ClientAuth,
            ];
            let certificate = certificate.self_signed(&key)?;
            Ok::<_, rcgen::Error>(certificate.pem() + &key.serialize_pem())
        };
        generate().map_err(|error| unusable(&error))
    }

    /// Reads the file of a key.
    ///
    /// # Errors
    /// [`ClusterError::Key`] if it isn't one.
    pub fn from_pem(pem: &[u8]) -> Result<ClusterKey, ClusterError> {
        Ok(ClusterKey {
            server: Arc::new(server_config(pem).map_err(|error| unusable(&*error))?),
            client: ClientTlsConfig::new()
                .domain_name(NAME)
                .ca_certificate(Certificate::from_pem(pem))
                .identity(Identity::from_pem(pem, pem)),
        })
    }

    /// Returns what accepts connections of members.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.server))
    }

    /// Returns an endpoint at the address of `endpoint` that connects with this key.
    pub(crate) fn endpoint(
        &self,
        endpoint: &Endpoint,
    ) -> Result<Endpoint, Box<dyn Error + Send + Sync>> {
        let authority = endpoint.uri().authority().ok_or("an address has no host")?;
        // tonic decides by the scheme whether a connection is encrypted, and Ballista uses
        // `http` in some places.
        let uri = Uri::builder()
            .scheme("https")
            .authority(authority.clone())
            .path_and_query("/")
            .build()?;
        let endpoint = Endpoint::from(uri).tls_config(self.client.clone())?;
        Ok(with_limits(endpoint))
    }

    /// Returns how Ballista's clients connect with this key.
    pub(crate) fn endpoints(&self) -> EndpointOverrideFn {
        let key = self.clone();
        Arc::new(move |endpoint| key.endpoint(&endpoint))
    }
}

/// Returns how a client connects to an executor for the rows of a result, with the key of the
/// cluster if it has one.
pub(crate) fn flight_endpoint(key: Option<&ClusterKey>) -> Arc<BallistaConfigGrpcEndpoint> {
    let endpoints: EndpointOverrideFn = match key {
        Some(key) => key.endpoints(),
        None => Arc::new(|endpoint: Endpoint| Ok(with_limits(endpoint))),
    };
    Arc::new(BallistaConfigGrpcEndpoint::new(endpoints))
}

/// Returns `endpoint` with limits of time, so that a connection to a process that doesn't answer
/// ends with an error, and of the bytes that are sent before they are read.
fn with_limits(endpoint: Endpoint) -> Endpoint {
    endpoint
        .connect_timeout(CONNECT_TIME)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE_TIME)
        .keep_alive_timeout(KEEP_ALIVE_TIME)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
}

/// Returns the settings of a listener that accepts members only.
fn server_config(pem: &[u8]) -> Result<ServerConfig, Box<dyn Error + Send + Sync>> {
    let certificate = CertificateDer::from_pem_slice(pem)?;
    let key = PrivateKeyDer::from_pem_slice(pem)?;
    let provider = Arc::new(default_provider());
    let mut members = RootCertStore::empty();
    members.add(certificate.clone())?;
    let members =
        WebPkiClientVerifier::builder_with_provider(Arc::new(members), Arc::clone(&provider));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(members.build()?)
        .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(config)
}

fn unusable(cause: &dyn std::fmt::Display) -> ClusterError {
    ClusterError::Key(cause.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_made() {
        let pem = ClusterKey::generate().unwrap();
        assert_ne!(pem, ClusterKey::generate().unwrap());
        let key = ClusterKey::from_pem(pem.as_bytes()).unwrap();
        let endpoint = Endpoint::from_static("http://10.0.0.1:50050");
        let endpoint = key.endpoint(&endpoint).unwrap();
        assert_eq!(endpoint.uri(), "https://10.0.0.1:50050/");
        assert_eq!(format!("{key:?}"), "ClusterKey");
    }

    #[test]
    fn half_a_key_is_none() {
        let pem = ClusterKey::generate().unwrap();
        let middle = pem.find("-----BEGIN PRIVATE").unwrap();
        let (certificate, private) = pem.split_at(middle);
        let other = ClusterKey::generate().unwrap();
        let mixed = format!(
            "{certificate}{}",
            &other[other.find("-----BEGIN PRIVATE").unwrap()..]
        );
        for text in ["", "no PEM", certificate, private, &mixed] {
            let refused = ClusterKey::from_pem(text.as_bytes())
                .unwrap_err()
                .to_string();
            assert!(refused.contains("cluster key"), "{refused}");
        }
    }
}

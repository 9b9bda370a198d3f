//! Keys of `did:web` identifiers, from the documents that their hosts publish over HTTPS (OMS 1.3,
//! section 9.3).
//!
//! The writer of a grain chooses its signer's DID, and so the host of the request. Therefore every
//! request has limits: only public addresses, HTTPS alone, a maximum of bytes, of time, of
//! redirects, and of documents per resolver ([`WebLimits`]).
//!
//! | module | question |
//! |---|---|
//! | `location` | where is the document of a DID? |
//! | `address` | are requests to this address permitted? |
//! | `fetch` | what is in the document? |

mod address;
mod fetch;
mod location;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use gristmill_schemas::sign::{
    DidError, KeyResolver, PublishedKey, VerifyingKey, did_without_fragment, key_from_did,
    keys_named, read_published_keys,
};

pub use address::is_public;
use fetch::DocumentClient;
pub use location::document_url;

/// Limits of what a resolver requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebLimits {
    /// Maximum size of a document in bytes.
    pub bytes: usize,
    /// Maximum duration of a request with its redirects.
    pub time: Duration,
    /// Maximum number of redirects of a request.
    pub redirects: usize,
    /// Maximum number of documents that are requested.
    pub documents: usize,
}

impl Default for WebLimits {
    fn default() -> Self {
        WebLimits {
            bytes: 256 << 10,
            time: Duration::from_secs(10),
            redirects: 3,
            documents: 1_000,
        }
    }
}

/// Looks up the addresses of a host.
pub type HostLookup = Arc<dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync>;

/// How documents are requested. The default is the public web.
#[derive(Clone)]
pub struct WebAccess {
    /// Limits of the requests.
    pub limits: WebLimits,
    /// Looks up the addresses of a host; the system's resolver by default.
    pub lookup: HostLookup,
    /// Whether requests to an address are permitted; [`is_public`] by default.
    pub may_ask: fn(IpAddr) -> bool,
    /// Certificates in PEM that are trusted as roots instead of the system's.
    pub roots: Option<Vec<u8>>,
}

impl Default for WebAccess {
    fn default() -> Self {
        WebAccess {
            limits: WebLimits::default(),
            lookup: Arc::new(system_lookup),
            may_ask: is_public,
            roots: None,
        }
    }
}

fn system_lookup(host: &str) -> io::Result<Vec<IpAddr>> {
    Ok((host, 0)
        .to_socket_addrs()?
        .map(|found| found.ip())
        .collect())
}

/// The content of a document.
type Document = Result<Vec<PublishedKey>, DidError>;

/// Resolves `did:web` by the documents of the web, and `did:key`. Each document is requested once,
/// whether it is found or not.
pub struct DidWebResolver {
    access: WebAccess,
    client: OnceLock<Result<DocumentClient, String>>,
    documents: Mutex<HashMap<String, Arc<OnceLock<Document>>>>,
    requested: AtomicUsize,
}

impl DidWebResolver {
    /// Returns a resolver that has requested nothing yet.
    pub fn new(access: WebAccess) -> DidWebResolver {
        DidWebResolver {
            access,
            client: OnceLock::new(),
            documents: Mutex::default(),
            requested: AtomicUsize::new(0),
        }
    }

    /// Returns the content of the document of `did`, which has no fragment. Waits for a request of
    /// another thread for the same document.
    fn document(&self, did: &str) -> Document {
        let mut documents = self
            .documents
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let document = Arc::clone(documents.entry(did.to_owned()).or_default());
        drop(documents);
        document.get_or_init(|| self.requested(did)).clone()
    }

    fn requested(&self, did: &str) -> Document {
        let url = document_url(did).ok_or_else(|| DidError::Unresolved(did.to_owned()))?;
        let failed = |cause: String| DidError::Document {
            did: did.to_owned(),
            cause,
        };
        let most = self.access.limits.documents;
        if self.requested.fetch_add(1, Ordering::Relaxed) >= most {
            return Err(failed(format!("{most} documents were requested already")));
        }
        tracing::info!(did, %url, "requesting the document of a DID");
        let client = self
            .client
            .get_or_init(|| DocumentClient::new(&self.access));
        let client = client.as_ref().map_err(|cause| failed(cause.clone()))?;
        let content = client.get(url).map_err(failed)?;
        read_published_keys(did, &content).map_err(|error| failed(error.to_string()))
    }
}

impl KeyResolver for DidWebResolver {
    fn resolve(&self, did: &str) -> Result<Vec<VerifyingKey>, DidError> {
        let bare = did_without_fragment(did);
        if bare.starts_with("did:key:") {
            return Ok(vec![key_from_did(did)?]);
        }
        let keys = keys_named(did, &self.document(bare)?);
        match keys.is_empty() {
            true => Err(DidError::Unresolved(did.to_owned())),
            false => Ok(keys),
        }
    }
}

//! Requests documents over HTTPS within limits.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Certificate, Client, StatusCode};
use url::{Host, Url};

use super::{WebAccess, WebLimits};

/// Maximum duration of connecting.
const CONNECT: Duration = Duration::from_secs(5);

/// A client for documents of unknown hosts.
pub(super) struct DocumentClient {
    client: Client,
    limits: WebLimits,
}

impl DocumentClient {
    /// Returns a client for requests under `access`. It uses no proxy, which would look up hosts by
    /// itself.
    ///
    /// # Errors
    /// The cause, if the certificates of the system can't be used.
    pub(super) fn new(access: &WebAccess) -> Result<DocumentClient, String> {
        let most = access.limits.redirects;
        let mut client = Client::builder()
            .https_only(true)
            .no_proxy()
            .referer(false)
            .user_agent(concat!("gristmill/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::custom(move |attempt| follow(attempt, most)))
            .connect_timeout(CONNECT)
            .timeout(access.limits.time)
            // Connections belong to the runtime of one request.
            .pool_max_idle_per_host(0)
            .dns_resolver2(PermittedHosts(access.clone()));
        if let Some(roots) = &access.roots {
            client = client.tls_built_in_root_certs(false);
            for root in Certificate::from_pem_bundle(roots).map_err(|error| causes(&error))? {
                client = client.add_root_certificate(root);
            }
        }
        Ok(DocumentClient {
            client: client.build().map_err(|error| causes(&error))?,
            limits: access.limits,
        })
    }

    /// Returns the content of `url`. Blocks the thread; may be called within a runtime.
    ///
    /// # Errors
    /// The cause, for people.
    pub(super) fn get(&self, url: Url) -> Result<Vec<u8>, String> {
        // The caller may be a worker of a runtime, which can't run another one.
        std::thread::scope(|scope| {
            let request = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .map_err(|error| error.to_string())?;
                let content = runtime.block_on(self.content(url));
                // A look-up can't be interrupted, and is not waited for.
                runtime.shutdown_background();
                content
            });
            request
                .join()
                .unwrap_or_else(|_| Err("the request ended unexpectedly".to_owned()))
        })
    }

    async fn content(&self, url: Url) -> Result<Vec<u8>, String> {
        let response = self.client.get(url).send().await;
        let mut response = response.map_err(|error| causes(&error))?;
        match response.status() {
            StatusCode::OK => (),
            status => return Err(format!("the host answers {status}")),
        }
        let mut content = Vec::new();
        while let Some(part) = response.chunk().await.map_err(|error| causes(&error))? {
            if content.len() + part.len() > self.limits.bytes {
                let most = self.limits.bytes;
                return Err(format!("it has more than {most} bytes"));
            }
            content.extend_from_slice(&part);
        }
        Ok(content)
    }
}

/// Follows a redirect to a named host. The client itself refuses other schemes than HTTPS.
fn follow(attempt: Attempt<'_>, most: usize) -> reqwest::redirect::Action {
    if attempt.previous().len() > most {
        return attempt.error(format!("it has more than {most} redirects"));
    }
    match attempt.url().host() {
        Some(Host::Domain(_)) => attempt.follow(),
        _ => attempt.error("it redirects to an address instead of a host"),
    }
}

/// Looks up hosts, and leaves out addresses to which requests aren't permitted. The client connects
/// to what this returns, so that no second look-up can give another answer.
struct PermittedHosts(WebAccess);

impl Resolve for PermittedHosts {
    fn resolve(&self, name: Name) -> Resolving {
        let access = self.0.clone();
        let lookup = move || -> Result<Addrs, Box<dyn Error + Send + Sync>> {
            let host = name.as_str();
            let found = (access.lookup)(host)?;
            let count = found.len();
            let permitted: Vec<SocketAddr> = found
                .into_iter()
                .filter(|address| (access.may_ask)(*address))
                .map(|address| SocketAddr::new(address, 0))
                .collect();
            match (permitted.is_empty(), count) {
                (false, _) => Ok(Box::new(permitted.into_iter())),
                (true, 0) => Err(format!("`{host}` has no address").into()),
                (true, _) => Err(format!(
                    "`{host}` is in a private network or on this machine, which isn't asked"
                )
                .into()),
            }
        };
        Box::pin(async { tokio::task::spawn_blocking(lookup).await? })
    }
}

/// Returns an error with its causes.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

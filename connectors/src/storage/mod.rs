//! Object stores by URI.
//!
//! Credentials and endpoints come from environment variables with the names that the stores' own
//! tools use (`AWS_…`, `GOOGLE_…`, `AZURE_…`). Others have no effect: `object_store` also has
//! options such as `token`, `region` and `endpoint`, whose names variables of other programs have.
//!
//! | module | question |
//! |---|---|
//! | `requests` | how many requests were made, and how many bytes did they move? |
//! | `counting` | how are they counted? |
//! | `object_versions` | how are earlier versions of objects removed? |
//! | `single_deletes` | how are objects deleted where a store can't delete several at once? |
//! | `s3_bucket` | how are requests to S3 made that `object_store` lacks? |

#[cfg(feature = "object-store")]
mod counting;
#[cfg(feature = "object-store")]
mod object_versions;
mod requests;
#[cfg(feature = "object-store")]
mod s3_bucket;
#[cfg(feature = "object-store")]
mod single_deletes;

use std::borrow::Cow;
#[cfg(feature = "object-store")]
use std::ffi::OsString;
use std::path::Path as FilePath;
use std::sync::{Arc, LazyLock};

#[cfg(feature = "object-store")]
use object_store::{ObjectStore, path::Path};
use url::Url;

use crate::ConnectorError;

#[cfg(feature = "object-store")]
pub use counting::CountingStore;
#[cfg(feature = "object-store")]
pub use object_versions::{ObjectVersions, RemovedVersions};
pub use requests::{RequestCounters, RequestCounts};
#[cfg(feature = "object-store")]
use single_deletes::SingleDeletes;

/// The counters of all stores of this process that [`resolve_uri`] makes.
static REQUESTS: LazyLock<Arc<RequestCounters>> = LazyLock::new(Arc::default);

/// Returns the requests of this process to the stores of [`resolve_uri`]. The files of this machine
/// aren't among them.
pub fn requests() -> RequestCounts {
    REQUESTS.counts()
}

/// An object store and a path in it.
#[cfg(feature = "object-store")]
#[derive(Debug, Clone)]
pub struct StoreLocation {
    /// The store.
    pub store: Arc<dyn ObjectStore>,
    /// The path of an object, or a prefix of paths.
    pub path: Path,
    /// The URI of the location.
    pub url: Url,
}

/// Why a URI with a query or a fragment is refused: another object would be read.
#[cfg(feature = "object-store")]
const NO_QUERY: &str = "what follows `?` or `#` isn't sent; if it belongs to a name, write %3F or \
                        %23, else download the content and name the file, or `-` for a pipe";

/// Resolves `uri`, which has a scheme, to an object store and a path. Its requests are counted by
/// [`requests`], unless it is a folder of this machine. A user and a password in `uri` have no
/// effect, and are neither in the location nor in errors ([`without_password`]).
///
/// # Errors
/// [`ConnectorError::Uri`] if no store serves the scheme, the configuration is incomplete, or `uri`
/// has a query or a fragment.
#[cfg(feature = "object-store")]
pub fn resolve_uri(uri: &str) -> Result<StoreLocation, ConnectorError> {
    let uri = &*without_password(uri);
    let fault = |reason: String| ConnectorError::Uri {
        uri: uri.to_owned(),
        reason,
    };
    let url = Url::parse(uri).map_err(|error| ConnectorError::Uri {
        uri: up_to_host_removed(uri),
        reason: error.to_string(),
    })?;
    if url.query().or(url.fragment()).is_some() {
        return Err(ConnectorError::Uri {
            // What is left out may be secret, such as the signature of a URL.
            uri: uri.split(['?', '#']).next().unwrap_or(uri).to_owned(),
            reason: NO_QUERY.to_owned(),
        });
    }
    // A URI that begins with `http://` states that it may be read without encryption.
    let unencrypted =
        (url.scheme() == "http").then(|| ("allow_http".to_owned(), "true".to_owned()));
    let options = store_options(std::env::vars_os()).chain(unencrypted);
    let (store, path) =
        object_store::parse_url_opts(&url, options).map_err(|error| fault(error.to_string()))?;
    let store: Arc<dyn ObjectStore> = match url.scheme() {
        "file" => store.into(),
        _ => Arc::new(
            CountingStore::new(store.into(), Arc::clone(&REQUESTS))
                .with_deletes(SingleDeletes::of(&url)),
        ),
    };
    Ok(StoreLocation { store, path, url })
}

/// Returns `uri`, which can't be parsed, without what may be a password with a `/` in it: the text
/// between the scheme and the last `@`.
#[cfg(feature = "object-store")]
fn up_to_host_removed(uri: &str) -> String {
    match (uri.split_once("://"), uri.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{rest}"),
        _ => uri.to_owned(),
    }
}

/// The beginnings of the names of variables that are options of a store.
#[cfg(feature = "object-store")]
const PREFIXES: [&str; 3] = ["aws_", "google_", "azure_"];

/// The variable with which services of Azure state where managed identities are.
#[cfg(feature = "object-store")]
const IDENTITY_ENDPOINT: &str = "identity_endpoint";

/// Returns environment variables as options of a store. Variables with other names, or that aren't
/// Unicode, are no options.
#[cfg(feature = "object-store")]
fn store_options(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (String, String)> {
    variables.filter_map(|(name, value)| {
        let name = name.into_string().ok()?.to_ascii_lowercase();
        let has_prefix = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        let is_option = has_prefix || name == IDENTITY_ENDPOINT;
        is_option.then_some((name, value.into_string().ok()?))
    })
}

/// Returns true if `text` is a URI with a scheme rather than a path. A single letter isn't a
/// scheme, because Windows paths begin with one.
pub fn has_scheme(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        scheme.len() > 1
            && scheme
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.'))
    })
}

/// Returns a URI without the user and the password before its host: names of sources and lakes are
/// recorded, logged and part of errors. Stores get credentials from environment variables only. A
/// name before the host stays where it isn't a user: `abfss://container@account.…`.
pub fn without_password(uri: &str) -> Cow<'_, str> {
    let split = uri.split_once("://").filter(|_| has_scheme(uri));
    let Some((scheme, rest)) = split else {
        return Cow::Borrowed(uri);
    };
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or(rest);
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    match authority.rsplit_once('@') {
        Some((user, host)) if is_web || user.contains(':') => {
            let after = rest.get(authority.len()..).unwrap_or_default();
            Cow::Owned(format!("{scheme}://{host}{after}"))
        }
        _ => Cow::Borrowed(uri),
    }
}

/// Returns the URL of a file or folder, which need not exist.
///
/// # Errors
/// [`ConnectorError::Io`] if the current folder can't be determined.
pub fn file_url(path: &FilePath) -> Result<Url, ConnectorError> {
    let absolute = std::path::absolute(path).map_err(ConnectorError::io("can't resolve", path))?;
    Url::from_file_path(&absolute).map_err(|()| ConnectorError::Uri {
        uri: path.display().to_string(),
        reason: "the path can't be written as a URI".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_has_more_than_one_letter() {
        assert!(has_scheme("s3://bucket/key") && has_scheme("https://example.com/a.mg"));
        assert!(!has_scheme("C:\\exports") && !has_scheme("exports/a.mg") && !has_scheme("-"));
    }

    #[cfg(all(feature = "object-store", unix))]
    #[test]
    fn variables_that_are_not_unicode_are_no_options() {
        use std::os::unix::ffi::OsStringExt;
        let odd = OsString::from_vec(vec![0xff]);
        let variables = [
            ("AWS_REGION".into(), "eu-west-1".into()),
            ("LANG".into(), odd.clone()),
            (odd, "x".into()),
        ];
        let options: Vec<_> = store_options(variables.into_iter()).collect();
        assert_eq!(options, [("aws_region".to_owned(), "eu-west-1".to_owned())]);
    }

    #[cfg(feature = "object-store")]
    #[test]
    fn variables_of_other_programs_are_no_options() {
        let others = [
            "TOKEN",
            "ENDPOINT",
            "REGION",
            "BUCKET",
            "TIMEOUT",
            "USER_AGENT",
        ];
        let ours = [
            "AWS_ENDPOINT",
            "GOOGLE_SERVICE_ACCOUNT",
            "AZURE_CLIENT_ID",
            "IDENTITY_ENDPOINT",
        ];
        let variables = others.into_iter().chain(ours);
        let variables = variables.map(|name| (OsString::from(name), OsString::from("x")));
        let options = store_options(variables).map(|(name, _)| name.to_ascii_uppercase());
        assert_eq!(options.collect::<Vec<_>>(), ours);
    }

    #[test]
    fn a_password_is_no_part_of_a_name() {
        for (uri, expected) in [
            (
                "https://ada:pw@host:81/a@b?c=d:e@f",
                "https://host:81/a@b?c=d:e@f",
            ),
            ("HTTPS://token@host", "HTTPS://host"),
            ("https://ada:p@w@host/x", "https://host/x"),
            ("s3://key:secret@bucket/x", "s3://bucket/x"),
            ("abfss://container@account.dfs.core.windows.net/x", ""),
            ("s3://bucket/a:b@c.mg", ""),
            ("https://host/a:b@c.mg", ""),
            ("in/ada:pw@host", ""),
            ("-", ""),
        ] {
            let expected = if expected.is_empty() { uri } else { expected };
            assert_eq!(without_password(uri), expected);
        }
    }

    #[cfg(feature = "object-store")]
    #[test]
    fn locations_and_errors_have_no_password() {
        let location = resolve_uri("https://ada:secret@host/x/a.mg").unwrap();
        assert_eq!(location.url.as_str(), "https://host/x/a.mg");
        for refused in ["gopher://ada:secret@host/a", "https://ada:sec/ret@host/a"] {
            let error = resolve_uri(refused).unwrap_err().to_string();
            assert!(!error.contains("sec"), "{error}");
            assert!(error.contains("host/a"), "{error}");
        }
    }

    #[cfg(feature = "object-store")]
    #[test]
    fn the_error_of_an_unknown_scheme_lists_the_known_ones() {
        let error = resolve_uri("gopher://host/file").unwrap_err().to_string();
        assert!(
            error.contains("gopher://host/file") && error.contains("s3://"),
            "{error}"
        );
    }
    #[cfg(feature = "object-store")]
    #[test]
    fn a_uri_with_a_query_or_a_fragment_names_no_object() {
        for uri in [
            "https://host/x?X-Amz-Signature=secret",
            "https://host/x?",
            "s3://bucket/x#secret",
            "file:///in/x#secret",
        ] {
            let error = resolve_uri(uri).unwrap_err().to_string();
            assert!(error.contains("/x` can't be used: what follows"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let escaped = resolve_uri("https://host/a%3Fb%23c.mg").unwrap();
        assert_eq!(escaped.path.as_ref(), "a?b#c.mg");
    }

    #[cfg(feature = "object-store")]
    #[tokio::test]
    async fn a_server_without_encryption_is_read_if_its_uri_says_so() {
        use std::io::{BufRead, BufReader, Write};

        use object_store::ObjectStoreExt;

        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("http://{}/in/a.mg", listener.local_addr().unwrap());
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let first = lines.next().unwrap().unwrap();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n";
            stream.write_all(head.as_bytes()).unwrap();
            first
        });
        let location = resolve_uri(&uri).unwrap();
        let found = location.store.head(&location.path).await.unwrap();
        assert_eq!(found.size, 5);
        assert_eq!(served.join().unwrap(), "HEAD /in/a.mg HTTP/1.1");
    }
}

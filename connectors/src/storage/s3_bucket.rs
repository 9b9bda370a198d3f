//! Requests to a bucket of S3 that the crate `object_store` doesn't make, with its client,
//! credentials and signatures: deletions of one object, and those about versions.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsAuthorizer, AwsCredentialProvider};
use object_store::client::{
    HttpClient, HttpConnector, HttpRequest, HttpRequestBody, ReqwestConnector,
};
use object_store::{ClientOptions, Error};
use url::Url;

use super::store_options;
use crate::ConnectorError;

/// The region of a store that is named by its endpoint alone.
const DEFAULT_REGION: &str = "us-east-1";

/// Number of attempts at a request, if the store is busy or can't be reached.
const ATTEMPTS: u32 = 5;

/// Wait before the second attempt. Doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// A bucket.
#[derive(Debug)]
pub(super) struct S3Bucket {
    client: HttpClient,
    credentials: AwsCredentialProvider,
    region: String,
    url: Url,
    /// The store serves requests without a signature, and there may be no credentials.
    skips_signature: bool,
}

/// Returns the settings of `variables` of the environment for `bucket`, and those of its client.
fn configuration(
    bucket: &str,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> (AmazonS3Builder, ClientOptions) {
    let mut builder = AmazonS3Builder::new().with_bucket_name(bucket);
    let mut options = ClientOptions::new();
    for (name, value) in store_options(variables) {
        match name.parse() {
            Ok(AmazonS3ConfigKey::Client(key)) => {
                options = options.with_config(key, value.clone());
                builder = builder.with_config(AmazonS3ConfigKey::Client(key), value);
            }
            Ok(key) => builder = builder.with_config(key, value),
            Err(_) => {}
        }
    }
    (builder, options)
}

/// Returns true if the setting `key` is a spelling of true that the store's client accepts.
fn is_set(builder: &AmazonS3Builder, key: AmazonS3ConfigKey) -> bool {
    let value = builder.get_config_value(&key).unwrap_or_default();
    ["1", "true", "on", "yes", "y"].contains(&&*value.to_ascii_lowercase())
}

/// Returns the URL of `bucket`, as the store's client composes it.
fn bucket_url(
    builder: &AmazonS3Builder,
    bucket: &str,
    region: &str,
) -> Result<Url, url::ParseError> {
    let setting = |key| builder.get_config_value(&key);
    let endpoint =
        setting(AmazonS3ConfigKey::S3Endpoint).or_else(|| setting(AmazonS3ConfigKey::Endpoint));
    let is_virtual = is_set(builder, AmazonS3ConfigKey::VirtualHostedStyleRequest);
    let has_bucket = endpoint.is_some() && is_virtual;
    let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
    let mut url = Url::parse(&endpoint)?;
    if let (Ok(mut segments), false) = (url.path_segments_mut(), has_bucket) {
        segments.pop_if_empty().push(bucket);
    }
    Ok(url)
}

/// Returns the URL of the object `key` of the bucket at `bucket`. All characters but those that
/// signatures leave as they are are encoded, or a store that checks them refuses the request. Parts
/// of a key that would be steps between folders in a URL are left out.
fn object_url(bucket: &Url, key: &str) -> Url {
    let mut path = bucket.path().trim_end_matches('/').to_owned();
    for part in key.split('/').filter(|part| !matches!(*part, "." | "..")) {
        path.push('/');
        for byte in part.bytes() {
            match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                true => path.push(char::from(byte)),
                false => path.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    let mut url = bucket.clone();
    url.set_path(&path);
    url
}

impl S3Bucket {
    /// Returns the bucket of `uri`, an `s3://` URI. The configuration is that of
    /// [`resolve_uri`](super::resolve_uri). `None` for other stores.
    ///
    /// # Errors
    /// [`ConnectorError::Uri`] if the configuration is incomplete.
    pub(super) fn of(uri: &Url) -> Result<Option<S3Bucket>, ConnectorError> {
        S3Bucket::with(uri, std::env::vars_os())
    }

    /// Does the same with `variables` for the environment.
    pub(super) fn with(
        uri: &Url,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Option<S3Bucket>, ConnectorError> {
        let bucket = uri.host_str();
        let Some(bucket) = bucket.filter(|_| matches!(uri.scheme(), "s3" | "s3a")) else {
            return Ok(None);
        };
        let fault = |reason: String| ConnectorError::Uri {
            uri: uri.to_string(),
            reason,
        };
        let (builder, options) = configuration(bucket, variables);
        let region = builder.get_config_value(&AmazonS3ConfigKey::Region);
        let region = region.unwrap_or(DEFAULT_REGION.to_owned());
        let url =
            bucket_url(&builder, bucket, &region).map_err(|error| fault(error.to_string()))?;
        let skips_signature = is_set(&builder, AmazonS3ConfigKey::SkipSignature);
        let store = builder.build().map_err(|error| fault(error.to_string()))?;
        let client = ReqwestConnector::default().connect(&options);
        Ok(Some(S3Bucket {
            client: client.map_err(|error| fault(error.to_string()))?,
            credentials: Arc::clone(store.credentials()),
            region,
            url,
            skips_signature,
        }))
    }

    /// Returns the URL of the bucket.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the URL of an object.
    pub(super) fn object_url(&self, key: &str) -> Url {
        object_url(&self.url, key)
    }

    /// Makes a request, again if the store is busy, and returns the body of its response. `what`
    /// describes the failure.
    ///
    /// # Errors
    /// [`ConnectorError::Store`]. An object that doesn't exist is deleted already.
    pub(super) async fn request(
        &self,
        method: Method,
        url: &Url,
        what: &'static str,
    ) -> Result<Bytes, ConnectorError> {
        let mut wait = FIRST_WAIT;
        let mut attempt = 1;
        loop {
            match self.attempt(&method, url).await {
                Err(AttemptError::Transient(_)) if attempt < ATTEMPTS => {
                    tokio::time::sleep(wait).await;
                    wait *= 2;
                    attempt += 1;
                }
                Err(AttemptError::Transient(cause) | AttemptError::Final(cause)) => {
                    return Err(failure(what, url, cause));
                }
                Ok(body) => return Ok(body),
            }
        }
    }

    async fn attempt(&self, method: &Method, url: &Url) -> Result<Bytes, AttemptError> {
        let mut request = unsigned_request(method, url)?;
        if !self.skips_signature {
            self.sign(&mut request).await?;
        }
        let response = self.client.execute(request).await;
        let response = response.map_err(|error| AttemptError::Transient(error.to_string()))?;
        let status = response.status();
        let body = response.into_body().bytes().await;
        let body = body.map_err(|error| AttemptError::Transient(error.to_string()))?;
        let cause = || format!("{status}: {}", String::from_utf8_lossy(&body));
        match status {
            _ if status.is_success() => Ok(body),
            // Deleted by another process.
            StatusCode::NOT_FOUND if method == Method::DELETE => Ok(body),
            StatusCode::TOO_MANY_REQUESTS => Err(AttemptError::Transient(cause())),
            _ if status.is_server_error() => Err(AttemptError::Transient(cause())),
            _ => Err(AttemptError::Final(cause())),
        }
    }

    async fn sign(&self, request: &mut HttpRequest) -> Result<(), AttemptError> {
        let credential = self.credentials.get_credential().await;
        let credential = credential.map_err(|error| AttemptError::Final(error.to_string()))?;
        AwsAuthorizer::new(&credential, "s3", &self.region).authorize(request, None);
        Ok(())
    }
}

fn unsigned_request(method: &Method, url: &Url) -> Result<HttpRequest, AttemptError> {
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    *request.method_mut() = method.clone();
    *request.uri_mut() = url
        .as_str()
        .parse()
        .map_err(|error: http::uri::InvalidUri| AttemptError::Final(error.to_string()))?;
    Ok(request)
}

/// Why an attempt at a request failed.
enum AttemptError {
    /// Another attempt may succeed.
    Transient(String),
    /// It fails again.
    Final(String),
}

/// Returns the failure of a request to `url`.
pub(super) fn failure(
    what: &'static str,
    url: &Url,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> ConnectorError {
    ConnectorError::Store {
        what,
        uri: url.to_string(),
        cause: Error::Generic {
            store: "S3",
            source: cause.into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_a_bucket_are_those_of_its_store() {
        let variables = [("AWS_REGION", "eu-west-1"), ("ENDPOINT", "http://other")];
        let variables =
            variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let (builder, _) = configuration("bucket", variables.into_iter());
        let setting = |key| builder.get_config_value(&key);
        assert_eq!(
            setting(AmazonS3ConfigKey::Region).as_deref(),
            Some("eu-west-1")
        );
        assert_eq!(setting(AmazonS3ConfigKey::Endpoint), None);
    }

    #[test]
    fn keys_are_parts_of_the_path() {
        let (builder, _) = configuration("bucket", std::iter::empty());
        let url = bucket_url(&builder, "bucket", "eu-west-1").unwrap();
        assert_eq!(url.as_str(), "https://s3.eu-west-1.amazonaws.com/bucket");
        for (key, path) in [
            ("lake/a b", "/bucket/lake/a%20b"),
            (
                "team=a/x+y (1)/é",
                "/bucket/team%3Da/x%2By%20%281%29/%C3%A9",
            ),
            ("a%2Fb/%2E%2E", "/bucket/a%252Fb/%252E%252E"),
            ("a//b?c#d", "/bucket/a//b%3Fc%23d"),
            ("lake/../x", "/bucket/lake/x"),
        ] {
            let url = object_url(&url, key);
            assert_eq!((url.path(), url.query()), (path, None), "{key}");
        }
        let of_bucket = Url::parse("https://bucket.example/").unwrap();
        assert_eq!(object_url(&of_bucket, "a/b").path(), "/a/b");
    }

    #[test]
    fn an_endpoint_has_the_bucket_in_every_spelling_of_true() {
        for (value, expected) in [
            ("true", "https://bucket.example/"),
            ("TRUE", "https://bucket.example/"),
            ("1", "https://bucket.example/"),
            ("false", "https://bucket.example/bucket"),
        ] {
            let variables = [
                ("AWS_ENDPOINT", "https://bucket.example"),
                ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", value),
            ];
            let variables =
                variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
            let (builder, _) = configuration("bucket", variables.into_iter());
            let url = bucket_url(&builder, "bucket", "eu-west-1").unwrap();
            assert_eq!(url.as_str(), expected, "{value}");
        }
    }
}

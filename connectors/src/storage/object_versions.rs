//! Earlier versions of objects in a bucket of S3 with versioning: listing and deleting them. The
//! crate `object_store` has neither, but its client, credentials and signatures serve for both.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use http::{Method, StatusCode};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsAuthorizer, AwsCredentialProvider};
use object_store::client::{
    HttpClient, HttpConnector, HttpRequest, HttpRequestBody, ReqwestConnector,
};
use object_store::path::Path;
use object_store::{ClientOptions, Error};
use serde::{Deserialize, Serialize};
use url::Url;

use super::requests::RequestKind;
use super::{REQUESTS, store_options};
use crate::ConnectorError;

/// The region of a store that is named by its endpoint alone.
const DEFAULT_REGION: &str = "us-east-1";

/// Number of concurrent deletions.
const DELETIONS: usize = 16;

/// Number of attempts at a request, if the store is busy or can't be reached.
const ATTEMPTS: u32 = 5;

/// Wait before the second attempt. Doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// The versions of the objects below a prefix of a bucket.
#[derive(Debug)]
pub struct ObjectVersions {
    client: HttpClient,
    credentials: AwsCredentialProvider,
    region: String,
    /// URL of the bucket.
    bucket: Url,
    prefix: Path,
}

/// What [`ObjectVersions::remove_earlier`] removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RemovedVersions {
    /// Number of earlier versions, delete markers included.
    pub versions: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl std::ops::Add for RemovedVersions {
    type Output = RemovedVersions;

    fn add(self, other: RemovedVersions) -> RemovedVersions {
        RemovedVersions {
            versions: self.versions + other.versions,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// A page of a listing, as S3 writes it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct VersionPage {
    #[serde(default, rename = "Version")]
    versions: Vec<ObjectVersion>,
    #[serde(default, rename = "DeleteMarker")]
    markers: Vec<ObjectVersion>,
    is_truncated: bool,
    next_key_marker: Option<String>,
    next_version_id_marker: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ObjectVersion {
    key: String,
    version_id: String,
    is_latest: bool,
    #[serde(default)]
    size: u64,
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

/// Returns the URL of `bucket`, as the store's client composes it.
fn bucket_url(
    builder: &AmazonS3Builder,
    bucket: &str,
    region: &str,
) -> Result<Url, url::ParseError> {
    let setting = |key| builder.get_config_value(&key);
    let endpoint =
        setting(AmazonS3ConfigKey::S3Endpoint).or_else(|| setting(AmazonS3ConfigKey::Endpoint));
    let is_virtual = setting(AmazonS3ConfigKey::VirtualHostedStyleRequest);
    let has_bucket = endpoint.is_some() && is_virtual.as_deref() == Some("true");
    let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
    let mut url = Url::parse(&endpoint)?;
    if let (Ok(mut segments), false) = (url.path_segments_mut(), has_bucket) {
        segments.pop_if_empty().push(bucket);
    }
    Ok(url)
}

impl ObjectVersions {
    /// Returns the versions below `uri`, an `s3://` URI with the path `prefix` in its bucket. The
    /// configuration is that of [`resolve_uri`](super::resolve_uri). `None` for other stores.
    ///
    /// # Errors
    /// [`ConnectorError::Uri`] if the configuration is incomplete.
    pub fn below(uri: &Url, prefix: &Path) -> Result<Option<ObjectVersions>, ConnectorError> {
        let bucket = uri.host_str();
        let Some(bucket) = bucket.filter(|_| matches!(uri.scheme(), "s3" | "s3a")) else {
            return Ok(None);
        };
        let fault = |reason: String| ConnectorError::Uri {
            uri: uri.to_string(),
            reason,
        };
        let (builder, options) = configuration(bucket, std::env::vars_os());
        let region = builder.get_config_value(&AmazonS3ConfigKey::Region);
        let region = region.unwrap_or(DEFAULT_REGION.to_owned());
        let url =
            bucket_url(&builder, bucket, &region).map_err(|error| fault(error.to_string()))?;
        let store = builder.build().map_err(|error| fault(error.to_string()))?;
        let client = ReqwestConnector::default().connect(&options);
        Ok(Some(ObjectVersions {
            client: client.map_err(|error| fault(error.to_string()))?,
            credentials: Arc::clone(store.credentials()),
            region,
            bucket: url,
            prefix: prefix.clone(),
        }))
    }

    /// Deletes every version that isn't the newest of its object, and every marker of a deletion
    /// that isn't. Newest markers stay, without bytes: if one were deleted, what another writer
    /// stores and deletes meanwhile could come back. Costs a request per thousand versions and one
    /// per deletion.
    ///
    /// # Errors
    /// [`ConnectorError::Store`] if the store refuses, such as for objects under a lock. Running it
    /// again continues.
    pub async fn remove_earlier(&self) -> Result<RemovedVersions, ConnectorError> {
        let mut removed = RemovedVersions::default();
        let mut next = Some((None, None));
        while let Some((key, version)) = next {
            let page = self.list(key.as_deref(), version.as_deref()).await?;
            let all = page.versions.into_iter().chain(page.markers);
            let earlier: Vec<ObjectVersion> = all.filter(|version| !version.is_latest).collect();
            removed.versions += earlier.len() as u64;
            removed.bytes += earlier.iter().map(|version| version.size).sum::<u64>();
            stream::iter(earlier)
                .map(|version| async move { self.delete(&version).await })
                .buffer_unordered(DELETIONS)
                .try_collect::<()>()
                .await?;
            next = (page.is_truncated && page.next_key_marker.is_some())
                .then_some((page.next_key_marker, page.next_version_id_marker));
        }
        Ok(removed)
    }

    /// Returns the page of versions after `key` and its `version`.
    async fn list(
        &self,
        key: Option<&str>,
        version: Option<&str>,
    ) -> Result<VersionPage, ConnectorError> {
        let mut url = self.bucket.clone();
        url.query_pairs_mut().append_pair("versions", "");
        if !self.prefix.as_ref().is_empty() {
            let prefix = format!("{}/", self.prefix);
            url.query_pairs_mut().append_pair("prefix", &prefix);
        }
        for (name, value) in [("key-marker", key), ("version-id-marker", version)] {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        REQUESTS.count(RequestKind::List);
        let body = self.request(Method::GET, &url).await?;
        let text = String::from_utf8_lossy(&body);
        quick_xml::de::from_str(&text)
            .map_err(|error| failure("can't list versions of", &url, error))
    }

    async fn delete(&self, version: &ObjectVersion) -> Result<(), ConnectorError> {
        let mut url = self.bucket.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.extend(version.key.split('/'));
        }
        url.query_pairs_mut()
            .append_pair("versionId", &version.version_id);
        REQUESTS.count(RequestKind::Delete);
        self.request(Method::DELETE, &url).await.map(drop)
    }

    /// Makes a request, again if the store is busy, and returns the body of its response.
    async fn request(&self, method: Method, url: &Url) -> Result<Bytes, ConnectorError> {
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
                    let what = match method {
                        Method::DELETE => "can't delete the version",
                        _ => "can't list versions of",
                    };
                    return Err(failure(what, url, cause));
                }
                Ok(body) => return Ok(body),
            }
        }
    }

    async fn attempt(&self, method: &Method, url: &Url) -> Result<Bytes, AttemptError> {
        let request = self.signed_request(method, url).await?;
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

    async fn signed_request(
        &self,
        method: &Method,
        url: &Url,
    ) -> Result<HttpRequest, AttemptError> {
        let credential = self.credentials.get_credential().await;
        let credential = credential.map_err(|error| AttemptError::Final(error.to_string()))?;
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.method_mut() = method.clone();
        *request.uri_mut() = url
            .as_str()
            .parse()
            .map_err(|error: http::uri::InvalidUri| AttemptError::Final(error.to_string()))?;
        AwsAuthorizer::new(&credential, "s3", &self.region).authorize(&mut request, None);
        Ok(request)
    }
}

/// Why an attempt at a request failed.
enum AttemptError {
    /// Another attempt may succeed.
    Transient(String),
    /// It fails again.
    Final(String),
}

fn failure(
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
    fn a_page_may_mix_versions_and_markers_and_lacks_what_is_empty() {
        let page: VersionPage = quick_xml::de::from_str(
            "<ListVersionsResult><Name>b</Name><KeyMarker/><IsTruncated>true</IsTruncated>\
             <NextKeyMarker>k</NextKeyMarker><NextVersionIdMarker>2</NextVersionIdMarker>\
             <Version><Key>a</Key><VersionId>1</VersionId><IsLatest>true</IsLatest><Size>5</Size>\
             </Version><DeleteMarker><Key>b</Key><VersionId>3</VersionId><IsLatest>true</IsLatest>\
             </DeleteMarker><Version><Key>b</Key><VersionId>2</VersionId><IsLatest>false</IsLatest>\
             <Size>7</Size></Version></ListVersionsResult>",
        )
        .unwrap();
        assert_eq!((page.versions.len(), page.markers.len()), (2, 1));
        assert_eq!(page.next_version_id_marker.as_deref(), Some("2"));
        assert!(page.is_truncated && !page.versions[1].is_latest && page.versions[1].size == 7);
        let empty = "<ListVersionsResult><IsTruncated>false</IsTruncated></ListVersionsResult>";
        let empty: VersionPage = quick_xml::de::from_str(empty).unwrap();
        assert!(empty.versions.is_empty() && empty.markers.is_empty());
    }

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
    fn only_buckets_of_s3_have_versions() {
        for uri in ["gs://bucket/lake", "az://container/lake", "file:///lake"] {
            let uri = Url::parse(uri).unwrap();
            assert!(
                ObjectVersions::below(&uri, &Path::default())
                    .unwrap()
                    .is_none()
            );
        }
    }
}

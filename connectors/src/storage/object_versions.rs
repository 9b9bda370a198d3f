//! Earlier versions of objects in a bucket of S3 with versioning: listing and deleting them.

use futures::stream::{self, StreamExt, TryStreamExt};
use http::Method;
use object_store::path::Path;
use serde::{Deserialize, Serialize};
use url::Url;

use super::REQUESTS;
use super::requests::RequestKind;
use super::s3_bucket::{S3Bucket, failure};
use crate::ConnectorError;

/// Number of concurrent deletions.
const DELETIONS: usize = 16;

/// The versions of the objects below a prefix of a bucket.
#[derive(Debug)]
pub struct ObjectVersions {
    bucket: S3Bucket,
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

impl ObjectVersions {
    /// Returns the versions below `uri`, an `s3://` URI with the path `prefix` in its bucket. The
    /// configuration is that of [`resolve_uri`](super::resolve_uri). `None` for other stores.
    ///
    /// # Errors
    /// [`ConnectorError::Uri`] if the configuration is incomplete.
    pub fn below(uri: &Url, prefix: &Path) -> Result<Option<ObjectVersions>, ConnectorError> {
        let bucket = S3Bucket::of(uri)?;
        Ok(bucket.map(|bucket| ObjectVersions {
            bucket,
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
        let mut url = self.bucket.url().clone();
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
        let what = "can't list versions of";
        let body = self.bucket.request(Method::GET, &url, what).await?;
        let text = String::from_utf8_lossy(&body);
        quick_xml::de::from_str(&text).map_err(|error| failure(what, &url, error))
    }

    async fn delete(&self, version: &ObjectVersion) -> Result<(), ConnectorError> {
        let mut url = self.bucket.object_url(&version.key);
        url.query_pairs_mut()
            .append_pair("versionId", &version.version_id);
        REQUESTS.count(RequestKind::Delete);
        let what = "can't delete the version";
        let deleted = self.bucket.request(Method::DELETE, &url, what);
        deleted.await.map(drop)
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

//! Deletions in stores with S3's interface that lack the request for several objects
//! (`DeleteObjects`), which is the only one that `object_store` makes: objects are deleted one by
//! one there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use http::Method;
use object_store::path::Path;
use object_store::{Error, ObjectStore, Result};
use tokio::sync::OnceCell;
use url::Url;

use super::s3_bucket::S3Bucket;
use crate::ConnectorError;

/// Largest number of objects of one request.
const OBJECTS: usize = 1_000;

/// Number of concurrent deletions of one object.
const DELETIONS: usize = 16;

/// Deletes objects of a bucket, one by one where the store can't delete several.
#[derive(Debug)]
pub(super) struct SingleDeletes {
    /// URI of the bucket.
    uri: Url,
    /// The store has refused a request for several objects.
    is_needed: AtomicBool,
    bucket: OnceCell<S3Bucket>,
}

impl SingleDeletes {
    /// Returns the deletions in the bucket of `uri`; `None` for stores other than S3.
    pub(super) fn of(uri: &Url) -> Option<SingleDeletes> {
        matches!(uri.scheme(), "s3" | "s3a").then(|| SingleDeletes {
            uri: uri.clone(),
            is_needed: AtomicBool::new(false),
            bucket: OnceCell::new(),
        })
    }

    /// Deletes the objects of `paths`, as [`ObjectStore::delete_stream`] does.
    pub(super) fn delete_stream(
        self: &Arc<Self>,
        store: &Arc<dyn ObjectStore>,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (deletes, store) = (Arc::clone(self), Arc::clone(store));
        let chunks = paths.try_chunks(OBJECTS).then(move |chunk| {
            let (deletes, store) = (Arc::clone(&deletes), Arc::clone(&store));
            async move {
                let chunk: Result<Vec<Path>> = chunk.map_err(|error| error.1);
                let deleted: Result<_> = match chunk {
                    Ok(chunk) => Ok(stream::iter(deletes.delete(&store, chunk).await)),
                    Err(error) => Err(error),
                };
                deleted
            }
        });
        chunks.try_flatten().boxed()
    }

    async fn delete(
        self: &Arc<Self>,
        store: &Arc<dyn ObjectStore>,
        paths: Vec<Path>,
    ) -> Vec<Result<Path>> {
        if !self.is_needed.load(Ordering::Relaxed) {
            let all = stream::iter(paths.clone().into_iter().map(Ok)).boxed();
            let deleted: Vec<Result<Path>> = store.delete_stream(all).collect().await;
            let is_refused = |one: &Result<Path>| one.as_ref().is_err_and(is_not_implemented);
            if !deleted.iter().any(is_refused) {
                return deleted;
            }
            self.is_needed.store(true, Ordering::Relaxed);
        }
        let deletes = Arc::clone(self);
        let one_by_one = stream::iter(paths).map(move |path| {
            let deletes = Arc::clone(&deletes);
            async move { deletes.delete_one(path).await }
        });
        one_by_one.buffered(DELETIONS).collect().await
    }

    async fn delete_one(&self, path: Path) -> Result<Path> {
        let bucket = || async { S3Bucket::of(&self.uri)?.ok_or_else(|| no_bucket(&self.uri)) };
        let bucket = self.bucket.get_or_try_init(bucket).await.map_err(generic)?;
        let url = bucket.object_url(path.as_ref());
        let deleted = bucket.request(Method::DELETE, &url, "can't delete");
        deleted.await.map_err(generic)?;
        Ok(path)
    }
}

fn no_bucket(uri: &Url) -> ConnectorError {
    ConnectorError::Uri {
        uri: uri.to_string(),
        reason: "it names no bucket".to_owned(),
    }
}

fn generic(error: ConnectorError) -> Error {
    Error::Generic {
        store: "S3",
        source: error.into(),
    }
}

/// Returns true for the answer of a store without a request. `object_store` has it as text only.
fn is_not_implemented(error: &Error) -> bool {
    let text = error.to_string();
    [
        "501 Not Implemented",
        "405 Method Not Allowed",
        "<Code>NotImplemented</Code>",
    ]
    .iter()
    .any(|answer| text.contains(answer))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::thread;

    use object_store::aws::AmazonS3Builder;

    use super::*;

    /// Serves requests like a store that can't delete several objects; returns their first lines
    /// when `count` were answered.
    fn serve(listener: TcpListener, count: usize) -> thread::JoinHandle<Vec<String>> {
        let answered = move |stream: std::io::Result<std::net::TcpStream>| {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let first = lines.next().unwrap().unwrap();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let status = match first.starts_with("POST") {
                true => "501 Not Implemented",
                false => "204 No Content",
            };
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            first
        };
        thread::spawn(move || listener.incoming().take(count).map(answered).collect())
    }

    #[tokio::test]
    async fn objects_are_deleted_one_by_one_where_a_store_refuses_several() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let served = serve(listener, 4);
        let store = AmazonS3Builder::new()
            .with_bucket_name("bucket")
            .with_endpoint(&endpoint)
            .with_allow_http(true)
            .with_region("eu-west-1")
            .with_access_key_id("id")
            .with_secret_access_key("secret")
            .with_retry(object_store::RetryConfig {
                max_retries: 0,
                ..object_store::RetryConfig::default()
            });
        let store: Arc<dyn ObjectStore> = Arc::new(store.build().unwrap());
        let uri = Url::parse("s3://bucket/lake").unwrap();
        let variables = [
            ("AWS_ENDPOINT", endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
        ];
        let variables =
            variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let bucket = S3Bucket::with(&uri, variables.into_iter())
            .unwrap()
            .unwrap();
        let deletes = Arc::new(SingleDeletes {
            bucket: OnceCell::new_with(Some(bucket)),
            ..SingleDeletes::of(&uri).unwrap()
        });
        for names in [&["lake/a b", "lake/c"][..], &["lake/d"]] {
            let paths: Vec<Path> = names.iter().map(|name| Path::from(*name)).collect();
            let given = stream::iter(paths.clone().into_iter().map(Ok)).boxed();
            let deleted = deletes.delete_stream(&store, given);
            assert_eq!(deleted.try_collect::<Vec<_>>().await.unwrap(), paths);
        }
        let mut requests = served.join().unwrap();
        requests.sort();
        let expected = [
            "DELETE /bucket/lake/a%20b HTTP/1.1",
            "DELETE /bucket/lake/c HTTP/1.1",
            "DELETE /bucket/lake/d HTTP/1.1",
            "POST /bucket?delete HTTP/1.1",
        ];
        assert_eq!(requests, expected);
    }

    #[tokio::test]
    async fn a_store_without_signatures_requires_no_credentials() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let served = serve(listener, 1);
        let variables = [
            ("AWS_ENDPOINT", endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_SKIP_SIGNATURE", "true"),
        ];
        let variables =
            variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let uri = Url::parse("s3://bucket/lake").unwrap();
        let bucket = S3Bucket::with(&uri, variables.into_iter()).unwrap();
        let deletes = SingleDeletes {
            bucket: OnceCell::new_with(bucket),
            ..SingleDeletes::of(&uri).unwrap()
        };
        deletes.delete_one(Path::from("lake/a")).await.unwrap();
        assert_eq!(served.join().unwrap(), ["DELETE /bucket/lake/a HTTP/1.1"]);
    }
}

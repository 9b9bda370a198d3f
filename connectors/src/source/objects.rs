//! Sources in object stores: their discovery and their bytes.

use std::sync::Arc;

use futures::TryStreamExt;
use glob::Pattern;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use super::bytes::SourceBytes;
use super::lakes::LakesOfObjects;
use super::location::{MATCHING, Source, SourceLocation, is_pattern};
use super::spool::{SourceSpool, SpoolOptions};
use crate::ConnectorError;
use crate::storage::{StoreLocation, resolve_uri};

/// Spools the object at `path`. `uri` names it in errors.
pub(super) async fn fetch_object(
    store: &dyn ObjectStore,
    path: &ObjectPath,
    uri: &str,
    options: SpoolOptions,
) -> Result<SourceBytes, ConnectorError> {
    let fault = || ConnectorError::store("can't read", uri);
    let mut chunks = store.get(path).await.map_err(fault())?.into_stream();
    let mut spool = SourceSpool::new(uri, options)?;
    while let Some(chunk) = chunks.try_next().await.map_err(fault())? {
        spool.write(&chunk)?;
    }
    spool.finish()
}

/// Resolves a URI: an object, a prefix of objects, or a pattern. `http` URIs have no patterns.
pub(super) async fn resolve_objects(uri: &str) -> Result<Vec<Source>, ConnectorError> {
    if is_pattern(uri) && !uri.starts_with("http") {
        return matching_objects(uri).await;
    }
    let location = resolve_uri(uri)?;
    match location.store.head(&location.path).await {
        Ok(found) => return Ok(vec![object(&location, uri.to_owned(), found)]),
        Err(object_store::Error::NotFound { .. }) => {}
        Err(cause) => {
            return Err(ConnectorError::Store {
                what: "can't inspect",
                uri: uri.to_owned(),
                cause,
            });
        }
    }
    list_objects(&location, uri, |_| true).await
}

/// Returns the pattern of paths in the store: the rest of the URI below the path of the prefix.
fn path_below(prefix: &ObjectPath, rest: &str) -> String {
    if prefix.as_ref().is_empty() {
        rest.to_owned()
    } else {
        format!("{prefix}/{rest}")
    }
}

async fn matching_objects(uri: &str) -> Result<Vec<Source>, ConnectorError> {
    let literal = uri.split(['*', '?', '[']).next().unwrap_or(uri);
    let prefix = literal
        .rsplit_once('/')
        .map_or(literal, |(folder, _)| folder);
    let location = resolve_uri(prefix)?;
    let rest = uri
        .get(prefix.len()..)
        .unwrap_or_default()
        .trim_start_matches('/');
    let inside = path_below(&location.path, rest);
    let pattern = Pattern::new(&inside).map_err(|error| ConnectorError::Pattern {
        pattern: uri.to_owned(),
        reason: error.to_string(),
    })?;
    list_objects(&location, prefix, |path| {
        pattern.matches_with(path.as_ref(), MATCHING)
    })
    .await
}

/// Lists the non-empty objects below `location` that `wanted` selects, in the order of their paths,
/// without lakes in its folders. `uri` is the URI of `location`.
///
/// # Errors
/// [`ConnectorError::OfLake`] if `location` is a lake and its own objects are wanted.
async fn list_objects(
    location: &StoreLocation,
    uri: &str,
    wanted: impl Fn(&ObjectPath) -> bool,
) -> Result<Vec<Source>, ConnectorError> {
    let all: Vec<ObjectMeta> = location
        .store
        .list(Some(&location.path))
        .try_collect()
        .await
        .map_err(ConnectorError::store("can't list", uri))?;
    let lakes = LakesOfObjects::among(all.iter().map(|object| object.location.as_ref()));
    let wanted = all
        .iter()
        .filter(|object| object.size > 0 && wanted(&object.location));
    let mut found = Vec::new();
    for object in wanted {
        match lakes.lake_of(object.location.as_ref()) {
            None => found.push(object.clone()),
            Some(lake) if lake == location.path.as_ref() => {
                return Err(ConnectorError::OfLake {
                    name: uri.to_owned(),
                    lake: uri.to_owned(),
                });
            }
            Some(_) => {}
        }
    }
    found.sort_by(|left, right| left.location.cmp(&right.location));
    let sources = found.into_iter().map(|meta| {
        let uri = uri_below(location, uri, &meta.location);
        object(location, uri, meta)
    });
    Ok(sources.collect())
}

/// Returns the URI of the object at `path`, below `location` with the URI `uri`.
fn uri_below(location: &StoreLocation, uri: &str, path: &ObjectPath) -> String {
    let path = path.as_ref();
    let below = path.strip_prefix(location.path.as_ref()).unwrap_or(path);
    let below = below.trim_start_matches('/');
    format!("{}/{below}", uri.trim_end_matches('/'))
}

fn object(location: &StoreLocation, uri: String, found: ObjectMeta) -> Source {
    Source {
        location: SourceLocation::Object {
            store: Arc::clone(&location.store),
            path: found.location,
        },
        uri,
        length: Some(found.size),
        time: Some(found.last_modified.timestamp_millis()),
    }
}

#[cfg(test)]
mod tests {
    use object_store::PutPayload;
    use object_store::memory::InMemory;

    use super::*;
    use crate::source::fetch;

    #[tokio::test]
    async fn objects_are_listed_by_prefix_and_pattern() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("in")).unwrap();
        for name in ["in/b.mg", "in/a.mg", "in/c.txt"] {
            std::fs::write(folder.path().join(name), b"x").unwrap();
        }
        let store: Arc<dyn ObjectStore> =
            Arc::new(object_store::local::LocalFileSystem::new_with_prefix(folder.path()).unwrap());
        let url = url::Url::parse("s3://bucket/in").unwrap();
        let location = StoreLocation {
            store,
            path: "in".into(),
            url,
        };
        let found = list_objects(&location, "s3://bucket/in", |path| {
            path.as_ref().ends_with(".mg")
        })
        .await
        .unwrap();
        let uris: Vec<_> = found.iter().map(|source| &*source.uri).collect();
        assert_eq!(uris, ["s3://bucket/in/a.mg", "s3://bucket/in/b.mg"]);
    }

    #[tokio::test]
    async fn an_object_is_spooled_and_a_missing_one_is_an_error() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        store
            .put(&"a.mg".into(), PutPayload::from_static(b"bytes"))
            .await
            .unwrap();
        let location = SourceLocation::Object {
            store,
            path: "a.mg".into(),
        };
        let source = Source {
            location,
            uri: "mem://a.mg".to_owned(),
            length: Some(5),
            time: None,
        };
        assert_eq!(&*fetch(&source).await.unwrap(), b"bytes");
        let gone = Source {
            location: SourceLocation::Object {
                store: Arc::new(InMemory::new()),
                path: "a.mg".into(),
            },
            ..source
        };
        assert!(matches!(
            fetch(&gone).await,
            Err(ConnectorError::Store { .. })
        ));
    }
}

//! Comparison of the files and objects to which grains refer with the checksums of the references
//! (OMS 1.3, section 7.1).
//!
//! Only what lies below the given roots is read: data mustn't decide which files of the machine, or
//! which hosts, a verification reads.

mod references;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use datafusion::common::Result;
use datafusion::object_store::path::Path;
use datafusion::object_store::{ObjectStore, ObjectStoreExt};
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use gristmill_connectors::ConnectorError;
use gristmill_connectors::storage::{file_url, has_scheme, resolve_uri, without_password};
use serde::Serialize;
use sha2::{Digest, Sha256};

pub use references::{ReferenceCounts, count_references};

/// All references, with the grains that have them.
const REFERENCES: &str = "SELECT content_address, r['uri'] AS uri, r['size_bytes'] AS size, \
                          r['checksum'] AS checksum FROM (SELECT content_address, \
                          unnest(content_refs) AS r FROM grains WHERE content_refs IS NOT NULL)";

/// Problems that are listed. All are counted.
const LISTED: usize = 100;

/// Files whose result is remembered, since many grains refer to the same one.
const REMEMBERED: usize = 100_000;

/// A folder, or a prefix of an object store, with content.
pub struct ContentRoot {
    /// Its URL, without a slash at its end.
    url: String,
    store: Arc<dyn ObjectStore>,
    path: Path,
}

impl ContentRoot {
    /// Returns the root at `location`, a folder or the URI of a store.
    ///
    /// # Errors
    /// [`ConnectorError`] if the folder doesn't exist or no store serves the URI.
    pub fn new(location: &str) -> std::result::Result<ContentRoot, ConnectorError> {
        let url = match has_scheme(location) {
            true => without_password(location).into_owned(),
            false => {
                let folder = std::path::Path::new(location);
                let folder = folder
                    .canonicalize()
                    .map_err(ConnectorError::io("can't open", folder))?;
                file_url(&folder)?.to_string()
            }
        };
        let url = url.trim_end_matches('/').to_owned();
        let resolved = resolve_uri(&url)?;
        Ok(ContentRoot {
            url,
            store: resolved.store,
            path: resolved.path,
        })
    }

    /// Returns the path of `uri` if it lies below this root. Relative paths, and the content
    /// addresses of `cas://` (as a file's name), are below every root.
    fn path_of(&self, uri: &str) -> Option<Path> {
        let relative = match uri.strip_prefix("cas://") {
            Some(address) => Path::parse(address.strip_prefix("sha256:").unwrap_or(address)),
            None if has_scheme(uri) => {
                let rest = uri.strip_prefix(&self.url)?.strip_prefix('/')?;
                Path::from_url_path(rest)
            }
            None if uri.starts_with('/') => {
                let url = file_url(std::path::Path::new(uri)).ok()?;
                let rest = url.as_str().strip_prefix(&self.url)?.strip_prefix('/')?;
                Path::from_url_path(rest)
            }
            None => Path::parse(uri),
        };
        // Paths with `..` are no paths of a store.
        let relative = relative.ok()?;
        Some(self.path.parts().chain(relative.parts()).collect())
    }
}

/// What a reference states about its content.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Reference {
    uri: String,
    size: Option<u64>,
    /// SHA-256 in lowercase hexadecimal digits.
    checksum: String,
}

/// Why content differs from what a reference states.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Equal(u64),
    /// It is below none of the roots.
    Elsewhere,
    Missing,
    Unreadable(String),
    Different(String),
}

/// A reference whose content is missing, unreadable or another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContentProblem {
    /// The grain.
    pub content_address: String,
    /// The reference.
    pub uri: String,
    /// What was found.
    pub message: String,
}

/// Result of comparing content with its references.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ContentReport {
    /// References of all grains.
    pub references: u64,
    /// Those whose content has the checksum and the size.
    pub equal: u64,
    /// Those whose content has another checksum or size.
    pub different: u64,
    /// Those whose content isn't there.
    pub missing: u64,
    /// Those whose content can't be read.
    pub unreadable: u64,
    /// Those without a SHA-256, which can't be compared.
    pub without_checksum: u64,
    /// Those to content below none of the roots, which isn't read.
    pub elsewhere: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// The first problems.
    pub problems: Vec<ContentProblem>,
}

impl ContentReport {
    /// Returns true if no content is different, missing or unreadable.
    pub fn is_fine(&self) -> bool {
        self.different + self.missing + self.unreadable == 0
    }

    fn add(&mut self, content_address: &str, uri: &str, verdict: &Verdict) {
        let message = match verdict {
            Verdict::Equal(_) => {
                self.equal += 1;
                return;
            }
            Verdict::Elsewhere => {
                self.elsewhere += 1;
                return;
            }
            Verdict::Missing => {
                self.missing += 1;
                "there is no such file or object".to_owned()
            }
            Verdict::Unreadable(cause) => {
                self.unreadable += 1;
                cause.clone()
            }
            Verdict::Different(cause) => {
                self.different += 1;
                cause.clone()
            }
        };
        if self.problems.len() < LISTED {
            self.problems.push(ContentProblem {
                content_address: content_address.to_owned(),
                uri: uri.to_owned(),
                message,
            });
        }
    }
}

/// Compares the content of all references of the grains of `context` that lies below `roots`. Reads
/// one file at a time, in parts.
///
/// # Errors
/// [`datafusion::error::DataFusionError`] if the grains can't be read. Content that can't be read
/// is a problem of the report.
pub async fn verify_content(
    context: &SessionContext,
    roots: &[ContentRoot],
) -> Result<ContentReport> {
    let mut report = ContentReport::default();
    let mut known: HashMap<Reference, Verdict> = HashMap::new();
    let mut rows = context.sql(REFERENCES).await?.execute_stream().await?;
    while let Some(batch) = rows.next().await {
        for (content_address, uri, reference) in references_of(&batch?) {
            report.references += 1;
            let Some(reference) = reference else {
                report.without_checksum += 1;
                continue;
            };
            let verdict = match known.get(&reference) {
                Some(verdict) => verdict.clone(),
                None => {
                    let verdict = compared(roots, &reference).await;
                    if let Verdict::Equal(bytes) = verdict {
                        report.bytes += bytes;
                    }
                    if known.len() >= REMEMBERED {
                        known.clear();
                    }
                    known.insert(reference, verdict.clone());
                    verdict
                }
            };
            report.add(&content_address, &uri, &verdict);
        }
    }
    Ok(report)
}

/// Returns the grain, the URI and, if there is a SHA-256, the reference of each row.
fn references_of(batch: &RecordBatch) -> Vec<(String, String, Option<Reference>)> {
    let texts = [0, 1, 3].map(|at| batch.column(at).as_string_opt::<i32>());
    let ([Some(addresses), Some(uris), Some(checksums)], Some(sizes)) =
        (texts, batch.column(2).as_primitive_opt::<Int64Type>())
    else {
        return Vec::new();
    };
    let of_row = |row: usize| {
        let uri = match uris.is_valid(row) {
            true => uris.value(row),
            false => "",
        };
        let checksum = checksums.is_valid(row).then(|| checksums.value(row));
        let reference = checksum.and_then(sha256_of).map(|checksum| Reference {
            uri: uri.to_owned(),
            size: sizes
                .is_valid(row)
                .then(|| u64::try_from(sizes.value(row)).unwrap_or_default()),
            checksum,
        });
        (addresses.value(row).to_owned(), uri.to_owned(), reference)
    };
    (0..batch.num_rows()).map(of_row).collect()
}

/// Returns the digits of `sha256:…`.
fn sha256_of(checksum: &str) -> Option<String> {
    let digits = checksum.strip_prefix("sha256:")?;
    let is_hex = digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then(|| digits.to_ascii_lowercase())
}

/// Compares the content of `reference` in the first of `roots` that has it.
async fn compared(roots: &[ContentRoot], reference: &Reference) -> Verdict {
    let mut verdict = Verdict::Elsewhere;
    for root in roots {
        if let Some(path) = root.path_of(&reference.uri) {
            verdict = compared_at(&*root.store, &path, reference).await;
            if verdict != Verdict::Missing {
                break;
            }
        }
    }
    verdict
}

async fn compared_at(store: &dyn ObjectStore, path: &Path, reference: &Reference) -> Verdict {
    use datafusion::object_store::Error;
    let found = match store.get(path).await {
        Ok(found) => found,
        Err(Error::NotFound { .. }) => return Verdict::Missing,
        Err(error) => return Verdict::Unreadable(error.to_string()),
    };
    let size = found.meta.size;
    if let Some(stated) = reference.size.filter(|stated| *stated != size) {
        return Verdict::Different(format!("it has {size} bytes, the reference says {stated}"));
    }
    let mut hash = Sha256::new();
    let mut parts = found.into_stream();
    while let Some(part) = parts.next().await {
        match part {
            Ok(part) => hash.update(&part),
            Err(error) => return Verdict::Unreadable(error.to_string()),
        }
    }
    let digest = hash.finalize();
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    match digest == reference.checksum {
        true => Verdict::Equal(size),
        false => Verdict::Different(format!(
            "its SHA-256 is {digest}, the reference says {}",
            reference.checksum
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_below_the_root_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = ContentRoot::new(&folder.path().display().to_string()).unwrap();
        let inside = |uri: &str| root.path_of(uri).is_some();
        let own = folder.path().canonicalize().unwrap();
        let own = own.display();
        assert!(inside("a/b.png") && inside("cas://sha256:00ff"));
        assert!(inside(&format!("{own}/a.png")) && inside(&format!("file://{own}/a.png")));
        for uri in [
            "/etc/passwd".to_owned(),
            "file:///etc/passwd".to_owned(),
            "../a.png".to_owned(),
            "a/../../b.png".to_owned(),
            format!("file://{own}/../b.png"),
            format!("file://{own}/%2e%2e/b.png"),
            format!("{own}/../b.png"),
            format!("{own}2/b.png"),
            "https://example.org/a.png".to_owned(),
            "s3://bucket/a.png".to_owned(),
            "cas://../a.png".to_owned(),
        ] {
            assert!(!inside(&uri), "{uri}");
        }
    }
}

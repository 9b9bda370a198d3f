//! The lake of a scan: its location is the URL of the object store of its files, so that every
//! process that decodes the scan finds it, whatever lakes it has seen.

use std::path::Path;
use std::sync::Arc;

use datafusion::common::{Result, exec_err, plan_datafusion_err};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::object_store::ObjectStore;
use datafusion::object_store::memory::InMemory;
use gristmill_engine::lake::LakeLocation;

/// Scheme of the URLs. The host is the location in hexadecimal digits.
const SCHEME: &str = "gristmill-lake://";

/// The folder of a lake that contains the log of its first table.
const LOG_OF_GRAINS: &str = "grains/_delta_log";

/// Returns the location of the lake `uri` for all processes: an absolute path, or the URI of a lake
/// in an object store.
///
/// # Errors
/// If the current folder can't be found, or if the path isn't Unicode.
pub fn absolute(uri: &str) -> std::io::Result<String> {
    let path = uri.strip_prefix("file://").unwrap_or(uri);
    if path.contains("://") {
        return Ok(path.to_owned());
    }
    let path = std::path::absolute(path)?.into_os_string().into_string();
    path.map_err(|_| std::io::Error::other("the path of the lake isn't Unicode"))
}

/// Returns the URL of the files of the lake at `location`.
///
/// # Errors
/// If it can't be a URL.
pub fn url_of(location: &str) -> Result<ObjectStoreUrl> {
    let digits: String = location.bytes().map(|byte| format!("{byte:02x}")).collect();
    ObjectStoreUrl::parse(format!("{SCHEME}{digits}"))
}

/// Returns the location of the lake whose files have `url`; `None` if they aren't those of a lake.
pub fn location_of(url: &ObjectStoreUrl) -> Option<String> {
    let digits = url.as_str().strip_prefix(SCHEME)?.trim_end_matches('/');
    let digits = digits.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> = digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    String::from_utf8(bytes?).ok()
}

/// Registers the store of the files with `url` in `runtime`, unless it has been. A scheduler reads
/// no file, so it needs neither the folder nor credentials: it gets an empty store.
///
/// # Errors
/// If `url` isn't that of a lake, or an executor has no such lake.
pub(crate) fn register(runtime: &RuntimeEnv, url: &ObjectStoreUrl, reads: bool) -> Result<()> {
    if runtime.object_store(url).is_ok() {
        return Ok(());
    }
    let location = location_of(url)
        .ok_or_else(|| plan_datafusion_err!("`{}` isn't the URL of a lake", url.as_str()))?;
    let store = match reads {
        true => open(&location)?,
        false => Arc::new(InMemory::new()),
    };
    runtime.register_object_store(url.as_ref(), store);
    Ok(())
}

/// Opens the files of the lake at `location`, which must exist. A folder without the log of a lake
/// isn't opened: a plan could name any folder, and read what is below it.
fn open(location: &str) -> Result<Arc<dyn ObjectStore>> {
    let path = location.strip_prefix("file://").unwrap_or(location);
    if !path.contains("://") && !Path::new(path).join(LOG_OF_GRAINS).is_dir() {
        return exec_err!(
            "this executor has no lake `{path}`: the lake must have the same path on every \
             machine, or be in an object store"
        );
    }
    let opened = LakeLocation::new(location);
    let opened = opened.map_err(|error| plan_datafusion_err!("lake `{location}`: {error}"))?;
    Ok(opened.store())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_a_lake_tells_its_location() {
        for location in ["/srv/My lake", "s3://bucket/lakes/a?b", "C:\\ä"] {
            let url = url_of(location).unwrap();
            assert_eq!(location_of(&url).as_deref(), Some(location));
        }
        let other = ObjectStoreUrl::parse("gristmill://lake").unwrap();
        assert_eq!(location_of(&other), None);
    }

    #[test]
    fn an_executor_without_the_lake_refuses_the_scan() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let text = |path: &Path| path.display().to_string();
        let other = format!("file://{}", missing.display());
        for location in [text(&missing), other, text(folder.path()), "/".to_owned()] {
            let runtime = RuntimeEnv::default();
            let url = url_of(&location).unwrap();
            let refused = register(&runtime, &url, true).unwrap_err();
            assert!(refused.to_string().contains("has no lake"), "{location}");
            register(&runtime, &url, false).unwrap();
        }
        assert!(!missing.exists());
        std::fs::create_dir_all(folder.path().join(LOG_OF_GRAINS)).unwrap();
        let url = url_of(&text(folder.path())).unwrap();
        register(&RuntimeEnv::default(), &url, true).unwrap();
    }
}

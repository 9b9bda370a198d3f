//! Fetches a source: maps a local file, spools everything else.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use futures::TryStreamExt;
use object_store::ObjectStoreExt;

use super::bytes::SourceBytes;
use super::discover::{Source, SourceLocation};
use super::spool::{SourceSpool, SpoolOptions};
use crate::ConnectorError;

/// The number of bytes that are read from a stream at a time.
const READ_BYTES: usize = 1 << 20;

/// Fetches a source with the default options.
///
/// # Errors
/// Those of [`fetch_with`].
pub async fn fetch(source: &Source) -> Result<SourceBytes, ConnectorError> {
    fetch_with(source, SpoolOptions::default()).await
}

/// Returns the bytes of `source`: maps a file, spools any other source. Standard input and pipes
/// are read to their end.
///
/// # Errors
/// [`ConnectorError::Io`] and [`ConnectorError::Store`]; [`ConnectorError::TooLarge`] and
/// [`ConnectorError::TooLargeToHold`] if the source exceeds a limit of `options`.
pub async fn fetch_with(
    source: &Source,
    options: SpoolOptions,
) -> Result<SourceBytes, ConnectorError> {
    match &source.location {
        SourceLocation::File(path) => SourceBytes::map(path),
        SourceLocation::Object { store, path } => {
            let fault = || ConnectorError::store("can't read", &source.uri);
            let mut chunks = store.get(path).await.map_err(fault())?.into_stream();
            let mut spool = SourceSpool::new(&source.uri, options)?;
            while let Some(chunk) = chunks.try_next().await.map_err(fault())? {
                spool.write(&chunk)?;
            }
            spool.finish()
        }
        SourceLocation::Stdin => {
            spool_stream("-".into(), options, |_| Ok(std::io::stdin().lock())).await
        }
        SourceLocation::Stream(path) => {
            spool_stream(path.clone(), options, |path| File::open(path)).await
        }
    }
}

/// Spools the stream that `open` opens at `path`, on a blocking thread.
async fn spool_stream<R: Read>(
    path: PathBuf,
    options: SpoolOptions,
    open: impl FnOnce(&Path) -> std::io::Result<R> + Send + 'static,
) -> Result<SourceBytes, ConnectorError> {
    let shown = path.clone();
    let spool = move || {
        let spool = SourceSpool::new(&path.display().to_string(), options)?;
        let stream = open(&path).map_err(ConnectorError::io("can't open", &path))?;
        read_to_end(stream, &path, spool)
    };
    let fault = |error| ConnectorError::io("can't read", shown)(std::io::Error::other(error));
    tokio::task::spawn_blocking(spool).await.map_err(fault)?
}

fn read_to_end(
    mut stream: impl Read,
    path: &Path,
    mut spool: SourceSpool,
) -> Result<SourceBytes, ConnectorError> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return spool.finish(),
            Ok(read) => spool.write(buffer.get(..read).unwrap_or_default())?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ConnectorError::io("can't read", path)(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use object_store::memory::InMemory;
    use object_store::{ObjectStore, PutPayload};

    use super::*;

    #[cfg(unix)]
    #[tokio::test]
    async fn a_pipe_is_read_to_its_end() {
        use std::os::fd::AsRawFd;
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"from a pipe").unwrap();
        drop(writer);
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        let sources = crate::source::discover(&[path]).await.unwrap();
        assert!(
            matches!(sources[0].location, SourceLocation::Stream(_)) && sources[0].length.is_none()
        );
        assert_eq!(&*fetch(&sources[0]).await.unwrap(), b"from a pipe");
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
            modified: None,
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

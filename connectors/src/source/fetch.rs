//! Making a source local.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use futures::TryStreamExt;
use object_store::ObjectStoreExt;

use super::bytes::SourceBytes;
use super::discover::{Location, Source};
use super::spool::{Spool, SpoolOptions};
use crate::ConnectorError;

/// Bytes of a stream that are read at a time.
const READ_BYTES: usize = 1 << 20;

/// [`fetch_with`] the usual limit.
///
/// # Errors
/// As [`fetch_with`].
pub async fn fetch(source: &Source) -> Result<SourceBytes, ConnectorError> {
    fetch_with(source, SpoolOptions::default()).await
}

/// The bytes of `source`: mapped where it is a file, spooled first where it isn't. Standard input
/// and pipes are read to their end.
///
/// # Errors
/// [`ConnectorError::Io`], [`ConnectorError::Store`]; [`ConnectorError::TooLarge`] and
/// [`ConnectorError::TooLargeToHold`] as the options say.
pub async fn fetch_with(
    source: &Source,
    options: SpoolOptions,
) -> Result<SourceBytes, ConnectorError> {
    match &source.location {
        Location::File(path) => SourceBytes::map(path),
        Location::Object { store, path } => {
            let fault = || ConnectorError::store("can't read", &source.uri);
            let mut chunks = store.get(path).await.map_err(fault())?.into_stream();
            let mut spool = Spool::new(&source.uri, options)?;
            while let Some(chunk) = chunks.try_next().await.map_err(fault())? {
                spool.write(&chunk)?;
            }
            spool.finish()
        }
        Location::Stdin => spooled("-".into(), options, |_| Ok(std::io::stdin().lock())).await,
        Location::Stream(path) => spooled(path.clone(), options, |path| File::open(path)).await,
    }
}

/// What `open` reads at `path`, to its end.
async fn spooled<R: Read>(
    path: PathBuf,
    options: SpoolOptions,
    open: impl FnOnce(&Path) -> std::io::Result<R> + Send + 'static,
) -> Result<SourceBytes, ConnectorError> {
    let shown = path.clone();
    let spool = move || {
        let mut spool = Spool::new(&path.display().to_string(), options)?;
        let mut stream = open(&path).map_err(ConnectorError::io("can't open", &path))?;
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return spool.finish(),
                Ok(read) => spool.write(buffer.get(..read).unwrap_or_default())?,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ConnectorError::io("can't read", &path)(error)),
            }
        }
    };
    let fault = |error| ConnectorError::io("can't read", shown)(std::io::Error::other(error));
    tokio::task::spawn_blocking(spool).await.map_err(fault)?
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
        assert!(matches!(sources[0].location, Location::Stream(_)) && sources[0].length.is_none());
        assert_eq!(&*fetch(&sources[0]).await.unwrap(), b"from a pipe");
    }

    #[tokio::test]
    async fn an_object_becomes_a_local_file_that_goes_away() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        store
            .put(&"a.mg".into(), PutPayload::from_static(b"bytes"))
            .await
            .unwrap();
        let location = Location::Object {
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
            location: Location::Object {
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

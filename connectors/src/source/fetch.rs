//! Making a source local.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use futures::TryStreamExt;
use object_store::ObjectStoreExt;
use tempfile::NamedTempFile;

use super::bytes::SourceBytes;
use super::discover::{Location, Source};
use crate::ConnectorError;

/// The bytes of `source`: mapped where it is a file, spooled to a temporary file first where it isn't. Standard input and pipes
/// are read to their end.
///
/// # Errors
/// [`ConnectorError::Io`], [`ConnectorError::Store`].
pub async fn fetch(source: &Source) -> Result<SourceBytes, ConnectorError> {
    match &source.location {
        Location::File(path) => SourceBytes::map(path),
        Location::Object { store, path } => {
            let fault = || ConnectorError::store("can't read", &source.uri);
            let mut chunks = store.get(path).await.map_err(fault())?.into_stream();
            let mut spool = Spool::new()?;
            while let Some(chunk) = chunks.try_next().await.map_err(fault())? {
                spool.write(&chunk)?;
            }
            spool.finish()
        }
        Location::Stdin => spooled("-".into(), |_| Ok(std::io::stdin().lock())).await,
        Location::Stream(path) => spooled(path.clone(), |path| File::open(path)).await,
    }
}

/// What `open` reads at `path`, to its end.
async fn spooled<R: Read>(
    path: PathBuf,
    open: impl FnOnce(&Path) -> std::io::Result<R> + Send + 'static,
) -> Result<SourceBytes, ConnectorError> {
    let told = path.clone();
    let spool = move || {
        let mut spool = Spool::new()?;
        let mut stream = open(&path).map_err(ConnectorError::io("can't open", &path))?;
        std::io::copy(&mut stream, &mut spool.file).map_err(ConnectorError::io("can't read", &path))?;
        spool.finish()
    };
    let fault = |error| ConnectorError::io("can't read", told)(std::io::Error::other(error));
    tokio::task::spawn_blocking(spool).await.map_err(fault)?
}

/// A temporary file that is filled and then mapped.
struct Spool {
    file: NamedTempFile,
}

impl Spool {
    fn new() -> Result<Self, ConnectorError> {
        let file = NamedTempFile::with_prefix("gristmill-spool-");
        Ok(Spool { file: file.map_err(ConnectorError::io("can't create a file in", std::env::temp_dir()))? })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectorError> {
        self.file.write_all(bytes).map_err(ConnectorError::io("can't write", self.file.path()))
    }

    fn finish(self) -> Result<SourceBytes, ConnectorError> {
        SourceBytes::map_spooled(self.file.into_temp_path())
    }
}

#[cfg(test)]
mod tests {
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
        store.put(&"a.mg".into(), PutPayload::from_static(b"bytes")).await.unwrap();
        let location = Location::Object { store, path: "a.mg".into() };
        let source = Source { location, uri: "mem://a.mg".to_owned(), length: Some(5), modified: None };
        assert_eq!(&*fetch(&source).await.unwrap(), b"bytes");
        let gone =
            Source { location: Location::Object { store: Arc::new(InMemory::new()), path: "a.mg".into() }, ..source };
        assert!(matches!(fetch(&gone).await, Err(ConnectorError::Store { .. })));
    }
}

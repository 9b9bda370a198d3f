//! Fetches a source: maps a local file, spools everything else, and what is compressed.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::bytes::SourceBytes;
use super::decompress::{CompressedFormat, decompress};
use super::location::{Source, SourceLocation};
#[cfg(feature = "object-store")]
use super::objects::fetch_object;
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
/// are read to their end. Of a source in gzip or zstd the bytes are its content, which is spooled.
///
/// # Errors
/// [`ConnectorError::Compressed`] if the content can't be decompressed, or is suspiciously large;
/// [`ConnectorError::Io`] and `ConnectorError::Store`; [`ConnectorError::TooLarge`] and
/// [`ConnectorError::TooLargeToHold`] if the source exceeds a limit of `options`;
/// [`ConnectorError::NotRead`] for an entry of a folder that must be named itself.
pub async fn fetch_with(
    source: &Source,
    options: SpoolOptions,
) -> Result<SourceBytes, ConnectorError> {
    let bytes = fetch_stored(source, options).await?;
    let Some(compression) = CompressedFormat::of(&bytes) else {
        return Ok(bytes);
    };
    let uri = source.uri.clone();
    let work = move || decompress(&bytes, compression, &uri, options);
    let fault = |error| ConnectorError::io("can't read", &source.uri)(std::io::Error::other(error));
    tokio::task::spawn_blocking(work).await.map_err(fault)?
}

/// As [`fetch_with`], but returns the bytes of `source` as they are stored or sent, also those of a
/// compressed one.
///
/// # Errors
/// Those of [`fetch_with`], except [`ConnectorError::Compressed`].
pub async fn fetch_stored(
    source: &Source,
    options: SpoolOptions,
) -> Result<SourceBytes, ConnectorError> {
    match &source.location {
        SourceLocation::File(path) => SourceBytes::map(path),
        #[cfg(feature = "object-store")]
        SourceLocation::Object { store, path } => {
            fetch_object(store.as_ref(), path, &source.uri, options).await
        }
        SourceLocation::Stdin => {
            spool_stream("-".into(), options, |_| Ok(std::io::stdin().lock())).await
        }
        SourceLocation::Stream(path) => {
            spool_stream(path.clone(), options, |path| File::open(path)).await
        }
        SourceLocation::NotRead { path, reason } => Err(ConnectorError::NotRead {
            path: path.clone(),
            reason,
        }),
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
}

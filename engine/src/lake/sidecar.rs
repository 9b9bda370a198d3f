//! The files of segments and sidecars in the lake: opening them and publishing new ones.
//!
//! A segment becomes visible when a commit to `grains` references its data file. Its files are
//! published before that commit; a process that is killed in between leaves files that `gc`
//! removes.

use std::error::Error;

use gristmill_connectors::source::SourceBytes;
use gristmill_schemas::columns::GRAINS;
use object_store::ObjectStoreExt;
use object_store::path::Path;

use super::open_checks::REMEDY_OF_FILES;
use super::table::{Change, DataFile};
use super::{Lake, LakeLocation};
use crate::error::{Context, EngineError, Result};
use crate::file_digest::FileDigest;
use crate::segment::{
    ADDRESSES_FILE, AddressIndex, BindingError, PARQUET_END, SegmentId, Sidecar, SidecarBinding,
    SidecarFile, WrittenSegment, footer_length,
};

/// A segment of the lake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its name.
    pub id: SegmentId,
    /// Its data file.
    pub file: DataFile,
}

impl Segment {
    /// Returns the path of the data file, from the lake's root.
    pub(crate) fn path(&self) -> Path {
        Path::from(format!("{GRAINS}/{}", self.file.name))
    }

    /// Returns what the segment's sidecars are bound to, without reading the data file if the log
    /// states the digest of its footer. Sidecars that select rows by their positions need
    /// [`Segment::binding`] as well before these rows are read.
    ///
    /// # Errors
    /// As [`Segment::binding`] if the log doesn't state it.
    pub(crate) async fn logged_binding(&self, location: &LakeLocation) -> Result<SidecarBinding> {
        let size = self.file.size;
        match self.file.footer {
            Some(footer) => Ok(SidecarBinding::of_footer(&self.id, size, footer)),
            None => self.binding(location).await,
        }
    }

    /// Returns what the segment's sidecars are bound to. Reads the footer of the data file.
    ///
    /// # Errors
    /// As [`LakeLocation::read`]; [`EngineError::File`] if the data file has another size than the
    /// log states, or isn't a Parquet file; [`EngineError::Damaged`] if its footer isn't the one
    /// that the log states.
    pub(crate) async fn binding(&self, location: &LakeLocation) -> Result<SidecarBinding> {
        let found = self.binding_of_file(location).await?;
        match self.file.footer {
            Some(logged) if logged != found.footer() => {
                Err(self.other_footer(found.footer(), logged))
            }
            _ => Ok(found),
        }
    }

    fn other_footer(&self, found: FileDigest, logged: FileDigest) -> EngineError {
        EngineError::Damaged {
            what: format!("`{}`", self.path()),
            cause: format!("its footer has the digest {found}, not {logged} as in its log"),
            remedy: REMEDY_OF_FILES,
        }
    }

    async fn binding_of_file(&self, location: &LakeLocation) -> Result<SidecarBinding> {
        let (path, size) = (self.path(), self.file.size);
        if location.local_path(&path).is_some() {
            let bytes = location.read(&path).await?;
            if bytes.len() as u64 != size {
                let cause = format!("it has {} bytes, its log says {size}", bytes.len());
                return Err(cause).file("can't use", &path);
            }
            let end = bytes.len().saturating_sub(PARQUET_END);
            let length = footer_length(bytes.get(end..).unwrap_or_default(), size)
                .file("can't read", &path)?;
            let footer = bytes
                .get(bytes.len() - length as usize..)
                .unwrap_or_default();
            return Ok(SidecarBinding::new(&self.id, size, footer));
        }
        let store = location.store();
        let end = store
            .get_range(&path, size.saturating_sub(PARQUET_END as u64)..size)
            .await
            .file("can't read", &path)?;
        let length = footer_length(&end, size).file("can't read", &path)?;
        let footer = store
            .get_range(&path, size - length..size)
            .await
            .file("can't read", &path)?;
        Ok(SidecarBinding::new(&self.id, size, &footer))
    }
}

/// Opens the sidecar of `segment`. Reads all of its bytes once.
///
/// # Errors
/// Why it can't be used: it is missing, damaged, or was built from other rows.
pub async fn open_sidecar<S: Sidecar>(
    location: &LakeLocation,
    segment: &Segment,
) -> Result<S, Box<dyn Error + Send + Sync>> {
    open_bound_sidecar(location, segment, &segment.binding(location).await?).await
}

/// Opens the sidecar of a segment whose `binding` has been read already.
///
/// # Errors
/// As [`open_sidecar`].
async fn open_bound_sidecar<S: Sidecar>(
    location: &LakeLocation,
    segment: &Segment,
    binding: &SidecarBinding,
) -> Result<S, Box<dyn Error + Send + Sync>> {
    let bytes = location.read(&segment.id.sidecar(S::FILE)).await?;
    check_sidecar(bytes, segment, binding).await
}

/// Opens the sidecar of a segment whose `binding` has been read already, from the local cache if
/// it is there. A copy that can't be used, because it is damaged or the sidecar was rebuilt, is
/// replaced by what the store has.
///
/// # Errors
/// As [`open_sidecar`].
pub(crate) async fn open_cached_sidecar<S: Sidecar>(
    location: &LakeLocation,
    segment: &Segment,
    binding: &SidecarBinding,
) -> Result<S, Box<dyn Error + Send + Sync>> {
    let path = segment.id.sidecar(S::FILE);
    if let Some(bytes) = location.cached(&path) {
        match check_sidecar(bytes, segment, binding).await {
            Ok(sidecar) => return Ok(sidecar),
            Err(reason) => tracing::debug!(%path, %reason, "the cached copy can't be used"),
        }
    }
    let bytes = location.read_cached(&path).await?;
    let opened = check_sidecar(bytes, segment, binding).await;
    opened.inspect_err(|_| location.forget_cached(&path))
}

/// Opens the sidecar of `segment` in `bytes`.
async fn check_sidecar<S: Sidecar>(
    bytes: SourceBytes,
    segment: &Segment,
    binding: &SidecarBinding,
) -> Result<S, Box<dyn Error + Send + Sync>> {
    let content = binding.unwrap(bytes)?;
    let sidecar = tokio::task::spawn_blocking(|| S::check(content)).await??;
    match sidecar.segment_rows() == segment.file.rows {
        true => Ok(sidecar),
        false => Err(BindingError::Other.into()),
    }
}

/// Publishes `files` as sidecars of `segment`, each atomically and with the trailer of `binding`.
/// Returns their size in bytes.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File).
pub(crate) async fn publish_sidecars(
    location: &LakeLocation,
    segment: &SegmentId,
    binding: &SidecarBinding,
    files: Vec<SidecarFile>,
) -> Result<u64> {
    let mut bytes = 0;
    for mut file in files {
        file.parts.push(binding.trailer(&file.parts));
        bytes += file.size();
        let path = segment.sidecar(&file.name);
        let scratch = location.scratch_file()?;
        let write = move || {
            let written = file
                .parts
                .iter()
                .try_for_each(|part| std::io::Write::write_all(&mut scratch.as_file(), part));
            written.map(|()| scratch)
        };
        let scratch = tokio::task::spawn_blocking(write)
            .await
            .file("can't write", &path)?
            .file("can't write", &path)?;
        location.publish(scratch, &path).await?;
    }
    Ok(bytes)
}

impl Lake {
    /// Publishes the files of `segment` and adds its data file to `change`. Returns its address
    /// index.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(crate) async fn publish_segment(
        &self,
        change: &mut Change,
        segment: WrittenSegment,
    ) -> Result<AddressIndex> {
        let (mut file, index) = self.publish_segment_files(segment).await?;
        // What replaces segments without disclosed copies has none either.
        let replaces = !change.removed.is_empty();
        let has_none = replaces && change.removed.iter().all(|old| old.disclosed == Some(0));
        file.disclosed = file.disclosed.or(has_none.then_some(0));
        change.added.push(file);
        Ok(index)
    }

    /// Publishes the files of `segment` for a change that is committed later; other tables may be
    /// committed meanwhile. Returns the data file to add, and its address index.
    ///
    /// # Errors
    /// As [`Lake::publish_segment`].
    pub(crate) fn publish_segment_files(
        &self,
        segment: WrittenSegment,
    ) -> impl Future<Output = Result<(DataFile, AddressIndex)>> + Send + 'static {
        let (location, name) = (self.location.clone(), segment.id.file_name());
        let path = self.grains.path_of(&name);
        async move {
            let binding = segment.binding()?;
            let id = segment.id;
            let sidecars = publish_sidecars(&location, &id, &binding, segment.sidecars);
            // Both wait for the disk.
            let (sidecars, data) = tokio::join!(sidecars, location.publish(segment.data, &path));
            sidecars?;
            data?;
            let index = open_addresses(&location, &id, &binding).await?;
            let file = DataFile {
                seconds: segment.seconds,
                footer: Some(binding.footer()),
                superseding: segment.superseding,
                disclosed: segment.disclosed,
                ..DataFile::new(name, segment.file)
            };
            Ok((file, index))
        }
    }
}

/// Opens the address index of the segment `id`.
async fn open_addresses(
    location: &LakeLocation,
    id: &SegmentId,
    binding: &SidecarBinding,
) -> Result<AddressIndex> {
    let bytes: SourceBytes = location.read(&id.sidecar(ADDRESSES_FILE)).await?;
    let content = binding
        .unwrap(bytes)
        .file("can't read the sidecars of", id.as_str())?;
    AddressIndex::open(content).file("can't read the sidecars of", id.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_published_file_has_the_binding_of_the_written_one() {
        let folder = tempfile::tempdir().unwrap();
        let location = LakeLocation::new(&folder.path().display().to_string()).unwrap();
        let path = folder.path().join("grains/part-a.parquet");
        std::fs::create_dir(folder.path().join("grains")).unwrap();
        std::fs::write(&path, b"PAR1rowsmetadata\x08\0\0\0PAR1").unwrap();
        let written = std::fs::File::open(&path).unwrap();
        let mut segment = Segment {
            id: SegmentId::of_folder("a"),
            file: DataFile::untagged("part-a.parquet", written.metadata().unwrap().len(), 0),
        };
        let published = segment.binding(&location).await.unwrap();
        assert_eq!(
            published,
            SidecarBinding::of_file(&segment.id, &written).unwrap()
        );
        // The log states the footer: the file isn't needed, and another footer is damage.
        segment.file.footer = Some(published.footer());
        let nowhere = LakeLocation::new(&folder.path().join("x").display().to_string()).unwrap();
        assert_eq!(segment.logged_binding(&nowhere).await.unwrap(), published);
        assert_eq!(segment.binding(&location).await.unwrap(), published);
        segment.file.footer = Some(FileDigest::of(b"another"));
        assert_ne!(segment.logged_binding(&location).await.unwrap(), published);
        let error = segment.binding(&location).await.unwrap_err();
        assert!(matches!(error, EngineError::Damaged { .. }), "{error}");
        segment.file.footer = None;
        segment.file.size += 1;
        assert!(segment.binding(&location).await.is_err());
    }
}

//! Rows of the small tables: appended as files, and read whole.

use arrow::array::{Array, AsArray, RecordBatch};
use gristmill_schemas::columns::{
    REJECTS, RejectRow, SOURCES, STATE, SourceRow, StateRow, rejects_batch, sources_batch,
    state_batch,
};
use parquet::errors::ParquetError;

use super::Lake;
use super::location::LakeLocation;
use super::open_checks::remedy_of_changed_file;
use super::row_versions::RowVersions;
use super::table::{DataFile, Table};
use crate::decoder_panic::caught;
use crate::error::{Context, EngineError, Result};
use crate::file_digest::{FileDigest, WrittenFile};
use crate::segment::{RecordWriter, SegmentId, SegmentReader};

impl LakeLocation {
    /// Returns the bytes of the lake's file `path`, as they are stored: mapped if the lake is a
    /// folder, fetched otherwise.
    ///
    /// # Errors
    /// [`EngineError::Connector`](crate::error::EngineError::Connector).
    pub async fn read(
        &self,
        path: &object_store::path::Path,
    ) -> Result<gristmill_connectors::source::SourceBytes> {
        use gristmill_connectors::source::{
            Source, SourceBytes, SourceLocation, SpoolOptions, fetch_stored,
        };
        if let Some(local) = self.local_path(path) {
            return Ok(SourceBytes::map(&local)?);
        }
        let location = SourceLocation::Object {
            store: self.store(),
            path: path.clone(),
        };
        let source = Source {
            location,
            uri: format!("{}/{path}", self.name()),
            length: None,
            time: None,
        };
        Ok(fetch_stored(&source, SpoolOptions::default()).await?)
    }
}

impl Table {
    /// Writes `batch` as a new data file, which becomes part of the table when a commit references
    /// it.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub async fn write_file(&self, batch: &RecordBatch) -> Result<DataFile> {
        self.write_file_as(&SegmentId::new(), batch).await
    }

    async fn write_file_as(&self, id: &SegmentId, batch: &RecordBatch) -> Result<DataFile> {
        let name = id.file_name();
        let scratch = self.location().scratch_file()?;
        let write = || -> Result<WrittenFile, ParquetError> {
            let mut writer = RecordWriter::create(&scratch, batch.schema())?;
            writer.write(batch)?;
            writer.finish()
        };
        let written = write().file("can't write", format!("{}/{name}", self.name()))?;
        self.location()
            .publish(scratch, &self.path_of(&name))
            .await?;
        Ok(DataFile::new(name, written))
    }

    /// Reads all rows of the table, with just `columns`.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File),
    /// [`EngineError::Delta`](crate::error::EngineError::Delta).
    pub async fn read_columns(&self, columns: &[&str]) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        self.each_batch(columns, |batch| batches.push(batch))
            .await?;
        Ok(batches)
    }

    /// Returns the files with the rows of the newest commit that added some, or all files if the
    /// log doesn't state for each when its rows were added.
    fn newest_files(&self) -> Result<Vec<DataFile>> {
        let mut files = self.files()?;
        let versions: Option<Vec<u64>> = files
            .iter()
            .map(|file| file.versions.as_ref().map(RowVersions::newest))
            .collect();
        if let Some(newest) = versions.and_then(|versions| versions.into_iter().max()) {
            files.retain(|file| file.versions.as_ref().map(RowVersions::newest) == Some(newest));
        }
        Ok(files)
    }

    /// Reads the files with the rows of the newest commit that added some, with just `columns`: one
    /// file, or all if the log doesn't state for each when its rows were added.
    ///
    /// # Errors
    /// As [`Table::read_columns`].
    pub(crate) async fn read_newest(&self, columns: &[&str]) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        for file in self.newest_files()? {
            let path = self.path_of(&file.name);
            let bytes = self.location().read(&path).await?;
            batches.extend(read_file(bytes, columns).file("can't read", path.to_string())?);
        }
        Ok(batches)
    }

    /// Reads as [`Table::read_columns`] does, and compares the digests of the files with the log.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] names a file that isn't what was written; as
    /// [`Table::read_columns`].
    pub(crate) async fn read_checked(&self, columns: &[&str]) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        for file in self.files()? {
            batches.extend(self.read_checked_file(&file, columns).await?);
        }
        Ok(batches)
    }

    /// Reads as [`Table::read_checked`] does, but one file.
    ///
    /// # Errors
    /// As [`Table::read_checked`].
    pub(crate) async fn read_checked_file(
        &self,
        file: &DataFile,
        columns: &[&str],
    ) -> Result<Vec<RecordBatch>> {
        let path = self.path_of(&file.name);
        let bytes = self.location().read(&path).await?;
        if file
            .digest
            .is_some_and(|expected| FileDigest::of(&bytes) != expected)
        {
            return Err(EngineError::Damaged {
                what: format!("`{path}`"),
                cause: "its bytes don't have the digest in its log".to_owned(),
                remedy: remedy_of_changed_file(self.name()),
            });
        }
        read_file(bytes, columns).file("can't read", path.to_string())
    }

    /// Calls `visit` with the rows of `columns`, a file at a time.
    ///
    /// # Errors
    /// As [`Table::read_columns`].
    pub(crate) async fn each_batch(
        &self,
        columns: &[&str],
        mut visit: impl FnMut(RecordBatch),
    ) -> Result<()> {
        for file in self.files()? {
            let path = self.path_of(&file.name);
            let bytes = self.location().read(&path).await?;
            read_file(bytes, columns)
                .file("can't read", path.to_string())?
                .into_iter()
                .for_each(&mut visit);
        }
        Ok(())
    }
}

/// The columns of `rejects` that may contain parts of grains, or name persons as paths do.
const REFUSED: [&str; 4] = ["bytes", "message", "field", "source"];

/// The columns of `state` that may name persons.
const NAMING: [&str; 2] = ["actor", "reason"];

/// The columns of `sources` that may name persons, as paths do.
pub(crate) const LISTED: [&str; 2] = ["source", "reason"];

/// Returns the columns of `table`, which is `rejects`, `sources` or `state`, whose cells are sealed
/// in an encrypted lake.
pub(crate) fn sealed_cells(table: &str) -> &'static [&'static str] {
    match table {
        REJECTS => &REFUSED,
        SOURCES => &LISTED,
        _ => &NAMING,
    }
}

impl Lake {
    /// Writes `rows` as a new data file of `rejects`, encrypted if the lake is.
    ///
    /// # Errors
    /// As [`Table::write_file`]; [`EngineError::Key`](crate::error::EngineError::Key).
    pub(crate) async fn write_rejects(&self, rows: &[&RejectRow]) -> Result<DataFile> {
        self.write_sealed(
            &self.rejects,
            &rejects_batch(rows).file("can't write", REJECTS)?,
        )
        .await
    }

    /// Writes `rows` as a new data file of `state`, encrypted if the lake is.
    ///
    /// # Errors
    /// As [`Lake::write_rejects`].
    pub(crate) async fn write_events(&self, rows: &[StateRow]) -> Result<DataFile> {
        self.write_sealed(&self.state, &state_batch(rows).file("can't write", STATE)?)
            .await
    }

    /// Writes `rows` as a new data file of `sources`, encrypted if the lake is. The table is
    /// created if there is none.
    ///
    /// # Errors
    /// As [`Lake::write_rejects`].
    pub(crate) async fn write_sources(&mut self, rows: &[SourceRow]) -> Result<DataFile> {
        let sources = self.sources_to_write().await?.clone();
        self.write_sealed(&sources, &sources_batch(rows).file("can't write", SOURCES)?)
            .await
    }

    /// Writes plain rows of `rejects`, `state` or `sources`, encrypted if the lake is.
    pub(crate) async fn write_sealed(
        &self,
        table: &Table,
        batch: &RecordBatch,
    ) -> Result<DataFile> {
        match self.keys_to_write()? {
            Some(keys) => {
                let sealed = keys.seal_cells(batch, sealed_cells(table.name()))?;
                table
                    .write_file_as(&SegmentId::new_sealed(true), &sealed)
                    .await
            }
            None => table.write_file(batch).await,
        }
    }
}

/// Returns the text of the column `name` in `row`, or `None` if it is null or missing.
pub(crate) fn text<'a>(batch: &'a RecordBatch, name: &str, row: usize) -> Option<&'a str> {
    let column = batch.column_by_name(name)?.as_string_opt::<i32>()?;
    column.is_valid(row).then(|| column.value(row))
}

/// Rows that are read at a time.
const BATCH_ROWS: usize = 1_024;

/// Reads the rows of one Parquet file, with just `columns`, which are named in the order of the
/// table.
///
/// # Errors
/// The reader's. Damaged bytes can also cause a panic in it, which becomes
/// [`ParquetError::General`].
pub(crate) fn read_file(
    bytes: gristmill_connectors::source::SourceBytes,
    columns: &[&str],
) -> Result<Vec<RecordBatch>, ParquetError> {
    caught(|| read_rows(bytes, columns)).unwrap_or_else(|| {
        let cause = "its bytes can't be decoded";
        Err(ParquetError::General(cause.to_owned()))
    })
}

fn read_rows(
    bytes: gristmill_connectors::source::SourceBytes,
    columns: &[&str],
) -> Result<Vec<RecordBatch>, ParquetError> {
    let reader = SegmentReader::open(bytes)?;
    Ok(reader
        .read(0..reader.row_groups(), Some(columns), BATCH_ROWS)?
        .collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray};
    use gristmill_connectors::storage::StoreLocation;
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use url::Url;

    use super::*;
    use crate::keys::{FileKeys, Keyring};

    #[tokio::test]
    async fn files_of_a_lake_in_an_object_store_are_read_as_they_are_stored() {
        let location = LakeLocation::in_store(StoreLocation {
            store: Arc::new(InMemory::new()),
            path: Path::from("lake"),
            url: Url::parse("memory:///lake").expect("a URL"),
        });
        let path = Path::from("erasures/a.leaves");
        // Keyed hashes may begin as a gzip stream or a frame of zstd does.
        for bytes in [&b"\x1f\x8b\x08 and more"[..], b"\x28\xb5\x2f\xfd and more"] {
            let put = location.store().put(&path, bytes.to_vec().into()).await;
            put.expect("it is stored");
            assert_eq!(&*location.read(&path).await.expect("its bytes"), bytes);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_path_of_a_reject_is_sealed_in_an_encrypted_lake() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("lake").display().to_string();
        let mut lake = Lake::open_or_create(&place).await.expect("a lake");
        let keyring = folder.path().join("keyring.json");
        let keyring = Keyring::open_or_create(&keyring, "for tests").expect("a keyring");
        let keys = Box::new(FileKeys::next_to(keyring).expect("keys"));
        lake.enable_encryption(keys).await.expect("it is encrypted");
        let row = RejectRow {
            source_id: "0".repeat(64),
            source: "inbox/marguerite-oyelaran.mg".to_owned(),
            ordinal: 0,
            offset: None,
            error_code: "ERR_VERSION".to_owned(),
            field: None,
            message: "no version".to_owned(),
            bytes: Vec::new(),
            truncated: false,
            rejected_at: 0,
        };
        let file = lake.write_rejects(&[&row]).await.expect("a file");
        let path = lake.rejects.path_of(&file.name);
        let bytes = lake.location().read(&path).await.expect("its bytes");
        let stored = read_file(bytes, &["source"]).expect("its rows");
        let stored = text(&stored[0], "source", 0).expect("a text");
        assert!(stored.starts_with("~GMS1:"), "{stored}");
    }

    fn file() -> Vec<u8> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let values = StringArray::from_iter_values((0..40).map(|number| format!("value {number}")));
        let columns = [("value", Arc::new(values) as ArrayRef)];
        let batch = RecordBatch::try_from_iter(columns).expect("a batch");
        let mut writer = RecordWriter::create(&file, batch.schema()).expect("a writer");
        writer.write(&batch).expect("rows are written");
        writer.finish().expect("a file");
        std::fs::read(file.path()).expect("its bytes")
    }

    #[test]
    fn no_flipped_bit_of_a_file_causes_a_panic() {
        let bytes = file();
        let rows = read_file(bytes.clone().into(), &["value"]).expect("the file is readable");
        assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 40);
        for position in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            if let Some(byte) = damaged.get_mut(position / 8) {
                *byte ^= 1 << (position % 8);
            }
            drop(read_file(damaged.into(), &["value"]));
        }
    }
}

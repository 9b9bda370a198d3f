//! A lake with every kind of file, and ways to damage them.
//!
//! Above 500 lines: the sample lake and the damage to its files share its layout.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gristmill_connectors::source::discover;
use gristmill_engine::erase::{ErasureOptions, Person, SubjectRequest, erase};
use gristmill_engine::error::EngineError;
use gristmill_engine::ingest::{IngestOptions, IngestProgress, IngestReport, ingest};
use gristmill_engine::keys::{FileKeys, Keyring};
use gristmill_engine::lake::{Lake, LakeLocation};
use gristmill_engine::progress::WorkProgress;
use gristmill_engine::verify::{
    VerifyOptions, VerifyReport, VerifyScope, verify_lake, verify_unopened,
};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{
    ContainerOptions, ContainerWriter, IndexState, Manifest, write_frame,
};
use gristmill_schemas::grain::{EncodeOptions, encode_json};
use gristmill_schemas::json::Json;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::erasures::erasure_options;
use crate::sandbox::PASSPHRASE;

/// The people of the lake's grains; those of the first were erased.
const PEOPLE: [&str; 4] = ["ada-1001", "bob-2002", "eve-3003", "kim-4004"];

/// Number of grains of each person.
const GRAINS: usize = 12;

/// A lake with rows in every table, sidecars, checkpoints and the certificate of an erasure.
pub struct SampleLake {
    /// The lake's folder.
    pub lake: PathBuf,
    /// The addresses of all ingested grains, the erased ones included.
    pub addresses: Vec<ContentAddress>,
    is_encrypted: bool,
    folder: tempfile::TempDir,
}

impl SampleLake {
    /// Creates an unencrypted lake.
    ///
    /// # Panics
    /// If the lake can't be made: it is part of a test.
    pub async fn plain() -> SampleLake {
        SampleLake::new(false).await
    }

    /// Creates an encrypted lake.
    ///
    /// # Panics
    /// As [`SampleLake::plain`].
    pub async fn encrypted() -> SampleLake {
        SampleLake::new(true).await
    }

    /// Creates an unencrypted lake of format 1, without heads, digests and erasures.
    ///
    /// # Panics
    /// As [`SampleLake::plain`].
    pub async fn of_format_1() -> SampleLake {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let sample = SampleLake {
            lake: folder.path().join("lake"),
            addresses: Vec::new(),
            is_encrypted: false,
            folder,
        };
        let mut lake = Lake::open_or_create(&sample.lake.display().to_string())
            .await
            .expect("a new lake");
        let blobs: Vec<Vec<u8>> = (0..GRAINS).map(|number| blob(PEOPLE[3], number)).collect();
        let addresses: Vec<_> = blobs.iter().map(|blob| ContentAddress::of(blob)).collect();
        sample
            .ingest_file(&mut lake, "first.mg", &container(&blobs, &addresses))
            .await;
        sample
            .ingest_file(&mut lake, "refused.mgs", &frames(&[wrong_blob(0)]))
            .await;
        for file in files_below(&sample.lake)
            .into_iter()
            .filter(|path| path.iter().any(|part| part == "_delta_log"))
        {
            let text = fs::read_to_string(&file).expect("a log entry");
            let lines = text
                .lines()
                .map(|line| without_digests(serde_json::from_str(line).expect("an action")));
            fs::write(
                &file,
                lines
                    .map(|line| line.to_string())
                    .collect::<Vec<_>>()
                    .join("\n"),
            )
            .expect("a log entry");
        }
        fs::remove_file(sample.lake.join("heads.json")).expect("heads");
        sample
    }

    async fn new(is_encrypted: bool) -> SampleLake {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("lake");
        let mut sample = SampleLake {
            lake: path,
            addresses: Vec::new(),
            is_encrypted,
            folder,
        };
        let mut lake = Lake::open_or_create(&sample.lake.display().to_string())
            .await
            .expect("a new lake");
        if is_encrypted {
            lake.enable_encryption(sample.keys())
                .await
                .expect("an encrypted lake");
        }
        sample.add_grains(&mut lake).await;
        sample.erase_two_people(&mut lake).await;
        sample.add_supersessions(&mut lake).await;
        sample
    }

    /// Ingests the grains of all people as two segments, so that files can be swapped.
    async fn add_grains(&mut self, lake: &mut Lake) {
        let blobs: Vec<Vec<u8>> = PEOPLE
            .iter()
            .flat_map(|person| (0..GRAINS).map(|number| blob(person, number)))
            .collect();
        self.addresses = blobs.iter().map(|blob| ContentAddress::of(blob)).collect();
        let (first, second) = blobs.split_at(blobs.len() / 2);
        for (name, blobs) in [("first.mg", first), ("second.mg", second)] {
            self.ingest_file(lake, name, &container(blobs, &self.addresses))
                .await;
        }
    }

    /// Erases the first two people, each after a file with a reject.
    async fn erase_two_people(&self, lake: &mut Lake) {
        for (number, person) in PEOPLE.iter().take(2).enumerate() {
            let name = format!("refused-{number}.mgs");
            self.ingest_file(lake, &name, &frames(&[wrong_blob(number)]))
                .await;
            let person = Person {
                identifiers: [(*person).to_owned()].into(),
                ..Person::default()
            };
            let request = SubjectRequest {
                people: vec![person],
                ..SubjectRequest::default()
            };
            let erased = erase(lake, &request, &self.erasure_options())
                .await
                .expect("an erasure");
            assert!(
                erased.proven && erased.scope.grains == GRAINS as u64,
                "{erased:?}"
            );
        }
    }

    /// Adds supersessions by manifests and rejects: more commits than the erasure's checkpoint
    /// covers.
    async fn add_supersessions(&self, lake: &mut Lake) {
        for number in 0..2 {
            let new = blob("zoe-5005", number);
            let old = blob(PEOPLE[3], number);
            let superseded = self
                .addresses
                .get(3 * GRAINS + number)
                .copied()
                .expect("a grain of the last person");
            let state = IndexState {
                superseded_by: Some(ContentAddress::of(&new)),
                ..IndexState::default()
            };
            let mut manifest = Manifest::default();
            manifest.entries.insert(superseded, state);
            let name = format!("more-{number}.mg");
            self.ingest_file(lake, &name, &container_of(&[new, old], &manifest))
                .await;
            let name = format!("more-{number}.mgs");
            self.ingest_file(lake, &name, &frames(&[wrong_blob(10 + number)]))
                .await;
        }
    }

    /// The lake's key store, if it is encrypted.
    fn keys(&self) -> Box<FileKeys> {
        let keyring = Keyring::open_or_create(&self.folder.path().join("keyring.json"), PASSPHRASE)
            .expect("a keyring");
        Box::new(FileKeys::next_to(keyring).expect("keys"))
    }

    fn erasure_options(&self) -> ErasureOptions {
        ErasureOptions {
            threads: 1,
            ..erasure_options(&self.folder.path().join("signing.json"))
        }
    }

    /// Opens the lake, with its keys.
    ///
    /// # Errors
    /// Those of opening it.
    pub async fn open(&self) -> Result<Lake, EngineError> {
        let mut lake = Lake::open(&self.lake.display().to_string()).await?;
        if self.is_encrypted {
            lake.unlock(self.keys())?;
        }
        Ok(lake)
    }

    /// The address of a superseded grain.
    pub fn superseded(&self) -> ContentAddress {
        ContentAddress::of(&blob(PEOPLE[3], 0))
    }

    /// The address of an erased grain.
    pub fn erased(&self) -> ContentAddress {
        ContentAddress::of(&blob(PEOPLE[0], 0))
    }

    /// Verifies the lake like the command, also one that can't be opened.
    ///
    /// # Errors
    /// What the command ends with.
    pub async fn verify(&self) -> Result<VerifyReport, EngineError> {
        let uri = self.lake.display().to_string();
        let options = VerifyOptions {
            threads: 1,
            ..VerifyOptions::default()
        };
        match Lake::open_unchecked(&uri).await {
            Ok(mut lake) => {
                if self.is_encrypted {
                    lake.unlock(self.keys())?;
                }
                verify_lake(
                    &lake,
                    VerifyScope::default(),
                    &options,
                    Arc::new(WorkProgress::default()),
                )
                .await
            }
            Err(cause) if cause.is_environment() => Err(cause),
            Err(cause) => {
                verify_unopened(
                    &LakeLocation::new(&uri)?,
                    VerifyScope::default(),
                    &options,
                    &cause,
                )
                .await
            }
        }
    }

    async fn try_ingest_file(
        &self,
        lake: &mut Lake,
        name: &str,
        bytes: &[u8],
    ) -> Result<IngestReport, EngineError> {
        let path = self.folder.path().join(name);
        fs::write(&path, bytes).expect("a file of the input");
        let sources = discover(&[path.display().to_string()]).await?;
        ingest(
            lake,
            sources,
            &IngestOptions::default(),
            Arc::new(IngestProgress::default()),
        )
        .await
    }

    async fn ingest_file(&self, lake: &mut Lake, name: &str, bytes: &[u8]) {
        self.try_ingest_file(lake, name, bytes)
            .await
            .expect("an ingest that goes through");
    }

    /// Ingests one more grain, with the subject `subject`.
    ///
    /// # Panics
    /// If that fails.
    pub async fn ingest_one_more(&self, subject: &str) {
        let mut lake = self.open().await.expect("the lake");
        self.ingest_file(
            &mut lake,
            &format!("{subject}.mgs"),
            &frames(&[blob(subject, 0)]),
        )
        .await;
    }

    /// Tries to ingest the erased grains; returns how many were accepted.
    ///
    /// # Errors
    /// Those of opening the lake and of the ingest.
    pub async fn try_ingest_erased(&self) -> Result<u64, EngineError> {
        let mut lake = self.open().await?;
        let erased: Vec<_> = (0..GRAINS).map(|number| blob(PEOPLE[0], number)).collect();
        Ok(self
            .try_ingest_file(&mut lake, "erased.mgs", &frames(&erased))
            .await?
            .grains_written)
    }
}

fn blob(person: &str, number: usize) -> Vec<u8> {
    let json = format!(
        r#"{{"type": "belief", "subject": "subject {number}", "relation": "prefers", "object": "tea number {number} of {person}",
            "user_id": "{person}", "confidence": 0.5, "importance": 0.{number}, "created_at": {}}}"#,
        1_767_225_600_000_u64 + 1_000 * number as u64
    );
    let json = Json::parse(json.as_bytes()).expect("JSON");
    encode_json(&json, EncodeOptions::default())
        .unwrap_or_else(|error| panic!("{error}"))
        .blob
}

fn frames(blobs: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    blobs
        .iter()
        .for_each(|blob| write_frame(blob, &mut out).expect("a frame"));
    out.extend([0; 4]);
    out
}

/// A container whose manifest has the first grain superseded by the second.
fn container(blobs: &[Vec<u8>], addresses: &[ContentAddress]) -> Vec<u8> {
    let own: HashSet<ContentAddress> = blobs.iter().map(|blob| ContentAddress::of(blob)).collect();
    let mut own = addresses.iter().filter(|address| own.contains(address));
    let mut manifest = Manifest::default();
    if let (Some(first), Some(second)) = (own.next(), own.next()) {
        let state = IndexState {
            superseded_by: Some(*second),
            ..IndexState::default()
        };
        manifest.entries.insert(*first, state);
    }
    container_of(blobs, &manifest)
}

fn container_of(blobs: &[Vec<u8>], manifest: &Manifest) -> Vec<u8> {
    let options = ContainerOptions {
        with_manifest: true,
        ..ContainerOptions::default()
    };
    let lengths = blobs.iter().map(|blob| blob.len() as u32).collect();
    let mut bytes = std::io::Cursor::new(Vec::new());
    let mut writer = ContainerWriter::new(&mut bytes, options, lengths).expect("a container");
    blobs
        .iter()
        .for_each(|blob| writer.push(blob).expect("a grain of the container"));
    writer.finish(Some(manifest)).expect("the container's end");
    bytes.into_inner()
}

/// A grain whose header has another type than its payload.
fn wrong_blob(number: usize) -> Vec<u8> {
    let mut wrong = blob("mallory", number);
    wrong[2] = 2;
    wrong
}

/// Converts an action of a log to format 1.
fn without_digests(mut action: serde_json::Value) -> serde_json::Value {
    if let Some(add) = action
        .get_mut("add")
        .and_then(serde_json::Value::as_object_mut)
    {
        add.remove("tags");
    }
    if let Some(info) = action
        .get_mut("commitInfo")
        .and_then(serde_json::Value::as_object_mut)
    {
        info.remove("gristmill.sealed");
    }
    if let Some(version) = action.pointer_mut("/metaData/configuration/gristmill.formatVersion") {
        *version = "1".into();
    }
    action
}

/// Returns all files below `folder`, sorted by path.
///
/// # Panics
/// If it can't be listed.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in
            fs::read_dir(&next).unwrap_or_else(|error| panic!("{}: {error}", next.display()))
        {
            let path = entry.expect("an entry of a folder").path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files.sort();
    files
}

/// Damage to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damage {
    /// One bit is flipped.
    Flip {
        /// Position of the byte.
        byte: u64,
        /// Number of the bit.
        bit: u8,
    },
    /// The file is truncated.
    Truncate {
        /// Remaining bytes.
        length: u64,
    },
    /// The file is deleted.
    Delete,
    /// The file is swapped with another of its kind.
    Swap(PathBuf),
    /// The Parquet file is rewritten by Arrow's writer with another value in one cell of a column.
    Cell {
        /// The column's name.
        column: String,
    },
}

/// Reverts a damage.
#[must_use]
pub struct Undo(Vec<(PathBuf, Vec<u8>)>);

impl Undo {
    /// Restores the files.
    ///
    /// # Panics
    /// If they can't be written.
    pub fn undo(self) {
        self.0.into_iter().for_each(|(path, bytes)| {
            fs::write(path, bytes).expect("the file can be written back")
        });
    }
}

impl Damage {
    /// Applies the damage to `file`.
    ///
    /// # Panics
    /// If the file can't be changed.
    pub fn inflict(&self, file: &Path) -> Undo {
        let sound = fs::read(file).expect("the file can be read");
        let mut undo = Undo(vec![(file.to_owned(), sound.clone())]);
        match self {
            Damage::Flip { byte, bit } => {
                let mut bytes = sound;
                bytes[*byte as usize] ^= 1 << bit;
                fs::write(file, bytes)
            }
            Damage::Truncate { length } => fs::write(file, &sound[..*length as usize]),
            Damage::Delete => fs::remove_file(file),
            Damage::Cell { column } => fs::write(file, with_another_cell(&sound, column)),
            Damage::Swap(other) => {
                let others = fs::read(other).expect("the other file can be read");
                fs::write(file, &others).expect("the file can be written");
                undo.0.push((other.clone(), others));
                fs::write(other, sound)
            }
        }
        .expect("the file can be changed");
        undo
    }
}

/// Returns the names of the columns of the Parquet file at `path`.
///
/// # Panics
/// If it isn't one.
pub fn columns_of(path: &Path) -> Vec<String> {
    let bytes = bytes::Bytes::from(fs::read(path).expect("the file can be read"));
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).expect("a Parquet file");
    reader
        .schema()
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect()
}

/// Returns the Parquet file in `bytes` with the first cell of `column` replaced by that of a row
/// that differs, or by null.
fn with_another_cell(bytes: &[u8], column: &str) -> Vec<u8> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::copy_from_slice(bytes))
        .expect("a Parquet file");
    let schema = Arc::clone(reader.schema());
    let batches: Vec<_> = reader
        .build()
        .expect("a reader")
        .collect::<Result<_, _>>()
        .expect("rows");
    let rows = arrow::compute::concat_batches(&schema, &batches).expect("one batch");
    let index = schema.index_of(column).expect("the column");
    let cells = rows.column(index);
    let other =
        (1..cells.len()).find(|row| cells.slice(*row, 1).to_data() != cells.slice(0, 1).to_data());
    let first = match other {
        Some(row) => cells.slice(row, 1),
        None if cells.is_null(0) => other_than_null(cells.data_type()),
        None => arrow::array::new_null_array(cells.data_type(), 1),
    };
    let changed =
        arrow::compute::concat(&[&first, &cells.slice(1, cells.len() - 1)]).expect("a column");
    let mut columns = rows.columns().to_vec();
    columns[index] = changed;
    // The changed column may have nulls.
    let fields: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_nullable(true))
        .collect();
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    let rows = arrow::array::RecordBatch::try_new(Arc::clone(&schema), columns).expect("rows");
    let mut out = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut out, schema, None).expect("a writer");
    writer.write(&rows).expect("rows can be written");
    writer.close().expect("the file can be ended");
    out
}

/// A column of one value that isn't null.
fn other_than_null(kind: &arrow::datatypes::DataType) -> arrow::array::ArrayRef {
    use arrow::datatypes::DataType::{List, Struct, Utf8};
    let text: arrow::array::ArrayRef = Arc::new(arrow::array::StringArray::from(vec!["1"]));
    match kind {
        List(field) => {
            let values = other_than_null(field.data_type());
            let offsets = arrow::buffer::OffsetBuffer::from_lengths([values.len()]);
            Arc::new(arrow::array::ListArray::new(
                Arc::clone(field),
                offsets,
                values,
                None,
            ))
        }
        Struct(fields) => {
            let columns = fields
                .iter()
                .map(|field| other_than_null(field.data_type()))
                .collect();
            Arc::new(arrow::array::StructArray::new(
                fields.clone(),
                columns,
                None,
            ))
        }
        Utf8 => text,
        kind => arrow::compute::cast(&text, kind).expect("a value of every kind"),
    }
}

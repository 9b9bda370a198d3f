//! A lake with rows in every table, sidecars, checkpoints and the certificate of an erasure.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use gristmill_connectors::source::discover;
use gristmill_engine::erase::{ErasureOptions, SubjectRequest, erase};
use gristmill_engine::error::EngineError;
use gristmill_engine::ingest::{IngestOptions, IngestProgress, IngestReport, ingest};
use gristmill_engine::keys::{FileKeys, Keyring};
use gristmill_engine::lake::{Lake, LakeLocation};
use gristmill_engine::progress::WorkProgress;
use gristmill_engine::verify::{
    VerifyOptions, VerifyReport, VerifyScope, verify_lake, verify_unopened,
};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{IndexState, Manifest};

use super::files_below;
use super::sample_input::{blob, container, container_of, frames, wrong_blob};
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
            let request = SubjectRequest::of_person([*person]);
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
        info.remove("gristmill.tables");
    }
    if let Some(version) = action.pointer_mut("/metaData/configuration/gristmill.formatVersion") {
        *version = "1".into();
    }
    action
}

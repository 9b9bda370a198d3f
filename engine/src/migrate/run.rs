//! The phases of a migration:
//!
//! ```text
//! load and analyse all grains ─▶ decide what keeps its bytes ─▶ convert in the order of links ─▶
//! write a bundle of changes ─▶ apply it to the new lake ─▶ write the map of addresses
//! ```
//!
//! The work file has the state of the first phases; a bundle is applied in steps that can be
//! repeated. So a migration that was killed is completed by the same command.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use futures::StreamExt;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::sign::did_from_key;
use rayon::prelude::*;
use serde::Serialize;
use serde_json::json;

use super::address_map::{read_map, write_map};
use super::form::TargetForm;
use super::grain::{Analysis, Converted, MigrationSigner, convert};
use super::work::{MigrationPhase, WorkFile, WorkItem};
use crate::changes::{APPLIED, ChangeOptions, LakePosition, MigratedChanges, apply_changes};
use crate::error::{Context, EngineError, Result};
use crate::export::{GRAIN_COLUMNS, Target, delivered_grains};
use crate::file_digest::FileDigest;
use crate::ingest::IngestOptions;
use crate::keys::TombstoneSet;
use crate::lake::{FormerAddresses, KnownAddresses, Lake};
use crate::progress::WorkProgress;

/// Why a lake with rows of erased grains isn't migrated.
const UNFINISHED_ERASURE: &str = "the lake has rows of grains that were erased, and nothing bars \
                                  them in another form: an erasure was killed, or a file was \
                                  restored from a backup. Run `gristmill erase` for the same \
                                  people again, then migrate";

/// Grains of a batch, and roughly the bytes of one.
const BATCH_GRAINS: usize = 4_096;
const BATCH_BYTES: usize = 64 << 20;

/// What is migrated, and how.
pub struct MigrateOptions {
    /// The form that grains get.
    pub form: TargetForm,
    /// The map of an earlier migration to undo: grains get the forms that they had before it.
    pub undo: Option<PathBuf>,
    /// The key that signs grains again whose signatures a conversion makes invalid. Without,
    /// signatures are dropped.
    pub signer: Option<MigrationSigner>,
    /// The file of old and new addresses. The work file is next to it.
    pub map: PathBuf,
    /// Whether to overwrite the map.
    pub overwrite: bool,
    /// How the new lake is written.
    pub ingest: IngestOptions,
}

impl MigrateOptions {
    /// Checks that the map may be written, which happens at the end.
    ///
    /// # Errors
    /// [`EngineError::File`] if it exists and may not be overwritten.
    pub fn check_map(&self) -> Result<()> {
        Target::at(self.map.clone(), self.overwrite).map(drop)
    }

    /// Returns a text that describes the migration of `lake`: another one begins its work anew.
    fn job(&self, lake: &Lake) -> String {
        let signer = self.signer.as_ref().map(|signer| {
            let key = did_from_key(&signer.key.verifying_key());
            (key, signer.did.as_deref())
        });
        format!(
            "{} {} {:?} {:?} {signer:?}",
            lake.audit.id(),
            LakePosition::of(lake),
            self.form,
            self.undo,
        )
    }
}

/// The result of a migration.
#[derive(Debug, Clone, Default, Serialize)]
pub struct MigrateReport {
    /// Grains of the lake.
    pub grains: u64,
    /// Grains with another address than before.
    pub changed: u64,
    /// Grains with the address of another one from now on: they differed in their forms only. The
    /// new lake has each of these once, and undoing the migration restores one form.
    pub merged: u64,
    /// Grains that keep their bytes although the form requires others.
    pub kept: u64,
    /// Why, with their numbers.
    pub kept_because: BTreeMap<String, u64>,
    /// Links that lead to other addresses than before.
    pub links_rewritten: u64,
    /// Addresses in grains that aren't those of a grain of the lake, left as they are: links to
    /// absent grains, and digests of other things.
    pub links_to_absent: u64,
    /// Signatures that were dropped.
    pub signatures_dropped: u64,
    /// Signatures that were made again.
    pub signatures_renewed: u64,
    /// Grains whose earlier address is known from the map to undo.
    pub to_restore: u64,
    /// Of these, grains that have it again. The new map lists the others.
    pub restored: u64,
    /// Lifecycle events that were carried over.
    pub events: u64,
    /// Tombstones that were carried over: they bar the old forms of erased grains.
    pub tombstones: u64,
    /// Wall-clock time in seconds.
    pub seconds: f64,
}

/// Converts the grains of `lake` and writes them to the lake `target`, which is created; with
/// `None`, only the map is written.
///
/// # Errors
/// [`EngineError::Request`] if `lake` is encrypted or has rows of erased grains, or `target` has
/// data of another origin;
/// [`EngineError::Damaged`] if links form a cycle; [`EngineError::Interrupted`]; errors of the
/// lakes, of the work file and of the map. The same call goes on where this one stopped.
pub async fn migrate(
    lake: &Lake,
    mut target: Option<&mut Lake>,
    options: &MigrateOptions,
    progress: Arc<WorkProgress>,
) -> Result<MigrateReport> {
    let started = Instant::now();
    options.check_map()?;
    if lake.is_encrypted() {
        return Err(EngineError::Request(
            "the lake is encrypted, and the work file of a migration isn't: export the lake, ingest \
             the export into a lake without --encrypt on a protected disk, migrate that one, and \
             ingest its export with --encrypt"
                .to_owned(),
        ));
    }
    let job = options.job(lake);
    if let Some(target) = &mut target {
        has_begun(target, &MigratedChanges::origin(lake, &job)).await?;
    }
    let mut run = MigrateRun::open(lake, options, job, Arc::clone(&progress))?;
    if run.work.is_in(MigrationPhase::Loading)? {
        run.load().await?;
        run.work.enter(MigrationPhase::Converting)?;
    }
    if run.work.is_in(MigrationPhase::Converting)? {
        run.convert()?;
        run.work.enter(MigrationPhase::Converted)?;
    }
    if let Some(target) = target {
        run.write(target, progress).await?;
    }
    write_map(&run.work, &options.map, options.overwrite)?;
    let mut report = run.finish()?;
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

struct MigrateRun<'a> {
    lake: &'a Lake,
    options: &'a MigrateOptions,
    work: WorkFile,
    pool: rayon::ThreadPool,
    progress: Arc<WorkProgress>,
    /// Describes the migration.
    job: String,
    /// Addresses in the grains of this run that aren't in the lake.
    absent: u64,
    report: MigrateReport,
}

/// The action in the audit log of a new lake under which is recorded what is migrated to it.
const BEGUN: &str = "migration";

/// The name under which the work file notes how many addresses aren't in the lake.
const ABSENT: &str = "absent";

/// Returns the file `name` next to the map.
fn with_suffix(map: &Path, ending: &str) -> PathBuf {
    let mut name = map.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Returns whether the migration `origin` has begun to write to `target`.
///
/// # Errors
/// [`EngineError::Request`] if it hasn't and `target` isn't empty: grains would be there twice, and
/// those that were erased from the first lake since another migration would stay.
async fn has_begun(target: &mut Lake, origin: &str) -> Result<bool> {
    target.refresh().await?;
    for action in [BEGUN, APPLIED] {
        if target.has_recorded(action, "lake", origin).await? {
            return Ok(true);
        }
    }
    for table in [&target.grains, &target.state, &target.erased] {
        if !table.files()?.is_empty() {
            return Err(EngineError::Request(
                "the new lake has data that isn't of this migration: name a folder that doesn't \
                 exist. An interrupted migration goes on only with the same options, and while the \
                 first lake is unchanged"
                    .to_owned(),
            ));
        }
    }
    Ok(false)
}

impl<'a> MigrateRun<'a> {
    fn open(
        lake: &'a Lake,
        options: &'a MigrateOptions,
        job: String,
        progress: Arc<WorkProgress>,
    ) -> Result<MigrateRun<'a>> {
        let path = with_suffix(&options.map, ".work");
        let builder = rayon::ThreadPoolBuilder::new().num_threads(options.ingest.threads);
        Ok(MigrateRun {
            lake,
            options,
            work: WorkFile::open(&path, &job, options.ingest.memory / 4)?,
            pool: builder.build().threads()?,
            progress,
            job,
            absent: 0,
            report: MigrateReport::default(),
        })
    }

    /// Loads all grains with their links, and decides which keep their bytes.
    async fn load(&mut self) -> Result<()> {
        self.work.clear()?;
        if let Some(map) = &self.options.undo {
            read_map(&mut self.work, map)?;
        }
        let known = KnownAddresses::load(self.lake).await?;
        let erased = self.lake.tombstone_set().await?;
        let mut rows = self.lake.scan(Some(&GRAIN_COLUMNS))?;
        while let Some(batch) = rows.next().await {
            self.check_interrupt()?;
            self.load_batch(&batch?, &known, &erased)?;
        }
        self.work.note(ABSENT, &self.absent.to_string())?;
        self.work.keep_targets()
    }

    /// Loads the grains of `batch`, of which none may be `erased`.
    fn load_batch(
        &mut self,
        batch: &RecordBatch,
        known: &KnownAddresses,
        erased: &TombstoneSet,
    ) -> Result<()> {
        let grains = delivered_grains(batch)?;
        if grains.iter().any(|(address, _)| erased.contains(address)) {
            return Err(EngineError::Request(UNFINISHED_ERASURE.to_owned()));
        }
        WorkProgress::add(&self.progress.grains, grains.len() as u64);
        let form = self.options.form;
        let analyse = |(address, bytes): (ContentAddress, Vec<u8>)| {
            let mut analysis = Analysis::of(&bytes, &form);
            let all = analysis.addresses.len();
            analysis
                .addresses
                .retain(|target| known.find(target).is_some());
            let absent = all - analysis.addresses.len();
            ((address, bytes, analysis), absent as u64)
        };
        let analysed: (Vec<_>, Vec<u64>) = self
            .pool
            .install(|| grains.into_par_iter().map(analyse).unzip());
        self.absent += analysed.1.iter().sum::<u64>();
        self.work.add(&analysed.0)
    }

    /// Converts all grains, each after those that it links to.
    fn convert(&mut self) -> Result<()> {
        loop {
            self.check_interrupt()?;
            let ready = self.work.ready(BATCH_GRAINS, BATCH_BYTES)?;
            if ready.is_empty() {
                break;
            }
            let options = self.options;
            let results: Result<Vec<_>> = self.pool.install(|| {
                ready
                    .into_par_iter()
                    .map(|item| convert_item(item, options))
                    .collect()
            });
            let results = results?;
            self.work.store(&results)?;
        }
        match self.work.unconverted()? {
            0 => Ok(()),
            cyclic => Err(EngineError::Damaged {
                what: format!("the links of {cyclic} grains"),
                cause: "they form a cycle, which addresses of contents can't".to_owned(),
                remedy: "gristmill verify",
            }),
        }
    }

    /// Writes the converted grains, events and tombstones to `target`.
    async fn write(&mut self, target: &mut Lake, progress: Arc<WorkProgress>) -> Result<()> {
        let path = with_suffix(&self.options.map, ".changes");
        let origin = MigratedChanges::origin(self.lake, &self.job);
        let id = FileDigest::of(origin.as_bytes()).to_string();
        let mut changes = MigratedChanges::begin(self.lake, &self.job, path.clone())?;
        let mut former = FormerAddresses::begin(self.lake, target, &id).await?;
        self.work.each(|grain| {
            former.add(&grain.new, &grain.old)?;
            changes.add_grain(&grain.new, &grain.bytes)
        })?;
        let work = &self.work;
        changes
            .add_state(self.lake, |old| work.new_address(old))
            .await?;
        let source = changes.finish()?;
        if !has_begun(target, &origin).await? {
            target.record(BEGUN, json!({ "lake": origin })).await?;
        }
        // Before the grains, so that none of them is erased without these.
        target.copy_former_addresses(self.lake).await?;
        former.publish(target).await?;
        let options = ChangeOptions {
            ingest: self.options.ingest.clone(),
            erasure: None,
        };
        let applied = apply_changes(target, source, &options, progress).await?;
        self.report.events = applied.events_written;
        self.report.tombstones = applied.tombstones_written;
        std::fs::remove_file(&path).file("can't remove", path.display())
    }

    fn check_interrupt(&self) -> Result<()> {
        match self.progress.is_stopped() {
            true => Err(EngineError::Interrupted),
            false => Ok(()),
        }
    }

    fn finish(self) -> Result<MigrateReport> {
        let counts = self.work.counts()?;
        let absent = self.work.progress(ABSENT)?;
        let report = MigrateReport {
            grains: counts.grains,
            changed: counts.changed,
            merged: counts.merged,
            kept: counts.kept,
            kept_because: self.work.reasons()?,
            links_rewritten: counts.links_rewritten,
            links_to_absent: absent
                .and_then(|text| text.parse().ok())
                .unwrap_or_default(),
            signatures_dropped: counts.signatures_dropped,
            signatures_renewed: counts.signatures_renewed,
            to_restore: counts.to_restore,
            restored: counts.restored,
            ..self.report
        };
        self.work.finish()?;
        Ok(report)
    }
}

/// Converts `item`, unless it keeps its bytes. Returns it with the result, and whether that is
/// signed.
fn convert_item(
    item: WorkItem,
    options: &MigrateOptions,
) -> Result<(WorkItem, Option<Converted>, bool)> {
    let form = match (&item.form, &item.origin) {
        _ if item.is_kept => None,
        (_, Some((_, form))) => Some(form.clone()),
        (Some(form), None) => Some(form.changed(&options.form)),
        (None, None) => None,
    };
    let Some(form) = form else {
        return Ok((item, None, false));
    };
    let is_unchanged =
        item.form.as_ref() == Some(&form) && item.targets.iter().all(|(old, new)| old == new);
    if is_unchanged {
        // Signatures stay valid.
        return Ok((item, None, false));
    }
    let replace = |old: &ContentAddress| item.targets.get(old).copied();
    let converted = convert(&item.bytes, &form, &replace, options.signer.as_ref());
    let converted = converted.file("can't convert", item.old)?;
    let is_signed = converted.had_signature && options.signer.is_some();
    Ok((item, Some(converted), is_signed))
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::sign::SigningKey;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn another_signer_makes_another_migration() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().display().to_string();
        let lake = Lake::open_or_create(&place).await.unwrap();
        let job = |signer: Option<(u8, Option<&str>)>| {
            let options = MigrateOptions {
                form: TargetForm::default(),
                undo: None,
                signer: signer.map(|(seed, did)| MigrationSigner {
                    key: SigningKey::from_seed(&[seed; 32]),
                    did: did.map(str::to_owned),
                    at: 0,
                }),
                map: folder.path().join("map"),
                overwrite: false,
                ingest: IngestOptions::default(),
            };
            options.job(&lake)
        };
        let jobs = [
            job(None),
            job(Some((1, None))),
            job(Some((2, None))),
            job(Some((1, Some("did:web:example.org")))),
        ];
        let distinct: std::collections::BTreeSet<_> = jobs.iter().collect();
        assert_eq!(distinct.len(), jobs.len(), "{jobs:?}");
        assert_eq!(job(Some((1, None))), jobs[1]);
    }
}

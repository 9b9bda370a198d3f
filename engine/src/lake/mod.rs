//! The lake: six Delta tables in one folder or prefix, and the sidecars of their segments.
//!
//! ```text
//! lake/
//!   grains/   state/   rejects/   sources/   audit/   erased/     Delta tables
//!   index/<segment id>/                      sidecars: derived, rebuildable
//!   erasures/                                journals and certificates of erasures
//!   heads.json, heads.lock                   the newest version of each table
//!   erasures.lock                            held by the process that erases
//!   encryption.json                          only if it is encrypted
//!   _scratch/                                files that aren't part of the lake yet
//! ```
//!
//! | module | question |
//! |---|---|
//! | `location` | where is the lake, and how does a file become part of it atomically? |
//! | `location_checks` | can a folder of this name hold a lake? |
//! | `empty_location` | may a new lake be created at a location? |
//! | `staged_files` | which files does a killed process leave incomplete? |
//! | `row_versions` | since which version of a table are its rows in it? |
//! | `table`, `commit` | which files does a table consist of, and how is a change committed? |
//! | `commit_checks` | what is checked before a commit? |
//! | `commit_facts` | what does a commit state, and which rows does it lose? |
//! | `file_actions` | what does a log contain about a data file? |
//! | `column_statistics` | what does a log state about the values of `grains`? |
//! | `commit_cache` | how is each commit of a log read only once? |
//! | `conditional_put` | how do several writers replace a small file in an object store? |
//! | `read_ahead` | how is the end of a Parquet file one request? |
//! | `heads` | which version does each table have at least? |
//! | `locks` | how does one process at a time change a lake in a folder? |
//! | `stated_versions` | which versions do the commits of the tables state of each other? |
//! | `log` | which files does a table's log consist of? |
//! | `open_checks` | has a lake that is opened lost anything? |
//! | `open_for_queries` | which tables does a process open that only queries the lake, or that reads no grains? |
//! | `open_table` | how is a table opened, or created in a new lake? |
//! | `accept` | how is a lake that lost something declared sound again? |
//! | `upgrade` | how is a lake of an earlier format converted? |
//! | `ledger` | which sources were ingested, and how far? |
//! | `file_prefixes` | which lines of files had which time? |
//! | `known_addresses` | which grains does the lake contain? |
//! | `address_indexes` | how is a pass made over all addresses of the lake? |
//! | `address_catalog` | in which segments may the grains of a batch be? |
//! | `lifecycle` | what is the current state of these grains? |
//! | `disclosure` | which rows are disclosed copies of other grains? |
//! | `lake_file`, `cells` | how are rows and cells of a file read, encrypted or not? |
//! | `scan` | what are all rows of `grains`? |
//! | `sidecar` | how are segments and sidecars opened and published? |
//! | `local_cache`, `cached_files` | which sidecars are on the local disk? |
//! | `segment_cache` | what do clones of a handle cache together? |
//! | `segment_workers` | how do other processes work on segments for this one? |
//! | `records`, `edit` | how are files of the small tables written, read and rewritten? |
//! | `rejects` | what does a row for refused input contain? |
//! | `audit`, `audit_check` | what did the engine do, and is the log of it complete? |
//! | `tombstones` | which grains must not be admitted again? |
//! | `former_addresses` | which addresses did they have before a migration? |
//! | `encryption` | is the lake encrypted, and with which keys? |
//! | `purge` | how are files removed that only earlier versions need? |
//!
//! **Order of commits.** A command that changes several tables commits to `grains` last. Rows that
//! it wrote to the others before can be recognised by their own columns, so a command that was
//! killed in between is simply run again.

mod accept;
mod address_catalog;
mod address_indexes;
mod audit;
mod audit_check;
mod cached_files;
mod cells;
mod column_statistics;
mod commit;
mod commit_cache;
mod commit_checks;
mod commit_facts;
mod conditional_put;
mod disclosure;
mod edit;
mod empty_location;
mod encryption;
mod file_actions;
mod file_prefixes;
mod former_addresses;
mod heads;
mod known_addresses;
mod lake_file;
mod ledger;
mod lifecycle;
mod local_cache;
mod location;
mod location_checks;
mod locks;
mod log;
mod open_checks;
mod open_for_queries;
mod open_table;
mod purge;
mod read_ahead;
mod records;
mod rejects;
mod row_versions;
mod scan;
mod segment_cache;
mod segment_workers;
mod sidecar;
mod staged_files;
mod stated_versions;
mod table;
mod tombstones;
mod upgrade;

use std::sync::Arc;

use gristmill_schemas::columns::{
    GRAINS, REJECTS, SOURCES, STATE, audit_schema, erased_schema, rejects_schema, sources_schema,
    state_schema,
};

pub use accept::ACCEPTED;
pub(crate) use address_catalog::AddressCatalog;
pub(crate) use address_indexes::AddressIndexes;
pub use audit::AUDIT;
pub(crate) use audit::RESUMED;
pub use audit_check::{AuditHead, AuditVerdict};
pub(crate) use audit_check::{is_accepted, recorded_version};
pub(crate) use cells::{Link, address_at, link_columns, links, reference_at, text_at, texts};
pub(crate) use commit_facts::{CommitFacts, LostRows, RowsOfLog};
pub(crate) use conditional_put::{read_with_version, replace_unchanged, replace_version};
pub(crate) use disclosure::{DisclosedCopy, disclosed_rows, disclosed_rows_in};
pub(crate) use edit::{drop_rows, edit_file};
pub use encryption::{ENCRYPTION, is_sealed_file};
pub(crate) use file_prefixes::{FilePlace, FilePrefix};
pub(crate) use former_addresses::FormerAddresses;
pub(crate) use heads::{ACCEPT, CheckpointHead, HEADS, Heads, TableHead};
pub use known_addresses::KnownAddresses;
pub(crate) use lake_file::LakeFile;
pub use ledger::{Ledger, LedgerEntry, ReadPosition, transaction_name};
pub(crate) use lifecycle::{
    EVENT_COLUMNS, events_of, row_links, row_supersessions, rows_with, superseding_rows_in,
    supersessions_in,
};
pub use local_cache::{DEFAULT_CACHE_BYTES, LocalCache};
pub use location::LakeLocation;
pub(crate) use location::{NO_VERSIONS, SCRATCH};
pub(crate) use log::{LogFile, REMEDY_OF_LOGS, commit_path, hint_path};
pub(crate) use open_checks::{
    FROM_BACKUP, REMEDY_OF_FILES, head_damage, remedy_of_changed_file, remedy_of_lost_file,
};
pub(crate) use purge::GRACE;
pub use purge::Purged;
pub(crate) use records::{LISTED, read_file, sealed_cells, text as text_of};
pub(crate) use rejects::{
    MANIFEST, MAX_DAMAGE_BYTES, MAX_SOURCE_BYTES, RejectBytes, RejectContext, RejectPosition,
    RejectReason, WHOLE_SOURCE, blob_of,
};
pub use row_versions::RowVersions;
pub use scan::RowStream;
pub(crate) use segment_cache::SegmentCache;
pub use segment_workers::{Outcomes, SegmentJob, SegmentWorkers};
pub use sidecar::{Segment, open_sidecar};
pub(crate) use sidecar::{open_cached_sidecar, publish_sidecars};
pub(crate) use staged_files::is_staged;
pub(crate) use stated_versions::StatedVersions;
pub use table::{Change, DataFile, Table};
pub use tombstones::ERASED;
pub(crate) use tombstones::{ADOPTED, ErasedRow};

use crate::error::{EngineError, Result};
use crate::segment::SegmentId;
use open_table::{
    existing_location, grains_opened_or_created, open_existing_grains, open_or_create,
    open_sources, open_table, table_lost,
};
use segment_cache::SegmentCaches;

/// The folder of erasure journals and certificates, from the lake's root.
pub(crate) const ERASURES: &str = "erasures";

/// The version of the lake's format that this program writes.
pub(crate) const FORMAT_VERSION: u32 = 2;

/// The first format version with `heads.json` and digests of data files.
pub(crate) const FIRST_WITH_HEADS: u32 = 2;

/// The names of all tables, `grains` first.
pub const TABLES: [&str; 6] = [GRAINS, STATE, REJECTS, SOURCES, AUDIT, ERASED];

/// A handle of a lake. It reads one version of each table; clones share caches.
#[derive(Debug, Clone)]
pub struct Lake {
    location: LakeLocation,
    /// One row per grain.
    pub grains: Table,
    /// Lifecycle events.
    pub state: Table,
    /// Refused input.
    pub rejects: Table,
    /// The outcome of each source in each run. `None` in a lake of an earlier format into which
    /// nothing was ingested since.
    pub sources: Option<Table>,
    /// The actions of the engine.
    pub audit: Table,
    /// Tombstones of erased grains.
    pub erased: Table,
    segment_caches: Arc<SegmentCaches>,
    encryption: encryption::Encryption,
    /// The pseudonym of the operator.
    operator: Option<String>,
}

impl Lake {
    /// Opens the lake at `uri`.
    ///
    /// # Errors
    /// [`EngineError::NoLake`] if there is none, [`EngineError::LakeVersion`] if it has a later
    /// format.
    pub async fn open(uri: &str) -> Result<Lake> {
        Self::open_at(existing_location(uri)?).await
    }

    /// Opens the lake at `location`, such as a store that the caller has made.
    ///
    /// # Errors
    /// As [`Lake::open`].
    pub async fn open_at(location: LakeLocation) -> Result<Lake> {
        let (heads, grains) = Self::open_grains(&location).await?;
        Self::with_grains(location, grains, heads).await
    }

    /// Opens the table `grains` of the lake at `location`, and reads the heads.
    async fn open_grains(location: &LakeLocation) -> Result<(Option<Heads>, Table)> {
        // Read before the tables: a commit in between makes the tables newer than the heads, which
        // is sound.
        let heads = Heads::load(location).await?;
        let grains = open_existing_grains(location, heads.as_ref()).await?;
        Ok((heads, grains))
    }

    /// Opens the lake at `uri` without comparing it with `heads.json`, for commands that inspect
    /// and repair damage.
    ///
    /// # Errors
    /// As [`Lake::open`], except [`EngineError::Damaged`].
    pub async fn open_unchecked(uri: &str) -> Result<Lake> {
        let location = existing_location(uri)?;
        // Damaged heads are reported by the command that checks them.
        let heads = Heads::load(&location).await.ok().flatten();
        let grains = open_existing_grains(&location, heads.as_ref()).await?;
        Self::with_tables(location, grains, heads.as_ref()).await
    }

    /// Opens the lake at `uri`, and creates it if there is none. If several processes create it at
    /// once, each table is created by one of them and opened by the others. A lake that a killed
    /// process left incomplete is completed.
    ///
    /// # Errors
    /// As [`Lake::open`], except [`EngineError::NoLake`]; [`EngineError::NotALake`] if something
    /// else is there.
    pub async fn open_or_create(uri: &str) -> Result<Lake> {
        Self::open_or_create_at(LakeLocation::new(uri)?).await
    }

    /// Opens the lake at `uri`; `None` if there is none and [`Lake::open_or_create`] would create
    /// it. Creates nothing.
    ///
    /// # Errors
    /// As [`Lake::open_or_create`].
    pub async fn open_if_exists(uri: &str) -> Result<Option<Lake>> {
        // With a scheme, the location of a missing folder would create it.
        let uri = uri.strip_prefix("file://").unwrap_or(uri);
        match Self::open(uri).await {
            Err(EngineError::NoLake(_)) => {}
            opened => return opened.map(Some),
        }
        let is_remote = gristmill_connectors::storage::has_scheme(uri);
        if is_remote || std::path::Path::new(uri).exists() {
            empty_location::check(&LakeLocation::new(uri)?).await?;
        }
        Ok(None)
    }

    /// Opens the lake at `location`, and creates it if there is none.
    ///
    /// # Errors
    /// As [`Lake::open_or_create`].
    pub async fn open_or_create_at(location: LakeLocation) -> Result<Lake> {
        // Read before the tables: a commit in between makes the tables newer than the heads, which
        // is sound.
        let heads = Heads::load(&location).await?;
        let grains = grains_opened_or_created(&location, heads.as_ref()).await?;
        Self::with_grains(location, grains, heads).await
    }

    /// Opens the other tables, and compares all of them with `heads`.
    async fn with_grains(
        location: LakeLocation,
        grains: Table,
        heads: Option<Heads>,
    ) -> Result<Lake> {
        let (lake, lost) = Self::with_grains_or_lost(location, grains, heads).await?;
        lost.map_or(Ok(lake), Err)
    }

    /// Does the same, but returns the damage if only data files of `grains` are lost.
    async fn with_grains_or_lost(
        location: LakeLocation,
        mut grains: Table,
        mut heads: Option<Heads>,
    ) -> Result<(Lake, Option<EngineError>)> {
        if heads.is_none() {
            // Another process may have created the lake in between.
            heads = Heads::load(&location).await?;
            grains.refresh().await?;
        }
        open_checks::check_presence(&location, &grains, heads.as_ref()).await?;
        if let Some(heads) = &heads {
            open_checks::check_encryption(&location, heads).await?;
        }
        let mut lake = Self::with_tables(location, grains, heads.as_ref()).await?;
        lake.find_marker().await?;
        lake.load_tombstones().await;
        let lost = lake.check_tables(heads.as_ref()).await?;
        Ok((lake, lost))
    }

    async fn with_tables(
        location: LakeLocation,
        grains: Table,
        heads: Option<&Heads>,
    ) -> Result<Lake> {
        Self::check_format(&location, &grains)?;
        let is_new = grains.version() == 0;
        // All futures are awaited: `deltalake` doesn't support cancelling the reading of a log
        // because another one failed.
        let (state, rejects, sources, audit, erased, encryption) = tokio::join!(
            open_table(&location, is_new, STATE, state_schema(), "at"),
            open_table(&location, is_new, REJECTS, rejects_schema(), "rejected_at"),
            open_sources(&location, is_new, heads),
            // A lake without heads may be older than the audit log.
            open_table(
                &location,
                table_lost(&location, AUDIT, heads).is_none(),
                AUDIT,
                audit_schema(),
                "at"
            ),
            open_table(&location, is_new, ERASED, erased_schema(), "at"),
            encryption::Encryption::load(&location),
        );
        let (state, rejects, sources, audit, erased, encryption) =
            (state?, rejects?, sources?, audit?, erased?, encryption?);
        let mut lake = Lake {
            location,
            grains,
            state,
            rejects,
            sources,
            audit,
            erased,
            segment_caches: Arc::default(),
            encryption,
            operator: None,
        };
        lake.load_tombstones().await;
        Ok(lake)
    }

    /// Checks that this program supports the format of a lake.
    fn check_format(location: &LakeLocation, grains: &Table) -> Result<()> {
        let found = grains.format_version();
        match found > FORMAT_VERSION {
            true => Err(EngineError::LakeVersion {
                uri: location.name(),
                found,
                known: FORMAT_VERSION,
            }),
            false => Ok(()),
        }
    }

    /// Returns the lake with `name` as the operator. Entries of the audit log distinguish operators
    /// by pseudonyms, which differ between lakes.
    pub fn with_operator(self, name: &str) -> Lake {
        // A handle for queries records nothing.
        let is_opened = self.audit.is_opened();
        let operator = is_opened.then(|| audit::pseudonym(&self.audit.id(), name));
        Lake { operator, ..self }
    }

    /// Returns the tables, `grains` first.
    pub fn tables(&self) -> Vec<&Table> {
        let Lake {
            grains,
            state,
            rejects,
            sources,
            audit,
            erased,
            ..
        } = self;
        [grains, state, rejects]
            .into_iter()
            .chain(sources)
            .chain([audit, erased])
            .collect()
    }

    pub(crate) fn tables_mut(&mut self) -> Vec<&mut Table> {
        let Lake {
            grains,
            state,
            rejects,
            sources,
            audit,
            erased,
            ..
        } = self;
        [grains, state, rejects]
            .into_iter()
            .chain(sources)
            .chain([audit, erased])
            .collect()
    }

    /// Updates the handle to the newest version of every table.
    ///
    /// # Errors
    /// [`EngineError::Delta`].
    pub async fn refresh(&mut self) -> Result<()> {
        let Lake {
            grains,
            state,
            rejects,
            sources,
            audit,
            erased,
            ..
        } = self;
        let sources = async {
            match sources {
                Some(sources) => sources.refresh().await,
                None => Ok(()),
            }
        };
        // Concurrent and never cancelled, as in `with_tables`.
        let (grains, state, rejects, sources, audit, erased) = tokio::join!(
            grains.refresh(),
            state.refresh(),
            rejects.refresh(),
            sources,
            audit.refresh(),
            erased.refresh()
        );
        grains
            .and(state)
            .and(rejects)
            .and(sources)
            .and(audit)
            .and(erased)?;
        self.load_tombstones().await;
        self.segment_caches.retain(&self.segments()?);
        Ok(())
    }

    /// Returns the table `sources`, which is created if the lake has none yet.
    ///
    /// # Errors
    /// [`EngineError::Delta`].
    pub(crate) async fn sources_to_write(&mut self) -> Result<&mut Table> {
        match &mut self.sources {
            Some(sources) => Ok(sources),
            empty => Ok(empty
                .insert(open_or_create(&self.location, SOURCES, sources_schema(), "at").await?)),
        }
    }

    /// Returns the location of the lake.
    pub fn location(&self) -> &LakeLocation {
        &self.location
    }

    /// Returns the segments, in the order of their names.
    ///
    /// # Errors
    /// [`EngineError::Delta`].
    pub fn segments(&self) -> Result<Vec<Segment>> {
        let files = self
            .grains
            .files()?
            .into_iter()
            .filter(|file| !self.skips(&file.name));
        Ok(files
            .filter_map(|file| {
                Some(Segment {
                    id: SegmentId::of_file(&file.name)?,
                    file,
                })
            })
            .collect())
    }
}

//! The work file of a migration: a SQLite database with every grain, its links and its new address.
//! Memory is bounded by its cache. Each batch is a transaction, so a killed migration goes on where
//! it stopped.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use gristmill_schemas::address::ContentAddress;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::form::GrainForm;
use super::grain::{Analysis, Converted};
use crate::error::{Context, Result};

/// The tables. `waiting` is the number of a grain's links to grains without a new address.
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS progress (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS grain (
        id INTEGER PRIMARY KEY, old BLOB NOT NULL UNIQUE, new BLOB, waiting INTEGER NOT NULL,
        kept TEXT, form TEXT, signature TEXT, bytes BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS link (
        target BLOB NOT NULL, source BLOB NOT NULL, PRIMARY KEY (target, source)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS origin (
        new BLOB PRIMARY KEY, old BLOB NOT NULL, form TEXT NOT NULL) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS link_source ON link (source);
    CREATE INDEX IF NOT EXISTS ready ON grain (waiting) WHERE new IS NULL;";

/// Grains that can't be converted keep their bytes, and so does all that they link to.
const KEEP_TARGETS: &str = "
    UPDATE grain SET kept = 'a grain that keeps its bytes links to it'
    WHERE kept IS NULL AND old IN (
        SELECT link.target FROM link JOIN grain AS source ON source.old = link.source
        WHERE source.kept IS NOT NULL)";

/// The counts of a migration.
const COUNTS: &str = "
    SELECT count(*), count(*) FILTER (WHERE new <> old), count(*) FILTER (WHERE kept IS NOT NULL),
           count(*) FILTER (WHERE signature = 'dropped'),
           count(*) FILTER (WHERE signature = 'renewed'),
           (SELECT count(*) FROM origin),
           (SELECT count(*) FROM origin JOIN grain ON grain.old = origin.new
            WHERE grain.new = origin.old),
           (SELECT count(*) FROM link JOIN grain AS target ON target.old = link.target
            WHERE target.new <> target.old),
           count(*) - count(DISTINCT new)
    FROM grain";

/// How far a migration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MigrationPhase {
    /// Grains are loaded.
    Loading,
    /// All are loaded, and converted after those that they link to.
    Converting,
    /// All are converted.
    Converted,
}

impl MigrationPhase {
    const fn name(self) -> &'static str {
        match self {
            MigrationPhase::Loading => "loading",
            MigrationPhase::Converting => "converting",
            MigrationPhase::Converted => "converted",
        }
    }
}

/// A grain to convert.
#[derive(Debug)]
pub(super) struct WorkItem {
    id: i64,
    pub(super) old: ContentAddress,
    pub(super) bytes: Vec<u8>,
    pub(super) form: Option<GrainForm>,
    pub(super) is_kept: bool,
    /// The new addresses of the grains that it links to.
    pub(super) targets: HashMap<ContentAddress, ContentAddress>,
    /// The address and the form that it had before an earlier migration, if that is undone.
    pub(super) origin: Option<(ContentAddress, GrainForm)>,
}

/// A row of the work file when all grains are converted.
#[derive(Debug)]
pub(super) struct MigratedGrain {
    pub(super) old: ContentAddress,
    pub(super) new: ContentAddress,
    pub(super) kept: Option<String>,
    pub(super) form: Option<GrainForm>,
    pub(super) signature: Option<String>,
    pub(super) bytes: Vec<u8>,
    /// The address that it had before an earlier migration, if that is undone.
    pub(super) expected: Option<ContentAddress>,
}

/// Counts of the grains in the work file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WorkCounts {
    pub(super) grains: u64,
    pub(super) changed: u64,
    pub(super) kept: u64,
    pub(super) signatures_dropped: u64,
    pub(super) signatures_renewed: u64,
    pub(super) to_restore: u64,
    pub(super) restored: u64,
    pub(super) links_rewritten: u64,
    pub(super) merged: u64,
}

/// The work file.
pub(super) struct WorkFile {
    path: PathBuf,
    connection: Connection,
}

impl WorkFile {
    /// Opens the work file at `path` of the migration described by `job`, or begins it anew if
    /// there is none or one of another migration. SQLite caches at most `memory` bytes.
    pub(super) fn open(path: &Path, job: &str, memory: usize) -> Result<WorkFile> {
        let mut work = WorkFile::connect(path, memory)?;
        if work.progress("job")?.as_deref() != Some(job) {
            drop(work);
            remove(path)?;
            work = WorkFile::connect(path, memory)?;
            work.note("job", job)?;
            work.enter(MigrationPhase::Loading)?;
        }
        Ok(work)
    }

    fn connect(path: &Path, memory: usize) -> Result<WorkFile> {
        let shown = path.display();
        let connection = Connection::open(path).file("can't open", &shown)?;
        let kibibytes = i64::try_from(memory / 1024).unwrap_or(i64::MAX);
        let settings = format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA temp_store = FILE;
             PRAGMA cache_size = -{kibibytes}; {SCHEMA}"
        );
        connection
            .execute_batch(&settings)
            .file("can't open", shown)?;
        Ok(WorkFile {
            path: path.to_owned(),
            connection,
        })
    }

    /// Returns true if the phase `phase` was reached, but no later one.
    pub(super) fn is_in(&self, phase: MigrationPhase) -> Result<bool> {
        Ok(self.progress("phase")?.as_deref() == Some(phase.name()))
    }

    /// Records that `phase` begins.
    pub(super) fn enter(&self, phase: MigrationPhase) -> Result<()> {
        self.note("phase", phase.name())
    }

    /// Returns the value that was noted under `name`.
    pub(super) fn progress(&self, name: &str) -> Result<Option<String>> {
        let query = "SELECT value FROM progress WHERE name = ?1";
        let value = self.connection.query_row(query, [name], |row| row.get(0));
        self.fault(value.optional())
    }

    /// Notes `value` under `name`.
    pub(super) fn note(&self, name: &str, value: &str) -> Result<()> {
        let statement = "INSERT OR REPLACE INTO progress VALUES (?1, ?2)";
        self.fault(self.connection.execute(statement, [name, value]))
            .map(drop)
    }

    /// Removes everything that was loaded.
    pub(super) fn clear(&self) -> Result<()> {
        let statements = "DELETE FROM grain; DELETE FROM link; DELETE FROM origin;";
        self.fault(self.connection.execute_batch(statements))
    }

    /// Adds grains with their delivered bytes. `analysis.addresses` are those of grains of the
    /// lake.
    pub(super) fn add(&mut self, grains: &[(ContentAddress, Vec<u8>, Analysis)]) -> Result<()> {
        let add = |connection: &mut Connection| -> rusqlite::Result<()> {
            let transaction = connection.transaction()?;
            {
                let mut grain = transaction.prepare_cached(
                    "INSERT INTO grain (old, waiting, kept, form, bytes) VALUES (?1, ?2, ?3, ?4, ?5)",
                )?;
                let mut link = transaction.prepare_cached("INSERT INTO link VALUES (?1, ?2)")?;
                for (old, bytes, analysis) in grains {
                    let waiting = analysis.addresses.len() as i64;
                    let form = text_of(analysis.form.as_ref());
                    grain.execute(params![old.as_bytes(), waiting, analysis.kept, form, bytes])?;
                    for target in &analysis.addresses {
                        link.execute(params![target.as_bytes(), old.as_bytes()])?;
                    }
                }
            }
            transaction.commit()
        };
        let added = add(&mut self.connection);
        self.fault(added)
    }

    /// Adds the addresses and forms of before an earlier migration: `(new, old, form)`.
    pub(super) fn add_origins(
        &mut self,
        origins: &[(ContentAddress, ContentAddress, GrainForm)],
    ) -> Result<()> {
        let add = |connection: &mut Connection| -> rusqlite::Result<()> {
            let transaction = connection.transaction()?;
            for (new, old, form) in origins {
                transaction
                    .prepare_cached("INSERT OR REPLACE INTO origin VALUES (?1, ?2, ?3)")?
                    .execute(params![new.as_bytes(), old.as_bytes(), text_of(Some(form))])?;
            }
            transaction.commit()
        };
        let added = add(&mut self.connection);
        self.fault(added)
    }

    /// Extends what keeps its bytes to everything that it links to.
    pub(super) fn keep_targets(&self) -> Result<()> {
        while self.fault(self.connection.execute(KEEP_TARGETS, []))? > 0 {}
        Ok(())
    }

    /// Returns up to `limit` grains whose links all have new addresses, with about `bytes` bytes at
    /// most. None if all are converted.
    pub(super) fn ready(&self, limit: usize, bytes: usize) -> Result<Vec<WorkItem>> {
        let ready = || -> rusqlite::Result<Vec<WorkItem>> {
            let mut statement = self.connection.prepare_cached(
                "SELECT id, old, bytes, form, kept IS NOT NULL FROM grain
                 WHERE new IS NULL AND waiting = 0 LIMIT ?1",
            )?;
            let mut rows = statement.query([limit as i64])?;
            let (mut items, mut held) = (Vec::new(), 0);
            while let Some(row) = rows.next()? {
                let item = item_of(row)?;
                held += item.bytes.len();
                items.push(self.completed(item)?);
                if held > bytes {
                    break;
                }
            }
            Ok(items)
        };
        self.fault(ready())
    }

    /// Adds the new addresses of the links of `item`, and its origin.
    fn completed(&self, mut item: WorkItem) -> rusqlite::Result<WorkItem> {
        let mut targets = self.connection.prepare_cached(
            "SELECT grain.old, grain.new FROM link JOIN grain ON grain.old = link.target
             WHERE link.source = ?1",
        )?;
        let pairs = targets.query_map([item.old.as_bytes()], |row| {
            Ok((address(row.get(0)?), address(row.get(1)?)))
        })?;
        item.targets = pairs.collect::<rusqlite::Result<_>>()?;
        let mut origin = self
            .connection
            .prepare_cached("SELECT old, form FROM origin WHERE new = ?1")?;
        let found = origin
            .query_row([item.old.as_bytes()], |row| {
                Ok((address(row.get(0)?), form_of(row.get(1)?)))
            })
            .optional()?;
        item.origin = found.and_then(|(old, form)| Some((old, form?)));
        Ok(item)
    }

    /// Stores the results of `items`: converted grains, or the reason why one keeps its bytes.
    pub(super) fn store(&mut self, results: &[(WorkItem, Option<Converted>, bool)]) -> Result<()> {
        let store = |connection: &mut Connection| -> rusqlite::Result<()> {
            let transaction = connection.transaction()?;
            for (item, converted, is_signed) in results {
                let (new, bytes) = match converted {
                    Some(converted) => (&converted.address, &converted.bytes),
                    None => (&item.old, &item.bytes),
                };
                let had_signature = converted.as_ref().is_some_and(|new| new.had_signature);
                let signature = had_signature.then_some(match is_signed {
                    true => "renewed",
                    false => "dropped",
                });
                transaction
                    .prepare_cached(
                        "UPDATE grain SET new = ?2, bytes = ?3, signature = ?4 WHERE id = ?1",
                    )?
                    .execute(params![item.id, new.as_bytes(), bytes, signature])?;
                transaction
                    .prepare_cached(
                        "UPDATE grain SET waiting = waiting - 1
                         WHERE old IN (SELECT source FROM link WHERE target = ?1)",
                    )?
                    .execute([item.old.as_bytes()])?;
            }
            transaction.commit()
        };
        let stored = store(&mut self.connection);
        self.fault(stored)
    }

    /// Returns the number of grains without a new address.
    pub(super) fn unconverted(&self) -> Result<u64> {
        let query = "SELECT count(*) FROM grain WHERE new IS NULL";
        self.fault(self.connection.query_row(query, [], |row| number(row, 0)))
    }

    /// Returns the new address of the grain `old`, if the lake has it.
    pub(super) fn new_address(&self, old: &ContentAddress) -> Result<Option<ContentAddress>> {
        let find = || {
            self.connection
                .prepare_cached("SELECT new FROM grain WHERE old = ?1")?
                .query_row([old.as_bytes()], |row| row.get::<_, Option<Vec<u8>>>(0))
                .optional()
        };
        Ok(self.fault(find())?.flatten().map(address))
    }

    /// Calls `visit` with every grain, in the order in which they were loaded.
    pub(super) fn each(&self, mut visit: impl FnMut(MigratedGrain) -> Result<()>) -> Result<()> {
        let mut statement = self.fault(self.connection.prepare(
            "SELECT grain.old, grain.new, kept, grain.form, signature, bytes, origin.old
             FROM grain LEFT JOIN origin ON origin.new = grain.old ORDER BY id",
        ))?;
        let mut rows = self.fault(statement.query([]))?;
        while let Some(row) = self.fault(rows.next())? {
            visit(self.fault(migrated_grain(row))?)?;
        }
        Ok(())
    }

    /// Returns the counts.
    pub(super) fn counts(&self) -> Result<WorkCounts> {
        let counts = self.connection.query_row(COUNTS, [], |row| {
            Ok(WorkCounts {
                grains: number(row, 0)?,
                changed: number(row, 1)?,
                kept: number(row, 2)?,
                signatures_dropped: number(row, 3)?,
                signatures_renewed: number(row, 4)?,
                to_restore: number(row, 5)?,
                restored: number(row, 6)?,
                links_rewritten: number(row, 7)?,
                merged: number(row, 8)?,
            })
        });
        self.fault(counts)
    }

    /// Returns the reasons why grains keep their bytes, with their numbers.
    pub(super) fn reasons(&self) -> Result<BTreeMap<String, u64>> {
        let reasons = || {
            self.connection
                .prepare("SELECT kept, count(*) FROM grain WHERE kept IS NOT NULL GROUP BY kept")?
                .query_map([], |row| Ok((row.get(0)?, number(row, 1)?)))?
                .collect()
        };
        self.fault(reasons())
    }

    /// Closes and removes the file.
    pub(super) fn finish(self) -> Result<()> {
        let WorkFile { path, connection } = self;
        drop(connection);
        remove(&path)
    }

    fn fault<T>(&self, result: rusqlite::Result<T>) -> Result<T> {
        result.file("can't use the work file", self.path.display())
    }
}

/// Removes the database `path` with its journals, if it exists.
fn remove(path: &Path) -> Result<()> {
    for ending in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        match std::fs::remove_file(&name) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed.file("can't remove", path.display())?,
        }
    }
    Ok(())
}

fn number(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.max(0) as u64)
}

/// Returns the grain in a row of [`WorkFile::ready`], without its targets and its origin.
fn item_of(row: &Row<'_>) -> rusqlite::Result<WorkItem> {
    Ok(WorkItem {
        id: row.get(0)?,
        old: address(row.get(1)?),
        bytes: row.get(2)?,
        form: form_of(row.get(3)?),
        is_kept: row.get(4)?,
        targets: HashMap::new(),
        origin: None,
    })
}

/// Returns the grain in a row of [`WorkFile::each`].
fn migrated_grain(row: &Row<'_>) -> rusqlite::Result<MigratedGrain> {
    Ok(MigratedGrain {
        old: address(row.get(0)?),
        new: address(row.get(1)?),
        kept: row.get(2)?,
        form: form_of(row.get(3)?),
        signature: row.get(4)?,
        bytes: row.get(5)?,
        expected: row.get::<_, Option<Vec<u8>>>(6)?.map(address),
    })
}

fn address(bytes: Vec<u8>) -> ContentAddress {
    ContentAddress::from_digest(bytes.try_into().unwrap_or([0; 32]))
}

fn text_of(form: Option<&GrainForm>) -> Option<String> {
    form.and_then(|form| serde_json::to_string(form).ok())
}

fn form_of(text: Option<String>) -> Option<GrainForm> {
    serde_json::from_str(&text?).ok()
}

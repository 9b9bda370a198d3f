//! The table `erased`: tombstones of erased grains, so that a later import doesn't restore them.
//!
//! A row is a [`Tombstone`] with its key, both in hex, the id of the erasure and its time.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::TimestampMicrosecondType;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::erased_schema;

use super::Lake;
use super::records::text;
use super::table::{Change, DataFile};
use crate::error::{Context, Result};
use crate::keys::{Tombstone, TombstoneSet, random};

/// The name of the table of tombstones.
pub const ERASED: &str = "erased";

/// The action in the audit log under which tombstones of another lake are added. Their erasures
/// have certificates there, and none here.
pub(crate) const ADOPTED: &str = "changes-erased";

/// How often a commit is retried after commits of other writers.
const ATTEMPTS: usize = 20;

fn digest_of(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    hex::decode_to_slice(text, &mut digest).ok()?;
    Some(digest)
}

fn tombstone_at(batch: &RecordBatch, row: usize) -> Option<Tombstone> {
    let digest = |name| text(batch, name, row).and_then(digest_of);
    Some(Tombstone {
        key: digest("key")?,
        token: digest("token")?,
    })
}

fn tombstones_of_rows(batch: &RecordBatch) -> impl Iterator<Item = Tombstone> + '_ {
    (0..batch.num_rows()).filter_map(|row| tombstone_at(batch, row))
}

/// A row of `erased`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ErasedRow {
    pub(crate) tombstone: Tombstone,
    /// The erasure.
    pub(crate) erasure_id: String,
    /// When it was, in microseconds since 1970.
    pub(crate) at: i64,
}

/// Returns the rows of the `tombstones` of one erasure.
fn rows_of(tombstones: Vec<Tombstone>, erasure_id: &str, now: i64) -> Result<RecordBatch> {
    let row = |tombstone| ErasedRow {
        tombstone,
        erasure_id: erasure_id.to_owned(),
        at: now,
    };
    batch_of(tombstones.into_iter().map(row).collect())
}

fn batch_of(mut rows: Vec<ErasedRow>) -> Result<RecordBatch> {
    // In the order of the tokens, which reveals nothing about the order of the erased grains.
    rows.sort_unstable();
    let texts = |part: fn(&Tombstone) -> &[u8; 32]| -> ArrayRef {
        let digits = rows.iter().map(|row| hex::encode(part(&row.tombstone)));
        Arc::new(StringArray::from_iter_values(digits))
    };
    let instants = TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.at));
    let columns: Vec<ArrayRef> = vec![
        texts(|tombstone| &tombstone.key),
        texts(|tombstone| &tombstone.token),
        Arc::new(StringArray::from_iter_values(
            rows.iter().map(|row| &row.erasure_id),
        )),
        Arc::new(instants.with_timezone("UTC")),
    ];
    RecordBatch::try_new(erased_schema(), columns).file("can't write", ERASED)
}

impl Lake {
    /// Returns the tombstones of the version that this handle sees.
    ///
    /// # Errors
    /// [`EngineError::Damaged`](crate::error::EngineError::Damaged) if a data file isn't what was
    /// written: erased grains could be admitted again.
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub async fn tombstone_set(&self) -> Result<TombstoneSet> {
        let mut tombstones = Vec::new();
        for batch in self.erased.read_checked(&["key", "token"]).await? {
            for row in 0..batch.num_rows() {
                let tombstone = tombstone_at(&batch, row).ok_or("a token isn't 64 hex digits");
                tombstones.push(tombstone.file("can't read", ERASED)?);
            }
        }
        Ok(tombstones.into_iter().collect())
    }

    /// Returns the tombstones in the data file `file`, which must be what was written.
    ///
    /// # Errors
    /// [`EngineError::Damaged`](crate::error::EngineError::Damaged),
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(crate) async fn tombstones_in(&self, file: &DataFile) -> Result<Vec<Tombstone>> {
        let rows = self
            .erased
            .read_checked_file(file, &["key", "token"])
            .await?;
        Ok(rows.iter().flat_map(tombstones_of_rows).collect())
    }

    /// Returns the rows in the data file `file`, which must be what was written.
    ///
    /// # Errors
    /// As [`Lake::tombstone_set`].
    pub(crate) async fn erased_rows_in(&self, file: &DataFile) -> Result<Vec<ErasedRow>> {
        let columns = ["key", "token", "erasure_id", "at"];
        let mut rows = Vec::new();
        for batch in self.erased.read_checked_file(file, &columns).await? {
            let instants = batch.column(3).as_primitive::<TimestampMicrosecondType>();
            for row in 0..batch.num_rows() {
                let tombstone = tombstone_at(&batch, row).ok_or("a token isn't 64 hex digits");
                rows.push(ErasedRow {
                    tombstone: tombstone.file("can't read", ERASED)?,
                    erasure_id: text(&batch, "erasure_id", row)
                        .unwrap_or_default()
                        .to_owned(),
                    at: instants.value(row),
                });
            }
        }
        Ok(rows)
    }

    /// Adds those of `rows`, which come from the lake `other`, whose tombstones this lake doesn't
    /// have, after an entry of the audit log with their erasures. Returns their number.
    ///
    /// # Errors
    /// As [`Lake::add_tombstones`].
    pub(crate) async fn adopt_tombstones(
        &mut self,
        other: &str,
        mut rows: Vec<ErasedRow>,
    ) -> Result<u64> {
        if rows.is_empty() {
            return Ok(0);
        }
        self.erased.refresh().await?;
        let known = self.tombstones().await?;
        rows.retain(|row| !known.contains(&row.tombstone));
        if rows.is_empty() {
            // The process that added them may have been killed before this.
            self.outdate_judged_rows().await?;
            return Ok(0);
        }
        let count = rows.len() as u64;
        let erasures: BTreeSet<&str> = rows.iter().map(|row| row.erasure_id.as_str()).collect();
        let details = serde_json::json!({ "lake": other, "erasures": erasures });
        self.record(ADOPTED, details).await?;
        let change = Change::of_new_rows(self.erased.write_file(&batch_of(rows)?).await?);
        self.erased.commit(change, "changes", ATTEMPTS).await?;
        self.outdate_judged_rows().await?;
        self.load_tombstones().await;
        Ok(count)
    }

    /// Writes `lost`, tombstones by their erasures, and removes `damaged` from the table, in one
    /// commit.
    ///
    /// # Errors
    /// As [`Lake::add_tombstones`].
    pub(crate) async fn restore_tombstones(
        &mut self,
        lost: Vec<(String, Vec<Tombstone>)>,
        damaged: Vec<DataFile>,
    ) -> Result<()> {
        let now = chrono::Utc::now().timestamp_micros();
        let mut change = Change {
            removed: damaged,
            changes_rows: true,
            ..Change::default()
        };
        for (erasure_id, tombstones) in lost {
            change.added.push(
                self.erased
                    .write_file(&rows_of(tombstones, &erasure_id, now)?)
                    .await?,
            );
        }
        self.erased.commit(change, "repair", 0).await.map(drop)
    }

    /// Returns the tombstones of those of `addresses` that were erased, and of those that these
    /// grains had before migrations.
    ///
    /// # Errors
    /// As [`Lake::tombstone_set`].
    pub(crate) async fn tombstones_of(
        &self,
        addresses: &[ContentAddress],
    ) -> Result<Vec<Tombstone>> {
        let known = self.tombstone_set().await?;
        let former = self.former_tombstones(addresses).await?;
        let of_addresses = addresses.iter().flat_map(|address| known.of(address));
        let of_former = former.into_iter().filter(|former| known.has(former));
        let found: BTreeSet<Tombstone> = of_addresses.chain(of_former).collect();
        Ok(found.into_iter().collect())
    }

    /// Returns all tombstones, also those of data files that aren't what was written.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(crate) async fn tombstones(&self) -> Result<HashSet<Tombstone>> {
        let mut tombstones = HashSet::new();
        for batch in self.erased.read_columns(&["key", "token"]).await? {
            tombstones.extend(tombstones_of_rows(&batch));
        }
        Ok(tombstones)
    }

    /// Returns all tombstones by the names of their erasures, also those of data files that aren't
    /// what was written.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(crate) async fn tombstones_by_erasure(
        &self,
    ) -> Result<HashMap<String, HashSet<Tombstone>>> {
        let columns = ["key", "token", "erasure_id"];
        let mut found: HashMap<String, HashSet<Tombstone>> = HashMap::new();
        for batch in self.erased.read_columns(&columns).await? {
            for row in 0..batch.num_rows() {
                let id = text(&batch, "erasure_id", row).unwrap_or_default();
                if let Some(tombstone) = tombstone_at(&batch, row) {
                    found.entry(id.to_owned()).or_default().insert(tombstone);
                }
            }
        }
        Ok(found)
    }

    /// Returns the names of the erasures that have tombstones.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(crate) async fn erasure_ids(&self) -> Result<HashSet<String>> {
        let mut ids = HashSet::new();
        for batch in self.erased.read_columns(&["erasure_id"]).await? {
            ids.extend(
                (0..batch.num_rows())
                    .filter_map(|row| text(&batch, "erasure_id", row).map(str::to_owned)),
            );
        }
        Ok(ids)
    }

    /// Returns tombstones of those of `addresses` that have none yet, and of their addresses before
    /// migrations, each once.
    async fn new_tombstones(&self, addresses: &[ContentAddress]) -> Result<Vec<Tombstone>> {
        let known = self.tombstone_set().await?;
        let key = known.key().unwrap_or_else(random);
        let mut fresh: HashSet<Tombstone> = addresses
            .iter()
            .filter(|address| !known.contains(address))
            .map(|address| Tombstone::new(key, address))
            .collect();
        let former = self.former_tombstones(addresses).await?;
        fresh.extend(former.into_iter().filter(|former| !known.has(former)));
        Ok(fresh.into_iter().collect())
    }

    /// Adds tombstones of `addresses`, and of those that these grains had before migrations, which
    /// the lake refuses from now on. Existing tombstones aren't added again. Returns how many were
    /// added.
    ///
    /// # Errors
    /// [`EngineError::Conflict`](crate::error::EngineError::Conflict),
    /// [`EngineError::File`](crate::error::EngineError::File),
    /// [`EngineError::Delta`](crate::error::EngineError::Delta).
    pub async fn add_tombstones(
        &mut self,
        addresses: &[ContentAddress],
        erasure_id: &str,
        now: i64,
    ) -> Result<usize> {
        self.erased.refresh().await?;
        let tombstones = self.new_tombstones(addresses).await?;
        let count = tombstones.len();
        if !tombstones.is_empty() {
            let rows = rows_of(tombstones, erasure_id, now)?;
            let change = Change::of_new_rows(self.erased.write_file(&rows).await?);
            self.erased.commit(change, "erase", ATTEMPTS).await?;
        }
        if !addresses.is_empty() {
            self.outdate_judged_rows().await?;
        }
        Ok(count)
    }

    /// Commits versions of `state` and `rejects` without changes: rows that another process has
    /// judged by the tombstones before, and not committed yet, are judged again.
    async fn outdate_judged_rows(&mut self) -> Result<()> {
        for table in [&mut self.state, &mut self.rejects] {
            table.refresh().await?;
            table.commit(Change::default(), "erase", ATTEMPTS).await?;
        }
        Ok(())
    }
}

//! Which grains were erased: keyed hashes of their addresses, so that a later import doesn't bring
//! them back.
//!
//! A row is a token: BLAKE3 of the address, keyed with the lake's own key, which stands beside it.
//! The tokens of two lakes can't be compared, and no token tells an address.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use gristmill_schemas::address::ContentAddress;

use super::Lake;
use super::records::text;
use super::table::{Change, DataFile};
use crate::error::{Context, EngineError, Result};
use crate::keys::random;

/// The table of tokens.
pub const ERASED: &str = "erased";

/// How often a commit is put behind those of other writers.
const ATTEMPTS: usize = 20;

/// The schema of `erased`.
pub(crate) fn erased_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("token", DataType::Utf8, false),
        Field::new("erasure_id", DataType::Utf8, false),
        Field::new(
            "at",
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            false,
        ),
    ]))
}

/// The grains that a lake refuses because they were erased. Look-ups take one short hash, and
/// nothing if there are none.
#[derive(Debug, Clone, Default)]
pub struct ErasedGrains {
    /// Tokens by key. There is one key, unless two first erasures ran at the same time.
    tokens: Arc<HashMap<[u8; 32], HashSet<[u8; 32]>>>,
}

impl ErasedGrains {
    /// The tokens of `lake`, as far as its handle sees.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] if a data file isn't what was written: what was erased could come
    /// back. [`EngineError::File`].
    pub async fn load(lake: &Lake) -> Result<ErasedGrains> {
        let mut tokens: HashMap<[u8; 32], HashSet<[u8; 32]>> = HashMap::new();
        for batch in lake.erased.read_checked(&["key", "token"]).await? {
            for row in 0..batch.num_rows() {
                let digest = |name| text(&batch, name, row).and_then(digest_of);
                let (key, token) = digest("key")
                    .zip(digest("token"))
                    .ok_or("a token isn't 64 hex digits")
                    .map_err(|what: &str| EngineError::File {
                        what: "can't read",
                        path: ERASED.to_owned(),
                        cause: what.into(),
                    })?;
                tokens.entry(key).or_default().insert(token);
            }
        }
        Ok(ErasedGrains {
            tokens: Arc::new(tokens),
        })
    }

    /// True if nothing was erased.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// True if the grain called `address` was erased.
    pub fn contains(&self, address: &ContentAddress) -> bool {
        self.tokens
            .iter()
            .any(|(key, tokens)| tokens.contains(&token_of(key, address)))
    }

    fn key(&self) -> Option<[u8; 32]> {
        self.tokens.keys().min().copied()
    }
}

fn token_of(key: &[u8; 32], address: &ContentAddress) -> [u8; 32] {
    *blake3::keyed_hash(key, address.as_bytes()).as_bytes()
}

fn digest_of(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    hex::decode_to_slice(text, &mut digest).ok()?;
    Some(digest)
}

/// A row of `erased`, without what it says of its erasure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tombstone {
    /// The lake's key.
    pub(crate) key: [u8; 32],
    /// The keyed hash of an address.
    pub(crate) token: [u8; 32],
}

fn tombstones_of_rows(batch: &RecordBatch) -> Vec<Tombstone> {
    let digest = |name, row| text(batch, name, row).and_then(digest_of);
    let of_row = |row| {
        Some(Tombstone {
            key: digest("key", row)?,
            token: digest("token", row)?,
        })
    };
    (0..batch.num_rows()).filter_map(of_row).collect()
}

/// Returns the rows of `tombstones`.
fn rows_of(mut tombstones: Vec<Tombstone>, erasure_id: &str, now: i64) -> Result<RecordBatch> {
    // In the order of the tokens, which says nothing about the order of what was erased.
    tombstones.sort_unstable();
    let texts = |part: fn(&Tombstone) -> &[u8; 32]| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(
            tombstones
                .iter()
                .map(|tombstone| hex::encode(part(tombstone))),
        ))
    };
    let columns: Vec<ArrayRef> = vec![
        texts(|tombstone| &tombstone.key),
        texts(|tombstone| &tombstone.token),
        Arc::new(StringArray::from_iter_values(
            tombstones.iter().map(|_| erasure_id),
        )),
        Arc::new(TimestampMicrosecondArray::from_value(now, tombstones.len()).with_timezone("UTC")),
    ];
    RecordBatch::try_new(erased_schema(), columns).file("can't write", ERASED)
}

impl Lake {
    /// Returns the tombstones in the data file `file`, which must be what was written.
    ///
    /// # Errors
    /// [`EngineError::Damaged`], [`EngineError::File`].
    pub(crate) async fn tombstones_in(&self, file: &DataFile) -> Result<Vec<Tombstone>> {
        let rows = self
            .erased
            .read_checked_file(file, &["key", "token"])
            .await?;
        Ok(rows.iter().flat_map(tombstones_of_rows).collect())
    }

    /// Writes `lost`, tombstones by their erasures, and takes `damaged` out of the table, in one
    /// commit.
    ///
    /// # Errors
    /// As [`Lake::refuse_from_now_on`].
    pub(crate) async fn put_tombstones_back(
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

    /// Returns the tombstones that refuse `addresses`, as far as there are any.
    ///
    /// # Errors
    /// As [`ErasedGrains::load`].
    pub(crate) async fn tombstones_of(
        &self,
        addresses: &[ContentAddress],
    ) -> Result<Vec<Tombstone>> {
        let known = ErasedGrains::load(self).await?;
        let tombstones = addresses.iter().flat_map(|address| {
            let of_key = |(key, tokens): (&[u8; 32], &HashSet<[u8; 32]>)| {
                let token = token_of(key, address);
                tokens
                    .contains(&token)
                    .then_some(Tombstone { key: *key, token })
            };
            known.tokens.iter().filter_map(of_key)
        });
        Ok(tombstones.collect())
    }

    /// Returns all tombstones, also those of data files that aren't what was written.
    ///
    /// # Errors
    /// [`EngineError::File`].
    pub(crate) async fn tombstones(&self) -> Result<HashSet<Tombstone>> {
        let mut tombstones = HashSet::new();
        for batch in self.erased.read_columns(&["key", "token"]).await? {
            tombstones.extend(tombstones_of_rows(&batch));
        }
        Ok(tombstones)
    }

    /// Returns the names of the erasures that have tombstones.
    ///
    /// # Errors
    /// [`EngineError::File`].
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

    /// Refuses `addresses` from now on. Those that are refused already aren't added again.
    ///
    /// # Errors
    /// [`EngineError::Conflict`], [`EngineError::File`], [`EngineError::Delta`].
    pub async fn refuse_from_now_on(
        &mut self,
        addresses: &[ContentAddress],
        erasure_id: &str,
        now: i64,
    ) -> Result<usize> {
        self.erased.refresh().await?;
        let known = ErasedGrains::load(self).await?;
        let key = known.key().unwrap_or_else(random);
        let fresh: HashSet<[u8; 32]> = addresses
            .iter()
            .filter(|address| !known.contains(address))
            .map(|address| token_of(&key, address))
            .collect();
        if fresh.is_empty() {
            return Ok(0);
        }
        let tombstones: Vec<_> = fresh
            .into_iter()
            .map(|token| Tombstone { key, token })
            .collect();
        let count = tombstones.len();
        let file = self
            .erased
            .write_file(&rows_of(tombstones, erasure_id, now)?)
            .await?;
        let change = Change {
            added: vec![file],
            changes_rows: true,
            ..Change::default()
        };
        self.erased.commit(change, "erase", ATTEMPTS).await?;
        Ok(count)
    }
}

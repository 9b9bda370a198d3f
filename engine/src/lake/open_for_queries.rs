//! Opening a lake for a process that only queries it: the tables that most queries don't read are
//! opened when a query reads them. Opening a lake that has lost segments, for what doesn't read
//! them.

use std::sync::Arc;

use gristmill_schemas::columns::{REJECTS, SOURCES, STATE, state_schema};

use super::heads::Heads;
use super::open_table::{existing_location, open_table, table_lost};
use super::{AUDIT, ERASED, Lake, LakeLocation, Table, encryption, open_checks};
use crate::error::{EngineError, Result};

impl Lake {
    /// Opens the lake at `uri` for queries. The logs of `grains` and `state` are read, and compared
    /// with the heads as by [`Lake::open`]; that of `erased` only if the lake is encrypted.
    /// [`Lake::opened`] opens the others. The handle isn't for commands that write.
    ///
    /// # Errors
    /// As [`Lake::open`].
    pub async fn open_for_queries(uri: &str) -> Result<Lake> {
        Self::open_for_queries_at(existing_location(uri)?).await
    }

    /// Opens the lake at `location` for queries.
    ///
    /// # Errors
    /// As [`Lake::open`].
    pub async fn open_for_queries_at(location: LakeLocation) -> Result<Lake> {
        let (heads, grains) = Self::open_grains(&location).await?;
        // Tables of a lake that was just created may be missing: they are created.
        if heads.is_none() || grains.version() == 0 {
            return Self::with_grains(location, grains, heads).await;
        }
        Self::check_format(&location, &grains)?;
        if let Some(heads) = &heads {
            open_checks::check_encryption(&location, heads).await?;
        }
        let (state, encryption) = tokio::join!(
            open_table(&location, false, STATE, state_schema(), "at"),
            encryption::Encryption::load(&location),
        );
        let unopened = |name| Table::unopened(&location, name);
        let mut lake = Lake {
            grains,
            state: state?,
            rejects: unopened(REJECTS)?,
            sources: Some(unopened(SOURCES)?),
            audit: unopened(AUDIT)?,
            erased: unopened(ERASED)?,
            segment_caches: Arc::default(),
            encryption: encryption?,
            operator: None,
            location,
        };
        lake.find_marker().await?;
        if lake.is_encrypted() {
            lake.erased = lake.opened_or_lost(ERASED).await?;
        }
        for table in [&mut lake.grains, &mut lake.state] {
            open_checks::check_table(table, heads.as_ref()).await?;
        }
        lake.load_tombstones().await;
        Ok(lake)
    }

    /// Opens the lake at `uri` as [`Lake::open`] does, but also if nothing else is damaged than
    /// data files of `grains` that are missing or have another size. Their damage is returned with
    /// the handle. The logs and the rows of the other tables can be read; what reads rows of
    /// `grains` must fail with the damage instead.
    ///
    /// # Errors
    /// As [`Lake::open`].
    pub async fn open_despite_lost_segments(uri: &str) -> Result<(Lake, Option<EngineError>)> {
        let location = existing_location(uri)?;
        let (heads, grains) = Self::open_grains(&location).await?;
        Self::with_grains_or_lost(location, grains, heads).await
    }

    /// Returns `table` of this handle, which is opened and compared with the heads if it wasn't
    /// yet; `None` if the lake has no such table, as lakes of earlier formats have no `sources`.
    ///
    /// # Errors
    /// As [`Lake::open`].
    pub async fn opened(&self, table: &Table) -> Result<Option<Table>> {
        if table.is_opened() {
            return Ok(Some(table.clone()));
        }
        let location = self.location();
        // Read before the log, which may be ahead.
        let heads = Heads::load(location).await?;
        let Some(mut opened) = Table::open(location, table.name()).await? else {
            let lost = table_lost(location, table.name(), heads.as_ref());
            return lost.map_or(Ok(None), Err);
        };
        open_checks::check_table(&mut opened, heads.as_ref()).await?;
        Ok(Some(opened))
    }

    async fn opened_or_lost(&self, name: &'static str) -> Result<Table> {
        let location = self.location();
        let lost = || EngineError::TableLost {
            uri: location.name(),
            table: name,
        };
        let unopened = Table::unopened(location, name)?;
        self.opened(&unopened).await?.ok_or_else(lost)
    }
}

//! Opening each table of a lake, and creating those of a new one.

use arrow::datatypes::SchemaRef;
use gristmill_schemas::columns::{GRAINS, SOURCES, grains_schema, sources_schema};

use super::heads::Heads;
use super::{LakeLocation, Table, empty_location, table};
use crate::error::{EngineError, Result};

/// Opens or creates the table `grains`. It is the first table of a new lake: if any other exists, a
/// process that creates the lake at the same time has created this one already.
pub(super) async fn grains_opened_or_created(
    location: &LakeLocation,
    heads: Option<&Heads>,
) -> Result<Table> {
    // Opening a table creates its folder, so the location is checked first.
    if !location.may_have(GRAINS) {
        let vacant = empty_location::check(location).await;
        if !location.may_have(GRAINS) {
            vacant?;
        }
    }
    if let Some(table) = Table::open(location, GRAINS).await? {
        return Ok(table);
    }
    if let Some(lost) = table_lost(location, GRAINS, heads) {
        return Err(lost);
    }
    match empty_location::check(location).await {
        Ok(()) => {
            // The heads are created first. From then on, missing heads are damage.
            Heads::create(location).await?;
            Table::create(
                location,
                GRAINS,
                grains_schema(),
                &table::statistics_columns(),
            )
            .await
        }
        Err(error) => Table::open(location, GRAINS).await?.ok_or(error),
    }
}

/// Returns the error of a lake whose table `name` is missing although `heads` contains it.
pub(super) fn table_lost(
    location: &LakeLocation,
    name: &'static str,
    heads: Option<&Heads>,
) -> Option<EngineError> {
    let known = heads.is_some_and(|heads| heads.tables.contains_key(name));
    known.then(|| EngineError::TableLost {
        uri: location.name(),
        table: name,
    })
}

/// Opens the table `name`. A process that was killed while it created the lake may not have created
/// it. If anything was written to the lake, a missing table was lost, and without it erased grains
/// would come back.
pub(super) async fn open_table(
    location: &LakeLocation,
    is_new: bool,
    name: &'static str,
    schema: SchemaRef,
    statistics: &str,
) -> Result<Table> {
    match is_new {
        true => open_or_create(location, name, schema, statistics).await,
        false => {
            let lost = || EngineError::TableLost {
                uri: location.name(),
                table: name,
            };
            Table::open(location, name).await?.ok_or_else(lost)
        }
    }
}

/// Opens the table `sources`. Lakes of earlier formats have none until something is ingested.
pub(super) async fn open_sources(
    location: &LakeLocation,
    is_new: bool,
    heads: Option<&Heads>,
) -> Result<Option<Table>> {
    if is_new {
        return open_or_create(location, SOURCES, sources_schema(), "at")
            .await
            .map(Some);
    }
    let table = Table::open(location, SOURCES).await?;
    match table_lost(location, SOURCES, heads).filter(|_| table.is_none()) {
        Some(lost) => Err(lost),
        None => Ok(table),
    }
}

pub(super) async fn open_or_create(
    location: &LakeLocation,
    name: &'static str,
    schema: SchemaRef,
    statistics: &str,
) -> Result<Table> {
    match Table::open(location, name).await? {
        Some(table) => Ok(table),
        None => Table::create(location, name, schema, statistics).await,
    }
}

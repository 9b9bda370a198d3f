//! Opening each table of a lake, and creating those of a new one.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::Path;

use arrow::datatypes::SchemaRef;
use gristmill_connectors::storage::has_scheme;
use gristmill_schemas::columns::{GRAINS, SOURCES, grains_schema, sources_schema};

use super::heads::{HEADS, Heads};
use super::{LakeLocation, Table, empty_location, table};
use crate::error::{Context, EngineError, Result};

/// Returns the location of the lake at `uri`, without creating a folder.
///
/// # Errors
/// [`EngineError::NoLake`] if a folder has neither the table `grains` nor the heads of a lake that
/// has lost it; [`EngineError::File`] if the folder can't be read.
pub(super) fn existing_location(uri: &str) -> Result<LakeLocation> {
    // With a scheme, the location of a missing folder would create it.
    let uri = uri.strip_prefix("file://").unwrap_or(uri);
    if has_scheme(uri) {
        return LakeLocation::new(uri);
    }
    let folder = Path::new(uri);
    let has_grains = found_at(&folder.join(GRAINS))?.is_some_and(|found| found.is_dir());
    match has_grains || found_at(&folder.join(HEADS))?.is_some() {
        true => LakeLocation::new(uri),
        false => Err(EngineError::NoLake(uri.to_owned())),
    }
}

/// Returns what is at `path`, or `None` if nothing is there.
fn found_at(path: &Path) -> Result<Option<Metadata>> {
    match std::fs::metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        refused => refused.map(Some).file("can't open", path.display()),
    }
}

/// Opens the table `grains` of an existing lake.
///
/// # Errors
/// [`EngineError::TableLost`] if `heads` contain it and it is missing; [`EngineError::NoLake`] if
/// there is none.
pub(super) async fn open_existing_grains(
    location: &LakeLocation,
    heads: Option<&Heads>,
) -> Result<Table> {
    let grains = Table::open(location, GRAINS).await?;
    grains.ok_or_else(|| {
        table_lost(location, GRAINS, heads).unwrap_or_else(|| EngineError::NoLake(location.name()))
    })
}

/// Opens or creates the table `grains`. It is the first table of a new lake: if any other exists, a
/// process that creates the lake at the same time has created this one already.
pub(super) async fn grains_opened_or_created(
    location: &LakeLocation,
    heads: Option<&Heads>,
) -> Result<Table> {
    // A folder of something else is refused first, whatever its heads are.
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

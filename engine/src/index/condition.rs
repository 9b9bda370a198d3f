//! Which sidecars the segments of a lake have, and in which condition they are.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use futures::{StreamExt, TryStreamExt, stream};
use gristmill_connectors::source::SourceBytes;

use super::fulltext::{DamagedText, SegmentText};
use super::hexastore::Hexastore;
use super::sidecars::Sidecar;
use super::vectors::{VectorIndex, files_of};
use super::words::{DamagedFilter, WordFilter};
use crate::error::{Context, Result};
use crate::lake::{Lake, Segment};
use crate::segment::AddressIndex;

/// The condition of a sidecar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// It is whole and fits its segment.
    Fresh,
    /// There is none.
    Missing,
    /// It isn't what was written.
    Damaged,
    /// It is of other rows than the segment's, or was made by other rules.
    Stale,
}

impl Condition {
    /// One word.
    pub const fn name(self) -> &'static str {
        match self {
            Condition::Fresh => "fresh",
            Condition::Missing => "missing",
            Condition::Damaged => "damaged",
            Condition::Stale => "stale",
        }
    }
}

/// One sidecar that a segment has or should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SidecarState {
    /// The segment's name.
    pub segment: String,
    /// What it is: `addresses`, `hexastore`, `fulltext`, `words`, `vectors:` and the model.
    pub index: String,
    /// How it is.
    pub condition: Condition,
    /// Its bytes, if it is there.
    pub bytes: Option<u64>,
}

/// Segments whose sidecars are read at the same time.
const READING: usize = 4;

/// Every sidecar that the segments of `lake` have or should have: addresses of each, hexastore, full text and words of each that
/// isn't sealed, and vectors of every model of which some segment has any. Reads all of each.
///
/// # Errors
/// [`EngineError::Delta`](crate::error::EngineError::Delta), [`EngineError::File`](crate::error::EngineError::File) if the
/// sidecars can't be listed.
pub async fn sidecar_states(lake: &Lake) -> Result<Vec<SidecarState>> {
    let files = files_of(lake).await?;
    let names: BTreeSet<String> = files.values().flatten().cloned().collect();
    let names: Vec<String> = names.into_iter().collect();
    let segments = lake.segments()?;
    let read: Vec<_> = segments.iter().map(|segment| states_of(lake, segment, &names)).collect();
    let states: Vec<Vec<Found>> = stream::iter(read).buffered(READING).try_collect().await?;
    Ok(named(states.into_iter().flatten().collect()))
}

/// A sidecar, and for vectors the model if it could be read.
struct Found {
    state: SidecarState,
    model: Option<String>,
}

async fn states_of(lake: &Lake, segment: &Segment, vectors: &[String]) -> Result<Vec<Found>> {
    let mut found = vec![state::<AddressIndex>(lake, segment, "addresses").await?];
    if segment.id.is_sealed() {
        // The others would tell what is sealed.
        return Ok(found);
    }
    found.push(state::<Hexastore>(lake, segment, "hexastore").await?);
    found.push(state::<SegmentText>(lake, segment, "fulltext").await?);
    found.push(state::<WordFilter>(lake, segment, "words").await?);
    for file in vectors {
        let rows = segment.file.rows;
        let check = move |bytes| match VectorIndex::open(bytes) {
            Ok(index) => (fitting(index.segment_rows(), rows), Some(index.model().to_owned())),
            Err(_) => (Condition::Damaged, None),
        };
        found.push(checked(lake, segment, file, file.clone(), check).await?);
    }
    Ok(found)
}

async fn state<S: Sidecar>(lake: &Lake, segment: &Segment, index: &str) -> Result<Found> {
    let rows = segment.file.rows;
    let check = move |bytes| match S::check(bytes) {
        Ok(sidecar) => (fitting(sidecar.segment_rows(), rows), None),
        Err(reason) if is_stale(&*reason) => (Condition::Stale, None),
        Err(_) => (Condition::Damaged, None),
    };
    checked(lake, segment, S::FILE, index.to_owned(), check).await
}

/// True if what can't be used was whole, but made by other rules.
fn is_stale(reason: &(dyn Error + Send + Sync + 'static)) -> bool {
    matches!(reason.downcast_ref(), Some(DamagedText::Stale))
        || reason.downcast_ref() == Some(&DamagedFilter::OTHER_VERSION)
}

fn fitting(own: u64, segment: u64) -> Condition {
    if own == segment { Condition::Fresh } else { Condition::Stale }
}

async fn checked(
    lake: &Lake,
    segment: &Segment,
    file: &str,
    index: String,
    check: impl FnOnce(SourceBytes) -> (Condition, Option<String>) + Send + 'static,
) -> Result<Found> {
    let path = segment.id.sidecar(file);
    let state = |condition, bytes| SidecarState { segment: segment.id.as_str().to_owned(), index, condition, bytes };
    let Ok(bytes) = lake.location().read(&path).await else {
        return Ok(Found { state: state(Condition::Missing, None), model: None });
    };
    let size = bytes.len() as u64;
    let (condition, model) = tokio::task::spawn_blocking(move || check(bytes)).await.file("can't check", &path)?;
    Ok(Found { state: state(condition, Some(size)), model })
}

/// Vectors are called by their model, which any whole file of the same name tells; by their file if none does.
fn named(found: Vec<Found>) -> Vec<SidecarState> {
    let models: BTreeMap<String, String> =
        found.iter().filter_map(|one| Some((one.state.index.clone(), one.model.clone()?))).collect();
    let name = |mut state: SidecarState| {
        if let Some(model) = models.get(&state.index) {
            state.index = format!("vectors:{model}");
        }
        state
    };
    found.into_iter().map(|one| name(one.state)).collect()
}

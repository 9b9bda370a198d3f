//! Lists the sidecars of the segments of a lake, with their condition.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use futures::{StreamExt, TryStreamExt, stream};
use gristmill_connectors::source::SourceBytes;

use super::domain_fields::DomainFieldIndex;
use super::fulltext::{DamagedText, SegmentTextIndex};
use super::hexastore::Hexastore;
use super::lifecycle_mask::{DamagedMask, EventSource, LIFECYCLE_FILE, LifecycleMask};
use super::vectors::{VectorIndex, files_of};
use super::word_filter::{DamagedFilter, WordFilter};
use crate::error::{Context, EngineError, Result};
use crate::lake::{Lake, Segment};
use crate::segment::{AddressIndex, BindingError, Sidecar, SidecarBinding};

/// The condition of a sidecar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SidecarCondition {
    /// It is intact and belongs to its segment.
    Fresh,
    /// It doesn't exist.
    Missing,
    /// Its bytes have changed since it was written.
    Damaged,
    /// It belongs to another segment, was built by other rules, or by a program that didn't bind
    /// sidecars to segments yet.
    Stale,
}

impl SidecarCondition {
    /// Returns its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            SidecarCondition::Fresh => "fresh",
            SidecarCondition::Missing => "missing",
            SidecarCondition::Damaged => "damaged",
            SidecarCondition::Stale => "stale",
        }
    }
}

/// A sidecar that a segment has or should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SidecarState {
    /// Name of the segment.
    pub segment: String,
    /// Name of the index: `addresses`, `lifecycle`, `hexastore`, `fulltext`, `words`, `fields`, or
    /// `vectors:` and the model.
    pub index: String,
    /// Its condition.
    pub condition: SidecarCondition,
    /// Its size in bytes, if it exists.
    pub bytes: Option<u64>,
}

/// Number of segments whose sidecars are read at the same time.
const READING: usize = 4;

/// Checks every sidecar that the segments of `lake` have or should have: addresses of each segment;
/// hexastore, full text, word filter and domain fields of each that isn't sealed; and vectors of
/// every model of which some segment has any. Reads all of them.
///
/// # Errors
/// [`EngineError::Delta`](crate::error::EngineError::Delta),
/// [`EngineError::File`](crate::error::EngineError::File) if the sidecars can't be listed.
pub async fn sidecar_states(lake: &Lake) -> Result<Vec<SidecarState>> {
    let names = vector_files(lake).await?;
    let segments = lake.segments()?;
    let read: Vec<_> = segments
        .iter()
        .map(|segment| states_of(lake, segment, &names))
        .collect();
    let states: Vec<Vec<CheckedSidecar>> =
        stream::iter(read).buffered(READING).try_collect().await?;
    Ok(named(states.into_iter().flatten().collect()))
}

/// A sidecar that was checked.
pub(crate) struct CheckedSidecar {
    pub(crate) state: SidecarState,
    /// Name of the file in the segment's sidecar folder.
    pub(crate) file: String,
    /// Whether it belongs to another segment.
    pub(crate) is_foreign: bool,
    /// For vectors the model, if it could be read.
    model: Option<String>,
}

/// Returns the names of the vector files that some segment of `lake` has.
pub(crate) async fn vector_files(lake: &Lake) -> Result<Vec<String>> {
    let files = files_of(lake).await?;
    let names: BTreeSet<String> = files.into_values().flatten().collect();
    Ok(names.into_iter().collect())
}

/// Checks the sidecars that `segment` has or should have, including `vectors`. Reads all of them.
///
/// # Errors
/// [`EngineError::Connector`](crate::error::EngineError::Connector) if one that is there can't be
/// read.
pub(crate) async fn states_of(
    lake: &Lake,
    segment: &Segment,
    vectors: &[String],
) -> Result<Vec<CheckedSidecar>> {
    let binding = match segment.binding(lake.location()).await {
        // A sidecar can't be bound to both a file and a log that states another footer.
        Err(EngineError::Damaged { .. }) => None,
        // The sidecars of a lost data file are sound when it comes back from a backup.
        Err(_) => segment.logged_binding(lake.location()).await.ok(),
        Ok(binding) => Some(binding),
    };
    let mut found = vec![state::<AddressIndex>(lake, segment, binding, "addresses").await?];
    if !lake.is_encrypted() {
        found.push(mask_state(lake, segment, binding).await?);
    }
    if segment.id.is_sealed() {
        // The others would reveal what is sealed.
        return Ok(found);
    }
    found.push(state::<Hexastore>(lake, segment, binding, "hexastore").await?);
    found.push(state::<SegmentTextIndex>(lake, segment, binding, "fulltext").await?);
    found.push(state::<WordFilter>(lake, segment, binding, "words").await?);
    found.push(state::<DomainFieldIndex>(lake, segment, binding, "fields").await?);
    for file in vectors {
        let rows = segment.file.rows;
        let check = move |content| match VectorIndex::open(content) {
            Ok(index) => (
                SidecarVerdict::of_rows(index.segment_rows(), rows),
                Some(index.model().to_owned()),
            ),
            Err(_) => (SidecarVerdict::Damaged, None),
        };
        found.push(checked(lake, segment, binding, file, file.clone(), check).await?);
    }
    Ok(found)
}

async fn state<S: Sidecar>(
    lake: &Lake,
    segment: &Segment,
    binding: Option<SidecarBinding>,
    index: &str,
) -> Result<CheckedSidecar> {
    let rows = segment.file.rows;
    let check = move |content| match S::check(content) {
        Ok(sidecar) => (SidecarVerdict::of_rows(sidecar.segment_rows(), rows), None),
        Err(reason) if is_stale(&*reason) => (SidecarVerdict::Outdated, None),
        Err(_) => (SidecarVerdict::Damaged, None),
    };
    checked(lake, segment, binding, S::FILE, index.to_owned(), check).await
}

/// Checks the lifecycle mask of `segment`, which is stale if it has events of files that aren't in
/// the lake any more.
async fn mask_state(
    lake: &Lake,
    segment: &Segment,
    binding: Option<SidecarBinding>,
) -> Result<CheckedSidecar> {
    let (rows, sources) = (segment.file.rows, EventSource::all(lake).await?);
    let check = move |content| match LifecycleMask::check(content) {
        Ok(mask) if mask.segment_rows() != rows => (SidecarVerdict::Foreign, None),
        Ok(mask) if mask.is_covered_by(&sources) => (SidecarVerdict::Fresh, None),
        Ok(_) => (SidecarVerdict::Outdated, None),
        Err(reason) if is_stale(&*reason) => (SidecarVerdict::Outdated, None),
        Err(_) => (SidecarVerdict::Damaged, None),
    };
    let index = "lifecycle".to_owned();
    checked(lake, segment, binding, LIFECYCLE_FILE, index, check).await
}

/// Returns whether a sidecar is intact but built by other rules.
fn is_stale(reason: &(dyn Error + Send + Sync + 'static)) -> bool {
    matches!(reason.downcast_ref(), Some(DamagedText::Stale))
        || reason.downcast_ref() == Some(&DamagedFilter::OTHER_VERSION)
        || reason.downcast_ref() == Some(&DamagedMask::OTHER_VERSION)
}

/// Result of checking the bytes of a sidecar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SidecarVerdict {
    Fresh,
    Damaged,
    /// Intact, but built by other rules or by an earlier program.
    Outdated,
    /// Of another segment.
    Foreign,
}

impl SidecarVerdict {
    fn of_rows(own: u64, segment: u64) -> SidecarVerdict {
        if own == segment {
            SidecarVerdict::Fresh
        } else {
            SidecarVerdict::Foreign
        }
    }

    const fn condition(self) -> SidecarCondition {
        match self {
            SidecarVerdict::Fresh => SidecarCondition::Fresh,
            SidecarVerdict::Damaged => SidecarCondition::Damaged,
            SidecarVerdict::Outdated | SidecarVerdict::Foreign => SidecarCondition::Stale,
        }
    }
}

/// Reads the sidecar `file` of `segment`, whose index is called `index`, and checks it.
async fn checked(
    lake: &Lake,
    segment: &Segment,
    binding: Option<SidecarBinding>,
    file: &str,
    index: String,
    check: impl FnOnce(SourceBytes) -> (SidecarVerdict, Option<String>) + Send + 'static,
) -> Result<CheckedSidecar> {
    let path = segment.id.sidecar(file);
    let found = |condition, bytes, is_foreign, model| CheckedSidecar {
        state: SidecarState {
            segment: segment.id.as_str().to_owned(),
            index,
            condition,
            bytes,
        },
        file: file.to_owned(),
        is_foreign,
        model,
    };
    let bytes = match lake.location().read(&path).await {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => {
            return Ok(found(SidecarCondition::Missing, None, false, None));
        }
        Err(error) => return Err(error),
    };
    let size = bytes.len() as u64;
    let (verdict, model) = tokio::task::spawn_blocking(move || verdict_of(bytes, binding, check))
        .await
        .file("can't check", &path)?;
    let is_foreign = verdict == SidecarVerdict::Foreign;
    Ok(found(verdict.condition(), Some(size), is_foreign, model))
}

/// Checks the binding of a sidecar to its segment, and its content.
fn verdict_of(
    bytes: SourceBytes,
    binding: Option<SidecarBinding>,
    check: impl FnOnce(SourceBytes) -> (SidecarVerdict, Option<String>),
) -> (SidecarVerdict, Option<String>) {
    match binding.map(|binding| binding.check(&bytes)) {
        Some(Ok(content)) => check(bytes.truncate(content)),
        Some(Err(BindingError::Damaged)) => (SidecarVerdict::Damaged, None),
        Some(Err(BindingError::Other)) => (SidecarVerdict::Foreign, None),
        // Intact and of an earlier program, or truncated.
        Some(Err(BindingError::Unnamed)) => match check(bytes) {
            (SidecarVerdict::Damaged, model) => (SidecarVerdict::Damaged, model),
            (_, model) => (SidecarVerdict::Outdated, model),
        },
        None => (SidecarVerdict::Outdated, None),
    }
}

/// Names vectors by their model, which any intact file of the same name contains; by their file
/// name if there is none.
fn named(found: Vec<CheckedSidecar>) -> Vec<SidecarState> {
    let models: BTreeMap<String, String> = found
        .iter()
        .filter_map(|one| Some((one.state.index.clone(), one.model.clone()?)))
        .collect();
    let name = |mut state: SidecarState| {
        if let Some(model) = models.get(&state.index) {
            state.index = format!("vectors:{model}");
        }
        state
    };
    found.into_iter().map(|one| name(one.state)).collect()
}

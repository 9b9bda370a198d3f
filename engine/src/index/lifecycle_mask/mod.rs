//! Lifecycle masks: the folded lifecycle of a segment's rows, and which rows it takes out of the
//! current ones.
//!
//! A row changes its lifecycle by events in other files: rows of `state`, and rows of `grains` that
//! supersede it. A mask contains those effects of the events about its segment that determine the
//! state at every instant (`reduce`), and the names of the files in which it found them. It stays
//! usable as long as all of these files are in the lake; files that were added later are its tail,
//! which is read and added. An erasure or a compaction replaces files, so it makes masks stale and
//! builds them again.
//!
//! Encrypted lakes have no masks.
//!
//! | module | contents |
//! |---|---|
//! | this one | which rows are left out, and the rows with effects |
//! | `file` | the file: built from entries, and opened |
//! | `effect_codec` | the bytes of effects |
//! | `event_source` | the files with events, and reading them |
//! | `fold` | the effects on a segment's rows from all files, in bounded memory |
//! | `snapshot` | the masks of one version of the lake, with their tail |
//! | `tail` | the effects of the events that came after the masks |
//! | `refresh` | building missing, stale and outdated masks, and comparing them with the fold |

mod effect_codec;
mod event_source;
mod file;
mod fold;
mod refresh;
mod snapshot;
mod tail;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::VerificationStatus;
use gristmill_schemas::lifecycle::{LifecycleState, TimedEffect};
use roaring::RoaringBitmap;

pub(super) use event_source::EventSource;
pub use file::{DamagedMask, LIFECYCLE_FILE, LifecycleMask};
pub use refresh::{MaskRefresh, refresh_masks};
pub(crate) use refresh::{differing_masks, refresh_after};
pub use snapshot::{HiddenSelection, LifecycleSnapshot};

/// Which rows a query leaves out because of their lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HiddenRows {
    /// Superseded and expired rows.
    Ended,
    /// Also contradicted and retracted rows.
    NotCurrent,
    /// Rows that weren't current at this instant, in microseconds since 1970.
    NotCurrentAt(i64),
}

impl HiddenRows {
    /// Returns true if a row with these effects is left out.
    fn hides(self, effects: &[TimedEffect]) -> bool {
        let until = match self {
            HiddenRows::NotCurrentAt(instant) => instant,
            HiddenRows::Ended | HiddenRows::NotCurrent => i64::MAX,
        };
        let state = state_of(effects.iter().filter(|(at, _)| *at <= until));
        match self {
            HiddenRows::Ended => state.ended().is_some(),
            HiddenRows::NotCurrent | HiddenRows::NotCurrentAt(_) => !state.is_current(),
        }
    }
}

/// Returns the fold of `effects`.
fn state_of<'e>(effects: impl IntoIterator<Item = &'e TimedEffect>) -> LifecycleState {
    let mut state = LifecycleState::default();
    effects.into_iter().for_each(|effect| state.apply(*effect));
    state
}

/// A row with lifecycle effects.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MaskEntry {
    address: ContentAddress,
    row: u32,
    /// Reduced.
    effects: Vec<TimedEffect>,
}

/// Returns the rows of `entries` that `hidden` leaves out.
fn hidden_bitmap<'e>(
    entries: impl IntoIterator<Item = &'e MaskEntry>,
    hidden: HiddenRows,
) -> RoaringBitmap {
    entries
        .into_iter()
        .filter(|entry| hidden.hides(&entry.effects))
        .map(|entry| entry.row)
        .collect()
}

/// Returns the status with this number in the effects of a mask.
fn status_at(number: u8) -> Option<VerificationStatus> {
    VerificationStatus::ALL.get(usize::from(number)).copied()
}

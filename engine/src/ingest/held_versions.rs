//! Versions of facts that are under hold: a transcript may bring a newer version of a fact whose
//! version in the lake is under a hold that was placed on it, and nothing supersedes that.
//!
//! Such a supersession isn't written to the row of the new version. It becomes a claim, which the
//! gate denies, so that `rejects` accounts for it.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::IndexState;
use gristmill_schemas::lifecycle::HoldIndex;

use super::morsel::TranscriptExtras;
use crate::error::Result;
use crate::lake::{AddressCatalog, Lake};

/// Makes claims of the supersessions in `extras` of grains that are under hold at `now`
/// (microseconds since 1970). `holds` are those of `lake`, which are read when they are needed. A
/// new version that is `known` has its row already.
///
/// # Errors
/// Errors of reading the lake.
pub(super) async fn claim_held(
    lake: &Lake,
    known: &AddressCatalog,
    holds: &mut Option<HoldIndex>,
    extras: &mut TranscriptExtras,
    now: i64,
) -> Result<()> {
    if extras.supersessions.is_empty() {
        return Ok(());
    }
    let holds = match holds {
        Some(holds) => holds,
        None => holds.insert(lake.holds().await?),
    };
    let is_held = |old: &ContentAddress| holds.in_force(old, now).is_some();
    let mut versions = extras.supersessions.values().flatten();
    if holds.is_empty() || !versions.any(is_held) {
        return Ok(());
    }
    let known = known.all().await?;
    extras.claim(|new, old| is_held(old) && !known.contains(new));
    Ok(())
}

impl TranscriptExtras {
    /// Makes claims of the supersessions for whose new and old grain `is_claimed` holds.
    fn claim(&mut self, is_claimed: impl Fn(&ContentAddress, &ContentAddress) -> bool) {
        let mut claims = Vec::new();
        for (new, superseded) in &mut self.supersessions {
            let claimed = superseded.extract_if(.., |old| is_claimed(new, old));
            let state = IndexState {
                superseded_by: Some(*new),
                ..IndexState::default()
            };
            claims.extend(claimed.map(|old| (old, state.clone())));
        }
        claims.sort_unstable_by_key(|(old, _)| *old);
        self.states.extend(claims);
    }
}

//! Notes and refusals of commands that hand out data of a lake with an unfinished erasure.

use gristmill_engine::erase::unfinished_erasures;
use gristmill_engine::lake::Lake;

use super::CommandContext;
use crate::exit::Failure;
use crate::human_readable::with_separators;
use crate::log::note;

/// What finishes an erasure.
const REMEDY: &str = "If it was killed, run `gristmill erase` with `--execute` for the same people \
                      again";

impl CommandContext {
    /// Notes on standard error that an erasure of `lake` isn't finished, so that answers may have
    /// data of the people whom it erases. Only in a folder: in an object store it would cost
    /// requests of each query.
    pub async fn note_unfinished_erasure(&self, lake: &Lake) -> Result<(), Failure> {
        let is_silent = self.common.quiet || lake.location().is_remote();
        if !is_silent && unfinished_erasures(lake).await? > 0 {
            note(format_args!(
                "an erasure of the lake isn't finished: the answer may have data of the people \
                 whom it erases. {REMEDY}"
            ));
        }
        Ok(())
    }
}

/// Returns why `rows` that an unfinished erasure has still to remove aren't exported.
pub(super) fn refusal_of_rows(rows: u64) -> String {
    format!(
        "an erasure of the lake isn't finished, and grains that it erases would be exported ({}); \
         nothing was written. {REMEDY}, then export. --override-reason exports them, and is \
         recorded",
        with_separators(rows)
    )
}

//! Arguments of the commands that carry changes from one lake to another.

use clap::Args;
use gristmill_engine::changes::LakePosition;

/// Options of `export` for changes.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct ExportChangesArgs {
    /// Export what was added, closed and erased since this version, as JSON Lines that `ingest
    /// --changes` applies to another lake: the `to` of the previous export, or 0 for all
    #[arg(
        long,
        value_name = "VERSION",
        conflicts_with_all = [
            "kind", "condition", "compression", "split", "provider", "pseudonymize",
        ],
    )]
    pub since: Option<LakePosition>,
}

/// Options of `ingest` for changes.
#[derive(Debug, Clone, Default, Args)]
pub struct ApplyChangesArgs {
    /// Apply the changes of another lake, which `export --since` wrote: also what it closed and
    /// erased, without judging it again. Only for lakes that you trust like this one
    #[arg(
        long,
        conflicts_with_all = [
            "kind", "on_error", "lenient", "retry_refused", "again", "dry_run",
        ],
    )]
    pub changes: bool,
    /// Name of the key that signs the certificates of what changes erase
    #[arg(long, value_name = "NAME", requires = "changes")]
    pub signing_key: Option<String>,
    /// Assert that no other process writes to the lake, so that unreferenced files of erased grains
    /// are removed at once
    #[arg(long, requires = "signing_key")]
    pub exclusive: bool,
}

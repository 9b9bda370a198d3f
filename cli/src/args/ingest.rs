//! Arguments of the command that takes grains in.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gristmill_engine::index::IndexKinds;

use super::ResultArgs;
use super::changes::ApplyChangesArgs;
#[cfg(feature = "cluster")]
use super::query::ClusterArgs;
use super::size::Size;
use super::value_enums;

#[derive(Debug, Args)]
pub struct IngestArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Encrypt the lake first: all new data is sealed with the keys of the keyring, which is
    /// created if it doesn't exist
    #[arg(long)]
    pub encrypt: bool,
    /// Files, folders, glob patterns, URIs, or `-` for standard input. In folders, names that begin
    /// with a dot are left out: name them, as in `ingest ~/.claude/projects`
    #[arg(required = true, value_name = "SOURCE")]
    pub sources: Vec<String>,
    /// Kind of all sources [default: detected from their content]
    #[arg(
        long,
        value_enum,
        default_value_t = value_enums::SourceKindArg::AUTO,
        hide_default_value = true,
    )]
    pub kind: value_enums::SourceKindArg,
    /// Handling of refused input
    #[arg(long, value_enum, default_value_t = OnErrorArg::Quarantine)]
    pub on_error: OnErrorArg,
    /// Accept grains that are readable but not canonical or not complete, and mark them
    #[arg(long)]
    pub lenient: bool,
    /// Ingest files of grains again that had refused grains; what is accepted now, for example with
    /// `--lenient` or a newer version, leaves `rejects`
    #[arg(long)]
    pub retry_refused: bool,
    /// Maximum size of standard input, a pipe, an object or the content of a compressed file, which
    /// is spooled to disk before it is read [default: 64G]
    #[arg(long, value_name = "SIZE")]
    pub max_source: Option<Size>,
    /// Read all sources again, even if they were ingested before. Existing grains count as
    /// duplicates; a newer version may extract other grains from a transcript
    #[arg(long)]
    pub again: bool,
    /// Check all input and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Write embedded images and documents of transcripts to files in this folder, named by their
    /// SHA-256, and store references instead. An erasure doesn't remove these files
    #[arg(long, value_name = "DIR")]
    pub content_dir: Option<PathBuf>,
    /// Count the grains beyond the limits of this device profile. They are ingested nevertheless
    #[arg(long, value_enum, value_name = "PROFILE")]
    pub device_profile: Option<value_enums::DeviceProfileArg>,
    /// Build just these sidecar indexes besides the addresses [default: all]. `reindex` builds the
    /// others later
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub indexes: Option<Vec<IndexArg>>,
    /// Don't build sidecar indexes; run `reindex` later
    #[arg(long, conflicts_with = "indexes")]
    pub no_indexes: bool,
    /// Commit whenever so much input has been read, even if more fits in memory [default: a quarter
    /// of --memory]
    #[arg(long, value_name = "SIZE")]
    pub commit_every: Option<Size>,
    #[command(flatten)]
    pub changes: ApplyChangesArgs,
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Sidecar index that is built from the rows of a segment
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IndexArg {
    /// Statements by subject, relation and object
    Hexastore,
    /// Full text, for searches
    Fulltext,
    /// Word filters, with which an erasure finds its grains
    Words,
    /// Rows with domain fields, such as hc:icd10
    Fields,
}

impl IndexArg {
    /// Returns the `listed` kinds, or all without a list.
    pub fn kinds(listed: Option<&[IndexArg]>) -> IndexKinds {
        let has = |kind| listed.is_none_or(|listed| listed.contains(&kind));
        IndexKinds {
            hexastore: has(IndexArg::Hexastore),
            full_text: has(IndexArg::Fulltext),
            words: has(IndexArg::Words),
            fields: has(IndexArg::Fields),
        }
    }
}

/// Handling of refused input
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnErrorArg {
    /// Store it in the table `rejects` and continue
    Quarantine,
    /// Stop
    Fail,
}

//! Arguments of the commands that check, show and maintain a lake.

use std::path::PathBuf;

use clap::Args;

use super::ResultArgs;
use super::ingest::IndexArg;
#[cfg(feature = "cluster")]
use super::query::ClusterArgs;
use super::value_enums;

#[derive(Debug, Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Files, folders, glob patterns, URIs, or `-` for standard input [default: the lake itself]
    #[arg(value_name = "SOURCE")]
    pub sources: Vec<String>,
    /// Kind of all sources [default: detected from their content]
    #[arg(
        long,
        value_enum,
        default_value_t = value_enums::SourceKindArg::AUTO,
        hide_default_value = true,
    )]
    pub kind: value_enums::SourceKindArg,
    /// Verify a part of the lake: 5% or 10G continues after the previous part, 3/7 is the third of
    /// seven parts
    #[arg(long, value_name = "PART", conflicts_with = "sources")]
    pub subset: Option<String>,
    /// Stop after this time, such as 90s, 45m or 6h; the next run continues there
    #[arg(long, value_name = "TIME", conflicts_with = "sources")]
    pub max_duration: Option<String>,
    /// Rebuild every sidecar index in memory and compare it
    #[arg(long, conflicts_with = "sources")]
    pub sidecars: bool,
    /// Also compare files and objects to which grains refer with the checksums of the references.
    /// Only what lies below this folder or URI is read; may be repeated
    #[arg(long, value_name = "ROOT", conflicts_with = "sources")]
    pub content: Vec<String>,
    /// Also count the grains beyond the limits of this device profile
    #[arg(long, value_enum, value_name = "PROFILE")]
    pub device_profile: Option<value_enums::DeviceProfileArg>,
    /// Accept grains that are readable but not canonical or not complete
    #[arg(long)]
    pub lenient: bool,
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

#[derive(Debug, Args)]
pub struct InspectArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Container file
    pub file: String,
    /// Number of grains to show
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub sample: usize,
}

#[derive(Debug, Args)]
pub struct CompactArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Also write encrypted segments again that have rows of erased grains, whose keys were
    /// destroyed
    #[arg(long)]
    pub erased: bool,
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

#[derive(Debug, Args)]
pub struct ReindexArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Also rebuild intact sidecars, and vectors that the embedder made already
    #[arg(long)]
    pub all: bool,
    /// Check and rebuild just these sidecar indexes besides the addresses [default: all]
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub indexes: Option<Vec<IndexArg>>,
    /// Index vectors from files (.parquet, .arrow, .npy, .fvecs) that grains reference by
    /// identifier
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub vectors: Vec<PathBuf>,
    /// Embed the texts of the grains and index the vectors, in segments without vectors of the
    /// embedder
    #[arg(long, conflicts_with = "vectors")]
    pub embed: bool,
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

#[derive(Debug, Args)]
pub struct RepairArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Show what would be repaired and what can't be, without changing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Accept the current logs permanently: commits that heads.json records but the logs have lost
    /// stay lost
    #[arg(long, conflicts_with = "dry_run")]
    pub accept_logs: bool,
}

#[derive(Debug, Args)]
pub struct DescribeArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Also count the references of grains to content, which reads a column of every segment
    #[arg(long)]
    pub references: bool,
    /// Count them, and look up which of the files and objects below this folder or URI are there;
    /// may be repeated
    #[arg(long, value_name = "ROOT")]
    pub content: Vec<String>,
}

#[derive(Debug, Args)]
pub struct GcArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Remove only files unchanged for this time, such as 30m or 7d; newer files may belong to a
    /// running writer
    #[arg(long, default_value = "1h", value_name = "TIME")]
    pub older_than: String,
    /// Keep files of earlier versions of the lake for this time after they were replaced
    #[arg(long, default_value = "7d", value_name = "TIME")]
    pub retention: String,
    /// Also remove the earlier versions that a bucket of S3 with versioning keeps of all objects of
    /// the lake
    #[arg(long, conflicts_with = "dry_run")]
    pub purge_versions: bool,
    /// Show what would be removed without removing it
    #[arg(long)]
    pub dry_run: bool,
}

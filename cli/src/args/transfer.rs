//! Arguments of the commands that write, convert and generate data.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::ResultArgs;
use super::changes::ExportChangesArgs;
use super::size::Size;
use super::value_enums;

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Output file, or `-` for standard output; numbered files if one would exceed the limit of its
    /// format
    pub out: PathBuf,
    /// Output format [default: by the file extension]
    #[arg(long = "format", value_enum, value_name = "KIND")]
    pub kind: Option<ExportKind>,
    /// Export only grains that match this SQL condition
    #[arg(long = "where", value_name = "CONDITION")]
    pub condition: Option<String>,
    /// Compression of a container's grain region
    #[arg(long, value_enum, default_value_t = Compression::None)]
    pub compression: Compression,
    /// Start a new container file at this size [default: just below 4G, or 256M if compressed]
    #[arg(long, value_name = "SIZE")]
    pub split: Option<Size>,
    /// Overwrite existing files
    #[arg(long)]
    pub force: bool,
    /// Provider format of exchanges, as a key such as openai/chat or a provider [default: that of
    /// the provider that answered]
    #[arg(long, value_name = "PROVIDER")]
    pub provider: Option<String>,
    /// What the export is for; rules of the compliance packs bar some grains
    #[arg(long, value_enum, default_value_t = ExportPurposeArg::Copy)]
    pub purpose: ExportPurposeArg,
    /// Export barred grains nevertheless; the reason is recorded in the audit log and names nobody
    #[arg(long, value_name = "TEXT")]
    pub override_reason: Option<String>,
    /// Replace what identifies people by tokens, consistently for the same key (JSON Lines only)
    #[arg(long, requires = "pseudonym_key")]
    pub pseudonymize: bool,
    /// File of the key of the tokens; created if it doesn't exist. Without it nobody can relate
    /// tokens to people
    #[arg(long, value_name = "FILE", requires = "pseudonymize")]
    pub pseudonym_key: Option<PathBuf>,
    /// CSV file of names, e-mail addresses and phone numbers to find in texts, as for `erase`
    #[arg(long, value_name = "FILE", requires = "pseudonymize")]
    pub subjects: Option<PathBuf>,
    #[command(flatten)]
    pub changes: ExportChangesArgs,
}

/// Purpose of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportPurposeArg {
    /// A copy that you keep: privileged material must be on hold, personal financial data have a
    /// basis
    Copy,
    /// A transfer to another system: consumers' data must have a basis, too
    Transfer,
    /// A sale, or a transfer to a data broker: without data of persons who opted out, too
    Sale,
}

#[derive(Debug, Args)]
pub struct ConvertArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Files, folders, glob patterns, URIs, or `-` [default: standard input]
    #[arg(value_name = "SOURCE")]
    pub sources: Vec<String>,
    /// Kind of the input [default: detected from its content]
    #[arg(
        long,
        value_enum,
        default_value_t = value_enums::TranscriptKindArg::AUTO,
        hide_default_value = true,
    )]
    pub from: value_enums::TranscriptKindArg,
    /// Output format, one item per line
    #[arg(
        long,
        value_enum,
        default_value_t = value_enums::TranscriptFormArg::DEFAULT,
        conflicts_with = "check_round_trip",
    )]
    pub to: value_enums::TranscriptFormArg,
    /// Provider format of written exchanges, or of input that doesn't state it, as a key such as
    /// openai/chat or a provider
    #[arg(long, value_name = "PROVIDER")]
    pub provider: Option<String>,
    /// Namespace of written grains
    #[arg(long, value_name = "NS")]
    pub namespace: Option<String>,
    /// Parse and rewrite every exchange, and count per endpoint how many are equal value for value
    #[arg(long)]
    pub check_round_trip: bool,
}

/// Output format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportKind {
    /// `.mg` containers
    Mg,
    /// Length-prefixed frames
    Frames,
    /// Grains as JSON, one per line
    Jsonl,
    /// Rows of the table `grains`
    Parquet,
    /// SQLite database of canonical sessions, messages and tool calls
    Sqlite,
    /// Conversations as requests and responses in a provider's format, one branch of a session per
    /// line
    Exchanges,
}

/// Compression of a container's grain region
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compression {
    /// No compression: grains can be read in place
    None,
    /// zstd
    Zstd,
    /// lz4
    Lz4,
}

#[derive(Debug, Args)]
pub struct GenerateArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Output folder
    pub out: PathBuf,
    /// Number of grains
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub grains: u64,
    /// Number of people that the grains are about
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    pub people: u32,
    /// Seed; equal seeds give equal corpora
    #[arg(long, default_value_t = 42, value_name = "S")]
    pub seed: u64,
    /// Date or instant of the first grains, such as 2026-06-01 [default: 2025-01-01]
    #[arg(long, value_name = "INSTANT")]
    pub begin: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = GenerateKind::Mg)]
    pub kind: GenerateKind,
    /// Number of grains per file
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub file_grains: u64,
    /// Write the personal data in the texts to a file, as JSON Lines: the grain's address, the kind
    /// by the name that `scan` uses, and the value
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long)]
    pub force: bool,
}

/// Output format of a generated corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GenerateKind {
    /// `.mg` containers
    Mg,
    /// Length-prefixed frames
    Frames,
}

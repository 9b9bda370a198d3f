//! Arguments of the commands that answer questions about a lake.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::ResultArgs;

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// File of the page, in HTML without scripts; `-` for standard output
    #[arg(value_name = "PAGE")]
    pub output: PathBuf,
}

#[derive(Debug, Args)]
pub struct SqlArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// SQL query [default: start a shell]. Queries that need no lake, such as mg_file('FILE'), run
    /// without one
    pub query: Option<String>,
    /// Run the statements in a file
    #[arg(long, short, value_name = "FILE", conflicts_with = "query")]
    pub file: Option<PathBuf>,
    /// Allow COPY … TO, which writes files, and CREATE EXTERNAL TABLE, which reads them
    #[arg(long)]
    pub allow_files: bool,
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Where a query runs.
#[cfg(feature = "cluster")]
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// Run on the executors of the cluster with this scheduler, HOST:PORT; --threads is then the
    /// number of parts of the work [default: this process]
    #[arg(long, env = "GRISTMILL_CLUSTER", value_name = "ADDR")]
    pub cluster: Option<String>,
    #[command(flatten)]
    pub key: ClusterKeyArgs,
}

/// The key of a cluster.
#[cfg(feature = "cluster")]
#[derive(Debug, Args)]
pub struct ClusterKeyArgs {
    /// Key of the cluster (see `cluster key`): connections are encrypted, and need the same key
    /// [default: none; loopback addresses only]
    #[arg(long, env = "GRISTMILL_CLUSTER_KEY", value_name = "FILE")]
    pub cluster_key: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ScanArgs {
    /// Name of a shipped pack, or file of your own; may be repeated [default: all shipped packs]
    #[arg(long = "pack", short, value_name = "PACK")]
    pub packs: Vec<String>,
    /// Scan for this rule only, such as gdpr/lawful-basis; may be repeated
    #[arg(long = "rule", short, value_name = "PACK/RULE")]
    pub rules: Vec<String>,
    /// Scan only grains added after this version, or after the `last` scan that had these rules
    #[arg(long, value_name = "VERSION|last")]
    pub since: Option<String>,
    /// Report format [default: by the extension of --output, otherwise table on a terminal, jsonl
    /// in a pipe]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<ScanFormat>,
    /// Write the report to this file
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Exit with code 2 on findings of this severity or higher
    #[arg(long, value_enum, default_value_t = FailOn::Note, value_name = "SEVERITY")]
    pub fail_on: FailOn,
    /// Run the examples of a pack instead of a scan; may be repeated. Results are lines of text,
    /// with `--format json` or `jsonl` data
    #[arg(long, value_name = "PACK", conflicts_with_all = ["packs", "rules", "since", "output"])]
    pub test: Vec<String>,
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Format of a scan report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScanFormat {
    /// Human-readable table of the rules with findings
    Table,
    /// One JSON document with all findings and a summary
    Json,
    /// One finding per line
    Jsonl,
    /// SARIF 2.1.0, for code-scanning tools
    Sarif,
    /// Self-contained page with charts
    Html,
}

/// Lowest severity that fails a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Any finding
    Note,
    /// Warnings and errors
    Warning,
    /// Errors
    Error,
}

/// On whose behalf a session runs.
#[derive(Debug, Args)]
pub struct SessionArgs {
    /// Restrict the session to this namespace [default: the whole lake]
    #[arg(long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// User to whom MY, `mine` and new grains refer
    #[arg(long, value_name = "ID")]
    pub user: Option<String>,
    /// Agent that acts for the user; the default observer of new observations
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
}

#[derive(Debug, Args)]
pub struct CalArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Statement in text or JSON CAL, or several ending with `;` [default: start a shell]
    pub statement: Option<OsString>,
    /// Run the statements in a file
    #[arg(long, short, value_name = "FILE", conflicts_with = "statement")]
    pub file: Option<PathBuf>,
    /// Value of a parameter: a CAL literal, otherwise taken as text
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub parameters: Vec<String>,
    /// Print the syntax tree as JSON CAL without running it
    #[arg(long)]
    pub parse: bool,
    /// Allow ADD, SUPERSEDE and REVERT to append to the lake
    #[arg(long)]
    pub allow_writes: bool,
    #[command(flatten)]
    pub session: SessionArgs,
    /// Value of `now`: an ISO date and time, or milliseconds since 1970 [default: the clock]
    #[arg(long, value_name = "INSTANT")]
    pub now: Option<String>,
    /// Also accept the type names of other versions: facts, tools, episodes, checkpoints
    #[arg(long)]
    pub aliases: bool,
    /// Let ASSEMBLE include reasoning that a human must review first
    #[arg(long)]
    pub unreviewed: bool,
    /// Time limit of a query in seconds [default: 5, for ASSEMBLE 10]
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<f64>,
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

//! Definition of the command line: the commands and the global options; the options of each group
//! of commands stand in a module. Help, manual pages and completions are generated from it.

pub mod changes;
#[cfg(feature = "cluster")]
pub mod cluster;
pub mod governance;
pub mod grain;
pub mod holds;
pub mod ingest;
pub mod maintenance;
pub mod migrate;
pub mod query;
pub mod retention;
pub mod search;
pub mod serving;
pub mod size;
pub mod transfer;
pub mod value_enums;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// The exit codes, for help and the manual page. `docs/recovery.md` has what to do after each.
const EXIT_CODES: &str = "Exit codes:
  0    done
  1    wrong usage, or the environment failed: correct what the message names, run it again
  2    done with findings (rejects, damage, findings of a scan): the output names them and the
       command to look with; or stopped at a damaged file of the lake, before or during the work:
       the message names the file; restore it, then run it again
  3    refused by a policy or a hold
  4    other writers were faster at every attempt: run it again
  130  interrupted: the lake is at its last commit, run it again
  143  terminated: likewise";

/// Batch engine for the memory of AI agents: ingest, verify, index, query and erase grains in bulk.
#[derive(Debug, Parser)]
#[command(
    name = "gristmill",
    version,
    max_term_width = 110,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = EXIT_CODES
)]
pub struct Arguments {
    #[command(flatten)]
    pub results: ResultArgs,
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(subcommand)]
    pub command: Command,
}

/// Flags for the output of results. Not global flags, because `export --format` has another
/// meaning.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct ResultArgs {
    /// Output format of results [default: table on a terminal, otherwise jsonl]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<OutputFormat>,
    /// In CSV, prefix texts that a spreadsheet would evaluate as formulas (starting with =, +, -, @
    /// or a tab) with an apostrophe
    #[arg(long)]
    pub csv_safe: bool,
    /// Print one record per row with one line per value, instead of tables; `\x` in the shells
    #[arg(long)]
    pub records: bool,
    /// Number of lines after which a result for people is cut; no flag, set by `demo`.
    #[arg(skip)]
    pub most_lines: Option<usize>,
}

/// Global flags.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub struct CommonArgs {
    /// Location of the lake: a folder, or an s3://, gs:// or az:// URI [default: ./lake]
    #[arg(long, global = true, env = "GRISTMILL_LAKE", value_name = "URI")]
    pub lake: Option<String>,
    /// Progress output on standard error [default: bar on a terminal, otherwise none]
    #[arg(long, global = true, value_enum, value_name = "HOW")]
    pub progress: Option<ProgressStyle>,
    /// Print only results and errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Format of log messages on standard error
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t = LogFormat::Text,
        value_name = "FORMAT",
    )]
    pub log_format: LogFormat,
    /// Number of worker threads [default: one per core]
    #[arg(long, global = true, env = "GRISTMILL_THREADS", value_name = "N")]
    pub threads: Option<usize>,
    /// Embedding model for texts: static (built in), static:FOLDER, bert:FOLDER, or command:PROGRAM
    /// ARGUMENTS [default: static, if embeddings are needed]
    #[arg(long, global = true, env = "GRISTMILL_EMBEDDER", value_name = "SPEC")]
    pub embedder: Option<String>,
    /// YAML file with model prices that override the built-in ones; may be repeated
    #[arg(long = "prices", global = true, value_name = "FILE")]
    pub prices: Vec<PathBuf>,
    /// Approximate memory limit, such as 512M or 2G, at least 128M [default: 1G]
    #[arg(long, global = true, env = "GRISTMILL_MEMORY", value_name = "SIZE")]
    pub memory: Option<size::MemoryLimit>,
    /// Folder in which sidecars of a lake in an object store are kept, instead of fetching them for
    /// each command [default: none]
    #[arg(long, global = true, env = "GRISTMILL_CACHE", value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Size of that folder, such as 500M or 20G; the least recently used files are removed beyond
    /// it [default: 10G]
    #[arg(long, global = true, env = "GRISTMILL_CACHE_SIZE", value_name = "SIZE")]
    pub cache_size: Option<size::Size>,
    /// Profile of the configuration: the tables [profile.NAME] of gristmill.toml
    #[arg(long, global = true, env = "GRISTMILL_PROFILE", value_name = "NAME")]
    pub profile: Option<String>,
    #[command(flatten)]
    pub keys: governance::KeyringArgs,
    /// The options that the command line has, by their ids, for `config show`; those of a command
    /// after its name, such as `scan format`.
    #[arg(skip)]
    pub given: BTreeMap<String, String>,
}

/// Output format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Human-readable.
    Table,
    /// Plain text: what AS and ASSEMBLE of CAL return, as it is; other results as tables of any
    /// width
    Text,
    /// One JSON document.
    Json,
    /// One JSON object per line.
    Jsonl,
    /// Comma-separated values with a header.
    Csv,
    /// An Arrow IPC stream.
    Arrow,
}

/// Output of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProgressStyle {
    /// Progress bar with rate and remaining time.
    Bar,
    /// One JSON object per line, on standard error.
    Json,
    /// No progress output.
    None,
}

/// Format of log messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Human-readable.
    Text,
    /// One JSON object per line.
    Json,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a tour of the main commands on sample data that is part of the program, in a temporary
    /// lake
    Demo(DemoArgs),
    /// Ingest files, folders, glob patterns, URIs or standard input into the lake
    Ingest(ingest::IngestArgs),
    /// Verify every grain of the lake, or of files without ingesting them
    Verify(maintenance::VerifyArgs),
    /// Show the contents of a container file
    Inspect(maintenance::InspectArgs),
    /// Encode, decode or check single grains: JSON Lines in, JSON Lines out
    #[command(subcommand)]
    Grain(grain::GrainCommand),
    /// Run SQL; without a query, start an interactive shell
    Sql(query::SqlArgs),
    /// Run compliance packs over the lake and report violations
    Scan(query::ScanArgs),
    /// Write a page about the lake: contents, cost, tools, consents, personal data, refused input
    Report(query::ReportArgs),
    /// Search for the grains that best match a text
    Search(search::SearchArgs),
    /// Run CAL; without a statement, start an interactive shell
    Cal(query::CalArgs),
    /// Export grains from the lake
    Export(transfer::ExportArgs),
    /// Convert between transcripts, messages and grains, without a lake
    Convert(transfer::ConvertArgs),
    /// Copy the lake to a new one whose grains are encoded in another form, with their links
    Migrate(migrate::MigrateArgs),
    /// Merge small segments into large ones
    Compact(maintenance::CompactArgs),
    /// Remove files that the lake no longer references
    Gc(maintenance::GcArgs),
    /// Rebuild sidecar indexes that are missing or damaged
    Reindex(maintenance::ReindexArgs),
    /// Rebuild damaged derived data (columns, sidecars) and list what can't be repaired
    Repair(maintenance::RepairArgs),
    /// Show the lake's tables, segments, sources and sidecars
    Describe(maintenance::DescribeArgs),
    /// Add, supersede, contradict, verify, retract and hold grains in bulk, by their policies
    Apply(governance::ApplyArgs),
    /// Erase all data about a person, with proof
    Erase(governance::EraseArgs),
    /// Place, lift and list litigation holds, under which nothing is erased or superseded
    #[command(subcommand)]
    Hold(holds::HoldCommand),
    /// Erase what has expired by the rules of a file, with proof
    #[command(subcommand)]
    Retention(retention::RetentionCommand),
    /// Report all data about a person
    ReportSubject(governance::ReportSubjectArgs),
    /// Verify, show or use erasure certificates
    #[command(subcommand)]
    Certificate(governance::CertificateCommand),
    /// Verify the audit log
    #[command(subcommand)]
    Audit(governance::AuditCommand),
    /// Manage keys: generate, list, rotate; encrypt a lake
    #[command(subcommand)]
    Keys(governance::KeyCommand),
    /// Generate a realistic corpus from a seed
    Generate(transfer::GenerateArgs),
    /// Serve the lake to an agent over the Model Context Protocol, on standard input and output
    Mcp(serving::McpArgs),
    /// Serve SQL, CAL and searches as JSON over HTTP
    Serve(serving::ServeArgs),
    /// Run the processes of a cluster, on which commands with --cluster run
    #[cfg(feature = "cluster")]
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Show the configuration, or print an example of gristmill.toml
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the completion script of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write the pages of all commands to a folder
    Man {
        /// Output folder for the pages of all commands
        folder: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Show options with their values and where each comes from
    Show {
        #[command(flatten)]
        results: ResultArgs,
        /// Also show the options of commands that have their default
        #[arg(long)]
        all: bool,
    },
    /// Print a gristmill.toml with every option as a comment
    Example,
}

#[derive(Debug, Args)]
pub struct DemoArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Keep the lake and the pages in this folder instead of a temporary one
    #[arg(long, value_name = "FOLDER")]
    pub keep: Option<PathBuf>,
}

//! The command line: every command and flag, once. Help, man pages and completions are made from
//! it.

pub mod governance;
pub mod value_enums;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Batch engine for the memory of AI agents: ingest, verify, index, query and erase grains in bulk.
#[derive(Debug, Parser)]
#[command(
    name = "gristmill",
    version,
    max_term_width = 110,
    arg_required_else_help = true,
    subcommand_required = true
)]
pub struct Arguments {
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(flatten)]
    pub results: ResultArgs,
    #[command(subcommand)]
    pub command: Command,
}

/// How a command prints its result. Not a global flag: `export` gives the same name another
/// meaning.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct ResultArgs {
    /// How results are printed [default: table on a terminal, jsonl in a pipe]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<OutputFormat>,
    /// In CSV, put an apostrophe before texts that a csv_injection would take for formulas: those
    /// that begin with =, +, -, @ or a tab
    #[arg(long)]
    pub csv_safe: bool,
}

/// Flags that every command has.
#[derive(Debug, Clone, Args)]
pub struct CommonArgs {
    /// The lake: a folder, or an s3://, gs:// or az:// URI [default: ./lake]
    #[arg(long, global = true, env = "GRISTMILL_LAKE", value_name = "URI")]
    pub lake: Option<String>,
    /// How progress is shown [default: a bar on a terminal]
    #[arg(long, global = true, value_enum, value_name = "HOW")]
    pub progress: Option<ProgressStyle>,
    /// Print nothing but results and errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// How log lines are written to standard error
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub log_format: LogFormat,
    /// Threads to work on [default: one per core]
    #[arg(long, global = true, env = "GRISTMILL_THREADS", value_name = "N")]
    pub threads: Option<usize>,
    /// What makes vectors of texts: static (a small model in the program), static:FOLDER,
    /// bert:FOLDER, or command:PROGRAM ARGUMENTS [default: static, where vectors are asked for]
    #[arg(long, global = true, env = "GRISTMILL_EMBEDDER", value_name = "SPEC")]
    pub embedder: Option<String>,
    /// Prices of models, in YAML, over those that are shipped; may be repeated
    #[arg(long = "prices", global = true, value_name = "FILE")]
    pub prices: Vec<PathBuf>,
    /// Memory to use, roughly, such as 512M or 2G [default: 1G]
    #[arg(long, global = true, env = "GRISTMILL_MEMORY", value_name = "SIZE")]
    pub memory: Option<Size>,
    #[command(flatten)]
    pub keys: governance::KeyringArgs,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For people.
    Table,
    /// One JSON document.
    Json,
    /// One JSON object a line.
    Jsonl,
    /// Comma-separated values with a header.
    Csv,
    /// An Arrow IPC stream.
    Arrow,
}

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProgressStyle {
    /// A bar with rate and remaining time.
    Bar,
    /// One JSON object a line, on standard error.
    Json,
    /// Not at all.
    None,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// An amount of memory or storage in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let unit = match text[digits.len()..]
            .to_ascii_uppercase()
            .trim_end_matches("IB")
            .trim_end_matches('B')
        {
            "" => 1,
            "K" => 1 << 10,
            "M" => 1 << 20,
            "G" => 1 << 30,
            "T" => 1_u64 << 40,
            other => return Err(format!("`{other}` is no unit; K, M, G and T are")),
        };
        let number: f64 = digits
            .parse()
            .map_err(|_| format!("`{text}` is no size; 512M and 2G are"))?;
        Ok(Size((number * unit as f64) as u64))
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the main job on the data sets of the repository, in a temporary lake
    Demo(DemoArgs),
    /// Take files, folders, patterns, URIs or standard input into the lake
    Ingest(IngestArgs),
    /// Re-hash and re-check every grain of the lake, or of files without ingesting them
    Verify(VerifyArgs),
    /// Show what is in a container
    Inspect(InspectArgs),
    /// Encode, decode or check single grains: JSON Lines in, JSON Lines out
    #[command(subcommand)]
    Grain(GrainCommand),
    /// Run SQL; without a query, an interactive shell
    Sql(SqlArgs),
    /// Run compliance packs over the lake and report what breaks their rules
    Scan(ScanArgs),
    /// Find the grains that fit a text best
    Search(SearchArgs),
    /// Run CAL; without a statement, an interactive shell
    Cal(CalArgs),
    /// Write grains out of the lake
    Export(ExportArgs),
    /// Turn transcripts, messages and grains into each other, without a lake
    Convert(ConvertArgs),
    /// Merge small segments into large ones
    Compact(CompactArgs),
    /// Remove files that are not part of the lake
    Gc(GcArgs),
    /// Make sidecar indexes again that are missing or damaged
    Reindex(ReindexArgs),
    /// Make again what is derived and damaged (columns, sidecars), and list what can't be
    Repair(RepairArgs),
    /// Show what the lake is made of
    Describe(DescribeArgs),
    /// Put, supersede, contradict, verify and retract grains in bulk, as their policies allow
    Apply(governance::ApplyArgs),
    /// Remove everything about a person, provably
    Erase(governance::EraseArgs),
    /// Hand out everything that is held about a person
    ReportSubject(governance::ReportSubjectArgs),
    /// Check, show or use certificates of erasures
    #[command(subcommand)]
    Certificate(governance::CertificateCommand),
    /// Check the audit log
    #[command(subcommand)]
    Audit(governance::AuditCommand),
    /// Make and list keys; encrypt a lake, and give people new keys
    #[command(subcommand)]
    Keys(governance::KeyCommand),
    /// Write a seeded, realistic corpus
    Generate(GenerateArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write the pages of all commands to a folder
    Man {
        /// The folder for the pages of all commands
        folder: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub struct DemoArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// The folder with the data sets [default: datasets, here or above]
    #[arg(long, value_name = "FOLDER")]
    pub datasets: Option<PathBuf>,
    /// Keep the lake here instead of a temporary folder
    #[arg(long, value_name = "FOLDER")]
    pub keep: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct IngestArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Make the lake an encrypted one first: what comes in is sealed with the keys of the keyring,
    /// which is made if there is none
    #[arg(long)]
    pub encrypt: bool,
    /// Files, folders, patterns, URIs, or `-` for standard input
    #[arg(required = true, value_name = "SOURCE")]
    pub sources: Vec<String>,
    /// The kind of all sources [default: detected from their bytes]
    #[arg(long, value_enum, default_value_t = value_enums::SourceKindArg::AUTO, hide_default_value = true)]
    pub kind: value_enums::SourceKindArg,
    /// What to do with input that is refused
    #[arg(long, value_enum, default_value_t = OnErrorArg::Quarantine)]
    pub on_error: OnErrorArg,
    /// Accept grains that can be read but aren't canonical or complete, and mark them
    #[arg(long)]
    pub lenient: bool,
    /// Read files of grains again of which something was refused before: a newer version, or
    /// `--lenient`, may take it, and it leaves `rejects`
    #[arg(long)]
    pub retry_refused: bool,
    /// How large standard input, a pipe or an object may be, which is spooled before it is read
    /// [default: 64G]
    #[arg(long, value_name = "SIZE")]
    pub max_source: Option<Size>,
    /// Read all sources once more, whatever the lake knows of them. What it has comes in as a
    /// duplicate; a transcript that is read by a newer version may bring other grains than before
    #[arg(long)]
    pub again: bool,
    /// Check everything and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Write segments without their sidecar indexes; `reindex` makes them later
    #[arg(long)]
    pub no_indexes: bool,
}

/// What to do with input that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnErrorArg {
    /// Set it aside in the table `rejects` and go on
    Quarantine,
    /// Stop
    Fail,
}

#[derive(Debug, Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Files, folders, patterns, URIs, or `-`; none for the lake itself
    #[arg(value_name = "SOURCE")]
    pub sources: Vec<String>,
    /// The kind of all sources [default: detected from their bytes]
    #[arg(long, value_enum, default_value_t = value_enums::SourceKindArg::AUTO, hide_default_value = true)]
    pub kind: value_enums::SourceKindArg,
    /// Check a part of the lake: the next 5% or the next 10G after the last check, or the part 3/7
    /// of seven
    #[arg(long, value_name = "PART", conflicts_with = "sources")]
    pub subset: Option<String>,
    /// Stop after so long, such as 90s, 45m or 6h, and go on there next time
    #[arg(long, value_name = "TIME", conflicts_with = "sources")]
    pub max_duration: Option<String>,
    /// Make every sidecar index again in memory and compare
    #[arg(long, conflicts_with = "sources")]
    pub sidecars: bool,
    /// Accept grains that can be read but aren't canonical or complete
    #[arg(long)]
    pub lenient: bool,
}

#[derive(Debug, Args)]
pub struct InspectArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// The container
    pub file: String,
    /// How many grains to show
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub sample: usize,
}

#[derive(Debug, Subcommand)]
pub enum GrainCommand {
    /// `{"grain": {…}, "options": {…}}` to `{"content_address": …, "blob_hex": …}`
    Encode(LinesArgs),
    /// `{"blob_hex": …}` to `{"grain": {…}, "header": {…}, "content_address": …}`
    Decode(DecodeArgs),
    /// `{"blob_hex": …}`, with `content_address` if it is known, to what is wrong with it, if
    /// anything
    Check(DecodeArgs),
}

#[derive(Debug, Args)]
pub struct LinesArgs {
    /// A file of JSON Lines [default: standard input]
    pub file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct DecodeArgs {
    /// A file of JSON Lines [default: standard input]
    pub file: Option<PathBuf>,
    /// Accept grains that can be read but aren't canonical or complete, and mark them
    #[arg(long)]
    pub lenient: bool,
}

#[derive(Debug, Args)]
pub struct SqlArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// The query; none for a shell. What needs no lake, such as mg_file('FILE'), runs without one
    pub query: Option<String>,
    /// Run the statements of a file
    #[arg(long, short, value_name = "FILE", conflicts_with = "query")]
    pub file: Option<PathBuf>,
    /// Allow COPY … TO, which writes files, and CREATE EXTERNAL TABLE, which reads them
    #[arg(long)]
    pub allow_files: bool,
}

#[derive(Debug, Args)]
pub struct ScanArgs {
    /// A shipped pack by its name, or one of your own by its file; may be repeated [default: all
    /// shipped packs]
    #[arg(long = "pack", short, value_name = "PACK")]
    pub packs: Vec<String>,
    /// Look only at what was added after a version, or after the `last` scan with the same rules
    #[arg(long, value_name = "VERSION|last")]
    pub since: Option<String>,
    /// The form of the report [default: by the name of --output; else table on a terminal, jsonl in
    /// a pipe]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<ScanFormat>,
    /// Write the report to a file
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// End with exit code 2 for findings of this severity and graver ones
    #[arg(long, value_enum, default_value_t = FailOn::Note, value_name = "SEVERITY")]
    pub fail_on: FailOn,
    /// Instead of a scan, run a pack's examples; may be repeated
    #[arg(long, value_name = "PACK", conflicts_with_all = ["packs", "since", "format", "output"])]
    pub test: Vec<String>,
}

/// The form of a scan's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScanFormat {
    /// Rules with findings, for people
    Table,
    /// All findings and a summary, one JSON document
    Json,
    /// A finding a line
    Jsonl,
    /// SARIF 2.1.0, for code-scanning tools
    Sarif,
    /// A page with charts that needs nothing beside itself
    Html,
}

/// How grave a finding must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Any finding
    Note,
    /// Warnings and errors
    Warning,
    /// Errors
    Error,
}

#[derive(Debug, Args)]
pub struct SearchArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// What to look for: words, "a phrase", begin*, near~, this OR that, -unwanted; one that begins
    /// with a hyphen stands behind --
    #[arg(required = true, value_name = "TEXT")]
    pub text: Vec<String>,
    /// How many grains to show
    #[arg(long, short = 'n', default_value_t = 10, value_name = "N")]
    pub limit: usize,
    /// How to search [default: hybrid if an embedder is named, else text]
    #[arg(long, value_enum)]
    pub mode: Option<SearchModeArg>,
}

/// How a text is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SearchModeArg {
    /// By its words
    Text,
    /// By its meaning, as the embedder sees it
    Vector,
    /// By both
    Hybrid,
}

#[derive(Debug, Args)]
pub struct CalArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// The statement, as text or JSON CAL, or several that end with `;`; none for a shell
    pub statement: Option<OsString>,
    /// Run the statements of a file, one after the other
    #[arg(long, short, value_name = "FILE", conflicts_with = "statement")]
    pub file: Option<PathBuf>,
    /// The value of a parameter: a literal of CAL, or else a text as it stands
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub parameters: Vec<String>,
    /// Print the syntax tree as JSON CAL and run nothing
    #[arg(long)]
    pub parse: bool,
    /// Let ADD, SUPERSEDE and REVERT append to the lake
    #[arg(long)]
    pub allow_writes: bool,
    /// The namespace that the session may see [default: the whole lake]
    #[arg(long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// The user that MY means
    #[arg(long, value_name = "ID")]
    pub user: Option<String>,
    /// The agent that works for the user: the observer of observations that name none
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// What `now` is: an ISO date and time, or milliseconds since 1970 [default: the clock]
    #[arg(long, value_name = "INSTANT")]
    pub now: Option<String>,
    /// Understand the type names of other versions too: facts, tools, episodes, checkpoints
    #[arg(long)]
    pub aliases: bool,
    /// Stop a query after so many seconds [default: 5, an ASSEMBLE 10]
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<f64>,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The file to write (several, numbered, if one would be too large for its format); `-` for
    /// standard output
    pub out: PathBuf,
    /// What to write [default: by the name's ending]
    #[arg(long = "format", value_enum, value_name = "KIND")]
    pub kind: Option<ExportKind>,
    /// Just the grains for which this holds, as in SQL
    #[arg(long = "where", value_name = "CONDITION")]
    pub condition: Option<String>,
    /// How the grain region of a container is compressed
    #[arg(long, value_enum, default_value_t = Compression::None)]
    pub compression: Compression,
    /// Continue a container in another file at this size [default: just below 4G, or 256M if
    /// compressed]
    #[arg(long, value_name = "SIZE")]
    pub split: Option<Size>,
    /// Overwrite files that exist
    #[arg(long)]
    pub force: bool,
    /// Whose form exchanges are written in [default: that of the provider who answered]. A key such
    /// as openai/chat, or the provider alone
    #[arg(long, value_name = "PROVIDER")]
    pub provider: Option<String>,
}

#[derive(Debug, Args)]
pub struct ConvertArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Files, folders, patterns, URIs, or `-` [default: standard input]
    #[arg(value_name = "SOURCE")]
    pub sources: Vec<String>,
    /// What the input holds [default: detected from its bytes]
    #[arg(long, value_enum, default_value_t = value_enums::TranscriptKindArg::AUTO, hide_default_value = true)]
    pub from: value_enums::TranscriptKindArg,
    /// What to write, one a line
    #[arg(long, value_enum, default_value_t = value_enums::TranscriptFormArg::DEFAULT, conflicts_with = "check_round_trip")]
    pub to: value_enums::TranscriptFormArg,
    /// Whose form: of exchanges that are written; else of input that doesn't say. A key such as
    /// openai/chat, or the provider alone
    #[arg(long, value_name = "PROVIDER")]
    pub provider: Option<String>,
    /// The namespace of grains that are written
    #[arg(long, value_name = "NS")]
    pub namespace: Option<String>,
    /// Read every exchange, write it back, and count per endpoint what came back value for value
    #[arg(long)]
    pub check_round_trip: bool,
}

/// What an export writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportKind {
    /// `.mg` containers
    Mg,
    /// Length-prefixed frames
    Frames,
    /// Grains as JSON, one a line
    Jsonl,
    /// The rows of `grains`
    Parquet,
    /// A SQLite database of the canonical sessions, messages and tool calls
    Sqlite,
    /// Conversations as requests and responses in a provider's form, a branch of a session a line
    Exchanges,
}

/// How the grain region of a container is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compression {
    /// Not at all: grains can be read without decompressing
    None,
    /// zstd
    Zstd,
    /// lz4
    Lz4,
}

#[derive(Debug, Args)]
pub struct CompactArgs {
    #[command(flatten)]
    pub results: ResultArgs,
}

#[derive(Debug, Args)]
pub struct ReindexArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Make those again too that are whole
    #[arg(long)]
    pub all: bool,
    /// Index the vectors of these files (.parquet, .arrow, .npy, .fvecs) to which grains refer by
    /// their identifiers
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub vectors: Vec<PathBuf>,
    /// Index vectors of the texts of all grains, made by the embedder
    #[arg(long, conflicts_with = "vectors")]
    pub embed: bool,
}

#[derive(Debug, Args)]
pub struct RepairArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Show what would be repaired and what can't be
    #[arg(long)]
    pub dry_run: bool,
    /// Take the lake as its logs are now, for good: what heads.json says that they have lost stays
    /// lost
    #[arg(long, conflicts_with = "dry_run")]
    pub accept_logs: bool,
}

#[derive(Debug, Args)]
pub struct DescribeArgs {
    #[command(flatten)]
    pub results: ResultArgs,
}

#[derive(Debug, Args)]
pub struct GcArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Remove files that were not changed for so long, such as 30m or 7d; younger ones may belong
    /// to a writer at work
    #[arg(long, default_value = "1h", value_name = "TIME")]
    pub older_than: String,
    /// Keep files that earlier versions of the lake need for so long after they ceased to be part
    /// of the newest
    #[arg(long, default_value = "7d", value_name = "TIME")]
    pub retention: String,
    /// Show what would be removed
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct GenerateArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// The folder to write to
    pub out: PathBuf,
    /// How many grains
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub grains: u64,
    /// How many people they are about
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    pub people: u32,
    /// The same seed gives the same corpus
    #[arg(long, default_value_t = 42, value_name = "S")]
    pub seed: u64,
    /// What to write
    #[arg(long, value_enum, default_value_t = GenerateKind::Mg)]
    pub kind: GenerateKind,
    /// Grains of a file
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub file_grains: u64,
    /// Overwrite files that exist
    #[arg(long)]
    pub force: bool,
}

/// What a generator writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GenerateKind {
    /// `.mg` containers
    Mg,
    /// Length-prefixed frames
    Frames,
}

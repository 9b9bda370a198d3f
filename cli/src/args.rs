//! Definition of the command line: every command and flag. Help, manual pages and completions are
//! generated from it.
//!
//! Above 500 lines because it is a list: one definition per command and flag.

pub mod governance;
pub mod serving;
pub mod value_enums;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use gristmill_engine::index::IndexKinds;

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
    pub memory: Option<MemoryLimit>,
    /// Profile of the configuration: the tables [profile.NAME] of gristmill.toml
    #[arg(long, global = true, env = "GRISTMILL_PROFILE", value_name = "NAME")]
    pub profile: Option<String>,
    #[command(flatten)]
    pub keys: governance::KeyringArgs,
    /// The options of all commands that the command line has, by their ids, for `config show`.
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
            other => return Err(format!("unknown unit `{other}`; use K, M, G or T")),
        };
        let number: f64 = digits
            .parse()
            .map_err(|_| format!("invalid size `{text}`; use a form such as 512M or 2G"))?;
        Ok(Size((number * unit as f64) as u64))
    }
}

/// A memory limit in bytes, at least [`MINIMUM_MEMORY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimit(pub usize);

/// Least memory that a command can run in, in bytes: 128 MiB.
pub const MINIMUM_MEMORY: usize = 128 << 20;

impl std::str::FromStr for MemoryLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<MemoryLimit, String> {
        let Size(bytes) = text.parse()?;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if bytes < MINIMUM_MEMORY {
            let minimum = MINIMUM_MEMORY >> 20;
            return Err(format!(
                "{text} is too little memory; the minimum is {minimum}M"
            ));
        }
        Ok(MemoryLimit(bytes))
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a tour of the main commands on the repository's sample data, in a temporary lake
    Demo(DemoArgs),
    /// Ingest files, folders, glob patterns, URIs or standard input into the lake
    Ingest(IngestArgs),
    /// Verify every grain of the lake, or of files without ingesting them
    Verify(VerifyArgs),
    /// Show the contents of a container file
    Inspect(InspectArgs),
    /// Encode, decode or check single grains: JSON Lines in, JSON Lines out
    #[command(subcommand)]
    Grain(GrainCommand),
    /// Run SQL; without a query, start an interactive shell
    Sql(SqlArgs),
    /// Run compliance packs over the lake and report violations
    Scan(ScanArgs),
    /// Write a page about the lake: contents, cost, tools, consents, personal data, refused input
    Report(ReportArgs),
    /// Search for the grains that best match a text
    Search(SearchArgs),
    /// Run CAL; without a statement, start an interactive shell
    Cal(CalArgs),
    /// Export grains from the lake
    Export(ExportArgs),
    /// Convert between transcripts, messages and grains, without a lake
    Convert(ConvertArgs),
    /// Merge small segments into large ones
    Compact(CompactArgs),
    /// Remove files that the lake no longer references
    Gc(GcArgs),
    /// Rebuild sidecar indexes that are missing or damaged
    Reindex(ReindexArgs),
    /// Rebuild damaged derived data (columns, sidecars) and list what can't be repaired
    Repair(RepairArgs),
    /// Show the lake's tables, segments, sources and sidecars
    Describe(DescribeArgs),
    /// Add, supersede, contradict, verify and retract grains in bulk, subject to their policies
    Apply(governance::ApplyArgs),
    /// Erase all data about a person, with proof
    Erase(governance::EraseArgs),
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
    Generate(GenerateArgs),
    /// Serve the lake to an agent over the Model Context Protocol, on standard input and output
    Mcp(serving::McpArgs),
    /// Serve SQL, CAL and searches as JSON over HTTP
    Serve(serving::ServeArgs),
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

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// File of the page, in HTML without scripts
    #[arg(value_name = "PAGE")]
    pub output: PathBuf,
}

#[derive(Debug, Args)]
pub struct IngestArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Encrypt the lake first: all new data is sealed with the keys of the keyring, which is
    /// created if it doesn't exist
    #[arg(long)]
    pub encrypt: bool,
    /// Files, folders, glob patterns, URIs, or `-` for standard input
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
    /// Maximum size of standard input, a pipe or an object, which is spooled to disk before it is
    /// read [default: 64G]
    #[arg(long, value_name = "SIZE")]
    pub max_source: Option<Size>,
    /// Read all sources again, even if they were ingested before. Existing grains count as
    /// duplicates; a newer version may extract other grains from a transcript
    #[arg(long)]
    pub again: bool,
    /// Check all input and write nothing
    #[arg(long)]
    pub dry_run: bool,
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
}

impl IndexArg {
    /// Returns the `listed` kinds, or all without a list.
    pub fn kinds(listed: Option<&[IndexArg]>) -> IndexKinds {
        let has = |kind| listed.is_none_or(|listed| listed.contains(&kind));
        IndexKinds {
            hexastore: has(IndexArg::Hexastore),
            full_text: has(IndexArg::Fulltext),
            words: has(IndexArg::Words),
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
    /// Accept grains that are readable but not canonical or not complete
    #[arg(long)]
    pub lenient: bool,
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

#[derive(Debug, Subcommand)]
pub enum GrainCommand {
    /// Encode `{"grain": {…}, "options": {…}}` to `{"content_address": …, "blob_hex": …}`
    Encode(EncodeArgs),
    /// Decode `{"blob_hex": …}` to `{"grain": {…}, "header": {…}, "content_address": …}`
    Decode(DecodeArgs),
    /// Check `{"blob_hex": …}` with an optional `content_address`, and report what is wrong
    Check(DecodeArgs),
    /// Wrap `{"blob_hex": …}`, a blob with the signed flag, in a signature envelope
    Sign(SignArgs),
    /// Sign an operation of `apply` (supersede, contradict or retract) for a quorum or as a
    /// delegate: writes the signature, which goes into `supersession_auth` or `authorization_hex`
    Authorize(SignArgs),
    /// Hide fields of `{"blob_hex": …}`: writes the disclosed copy, linked to the original
    Elide(ElideArgs),
    /// Check that the values of `{"blob_hex": …, "revealed": {"FIELD": …}}` are those that the
    /// disclosed copy hides
    VerifyElision(LinesArgs),
}

#[derive(Debug, Args)]
pub struct EncodeArgs {
    #[command(flatten)]
    pub lines: LinesArgs,
    /// Sign each grain with this key of the keyring
    #[arg(long, value_name = "NAME")]
    pub key: Option<String>,
    /// DID that the signature names, whose document has the key [default: the key's did:key]
    #[arg(long, value_name = "DID", requires = "key")]
    pub signer: Option<String>,
}

#[derive(Debug, Args)]
pub struct SignArgs {
    #[command(flatten)]
    pub lines: LinesArgs,
    /// Name of the key in the keyring
    #[arg(long, value_name = "NAME")]
    pub key: String,
    /// DID that the signature names, whose document has the key [default: the key's did:key]
    #[arg(long, value_name = "DID")]
    pub signer: Option<String>,
}

#[derive(Debug, Args)]
pub struct ElideArgs {
    #[command(flatten)]
    pub lines: LinesArgs,
    /// Fields to hide, by full name
    #[arg(long, value_name = "FIELDS", value_delimiter = ',', required = true)]
    pub fields: Vec<String>,
}

#[derive(Debug, Args)]
pub struct LinesArgs {
    /// JSON Lines file [default: standard input]
    pub file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct DecodeArgs {
    /// JSON Lines file [default: standard input]
    pub file: Option<PathBuf>,
    /// Accept grains that are readable but not canonical or not complete, and mark them
    #[arg(long)]
    pub lenient: bool,
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
}

#[derive(Debug, Args)]
pub struct ScanArgs {
    /// Name of a shipped pack, or file of your own; may be repeated [default: all shipped packs]
    #[arg(long = "pack", short, value_name = "PACK")]
    pub packs: Vec<String>,
    /// Scan only grains added after this version, or after the `last` scan with the same rules
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
    /// Run the examples of a pack instead of a scan; may be repeated
    #[arg(long, value_name = "PACK", conflicts_with_all = ["packs", "since", "format", "output"])]
    pub test: Vec<String>,
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

#[derive(Debug, Args)]
pub struct SearchArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Search text: words, "a phrase", begin*, near~, this OR that, -unwanted. Put -- before a text
    /// that starts with a hyphen
    #[arg(required = true, value_name = "TEXT")]
    pub text: Vec<String>,
    /// Number of grains to show
    #[arg(long, short = 'n', default_value_t = 10, value_name = "N")]
    pub limit: usize,
    /// Search mode [default: hybrid if --embedder is set, otherwise text]
    #[arg(long, value_enum)]
    pub mode: Option<SearchModeArg>,
}

/// Kind of matching.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SearchModeArg {
    /// Full text
    Text,
    /// Similarity of embeddings
    Vector,
    /// Full text and embeddings, fused
    Hybrid,
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
    /// Restrict the session to this namespace [default: the whole lake]
    #[arg(long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// User to which MY refers
    #[arg(long, value_name = "ID")]
    pub user: Option<String>,
    /// Agent that acts for the user; the default observer of new observations
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Value of `now`: an ISO date and time, or milliseconds since 1970 [default: the clock]
    #[arg(long, value_name = "INSTANT")]
    pub now: Option<String>,
    /// Also accept the type names of other versions: facts, tools, episodes, checkpoints
    #[arg(long)]
    pub aliases: bool,
    /// Time limit of a query in seconds [default: 5, for ASSEMBLE 10]
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<f64>,
}

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
pub struct CompactArgs {
    #[command(flatten)]
    pub results: ResultArgs,
}

#[derive(Debug, Args)]
pub struct ReindexArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Also rebuild intact sidecars
    #[arg(long)]
    pub all: bool,
    /// Check and rebuild just these sidecar indexes besides the addresses [default: all]
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub indexes: Option<Vec<IndexArg>>,
    /// Index vectors from files (.parquet, .arrow, .npy, .fvecs) that grains reference by
    /// identifier
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub vectors: Vec<PathBuf>,
    /// Embed the texts of all grains and index the vectors
    #[arg(long, conflicts_with = "vectors")]
    pub embed: bool,
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
    /// Show what would be removed without removing it
    #[arg(long)]
    pub dry_run: bool,
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
    /// Output format
    #[arg(long, value_enum, default_value_t = GenerateKind::Mg)]
    pub kind: GenerateKind,
    /// Number of grains per file
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub file_grains: u64,
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

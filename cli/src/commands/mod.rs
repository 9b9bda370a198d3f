//! One file per command: its input, the library calls and its output. The work is done by the
//! libraries.
//!
//! Files with names that aren't those of a command:
//!
//! | module | of | contents |
//! |---|---|---|
//! | `cal_output`, `cal_table` | `cal` | output of responses and syntax trees; answers as a table |
//! | `changes` | `export --since`, `ingest --changes` | changes from one lake to another |
//! | `export_gate` | `export` | what must not be exported, and the audit entries |
//! | `pseudonyms` | `export --pseudonymize` | the people, and the key of the tokens |
//! | `grain_sharing` | `grain` | signatures and disclosed copies |
//! | `subject_selector`, `further_identifiers` | `erase`, `report-subject` | the flags that select people; identifiers that a request lacks |
//! | `manual` | `completions`, `man` | pages generated from the definition of the command line |

mod apply;
mod audit;
mod cal;
mod cal_output;
mod cal_table;
mod certificate;
mod changes;
#[cfg(feature = "cluster")]
mod cluster;
mod compact;
mod config;
mod convert;
mod demo;
mod describe;
mod erase;
mod export;
mod export_gate;
mod further_identifiers;
mod gc;
mod generate;
mod grain;
mod grain_sharing;
mod hold;
mod ingest;
mod inspect;
mod keys;
mod manual;
mod mcp;
mod migrate;
mod pseudonyms;
mod reindex;
mod repair;
mod report;
mod report_subject;
mod retention;
mod scan;
mod search;
mod serve;
mod sql;
mod subject_selector;
mod unfinished_erasure;
mod verify;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use gristmill_connectors::source::limit_resident_memory;
use gristmill_engine::index::vectors::embed::{Embedder, embedder};
use gristmill_engine::ingest::DEFAULT_MEMORY;
use gristmill_engine::progress::WorkProgress;
use gristmill_queries::render::shell_quoted;
use gristmill_schemas::message::price::PriceTable;

use crate::args::grain::GrainCommand;
use crate::args::size::MemoryLimit;
use crate::args::{Arguments, Command, CommonArgs, OutputFormat, ResultArgs};
use crate::exit::{CommandOutcome, Failure};
use crate::json_lines::RecordLayout;
use crate::log::note;
use crate::output::Printer;
use crate::progress::{ProgressDisplay, ProgressSnapshot, stop_on_interrupt};
use crate::requests::RequestsBefore;

/// Memory of a thread that holds a row group, in bytes: its payload of at most 64 MiB, and the rows
/// that are decoded from it.
const ROW_GROUP_MEMORY: usize = 128 << 20;

/// Resident memory above `--memory` from which on pages of mapped files are released, in bytes: the
/// program itself, and what isn't counted.
const RESIDENT_MARGIN: usize = 192 << 20;

/// Variable of the environment with the location of the lake.
const LAKE_VARIABLE: &str = "GRISTMILL_LAKE";

/// Runs the command of `arguments`.
pub async fn run(arguments: Arguments) -> Result<CommandOutcome, Failure> {
    let Arguments {
        common,
        results,
        command,
    } = arguments;
    let context = CommandContext {
        common,
        results,
        requests_before: RequestsBefore::now(),
    };
    context.limit_shared_pool();
    limit_resident_memory(context.memory().saturating_add(RESIDENT_MARGIN) as u64);
    match command {
        Command::Demo(arguments) => demo::run(&context, arguments).await,
        Command::Ingest(arguments) => ingest::run(&context, arguments).await,
        Command::Report(arguments) => report::run(&context, arguments).await,
        Command::Verify(arguments) => verify::run(&context, arguments).await,
        Command::Export(arguments) => export::run(&context, arguments).await,
        Command::Inspect(arguments) => inspect::run(&context, arguments).await,
        Command::Migrate(arguments) => migrate::run(&context, arguments).await,
        Command::Compact(arguments) => compact::run(&context, arguments).await,
        Command::Gc(arguments) => gc::run(&context, arguments).await,
        Command::Describe(arguments) => describe::run(&context, arguments).await,
        Command::Convert(arguments) => convert::run(&context, arguments).await,
        Command::Generate(arguments) => generate::run(&context, arguments),
        Command::Grain(command) => grain_command(&context, command),
        Command::Sql(arguments) => sql::run(&context, arguments).await,
        Command::Apply(arguments) => apply::run(&context, arguments).await,
        Command::Erase(arguments) => erase::run(&context, arguments).await,
        Command::Hold(command) => hold::run(&context, command).await,
        Command::Retention(command) => retention::run(&context, command).await,
        Command::ReportSubject(arguments) => report_subject::run(&context, arguments).await,
        Command::Certificate(arguments) => certificate::run(&context, arguments),
        Command::Audit(arguments) => audit::run(&context, arguments).await,
        Command::Keys(arguments) => keys::run(&context, arguments).await,
        Command::Scan(arguments) => scan::run(&context, arguments).await,
        Command::Reindex(arguments) => reindex::run(&context, arguments).await,
        Command::Repair(arguments) => repair::run(&context, arguments).await,
        Command::Search(arguments) => search::run(&context, arguments).await,
        Command::Cal(arguments) => cal::run(&context, arguments).await,
        Command::Serve(arguments) => serve::run(&context, arguments).await,
        Command::Mcp(arguments) => mcp::run(&context, arguments).await,
        #[cfg(feature = "cluster")]
        Command::Cluster(command) => cluster::run(&context, command).await,
        Command::Config(command) => config::run(&context, command),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { folder } => manual::pages(folder),
    }
}

fn grain_command(
    context: &CommandContext,
    command: GrainCommand,
) -> Result<CommandOutcome, Failure> {
    match command {
        GrainCommand::Encode(arguments) => grain::encode(context, arguments),
        GrainCommand::Decode(lines) => grain::decode(context, lines),
        GrainCommand::Check(lines) => grain::check(context, lines),
        GrainCommand::Sign(arguments) => grain_sharing::sign(context, arguments),
        GrainCommand::Authorize(arguments) => grain_sharing::authorize(context, arguments),
        GrainCommand::Elide(arguments) => grain_sharing::elide(arguments),
        GrainCommand::VerifyElision(lines) => grain_sharing::verify_elision(lines),
    }
}

/// Boxed [`run`], for a command that runs others.
fn run_boxed(
    arguments: Arguments,
) -> Pin<Box<dyn Future<Output = Result<CommandOutcome, Failure>>>> {
    Box::pin(run(arguments))
}

/// Settings shared by all commands.
pub struct CommandContext {
    pub common: CommonArgs,
    results: ResultArgs,
    requests_before: RequestsBefore,
}

impl CommandContext {
    /// Returns the printer of a command with its own format flags.
    pub fn printer(&self, own: ResultArgs) -> Printer {
        Printer::new(own, self.results, self.requests_before)
    }

    /// Returns the layout of the JSON that standard output gets: lines, or one array if the format
    /// `json` is requested. Refuses formats other than JSON, rather than ignoring them.
    pub fn json_layout(&self, own: ResultArgs) -> Result<RecordLayout, Failure> {
        match own.format.or(self.results.format) {
            None | Some(OutputFormat::Jsonl) => Ok(RecordLayout::Lines),
            Some(OutputFormat::Json) => Ok(RecordLayout::Array),
            Some(_) => Err(Failure::usage(
                "standard output is JSON here, --format json or jsonl; other formats apply only to \
                 the summary that is printed with --out FILE",
            )),
        }
    }

    /// Returns the URI of the lake.
    pub fn lake(&self) -> &str {
        self.common.lake.as_deref().unwrap_or("lake")
    }

    /// Returns how a command over the same lake begins, for messages that suggest one.
    pub fn command_prefix(&self) -> String {
        let lake = self.common.lake.as_deref();
        let in_environment = std::env::var(LAKE_VARIABLE).ok();
        match lake.filter(|lake| in_environment.as_deref() != Some(*lake)) {
            Some(lake) => format!("gristmill --lake {}", shell_quoted(lake)),
            None => "gristmill".to_owned(),
        }
    }

    /// Returns the embedder of `--embedder`, or else the built-in one, which is loaded on first
    /// use.
    pub fn embedder(&self) -> Result<Arc<dyn Embedder>, Failure> {
        let named = self.common.embedder.as_deref().unwrap_or("static");
        embedder(named).map_err(|error| Failure::usage(error.to_string()))
    }

    /// Reads the price tables of `--prices`, in order.
    pub fn price_tables(&self) -> Result<Vec<PriceTable>, Failure> {
        let read = |path: &PathBuf| {
            let shown = path.display();
            let text = std::fs::read_to_string(path)
                .map_err(|error| Failure::environment(&format!("can't read `{shown}`"), &error))?;
            PriceTable::from_yaml(&text)
                .map_err(|error| Failure::usage(format!("`{shown}`: {error}")))
        };
        self.common.prices.iter().map(read).collect()
    }

    /// Returns the built-in prices, overridden by those of `--prices`.
    pub fn prices(&self) -> Result<PriceTable, Failure> {
        let tables = self.price_tables()?;
        Ok(tables.iter().fold(PriceTable::builtin(), |prices, table| {
            prices.overlaid(table)
        }))
    }

    /// Returns the memory limit in bytes: `--memory`, or else the default stated by `--help`.
    pub fn memory(&self) -> usize {
        self.common
            .memory
            .map_or(DEFAULT_MEMORY, |MemoryLimit(bytes)| bytes)
    }

    /// Starts to show the progress of an operation, which the first interrupt stops.
    pub fn track(&self, work: &'static str) -> (Arc<WorkProgress>, ProgressDisplay) {
        let progress = Arc::new(WorkProgress::default());
        stop_on_interrupt(Arc::clone(&progress));
        let watched = Arc::clone(&progress);
        let snapshot = move || ProgressSnapshot::from(&*watched);
        let display = ProgressDisplay::start(&self.common, work, snapshot);
        (progress, display)
    }

    /// Prints a line that is neither a result nor an error, unless `--quiet` is given.
    pub fn hint(&self, line: impl std::fmt::Display) {
        if !self.common.quiet {
            note(line);
        }
    }

    /// Returns the number of worker threads; 0 for one per core.
    pub fn threads(&self) -> usize {
        self.common.threads.unwrap_or(0)
    }

    /// Returns the number of threads that hold a row group each: those of [`Self::threads`] for
    /// which the memory suffices.
    pub fn row_group_threads(&self) -> usize {
        let wanted = gristmill_connectors::threads(self.threads());
        wanted.min(self.memory() / ROW_GROUP_MEMORY).max(1)
    }

    /// Limits the threads of work for which a command has no pool of its own, such as indexing.
    fn limit_shared_pool(&self) {
        let threads = self.row_group_threads();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        // A command that runs others (`demo`) has limited it already.
        if pool.build_global().is_ok() {
            let memory = self.memory();
            tracing::debug!(memory, threads, "row groups in memory at a time");
        }
    }
}

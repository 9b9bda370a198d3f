//! `cal`: runs statements, a file, standard input, or a shell.

use std::borrow::Cow;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use gristmill_queries::cal::fields::FIELDS;
use gristmill_queries::cal::grain_type::{PLURALS, SINGULARS};
use gristmill_queries::cal::keywords::Keyword;
use gristmill_queries::cal::vocabulary::{DescribeTarget, Format as CalFormat, OptionName, Preset};
use gristmill_queries::cal::{Bindings, CalError, Code, Options, Statement, split, to_json};
use gristmill_queries::exec::{
    self, ExecutionError, Executor, LakeWriter, Session, current_millis,
};
use gristmill_queries::sql::{SqlOptions, lake_context};
use gristmill_schemas::json::Json;

use super::CommandContext;
use super::cal_output::{Printing, WHOLE_WORDS, is_unmatched_search, print, print_notes, show};
use super::sql;
use crate::args::query::CalArgs;
use crate::diagnostic;
use crate::exit::{CommandOutcome, Failure};
use crate::instant_arg::parse_instant;
use crate::log::note;
use crate::output::read_script;
use crate::shell::script::{ScriptPart, ScriptStatements, script_parts};
use crate::shell::{COMMANDS, Shell, ShellCommand, ShellInput, unknown_command};

/// Parses or runs the statements.
pub async fn run(context: &CommandContext, arguments: CalArgs) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(arguments.results);
    let mut printing = Printing::of(printer)?;
    let options = Options {
        aliases: arguments.aliases,
    };
    let text = text(&arguments)?;
    if arguments.parse {
        return parse(&text.unwrap_or_default(), options, printing);
    }
    let bindings = bindings(&arguments.parameters)?;
    let mut session = CalSession::start(context, &arguments).await?;
    match text {
        Some(text) => {
            #[cfg(feature = "cluster")]
            let cluster = session.cluster.clone();
            let run = session.all(&text, &bindings, options, &mut printing);
            #[cfg(feature = "cluster")]
            let run = super::cluster::cancelled_by_interrupt(cluster.as_ref(), run);
            if run.await? == Last::Definition {
                context.hint(TEMPLATE_HINT);
            }
            printer.print_requests();
            Ok(CommandOutcome::Done)
        }
        None => session.shell(&bindings, options, printing).await,
    }
}

/// Hint for a run that ends right after a template definition.
const TEMPLATE_HINT: &str = "gristmill: templates exist only for the duration of a session, so \
                             this definition has no effect; define it in the shell (`gristmill \
                             cal` without a statement), or write FORMAT TEMPLATE { … } in the \
                             ASSEMBLE";

/// Kind of the last statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// A template definition.
    Definition,
    /// Any other statement.
    Other,
}

impl Last {
    fn of(statement: &Statement) -> Last {
        if matches!(statement, Statement::DefineTemplate(_)) {
            Last::Definition
        } else {
            Last::Other
        }
    }
}

/// Returns the statements; `None` for a shell.
fn text(arguments: &CalArgs) -> Result<Option<Vec<u8>>, Failure> {
    Ok(match (&arguments.statement, &arguments.file) {
        (Some(statement), _) => Some(statement.as_encoded_bytes().to_vec()),
        (None, None) if std::io::stdin().is_terminal() && !arguments.parse => None,
        (None, file) => Some(read_script(file.as_deref())?),
    })
}

/// Prints the syntax trees of all statements, or the first error.
fn parse(text: &[u8], options: Options, printing: Printing) -> Result<CommandOutcome, Failure> {
    queries(text, options, printing)?
        .into_iter()
        .try_for_each(|query| parse_one(query, options, printing))?;
    Ok(CommandOutcome::Done)
}

/// Splits `text` into its statements.
fn queries(text: &[u8], options: Options, printing: Printing) -> Result<Vec<&[u8]>, Failure> {
    match split(text, options) {
        Ok(queries) => Ok(queries),
        Err(error) => Err(report_error(&error.into(), text, printing)?),
    }
}

/// A step of a script.
enum CalStep<'t> {
    Statement(&'t [u8]),
    Command(ShellCommand),
}

/// Parses a script, so that nothing of it runs if a statement can't be parsed.
fn steps(text: &[u8], options: Options, printing: Printing) -> Result<Vec<CalStep<'_>>, Failure> {
    let Ok(script) = std::str::from_utf8(text) else {
        let queries = queries(text, options, printing)?;
        return Ok(queries.into_iter().map(CalStep::Statement).collect());
    };
    let mut steps = Vec::new();
    for part in script_parts(script)? {
        match part {
            ScriptPart::Statements(part) => {
                let found = queries_of_part(&part, options, printing)?;
                steps.extend(found.into_iter().map(CalStep::Statement));
            }
            ScriptPart::Command(command) => steps.push(CalStep::Command(command)),
        }
    }
    Ok(steps)
}

/// Splits a part of a script into its statements. An error has the position in the script.
fn queries_of_part<'t>(
    part: &ScriptStatements<'t>,
    options: Options,
    printing: Printing,
) -> Result<Vec<&'t [u8]>, Failure> {
    let text = part.text.as_bytes();
    split(text, options).or_else(|_| {
        queries(part.in_place().as_bytes(), options, printing)?;
        queries(text, options, printing)
    })
}

fn parse_one(text: &[u8], options: Options, printing: Printing) -> Result<(), Failure> {
    match exec::parse_query(text, options) {
        Ok(parsed) => {
            for warning in &parsed.warnings {
                note(format_args!(
                    "{}: {}",
                    warning.code.as_str(),
                    warning.message
                ));
            }
            // A syntax tree is printed as JSON even on a terminal.
            let printing = if printing == Printing::Line {
                Printing::Line
            } else {
                Printing::Pretty
            };
            print(&to_json(&parsed.query), printing)
        }
        Err(error) => Err(report_error(&error.into(), text, printing)?),
    }
}

/// Prints the error object in machine-readable formats and returns the failure for people.
fn report_error(
    error: &ExecutionError,
    text: &[u8],
    printing: Printing,
) -> Result<Failure, Failure> {
    if printing.is_json() {
        print(
            &Json::Object([("error", error.to_json())].into_iter().collect()),
            printing,
        )?;
    }
    Ok(failure(error, text))
}

fn failure(error: &ExecutionError, text: &[u8]) -> Failure {
    match error {
        ExecutionError::Cal(error) => {
            let message = diagnostic::render(error, text);
            match error.code() {
                Code::E044 | Code::E045 => Failure::policy(message),
                _ => Failure::usage(message),
            }
        }
        ExecutionError::Refused {
            by_policy: true, ..
        } => Failure::policy(error.to_string()),
        ExecutionError::Refused { .. } | ExecutionError::Grain(_) => {
            Failure::usage(error.to_string())
        }
        ExecutionError::Store(cause) => sql::failure_of(cause),
        ExecutionError::Engine(cause) => Failure::from(cause),
    }
}

/// Parses `--param name=value`; each name may occur once.
fn bindings(parameters: &[String]) -> Result<Bindings, Failure> {
    let mut bindings = Bindings::new();
    for parameter in parameters {
        let Some((name, value)) = parameter.split_once('=') else {
            return Err(Failure::usage(format!(
                "invalid parameter `--param {parameter}`; use NAME=VALUE"
            )));
        };
        let bound = bindings.insert_argument(name.trim_start_matches('$'), value);
        bound.map_err(|error: CalError| Failure::usage(format!("--param {name}: {error}")))?;
    }
    Ok(bindings)
}

/// A session over a lake.
struct CalSession {
    executor: Executor,
    options: SqlOptions,
    writer: Option<Arc<LakeWriter>>,
    /// True if `--now` fixes the time.
    fixed_now: bool,
    /// True if execution times are shown.
    timing: bool,
    /// True if only results and errors are shown.
    quiet: bool,
    #[cfg(feature = "cluster")]
    cluster: Option<gristmill_cluster::Scheduler>,
}

impl CalSession {
    async fn start(context: &CommandContext, arguments: &CalArgs) -> Result<CalSession, Failure> {
        let lake = match arguments.allow_writes {
            true => context.open_lake().await?,
            false => context.open_lake_for_queries().await?,
        };
        let options = sql::options(context)?;
        let tables = lake_context(&lake, &options).await.map_err(sql::failure)?;
        #[cfg(feature = "cluster")]
        let cluster = super::cluster::join_to_read(
            context,
            &tables,
            &arguments.cluster,
            arguments.allow_writes,
        )?;
        let mut executor = Executor::new(tables, session(arguments)?);
        let mut writer = None;
        if arguments.allow_writes {
            let lake = Arc::new(LakeWriter::new(lake));
            executor = executor.with_writer(Arc::clone(&lake) as _);
            writer = Some(lake);
        }
        Ok(CalSession {
            executor,
            options,
            writer,
            fixed_now: arguments.now.is_some(),
            timing: true,
            quiet: context.common.quiet,
            #[cfg(feature = "cluster")]
            cluster,
        })
    }

    /// Runs the statements and shell commands of `text` in order and stops at the first failure;
    /// runs none if a statement can't be parsed.
    async fn all(
        &mut self,
        text: &[u8],
        bindings: &Bindings,
        options: Options,
        printing: &mut Printing,
    ) -> Result<Last, Failure> {
        let steps = steps(text, options, *printing)?;
        let count = steps.len();
        let mut last = Last::Other;
        for (number, step) in (1_usize..).zip(steps) {
            let ended = self.step(step, bindings, options, printing).await;
            if ended.is_err() && count > 1 {
                note(format_args!(
                    "statement {number} of {count} failed; the following ones were not run"
                ));
            }
            last = ended?;
            self.reload_lake().await?;
        }
        Ok(last)
    }

    async fn step(
        &mut self,
        step: CalStep<'_>,
        bindings: &Bindings,
        options: Options,
        printing: &mut Printing,
    ) -> Result<Last, Failure> {
        let query = match step {
            CalStep::Statement(query) => Cow::Borrowed(query),
            CalStep::Command(command) => match self.run_command(command, printing) {
                Some(text) => Cow::Owned(text.into_bytes()),
                None => return Ok(Last::Other),
            },
        };
        if !self.fixed_now {
            self.executor.session_mut().now_ms = current_millis();
        }
        let response = match self.executor.run_text(&query, bindings, options).await {
            Ok(response) => response,
            Err(error) => return Err(report_error(&error, &query, *printing)?),
        };
        show(&response, *printing)?;
        let parsed = exec::parse_query(&query, options).ok();
        let statement = parsed.as_ref().map(|parsed| &parsed.query.statement);
        if !self.quiet && !printing.is_json() {
            let took = self.timing.then_some(response.duration_ms);
            print_notes(&response.answer, took);
            if statement.is_some_and(|searched| is_unmatched_search(searched, &response.answer)) {
                note(WHOLE_WORDS);
            }
        }
        Ok(statement.map_or(Last::Other, Last::of))
    }

    async fn shell(
        &mut self,
        bindings: &Bindings,
        options: Options,
        mut printing: Printing,
    ) -> Result<CommandOutcome, Failure> {
        note(
            "CAL over the lake. End a statement with `;`. `help` lists the shell's commands, \
             `DESCRIBE grammar;` shows the language, `quit` leaves.",
        );
        let mut shell = Shell::new("cal", completions());
        loop {
            let ended = match shell.read()? {
                ShellInput::End => return Ok(CommandOutcome::Done),
                ShellInput::Nothing => continue,
                ShellInput::Text(text) => {
                    self.all(text.as_bytes(), bindings, options, &mut printing)
                        .await
                }
                ShellInput::Command(command) => {
                    let step = CalStep::Command(command);
                    self.step(step, bindings, options, &mut printing).await
                }
            };
            if let Err(failure) = ended {
                note(&failure);
            }
        }
    }

    /// Runs a shell command; returns the CAL statement that it is an alias for, if any.
    fn run_command(&mut self, command: ShellCommand, printing: &mut Printing) -> Option<String> {
        match command {
            ShellCommand::Help => note(COMMANDS),
            ShellCommand::List => return Some("DESCRIBE grain_types".to_owned()),
            ShellCommand::Describe(name) => return Some(format!("DESCRIBE fields {name}")),
            ShellCommand::Records => *printing = toggle_records(*printing),
            ShellCommand::Functions(_) => {
                note("CAL has no functions; `DESCRIBE grammar;` shows the language")
            }
            ShellCommand::Timing => {
                self.timing = !self.timing;
                note(format_args!(
                    "timing is {}",
                    if self.timing { "on" } else { "off" }
                ));
            }
            ShellCommand::Unknown(text) => note(unknown_command(&text)),
        }
        None
    }

    /// Reloads the lake, so that the session sees its own writes.
    async fn reload_lake(&mut self) -> Result<(), Failure> {
        if let Some(writer) = &self.writer {
            let lake = writer.lake().await;
            let tables = lake_context(&lake, &self.options).await;
            self.executor.set_context(tables.map_err(sql::failure)?);
        }
        Ok(())
    }
}

/// Switches between a table and a record per grain.
fn toggle_records(printing: Printing) -> Printing {
    if printing.is_json() {
        note("results are JSON; --format table prints tables");
        return printing;
    }
    let records = !printing.prints_records();
    note(format_args!(
        "records are {}",
        if records { "on" } else { "off" }
    ));
    printing.with_records(records)
}

fn session(arguments: &CalArgs) -> Result<Session, Failure> {
    let now_ms = match &arguments.now {
        Some(text) => parse_instant("--now", text)?,
        None => current_millis(),
    };
    let mut session = Session {
        namespace: arguments.session.namespace.clone(),
        user: arguments.session.user.clone(),
        agent: arguments.session.agent.clone(),
        writes: arguments.allow_writes,
        unreviewed: arguments.unreviewed,
        ..Session::at(now_ms)
    };
    if let Some(seconds) = arguments.timeout {
        let limit = Duration::try_from_secs_f64(seconds)
            .map_err(|error| Failure::usage(format!("--timeout {seconds}: {error}")))?;
        session.query_timeout = limit;
        session.assemble_timeout = limit;
    }
    Ok(session)
}

/// Returns the words that the shell completes.
fn completions() -> Vec<String> {
    let keywords = Keyword::ALL.iter().map(|keyword| keyword.name());
    let fields = FIELDS.iter().map(|field| field.name);
    let names = [
        CalFormat::NAMES,
        Preset::NAMES,
        OptionName::NAMES,
        DescribeTarget::NAMES,
        &PLURALS,
        &SINGULARS,
    ];
    let mut words: Vec<String> = keywords
        .chain(fields)
        .chain(names.into_iter().flatten().copied())
        .map(str::to_owned)
        .collect();
    words.sort();
    words.dedup();
    words
}

//! Parses the command line together with the configuration files.
//!
//! An option has, in this order, its value on the command line, in the environment, in the profile
//! (`--profile`), in `gristmill.toml` of the current folder, in that of the user's configuration
//! folder, or its default. The files set the long options of the command line by their names:
//!
//! ```toml
//! lake = "s3://memory/lake"
//!
//! [search]
//! limit = 20
//!
//! [profile.nightly]
//! memory = "4G"
//! progress = "json"
//! ```
//!
//! A value of a file becomes the default of its option, so that the definition of the command line
//! is the only list of options.

pub mod environment;
pub mod options;
pub mod settings;

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};

use crate::args::Arguments;
use crate::exit::Failure;
use environment::{definition, definition_without_variables, variable_of_key};
use options::{joined, with_flag_values, with_settings, without_requirements};
use settings::Settings;

/// Reason why the command line can't be used.
pub enum ParseFailure {
    /// The command line is wrong, or requests help.
    CommandLine(Box<clap::Error>),
    /// A configuration file is wrong.
    Configuration(Failure),
}

impl From<clap::Error> for ParseFailure {
    fn from(error: clap::Error) -> ParseFailure {
        ParseFailure::CommandLine(Box::new(error))
    }
}

/// Parses `words`, the first of which is the program, with the configuration files. An option that
/// another one requires may be in a file.
///
/// # Errors
/// A wrong command line, or else a wrong configuration.
pub fn parse(words: &[OsString]) -> Result<Arguments, ParseFailure> {
    let (matches, unmet) = match matches_of(words) {
        Ok(matches) => (matches, None),
        Err(error) => match matches_without_requirements(words, &error) {
            Some(matches) => (matches, Some(error)),
            None => return Err(with_variable(error, words)),
        },
    };
    let values = given_values(&matches);
    let mut arguments = Arguments::from_arg_matches(&matches)?;
    let settings =
        Settings::read(arguments.common.profile.as_deref()).map_err(ParseFailure::Configuration)?;
    if settings.is_empty() && unmet.is_none() {
        arguments.common.given = values;
        return Ok(arguments);
    }
    let path = path_of(&matches);
    let settings = settings.without_overridden(&given(&matches), &path);
    if let Some(error) = unmet
        && !has_all_missing(&settings, &path, &error)
    {
        return Err(error.into());
    }
    // Requirements among the words were checked above; values of files, which are defaults here,
    // would not meet them.
    let command = without_requirements(with_flag_values(definition()));
    let matches = with_settings(command, &settings)
        .try_get_matches_from(words)
        .map_err(|error| ParseFailure::Configuration(failure_of(&error, &settings)))?;
    arguments = Arguments::from_arg_matches(&matches)?;
    arguments.common.given = values;
    Ok(arguments)
}

/// Parses `words` without configuration files.
fn matches_of(words: &[OsString]) -> Result<ArgMatches, clap::Error> {
    help_layout(definition())
        .try_get_matches_from(words)
        .or_else(|error| match error.use_stderr() {
            // A file may set a flag, which `--flag=false` resets. Help shows flags without values.
            true => with_flag_values(definition())
                .try_get_matches_from(words)
                .map_err(|_| error),
            false => Err(error),
        })
}

/// Parses `words` without the requirements of options if these are what `error` is about; `None` if
/// the words are wrong otherwise.
fn matches_without_requirements(words: &[OsString], error: &clap::Error) -> Option<ArgMatches> {
    if error.kind() != ErrorKind::MissingRequiredArgument {
        return None;
    }
    without_requirements(with_flag_values(definition()))
        .try_get_matches_from(words)
        .ok()
}

/// Returns the failure of `words`. A wrong value that isn't among them is that of a variable, which
/// the message names.
fn with_variable(error: clap::Error, words: &[OsString]) -> ParseFailure {
    let is_of_words = || {
        let command = with_flag_values(definition_without_variables());
        command.try_get_matches_from(words).is_err()
    };
    if !is_about_a_value(&error) || is_of_words() {
        return error.into();
    }
    match variable_of_key(key_of(option_of(&error))) {
        Some(variable) => ParseFailure::Configuration(failure(&error, &variable)),
        None => error.into(),
    }
}

/// Returns true if `settings` set every option that `error` misses for the command at `path`.
fn has_all_missing(settings: &Settings, path: &str, error: &clap::Error) -> bool {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else {
        return false;
    };
    missing.iter().all(|option| {
        let setting = settings.get(path, key_of(option));
        setting.is_some_and(|setting| setting.values != ["false"])
    })
}

/// Returns the key of an option in a message, such as `tls-key` of `--tls-key <FILE>`.
fn key_of(option: &str) -> &str {
    let key = option.trim_start_matches('-');
    key.split([' ', '=', '[']).next().unwrap_or_default()
}

/// Returns the values of the options that are on the command line, by their ids; those of a command
/// have its names before it, such as `scan format`.
fn given_values(matches: &ArgMatches) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    let (mut level, mut path) = (matches, String::new());
    loop {
        for id in level.ids().map(clap::Id::as_str) {
            let is_given = level.value_source(id) == Some(ValueSource::CommandLine);
            if let Some(given) = level.get_raw(id).filter(|_| is_given) {
                let given = given.map(|value| value.to_string_lossy().into_owned());
                values.insert(joined(&path, id), given.collect::<Vec<_>>().join(", "));
            }
        }
        let Some((name, inner)) = level.subcommand() else {
            return values;
        };
        (level, path) = (inner, joined(&path, name));
    }
}

/// Checks the values of all `settings`, also those of other commands.
///
/// # Errors
/// [`Failure`] for the first value that its option refuses.
pub fn check(settings: &Settings) -> Result<(), Failure> {
    for path in settings.commands() {
        let words = std::iter::once("gristmill").chain(path.split_whitespace());
        let result =
            with_settings(with_flag_values(definition()), settings).try_get_matches_from(words);
        if let Err(error) = result
            && is_about_a_value(&error)
        {
            return Err(failure_of(&error, settings));
        }
    }
    Ok(())
}

/// Returns the ids of all arguments on the command line.
fn given(matches: &ArgMatches) -> HashSet<String> {
    let mut given = HashSet::new();
    let mut level = Some(matches);
    while let Some(matches) = level {
        let ids = matches.ids().map(clap::Id::as_str);
        let on_command_line =
            |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        given.extend(ids.filter(on_command_line).map(str::to_owned));
        level = matches.subcommand().map(|(_, inner)| inner);
    }
    given
}

/// Returns the names of the commands that `matches` selects, separated by blanks.
fn path_of(matches: &ArgMatches) -> String {
    let mut names = Vec::new();
    let mut level = matches.subcommand();
    while let Some((name, inner)) = level {
        names.push(name);
        level = inner.subcommand();
    }
    names.join(" ")
}

fn is_about_a_value(error: &clap::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation
    )
}

/// Returns the failure of a value of `settings` that its option refuses: the command line without
/// configuration is right.
fn failure_of(error: &clap::Error, settings: &Settings) -> Failure {
    let origin = settings.origin_of_key(key_of(option_of(error)));
    failure(error, origin.unwrap_or(settings::FILE))
}

/// Returns the option that an error is about, as a message shows it; empty if there is none.
fn option_of(error: &clap::Error) -> &str {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) => option,
        _ => "",
    }
}

/// Returns the failure of a value from `origin` that its option refuses.
fn failure(error: &clap::Error, origin: &str) -> Failure {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let lines = text
        .lines()
        .take_while(|line| !line.starts_with("For more"));
    let message = lines.collect::<Vec<_>>().join("\n");
    Failure::usage(format!("{origin}: {}", message.trim_end()))
}

/// Returns the command line with compact help: `-h` and `--help` have one paragraph per option, and
/// those of a command describe only its own options and name the global ones. `gristmill help
/// COMMAND` describes the values of options too.
fn help_layout(command: Command) -> Command {
    let globals: Vec<String> = command
        .get_arguments()
        .filter(|arg| arg.is_global_set())
        .filter_map(|arg| Some(format!("--{}", arg.get_long()?)))
        .collect();
    let names = format!(
        "Global options, described by `gristmill --help`:\n  {}",
        wrapped(&globals)
    );
    let mut command = with_short_help(command);
    // Global options reach the commands when the definition is built.
    command.build();
    for inner in command.get_subcommands_mut() {
        name_globals(inner, &names);
    }
    command
}

/// Replaces the help flag of `command` and its subcommands by one whose two spellings are equal.
fn with_short_help(command: Command) -> Command {
    let help = Arg::new("help")
        .short('h')
        .long("help")
        .help("Print help; `gristmill help COMMAND` also describes the values of options")
        .action(ArgAction::HelpShort);
    let mut command = command.disable_help_flag(true).arg(help);
    for inner in command.get_subcommands_mut() {
        *inner = with_short_help(std::mem::take(inner));
    }
    command
}

fn name_globals(command: &mut Command, names: &str) {
    let hidden = std::mem::take(command)
        .mut_args(|arg| match arg.is_global_set() {
            true => arg.hide(true),
            false => arg,
        })
        .after_help(names.to_owned());
    *command = hidden;
    for inner in command.get_subcommands_mut() {
        name_globals(inner, names);
    }
}

/// Joins names, a few per line.
fn wrapped(names: &[String]) -> String {
    let lines = names.chunks(7).map(|names| names.join(", "));
    lines.collect::<Vec<_>>().join(",\n  ")
}

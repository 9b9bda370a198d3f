//! The options that a configuration file can set, from the definition of the command line.

use clap::builder::Resettable;
use clap::{Arg, ArgAction, Command, Id, value_parser};

use super::settings::{Setting, Settings};

/// Options that only the command line sets: what they do must be wanted for each run.
const COMMAND_LINE_ONLY: [&str; 4] = ["help", "version", "profile", "execute"];

/// An option that a configuration file can set.
pub struct ConfigOption<'c> {
    /// Names of its command, separated by blanks; empty for options of all commands.
    pub command: String,
    /// Its long name, which is its key in the file.
    pub key: &'c str,
    /// Its definition.
    pub arg: &'c Arg,
}

impl ConfigOption<'_> {
    /// Returns true if it is a flag without a value.
    pub fn is_flag(&self) -> bool {
        matches!(self.arg.get_action(), ArgAction::SetTrue)
    }

    /// Returns true if it takes several values.
    pub fn is_list(&self) -> bool {
        let several = self
            .arg
            .get_num_args()
            .is_some_and(|range| range.max_values() > 1);
        matches!(self.arg.get_action(), ArgAction::Append) || several
    }

    /// Returns its description without the default.
    pub fn description(&self) -> String {
        let help = self.help();
        let end = help.find(" [default: ").unwrap_or(help.len());
        help.get(..end).unwrap_or_default().to_owned()
    }

    /// Returns its default: the value, or the words by which its description states it.
    pub fn default(&self) -> Option<String> {
        if self.is_flag() {
            return Some("false".to_owned());
        }
        let values = self.arg.get_default_values();
        if !values.is_empty() {
            let values = values.iter().map(|value| value.to_string_lossy());
            return Some(values.collect::<Vec<_>>().join(", "));
        }
        let help = self.help();
        let (_, default) = help.split_once("[default: ")?;
        Some(default.trim_end_matches(']').to_owned())
    }

    fn help(&self) -> String {
        let help = self.arg.get_help().map(ToString::to_string);
        help.unwrap_or_default()
    }
}

/// Returns all options of `command` and of its subcommands, the general ones first.
pub fn config_options(command: &Command) -> Vec<ConfigOption<'_>> {
    let mut options = Vec::new();
    collect(command, "", &mut options);
    options
}

fn collect<'c>(command: &'c Command, path: &str, options: &mut Vec<ConfigOption<'c>>) {
    options.extend(own_options(command, path));
    for inner in command.get_subcommands() {
        collect(inner, &joined(path, inner.get_name()), options);
    }
}

/// Returns the options of `command` at `path` itself.
pub fn own_options<'c>(command: &'c Command, path: &str) -> impl Iterator<Item = ConfigOption<'c>> {
    command.get_arguments().filter_map(move |arg| {
        let key = arg.get_long()?;
        let is_set_by_files =
            !arg.is_required_set() && !arg.is_positional() && !COMMAND_LINE_ONLY.contains(&key);
        is_set_by_files.then(|| ConfigOption {
            command: path.to_owned(),
            key,
            arg,
        })
    })
}

/// Returns the path of the subcommand `name` of the command at `path`.
pub fn joined(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path} {name}"),
    }
}

/// Returns the command at `path`.
pub fn command_at<'c>(command: &'c Command, path: &str) -> Option<&'c Command> {
    path.split_whitespace()
        .try_fold(command, |command, name| command.find_subcommand(name))
}

/// Returns the command line with the values of `settings` as defaults of their options.
pub fn with_settings(command: Command, settings: &Settings) -> Command {
    settings
        .iter()
        .fold(command, |command, (path, key, setting)| {
            let names: Vec<&str> = path.split_whitespace().collect();
            with_default(command, &names, key, setting)
        })
}

fn with_default(command: Command, names: &[&str], key: &str, setting: &Setting) -> Command {
    match names.split_first() {
        Some((name, inner)) => {
            command.mut_subcommand(name, |command| with_default(command, inner, key, setting))
        }
        None => {
            let arg = command
                .get_arguments()
                .find(|arg| arg.get_long() == Some(key));
            match arg.map(|arg| arg.get_id().as_str().to_owned()) {
                Some(id) => command.mut_arg(id, |arg| arg.default_values(setting.values.clone())),
                None => command,
            }
        }
    }
}

/// Returns the command line with flags that take an optional value: `--flag=false`.
pub fn with_flag_values(command: Command) -> Command {
    let mut command = command.mut_args(|arg| match arg.get_action() {
        ArgAction::SetTrue => arg
            .action(ArgAction::Set)
            .value_parser(value_parser!(bool))
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .default_value("false"),
        _ => arg,
    });
    for inner in command.get_subcommands_mut() {
        *inner = with_flag_values(std::mem::take(inner));
    }
    command
}

/// Returns the command line with options that require no others.
pub fn without_requirements(command: Command) -> Command {
    let mut command = command.mut_args(|arg| arg.requires(Resettable::<Id>::Reset));
    for inner in command.get_subcommands_mut() {
        *inner = without_requirements(std::mem::take(inner));
    }
    command
}

/// Returns true if `option` and any argument of `given` exclude each other.
pub fn is_excluded(command: &Command, option: &Arg, given: &dyn Fn(&str) -> bool) -> bool {
    let conflicts = |left: &Arg, right: &Arg| {
        command
            .get_arg_conflicts_with(left)
            .iter()
            .any(|other| other.get_id() == right.get_id())
    };
    command
        .get_arguments()
        .filter(|other| given(other.get_id().as_str()))
        .any(|other| conflicts(option, other) || conflicts(other, option))
}

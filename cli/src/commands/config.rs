//! `config`: shows the configuration with its origins, or prints an example of the file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;

use clap::{Command, CommandFactory};
use gristmill_queries::render::escape_control;
use serde::Serialize;

use super::CommandContext;
use crate::args::{Arguments, ConfigCommand};
use crate::configuration::check;
use crate::configuration::environment::variable_of;
use crate::configuration::options::{ConfigOption, config_options};
use crate::configuration::settings::{FILE, Settings};
use crate::exit::{CommandOutcome, Failure};
use crate::output::write_stdout;

/// Runs one of the commands.
pub fn run(context: &CommandContext, command: ConfigCommand) -> Result<CommandOutcome, Failure> {
    match command {
        ConfigCommand::Show { results, all } => {
            let settings = Settings::read(context.common.profile.as_deref())?;
            check(&settings)?;
            let rows = rows(&settings, &context.common.given, all);
            context.printer(results).records(&rows)?;
        }
        ConfigCommand::Example => {
            let text = example(&Arguments::command());
            write_stdout(|out| out.write_all(text.as_bytes()))?;
        }
    }
    Ok(CommandOutcome::Done)
}

/// An option with its value.
#[derive(Debug, Serialize)]
struct OptionRow {
    /// Its command; empty for options of all commands.
    command: String,
    option: String,
    value: Option<String>,
    origin: String,
}

/// Returns the options of all commands and the ones that a file or the environment sets, or `all`;
/// `given` has the values on the command line.
fn rows(settings: &Settings, given: &BTreeMap<String, String>, all: bool) -> Vec<OptionRow> {
    let command = Arguments::command();
    let options = config_options(&command);
    let rows = options.iter().map(|option| {
        let value = given.get(option.arg.get_id().as_str());
        match value.filter(|_| option.command.is_empty()) {
            Some(value) => row(option, Some(value.clone()), "command line"),
            None => configured(option, settings),
        }
    });
    let is_shown = |row: &OptionRow| all || row.command.is_empty() || row.origin != DEFAULT;
    rows.filter(is_shown).collect()
}

/// Origin of a value that nothing sets.
const DEFAULT: &str = "default";

/// Returns the row of an option that isn't on the command line.
fn configured(option: &ConfigOption<'_>, settings: &Settings) -> OptionRow {
    if let Some((variable, value)) = variable_of(option.arg) {
        let value = value.to_string_lossy().into_owned();
        return row(option, Some(value), &variable.to_string_lossy());
    }
    match settings.get(&option.command, option.key) {
        Some(setting) => row(option, Some(setting.values.join(", ")), &setting.origin),
        None => row(option, option.default(), DEFAULT),
    }
}

fn row(option: &ConfigOption<'_>, value: Option<String>, origin: &str) -> OptionRow {
    OptionRow {
        command: option.command.clone(),
        option: option.key.to_owned(),
        value: value.map(|value| escape_control(&value).into_owned()),
        origin: origin.to_owned(),
    }
}

/// Width of the descriptions in the example.
const WIDTH: usize = 96;

/// Formats a configuration file with all options of `command` as comments.
fn example(command: &Command) -> String {
    let mut out = format!(
        "# {FILE}: options of gristmill, by their long names. Read from the current folder and \
         from\n# the folder `gristmill` of the user's configuration. The command line and the \
         environment\n# override it. Tables are commands; [profile.NAME] and [profile.NAME.COMMAND] \
         apply with\n# `--profile NAME`. Remove `#` before an option to set it.\n\n"
    );
    let mut table = String::new();
    for option in config_options(command) {
        if option.command != table {
            table.clone_from(&option.command);
            out.push_str(&format!("[{}]\n", table.replace(' ', ".")));
        }
        out.push_str(&described(&option));
    }
    out
}

/// Formats one option: its description, its values and a line that sets it.
fn described(option: &ConfigOption<'_>) -> String {
    let mut text = option.description();
    let values = option.arg.get_possible_values();
    let names: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
    if !names.is_empty() && !option.is_flag() {
        text.push_str(&format!(": {}", names.join(", ")));
    }
    let mut out = comment(&text);
    let _ = writeln!(out, "#{} = {}\n", option.key, example_value(option));
    out
}

/// Wraps `text` into the lines of a comment.
fn comment(text: &str) -> String {
    let mut out = String::new();
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.len() + word.len() >= WIDTH {
            out.push_str(&line);
            out.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
    out
}

/// Returns the default of an option as TOML, or the name of its value.
fn example_value(option: &ConfigOption<'_>) -> String {
    let stated = option.arg.get_default_values().first();
    let name = option.arg.get_value_names().and_then(<[_]>::first);
    let text = match (stated, name) {
        (Some(value), _) => value.to_string_lossy().into_owned(),
        (None, _) if option.is_flag() => "false".to_owned(),
        (None, Some(name)) => name.to_string(),
        (None, None) => String::new(),
    };
    let is_bare = option.is_flag() || text.parse::<u64>().is_ok();
    let value = match is_bare {
        true => text,
        false => toml::Value::String(text).to_string(),
    };
    match option.is_list() {
        true => format!("[{value}]"),
        false => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_names_every_option_and_is_a_file_without_its_comments() {
        let command = Arguments::command();
        let text = example(&command);
        let lines = text.lines().map(|line| match line.strip_prefix('#') {
            Some(line) if !line.starts_with(' ') => line,
            _ => line,
        });
        let text: String = lines.map(|line| format!("{line}\n")).collect();
        let table: toml::Table = toml::from_str(&text).unwrap();
        for option in config_options(&command) {
            let path = option.command.split_whitespace();
            let table = path.fold(&table, |table, name| table[name].as_table().unwrap());
            assert!(
                table.contains_key(option.key),
                "{} {}",
                option.command,
                option.key
            );
        }
    }
}

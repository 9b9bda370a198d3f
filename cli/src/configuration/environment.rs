//! Variables of the environment that set options.

use std::ffi::{OsStr, OsString};

use clap::builder::{OsStr as ArgName, Resettable};
use clap::{Arg, Command, CommandFactory};

use super::options::config_options;
use crate::args::Arguments;

/// Returns the variable that sets `arg`, and its value. An empty one sets nothing: files of
/// variables, containers and services can't always leave a variable out.
pub fn variable_of(arg: &Arg) -> Option<(&OsStr, OsString)> {
    let name = arg.get_env()?;
    let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
    Some((name, value))
}

/// Returns the definition of the command line, in which empty variables set nothing.
pub fn definition() -> Command {
    without_variables(Arguments::command(), &|arg| variable_of(arg).is_none())
}

/// Returns the definition of the command line, in which no variable sets anything.
pub fn definition_without_variables() -> Command {
    without_variables(Arguments::command(), &|_| true)
}

fn without_variables(command: Command, is_unset: &dyn Fn(&Arg) -> bool) -> Command {
    let mut command = command.mut_args(|arg| match is_unset(&arg) {
        true => arg.env(Resettable::<ArgName>::Reset),
        false => arg,
    });
    for inner in command.get_subcommands_mut() {
        *inner = without_variables(std::mem::take(inner), is_unset);
    }
    command
}

/// Returns the variable that sets the option `key`.
pub fn variable_of_key(key: &str) -> Option<String> {
    let command = Arguments::command();
    let options = config_options(&command);
    let mut variables = options
        .iter()
        .filter(|option| option.key == key)
        .filter_map(|option| variable_of(option.arg))
        .map(|(name, _)| name.to_string_lossy().into_owned());
    variables.next()
}

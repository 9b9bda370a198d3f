//! The configuration file `gristmill.toml`: values for what the command line and the environment
//! don't set.
//!
//! ```toml
//! lake = "s3://memory/lake"
//! format = "json"
//! threads = 2
//! memory = "512M"
//! ```

use std::path::Path;

use clap::ValueEnum;
use serde::Deserialize;

use crate::args::{Arguments, OutputFormat};
use crate::exit::Failure;

/// Name of the file, which is read from the current folder.
const FILE: &str = "gristmill.toml";

/// Default location of the lake.
const DEFAULT_LAKE: &str = "lake";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    lake: Option<String>,
    format: Option<String>,
    threads: Option<usize>,
    memory: Option<String>,
}

/// Fills unset values of `arguments` from the configuration file, then from defaults.
pub fn apply(mut arguments: Arguments) -> Result<Arguments, Failure> {
    let configuration = read(Path::new(FILE))?;
    let common = &mut arguments.common;
    if arguments.results.format.is_none()
        && let Some(format) = &configuration.format
    {
        arguments.results.format =
            Some(OutputFormat::from_str(format, true).map_err(|error| fault(&error))?);
    }
    if common.memory.is_none()
        && let Some(memory) = &configuration.memory
    {
        common.memory = Some(memory.parse().map_err(|error: String| fault(&error))?);
    }
    common.threads = common.threads.or(configuration.threads);
    common.lake = common
        .lake
        .take()
        .or(configuration.lake)
        .or_else(|| Some(DEFAULT_LAKE.to_owned()));
    Ok(arguments)
}

fn read(path: &Path) -> Result<Configuration, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => toml::from_str(&text).map_err(|error| fault(&error)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Configuration::default()),
        Err(error) => Err(fault(&error)),
    }
}

fn fault(error: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("{FILE}: {error}"))
}

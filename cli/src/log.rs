//! Writes logs and notes to standard error.

use std::io::{self, IsTerminal, Write};

use gristmill_queries::render::escape_control;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::debug_fn;

use crate::args::{CommonArgs, LogFormat};

/// Default log filter. The Delta libraries log tables that don't exist yet, and commits that are
/// retried after another writer's, as errors.
const NORMAL_LOG: &str =
    "warn,buoyant_kernel=off,deltalake_core=error,deltalake_core::kernel::transaction=off";

/// Log filter with `--quiet`.
const QUIET_LOG: &str = "error,buoyant_kernel=off,deltalake_core::kernel::transaction=off";

/// Starts logging to standard error: warnings and errors, or what `RUST_LOG` selects. A process
/// that runs several commands keeps the log of the first.
pub fn start_log(common: &CommonArgs) {
    let log = tracing_subscriber::fmt()
        // A message that can't be written is lost; reporting that on standard error would panic.
        .log_internal_errors(false)
        .with_env_filter(log_filter(common))
        .with_writer(io::stderr)
        .with_target(false);
    let started = match common.log_format {
        LogFormat::Text => {
            // Fields can contain untrusted text and are escaped; the colour codes of the level are
            // our own.
            let fields = debug_fn(|out, field, value| match field.name() {
                "message" => write!(out, "{}", on_one_line(&format!("{value:?}"))),
                name => write!(out, "{name}={}", on_one_line(&format!("{value:?}"))),
            });
            log.with_ansi(uses_colour())
                .without_time()
                .fmt_fields(fields.delimited(" "))
                .try_init()
        }
        LogFormat::Json => log.json().try_init(),
    };
    drop(started);
}

/// Returns the filter that `RUST_LOG` selects, else the default one.
fn log_filter(common: &CommonArgs) -> tracing_subscriber::EnvFilter {
    tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| {
        tracing_subscriber::EnvFilter::new(if common.quiet { QUIET_LOG } else { NORMAL_LOG })
    })
}

/// Returns a text with control characters and line feeds escaped, for a line that is one event or
/// one item, whatever the name of a file or the text of an error contains.
pub fn on_one_line(text: &str) -> String {
    escape_control(text).replace('\n', "\\n")
}

fn uses_colour() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Prints a line, or several, on standard error. If nobody reads them (`2>&1 | head`), they are
/// lost, and the command continues.
pub fn note(line: impl std::fmt::Display) {
    // Messages of some libraries end with a line feed of their own.
    let mut line = line.to_string();
    line.truncate(line.trim_end_matches('\n').len());
    line.push('\n');
    let _lost = io::stderr().write_all(escape_control(&line).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let text = on_one_line("can't read `a\n WARN b\u{1b}[2J`");
        assert_eq!(text, "can't read `a\\n WARN b\\x1b[2J`");
    }
}

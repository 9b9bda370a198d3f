//! `mcp`: serves one session of the Model Context Protocol over standard input and output.

use std::fs::File as StdFile;
use std::os::fd::{AsFd, OwnedFd};

use gristmill_server::NewestLake;
use gristmill_server::mcp::{McpOptions, serve};
use tokio::fs::File;

use super::CommandContext;
use super::sql::options;
use crate::args::serving::McpArgs;
use crate::exit::{CommandOutcome, Failure};

/// Serves until the client closes standard input.
pub async fn run(context: &CommandContext, arguments: McpArgs) -> Result<CommandOutcome, Failure> {
    let lake = context.open_lake().await?;
    let failed =
        |error: &dyn std::fmt::Display| Failure::environment("can't serve the lake", error);
    let lake = NewestLake::new(lake, options(context)?)
        .await
        .map_err(|error| failed(&error))?;
    let (input, output) = (
        stream(std::io::stdin().as_fd().try_clone_to_owned())?,
        stream(std::io::stdout().as_fd().try_clone_to_owned())?,
    );
    serve(lake, options_of(arguments), input, output)
        .await
        .map_err(|error| failed(&error))?;
    Ok(CommandOutcome::Done)
}

fn options_of(arguments: McpArgs) -> McpOptions {
    McpOptions {
        namespace: arguments.session.namespace,
        user: arguments.session.user,
        agent: arguments.session.agent,
        allow_writes: arguments.allow_writes,
        max_tokens: arguments.max_tokens,
    }
}

/// Returns a standard stream for asynchronous use. Reads and writes block a thread of the pool, so
/// that it works on pipes, terminals and files alike.
fn stream(descriptor: std::io::Result<OwnedFd>) -> Result<File, Failure> {
    let descriptor = descriptor
        .map_err(|error| Failure::environment("can't open the standard streams", &error))?;
    Ok(File::from_std(StdFile::from(descriptor)))
}

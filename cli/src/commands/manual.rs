//! `completions` and `man`, generated from the definition of the command line.

use std::io;
use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::Arguments;
use crate::exit::{CommandOutcome, Failure};
use crate::output::write_stdout;

/// Prints the completion script of `shell`.
pub fn completions(shell: Shell) -> Result<CommandOutcome, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "gristmill", &mut script);
    write_stdout(|out| io::Write::write_all(out, &script))?;
    Ok(CommandOutcome::Done)
}

/// Prints the manual page, or writes the pages of all commands to `folder`.
pub fn pages(folder: Option<PathBuf>) -> Result<CommandOutcome, Failure> {
    match folder {
        None => {
            let mut page = Vec::new();
            let made = Man::new(Arguments::command()).render(&mut page);
            made.map_err(|error| Failure::environment("can't render the page", &error))?;
            write_stdout(|out| io::Write::write_all(out, &page))?;
        }
        Some(folder) => {
            let made = std::fs::create_dir_all(&folder);
            let made = made.and_then(|()| clap_mangen::generate_to(Arguments::command(), &folder));
            made.map_err(|error| {
                Failure::environment(&format!("can't write in `{}`", folder.display()), &error)
            })?;
        }
    }
    Ok(CommandOutcome::Done)
}

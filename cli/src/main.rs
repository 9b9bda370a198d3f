//! The `gristmill` program.

use std::ffi::OsString;
use std::process::ExitCode;

/// The workload allocates many small, short-lived values on many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    #[cfg(unix)]
    if words.iter().any(|word| word == "serve") {
        purging::restart(&words);
    }
    ExitCode::from(gristmill::run(words))
}

#[cfg(unix)]
mod purging {
    //! How soon the allocator of a server returns memory to the system.
    //!
    //! By default memory that a thread has freed stays with the process for a second. With 50
    //! clients that is much of what the process has: 989 MB, 756 MB with a delay of 100 ms and 565
    //! MB with 10 ms, at the same rate of answers (5 million grains, `--memory 512M`). With 10 ms a
    //! large answer takes a sixth longer. The allocator reads its options from the environment
    //! before `main`, so the program starts itself again.

    use std::ffi::OsString;
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::Command;

    /// Option of the allocator, in milliseconds.
    const DELAY: &str = "MIMALLOC_PURGE_DELAY";

    /// Replaces the process by the same program with the same arguments and the option. Returns if
    /// the option is set already, or if the program can't be started: it then runs as it is. The
    /// same if it was started by another name, as by a loader that was named explicitly.
    pub(super) fn restart(words: &[OsString]) {
        if std::env::var_os(DELAY).is_some() {
            return;
        }
        let Ok(program) = std::env::current_exe() else {
            return;
        };
        let name = words.first().and_then(|word| Path::new(word).file_name());
        if name != program.file_name() {
            return;
        }
        let mut again = Command::new(program);
        if let Some(name) = words.first() {
            again.arg0(name);
        }
        again.args(words.iter().skip(1)).env(DELAY, "100");
        // Returns only if it fails.
        let _not_started = again.exec();
    }
}

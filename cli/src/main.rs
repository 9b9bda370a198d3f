//! The `gristmill` program.

use std::ffi::OsString;
use std::process::ExitCode;

/// The workload allocates many small, short-lived values on many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    #[cfg(target_os = "linux")]
    bus_error::explain();
    #[cfg(unix)]
    {
        purging::restart_with_delay(&words);
        open_files::raise_limit();
    }
    ExitCode::from(gristmill::run(words))
}

#[cfg(unix)]
mod open_files {
    //! How many files the program may have open.
    //!
    //! Many systems allow 1,024 to a program that doesn't ask for more. An ingest into an encrypted
    //! lake has an open temporary file for each transcript of its batches, and a query one for each
    //! segment that it reads.

    /// The number that the program asks for. Systems may allow fewer.
    const FILES: u64 = 1 << 16;

    /// Raises the limit. What it allows is enough for most work, so failing isn't an error.
    pub(super) fn raise_limit() {
        let _limit = rlimit::increase_nofile_limit(FILES);
    }
}

#[cfg(unix)]
mod purging {
    //! How soon the allocator returns memory to the system.
    //!
    //! By default memory that a thread has freed stays with the process for a second. With 50
    //! clients that is much of what a server has: 989 MB, 756 MB with a delay of 100 ms and 565 MB
    //! with 10 ms, at the same rate of answers (5 million grains, `--memory 512M`). With 10 ms a
    //! large answer takes a sixth longer. A scan, whose passes need memory of different sizes one
    //! after another, has 919 MB, 648 MB with 100 ms and 509 MB with 10 ms, in the same time.
    //!
    //! The allocator reads its options from the environment before `main`, so the program starts
    //! itself again.

    use std::ffi::OsString;
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::Command;

    /// Option of the allocator, in milliseconds.
    const DELAY: &str = "MIMALLOC_PURGE_DELAY";

    /// Commands with a delay other than the default.
    const DELAYS: [(&str, &str); 3] = [("executor", "100"), ("scan", "10"), ("serve", "100")];

    /// Returns the delay of the command in `words`. Another word may have the name of a command: it
    /// costs a restart.
    fn delay(words: &[OsString]) -> Option<&'static str> {
        let named = |(command, _): &&(&str, _)| words.iter().skip(1).any(|word| word == command);
        DELAYS.iter().find(named).map(|(_, delay)| *delay)
    }

    /// Replaces the process by the same program with the same arguments and the option, if the
    /// command has a delay. Returns if the option is set already, or if the program can't be
    /// started: it then runs as it is. The same if it was started by another name, as by a loader
    /// that was named explicitly.
    pub(super) fn restart_with_delay(words: &[OsString]) {
        let Some(delay) = delay(words) else {
            return;
        };
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
        again.args(words.iter().skip(1)).env(DELAY, delay);
        // Returns only if it fails.
        let _not_started = again.exec();
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn commands_that_free_much_have_a_short_delay() {
            let delay =
                |line: &str| delay(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
            assert_eq!(delay("gristmill --lake serve.lake scan"), Some("10"));
            assert_eq!(delay("gristmill serve --listen 127.0.0.1:0"), Some("100"));
            assert_eq!(delay("gristmill cluster executor"), Some("100"));
            assert_eq!(delay("scan ingest inbox"), None);
        }
    }
}

#[cfg(target_os = "linux")]
mod bus_error {
    //! The message on a bus error (SIGBUS), by which the system ends the program because bytes of a
    //! mapped file can't be read: another process has truncated the file, or its disk has failed.
    //! Reading input by `read` instead would copy every byte, and the files of a lake are mapped
    //! anyway.

    use std::ffi::{c_int, c_void};

    const MESSAGE: &[u8] = b"gristmill: a file ended or couldn't be read any more while it was \
        being read (SIGBUS): another process has truncated it, or its disk has failed. The lake is \
        as it was at the last commit; run the command again, and replace files by renaming, not by \
        truncating\n";

    /// Exit code for problems of the environment.
    const ENVIRONMENT: c_int = 1;

    /// Installs the handler.
    pub(super) fn explain() {
        // SAFETY: the structure consists of integers and an optional function, for which zeros are
        // valid.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handle as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the structure is initialised, and the handler has the signature that SA_SIGINFO
        // requires. If the system refuses it, bus errors have no message.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) };
    }

    extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
        // SAFETY: with SA_SIGINFO the system passes a valid structure.
        let code = unsafe { (*info).si_code };
        if code == libc::BUS_ADRERR {
            // SAFETY: both functions may be called in a handler, and the message is valid for its
            // length.
            unsafe {
                libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len());
                libc::_exit(ENVIRONMENT)
            }
        }
        // SAFETY: both functions may be called in a handler. The signal is delivered again when
        // this returns, and the system's own action ends the process.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
}

//! The `gristmill` binary, built on demand.
//!
//! Cargo builds binaries only for the tests of their own package, so the first use in a test
//! process runs `cargo build`; with a fresh binary that takes a moment.

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use crate::paths::workspace;

/// Prefixes of the environment variables that Cargo sets for one package.
const OF_PACKAGES: [&str; 6] = [
    "CARGO_PKG_",
    "CARGO_MANIFEST_",
    "CARGO_CRATE_NAME",
    "CARGO_BIN_",
    "CARGO_PRIMARY_PACKAGE",
    "CARGO_TARGET_TMPDIR",
];

/// Environment variable with the path of an existing binary.
const BINARY: &str = "GRISTMILL_BINARY";

/// Returns the path of the binary.
///
/// # Panics
/// If it can't be built.
pub fn path() -> &'static PathBuf {
    static PATH: LazyLock<PathBuf> = LazyLock::new(|| {
        if let Some(path) = std::env::var_os(BINARY) {
            return path.into();
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build
            .current_dir(workspace())
            .args(["build", "--quiet", "--bin", "gristmill"]);
        if cfg!(feature = "cluster") {
            build.args(["--features", "cluster"]);
        }
        // Build scripts would treat the variables of this test's package as changes, and nearly
        // everything would be rebuilt.
        for (name, _) in std::env::vars_os() {
            if OF_PACKAGES
                .iter()
                .any(|prefix| name.to_string_lossy().starts_with(prefix))
            {
                build.env_remove(&name);
            }
        }
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        assert!(
            build.status().is_ok_and(|status| status.success()),
            "`cargo build --bin gristmill` failed"
        );
        // target/<profile>/deps/<this test>
        let own = std::env::current_exe().unwrap_or_default();
        let folder = own.ancestors().nth(2).unwrap_or(&own);
        folder.join(format!("gristmill{}", std::env::consts::EXE_SUFFIX))
    });
    &PATH
}

/// Returns a command that runs the binary without the settings of this process and of its user.
///
/// # Panics
/// As [`path`].
pub fn program() -> Command {
    let mut command = Command::new(path());
    without_settings(&mut command);
    command
}

/// Returns the words of a command. If it runs CAL, a query may take minutes: its five seconds aren't
/// enough for a debug build on a busy machine.
pub fn patient<'w>(words: &[&'w str]) -> Vec<&'w str> {
    match words {
        ["cal", rest @ ..] => [&["cal", "--timeout", "300"][..], rest].concat(),
        words => words.to_vec(),
    }
}

/// Returns [`program`] with the assertions of `assert_cmd`.
///
/// # Panics
/// As [`path`].
pub fn gristmill() -> assert_cmd::Command {
    assert_cmd::Command::from_std(program())
}

/// Removes the `GRISTMILL_…` variables of this process from the environment of `command`, and
/// gives it a configuration folder that doesn't exist: a configuration file or keyring of the user
/// who runs the tests changes no result.
pub fn without_settings(command: &mut Command) {
    let names = std::env::vars_os().map(|(name, _)| name);
    for name in names.filter(|name| name.to_string_lossy().starts_with("GRISTMILL_")) {
        command.env_remove(name);
    }
    let none = format!("gristmill-tests-{}-no-configuration", std::process::id());
    command.env("XDG_CONFIG_HOME", std::env::temp_dir().join(none));
}

/// Result of a command: exit code, standard output, standard error.
pub type Ended = (i32, String, String);

/// Runs `command` to its end.
///
/// # Panics
/// If it can't be run, is killed, panics, or prints what isn't UTF-8.
pub fn ended(command: &mut assert_cmd::Command) -> Ended {
    let output = command.output().expect("a command that runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert!(!err.contains("panicked"), "{command:?}: {err}");
    (output.status.code().expect("an exit code"), out, err)
}

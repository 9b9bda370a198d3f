//! Commands in a folder of their own, with the passphrase that opens its keyring.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use gristmill_engine::keys::Keyring;

use super::cases::{Case, PERSON};
use super::{Fault, Faults, NEW_PASSPHRASE, texts};
use crate::binary;
use crate::kill::copy_folder;
use crate::sandbox::PASSPHRASE;

impl Faults {
    pub(super) fn copy(&self, case: Case, name: &str) -> Result<PathBuf, Fault> {
        self.copy_to(case, &self.folder.join(name))
    }

    pub(super) fn copy_to(&self, case: Case, place: &Path) -> Result<PathBuf, Fault> {
        let _ = fs::remove_dir_all(place);
        copy_folder(&self.folder.join(case.place), place)?;
        Ok(place.to_owned())
    }

    pub(super) fn command(&self, place: &Path, case: Case) -> Command {
        self.plain_command(place, &self.arguments(case))
    }

    /// Returns the command of `case` under a shell limit.
    pub(super) fn limited(&self, place: &Path, case: Case, limit: &str) -> Command {
        let mut command = Command::new("sh");
        binary::without_settings(&mut command);
        command
            .args(["-c", &format!("{limit}; exec \"$0\" \"$@\"")])
            .arg(binary::path());
        self.in_place(&mut command, place, &self.arguments(case));
        command
    }

    fn arguments(&self, case: Case) -> Vec<String> {
        let own = |argument: &&str| match *argument {
            "USER" => PERSON.to_owned(),
            argument => argument.replace("../", &format!("{}/", self.folder.display())),
        };
        case.arguments.iter().map(own).collect()
    }

    pub(super) fn plain_command<S: AsRef<std::ffi::OsStr>>(
        &self,
        place: &Path,
        arguments: &[S],
    ) -> Command {
        let mut command = binary::program();
        self.in_place(&mut command, place, arguments);
        command
    }

    fn in_place<S: AsRef<std::ffi::OsStr>>(
        &self,
        command: &mut Command,
        place: &Path,
        arguments: &[S],
    ) {
        // After a completed change of the passphrase the new one opens the keyring.
        let has_old = Keyring::open(&place.join("keyring.json"), PASSPHRASE).is_ok();
        let changed = place.join("keyring.json").exists() && !has_old;
        command
            .args([
                "--quiet",
                "--format",
                "json",
                "--memory",
                "128M",
                "--threads",
                "2",
                "--lake",
                "lake",
            ])
            .args(arguments)
            .env("GRISTMILL_KEYRING", place.join("keyring.json"))
            .env(
                "GRISTMILL_PASSPHRASE",
                if changed { NEW_PASSPHRASE } else { PASSPHRASE },
            )
            // Without memory, printing a backtrace waits for ever: see docs/reliability.md.
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .current_dir(place);
    }

    pub(super) fn must(&self, place: &str, arguments: &[&str]) -> Result<Output, Fault> {
        let output = self
            .plain_command(&self.folder.join(place), arguments)
            .output()?;
        match output.status.code() {
            Some(0) => Ok(output),
            code => Err(format!("{arguments:?} ended with {code:?}: {}", texts(&output).1).into()),
        }
    }
}

//! What must hold after a fault, and after the command has run again.

use std::path::Path;

use futures::TryStreamExt;
use gristmill_engine::keys::{FileKeys, Keyring};
use gristmill_engine::lake::Lake;

use super::cases::Case;
use super::{Fault, Faults, NEW_PASSPHRASE, failed, texts};
use crate::sandbox::PASSPHRASE;

/// Content of a lake: sorted addresses, and row counts of the other tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content {
    addresses: Vec<String>,
    state: u64,
    rejects: u64,
}

impl Faults {
    /// Runs the command again without a fault, and checks its result.
    pub(super) fn check_rerun(
        &self,
        place: &Path,
        case: Case,
        expected: &Content,
    ) -> Result<(), Fault> {
        let output = self.command(place, case).output()?;
        let code = output.status.code();
        if code != Some(0) && !code.is_some_and(|code| case.already.contains(&code)) {
            return Err(failed(case, "again", &output));
        }
        let after = self.content(place)?;
        if after.as_ref() != Some(expected) {
            return Err(format!("it ended with {}", difference(after.as_ref(), expected)).into());
        }
        self.verified(place)?;
        if case.name == "export" {
            let output = self.plain_command(place, &["verify", "out.mg"]).output()?;
            if output.status.code() != Some(0) {
                return Err(failed(case, "and what it wrote", &output));
            }
        }
        if case.name == "keys generate" {
            let listed = self.plain_command(place, &["keys", "list"]).output()?;
            if !String::from_utf8_lossy(&listed.stdout).contains("another") {
                return Err(failed(case, "and the key isn't there", &listed));
            }
        }
        Ok(())
    }

    /// Checks the content after a fault: the previous one, that of the command, or one in between
    /// where the command has several commits; each grain once.
    pub(super) fn check_left(
        &self,
        place: &Path,
        before: Option<&Content>,
        expected: &Content,
    ) -> Result<(), Fault> {
        let Some(left) = self.content(place)? else {
            return if before.is_none() {
                Ok(())
            } else {
                Err("the lake is gone".into())
            };
        };
        let known = |address: &String| {
            expected.addresses.binary_search(address).is_ok()
                || before.is_some_and(|before| before.addresses.binary_search(address).is_ok())
        };
        if left.addresses.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("a grain is there twice".into());
        }
        if !left.addresses.iter().all(known) {
            return Err("there is a grain that nobody wrote".into());
        }
        let is_kept = |address: &&String| expected.addresses.binary_search(address).is_ok();
        let kept = before
            .into_iter()
            .flat_map(|before| before.addresses.iter().filter(is_kept));
        for address in kept {
            if left.addresses.binary_search(address).is_err() {
                return Err(format!("the grain {address} is lost").into());
            }
        }
        self.verified(place)
    }

    fn verified(&self, place: &Path) -> Result<(), Fault> {
        for arguments in [&["verify"][..], &["audit", "verify"]] {
            let output = self.plain_command(place, arguments).output()?;
            if output.status.code() != Some(0) {
                let (out, errors) = texts(&output);
                return Err(format!(
                    "{arguments:?} ended with {:?}: {errors}{out}",
                    output.status.code()
                )
                .into());
            }
        }
        Ok(())
    }

    /// Returns the content of the lake in `place`, or `None` if there is none yet.
    pub(super) fn content(&self, place: &Path) -> Result<Option<Content>, Fault> {
        let lake = place.join("lake");
        if !lake
            .join("grains/_delta_log/00000000000000000000.json")
            .exists()
            && !lake.join("audit").exists()
        {
            return Ok(None);
        }
        self.runtime.block_on(async {
            let mut lake = Lake::open(&lake.display().to_string()).await?;
            if lake.is_encrypted() {
                let keyring = place.join("keyring.json");
                let opened = Keyring::open(&keyring, PASSPHRASE);
                let opened = opened.or_else(|_| Keyring::open(&keyring, NEW_PASSPHRASE))?;
                lake.unlock(Box::new(FileKeys::next_to(opened)?))?;
            }
            let mut addresses = Vec::new();
            let mut rows = lake.scan(Some(&["content_address", "blob"]))?;
            while let Some(batch) = rows.try_next().await? {
                let column = arrow::array::AsArray::as_string::<i32>(batch.column(0));
                addresses.extend(column.iter().flatten().map(str::to_owned));
            }
            addresses.sort_unstable();
            let state = lake.state.files()?.iter().map(|file| file.rows).sum();
            let rejects = lake.rejects.files()?.iter().map(|file| file.rows).sum();
            Ok(Some(Content {
                addresses,
                state,
                rejects,
            }))
        })
    }
}

fn difference(found: Option<&Content>, expected: &Content) -> String {
    match found {
        None => "no lake".to_owned(),
        Some(found) => format!(
            "{} grains, {} events, {} rejects instead of {}, {} and {}",
            found.addresses.len(),
            found.state,
            found.rejects,
            expected.addresses.len(),
            expected.state,
            expected.rejects
        ),
    }
}

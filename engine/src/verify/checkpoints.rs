//! Verifying the newest checkpoint of a log, and the file that names it, by the heads.

use super::report::Problem;
use super::tables::problem;
use crate::error::Result;
use crate::file_digest::FileDigest;
use crate::lake::{ACCEPT, CheckpointHead, LakeLocation, LogFile, hint_path};

/// Returns how the log of the table `name`, which consists of `files`, differs from the `expected`
/// checkpoint.
///
/// # Errors
/// Errors of reading a file that aren't damage.
pub(super) async fn problems(
    location: &LakeLocation,
    name: &'static str,
    expected: &CheckpointHead,
    files: &[LogFile],
) -> Result<Vec<Problem>> {
    let mut found = Vec::new();
    let checkpoints = || files.iter().filter(|file| file.is_checkpoint);
    let newest = checkpoints().map(|file| file.version).max();
    if newest.is_none_or(|newest| newest < expected.version) {
        let cause = format!("the checkpoint of version {} is missing", expected.version);
        found.push(problem(name, &format!("{name}/_delta_log"), &cause, ACCEPT));
    }
    for file in checkpoints().filter(|file| file.version == expected.version) {
        let bytes = location.read_small(&file.path).await?;
        if bytes.is_some_and(|bytes| FileDigest::of(&bytes) != expected.file) {
            let cause = "the checkpoint isn't what was written";
            found.push(problem(name, file.path.as_ref(), cause, ACCEPT));
        }
    }
    found.extend(problem_of_hint(location, name, expected).await?);
    Ok(found)
}

/// Checks the file that names the newest checkpoint. It may differ from the heads if there is a
/// later one, which was written after them.
async fn problem_of_hint(
    location: &LakeLocation,
    name: &'static str,
    expected: &CheckpointHead,
) -> Result<Option<Problem>> {
    let path = hint_path(name);
    let cause = match location.read_small(&path).await? {
        None => "it is missing",
        Some(bytes)
            if FileDigest::of(&bytes) != expected.hint
                && !has_later_checkpoint(location, name, expected.version).await? =>
        {
            "it isn't what was written"
        }
        Some(_) => return Ok(None),
    };
    Ok(Some(problem(name, path.as_ref(), cause, ACCEPT)))
}

/// Returns true if the log has a checkpoint after `version` now: another process may have written
/// one, and the hint, since the log was listed.
async fn has_later_checkpoint(
    location: &LakeLocation,
    name: &'static str,
    version: u64,
) -> Result<bool> {
    let log = LogFile::list(location, name).await?;
    let mut checkpoints = log.iter().filter(|file| file.is_checkpoint);
    Ok(checkpoints.any(|file| file.version > version))
}

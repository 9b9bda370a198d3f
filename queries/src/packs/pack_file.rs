//! Reads files of packs, up to a limit of their size.

use std::path::Path;

use super::error::{PackError, Result};

/// Maximum size of a pack file in bytes.
const FILE_LIMIT_BYTES: u64 = 4 << 20;

/// Reads the file of a pack, unless it exceeds the limit of its size.
pub(super) fn read_text(path: &Path) -> Result<String> {
    let fault = |cause| PackError::File {
        path: path.to_owned(),
        cause,
    };
    let size = std::fs::metadata(path).map_err(fault)?.len();
    if size > FILE_LIMIT_BYTES {
        let problem = format!("the file has {size} bytes; the limit is {FILE_LIMIT_BYTES}");
        return Err(PackError::Pack {
            pack: path.display().to_string(),
            problem,
        });
    }
    std::fs::read_to_string(path).map_err(fault)
}

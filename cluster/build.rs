//! Gives `wire.rs` the digest of the sources that plan, cut, select and encode what processes of a
//! cluster exchange, and of the versions of the crates below them. It changes with every change
//! there, so nobody has to remember to increase a number.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// What the digest is of.
const INPUTS: [&str; 7] = [
    "../Cargo.lock",
    "../schemas/src",
    "../connectors/src",
    "../engine/src",
    "../queries/src",
    "src",
    "build.rs",
];

/// Parameters of FNV-1a with 64 bits: an accident is excluded, and nobody attacks the own build.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

fn main() -> io::Result<()> {
    let mut digest = FNV_OFFSET;
    for input in INPUTS {
        println!("cargo:rerun-if-changed={input}");
        let mut files = Vec::new();
        list(Path::new(input), &mut files)?;
        files.sort();
        for file in files {
            digest = extended(digest, file.as_os_str().as_encoded_bytes());
            digest = extended(digest, &fs::read(&file)?);
        }
    }
    println!("cargo:rustc-env=GRISTMILL_SOURCES_DIGEST={digest:016x}");
    Ok(())
}

/// Adds the file `path`, or all files below it, to `files`.
fn list(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        list(&entry?.path(), files)?;
    }
    Ok(())
}

/// Returns the digest of what `digest` is of and `bytes` after it, whose length counts, too.
fn extended(digest: u64, bytes: &[u8]) -> u64 {
    let length = (bytes.len() as u64).to_be_bytes();
    let all = length.iter().chain(bytes);
    all.fold(digest, |digest, byte| {
        (digest ^ u64::from(*byte)).wrapping_mul(FNV_PRIME)
    })
}

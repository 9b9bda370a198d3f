//! `datasets [FOLDER]`: writes the generated data sets, by default to `datasets/` of the workspace.

use std::path::PathBuf;

use gristmill_tests::datasets::make;
use gristmill_tests::paths::workspace;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os()
        .nth(1)
        .map_or_else(|| workspace().join("datasets"), PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    for set in make()? {
        let path = folder.join(set.name);
        println!("{:>9} {}", set.bytes.len(), path.display());
        std::fs::write(path, set.bytes)?;
    }
    Ok(())
}

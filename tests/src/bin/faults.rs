//! `faults [COUNT] [SEED]`: injects COUNT faults (200), numbered from SEED (0), into commands that
//! write: kills, full disks, file size limits, too little memory. Prints a line for each, and ends
//! with exit code 1 at the first that lost or duplicated something. Full disks are real if this
//! process may mount a file system.

use std::error::Error;

use gristmill_tests::faults::{Faults, commands};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut numbers = std::env::args()
        .skip(1)
        .map(|number| number.parse::<usize>());
    let count = numbers.next().unwrap_or(Ok(200))?;
    let seed = numbers.next().unwrap_or(Ok(0))?;
    let folder = tempfile::tempdir()?;
    println!("{} commands: {}", commands().len(), commands().join(", "));
    let faults = Faults::prepare(folder.path())?;
    let tally = faults.run(seed, count, &mut |line| println!("{line}"))?;
    println!(
        "{count} faults, {} disturbed a command: {tally:?}; nothing was lost or doubled",
        tally.disturbed()
    );
    Ok(())
}

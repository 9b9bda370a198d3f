//! `faults [COUNT] [SEED]`: COUNT faults (200) of commands that write, from the number SEED (0) on:
//! kills, full disks, files that may not grow, too little memory. Prints a line for each, and ends
//! with 1 at the first one that lost or doubled something. Full disks are real ones where this
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

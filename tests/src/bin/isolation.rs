//! `isolation [COUNT] [SEED] [FIRST]`: sends COUNT random statements (200,000) in SQL and CAL with a
//! token of one namespace to a server over a lake with two namespaces, and to one over a lake with
//! this one alone, and compares the answers. Statement number FIRST (0) is the first; the number and
//! the seed (1) decide a statement. Prints differences and counts; exit code 1 if there is one.

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use gristmill_tests::isolation::{IsolationRun, compare};

// The allocator of the command line.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, usual: u64| {
        let given = arguments.get(place).map(|number| number.parse());
        given.unwrap_or(Ok(usual))
    };
    let run = IsolationRun {
        count: number(0, 200_000)? as usize,
        seed: number(1, 1)?,
        first: number(2, 0)? as usize,
    };
    let started = Instant::now();
    let found = compare(run).await;
    println!("{found}; {:.0} s", started.elapsed().as_secs_f64());
    Ok(match found.differences.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

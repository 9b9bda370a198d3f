//! `bitflips [plain|encrypted] [flips|files|logs|cells] [COUNT] [SEED]`: damages a generated lake,
//! and prints for each kind of file how much `verify` finds, and whether any of sixty answers
//! changes where it finds nothing. Ends with exit code 2 if one does.

use std::process::ExitCode;

use gristmill_tests::bitflips::Target;
use gristmill_tests::damage::SampleLake;

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let lake = arguments.next().unwrap_or_else(|| "plain".to_owned());
    let mode = arguments.next().unwrap_or_else(|| "flips".to_owned());
    let count = arguments
        .next()
        .and_then(|count| count.parse().ok())
        .unwrap_or(2_000);
    let seed = arguments
        .next()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(27);
    let sample = match lake.as_str() {
        "plain" => SampleLake::plain().await,
        "encrypted" => SampleLake::encrypted().await,
        _ => return usage(),
    };
    let started = std::time::Instant::now();
    let mut target = Target::new(sample).await;
    match mode.as_str() {
        "flips" => target.flip_bits(count, seed).await,
        "files" => target.lose_files().await,
        "logs" => target.cut_logs().await,
        "cells" => target.rewrite_cells().await,
        _ => return usage(),
    }
    println!(
        "{lake}, {mode}, seed {seed}, {:.0} s\n\n{}",
        started.elapsed().as_secs_f64(),
        target.outcome
    );
    target
        .outcome
        .failures
        .iter()
        .for_each(|failure| println!("{failure}"));
    ExitCode::from(if target.outcome.failures.is_empty() {
        0
    } else {
        2
    })
}

fn usage() -> ExitCode {
    eprintln!("usage: bitflips [plain|encrypted] [flips|files|logs|cells] [COUNT] [SEED]");
    ExitCode::from(1)
}

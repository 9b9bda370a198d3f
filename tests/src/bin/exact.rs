//! `exact LAKE CORPUS [COUNT] [SEED]`: runs COUNT random questions (200) in CAL and SQL over the
//! lake, which was made from the containers in the folder CORPUS, and compares each answer with a
//! pass over every grain. Prints `N equal, N different`; exit code 1 if one differs.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use gristmill_engine::lake::Lake;
use gristmill_queries::exec::Executor;
use gristmill_queries::sql::{SqlOptions, lake_context};
use gristmill_tests::exact::{Corpus, answered};
use gristmill_tests::lake::patient_session;

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [lake, corpus, rest @ ..] = arguments.as_slice() else {
        return Err("usage: exact LAKE CORPUS [COUNT] [SEED]".into());
    };
    let number =
        |place: usize, usual: u64| rest.get(place).map_or(Ok(usual), |number| number.parse());
    let (count, seed) = (number(0, 200)? as usize, number(1, 1)?);
    let corpus = Corpus::read(Path::new(corpus))?;
    let context = lake_context(&Lake::open(lake).await?, &SqlOptions::default()).await?;
    let executor = Executor::new(context.clone(), patient_session(1_800_000_000_000));
    let mut different = 0;
    for question in corpus.questions(count, seed) {
        let got = answered(&context, &executor, &question).await?;
        if got != question.wanted {
            different += 1;
            println!(
                "{}\n  wanted {} lines: {}",
                question.text,
                question.wanted.len(),
                shown(&question.wanted)
            );
            println!("  got {} lines: {}", got.len(), shown(&got));
        }
    }
    println!(
        "{} grains: {} equal, {different} different",
        corpus.len(),
        count - different
    );
    Ok(if different == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Only the first lines.
fn shown(lines: &[String]) -> String {
    lines
        .iter()
        .take(3)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(" / ")
}

//! `load LAKE`: many clients of one server, over HTTP, Arrow Flight SQL and PostgreSQL's protocol.
//!
//! ```sh
//! cargo build --release --bin gristmill --bin load
//! target/release/load LAKE --program target/release/gristmill --clients 50 --seconds 300
//! ```
//!
//! Prints, as Markdown: calls, errors and latencies by protocol and kind of call; the memory of the
//! server while it answered; then latencies of RECALL by subject for one client over HTTP and
//! Flight, and of the command in a process of its own. A call that must exceed the limit of rows
//! counts as an error if it succeeds or fails for another reason. `--memory` is passed to the
//! server. Needs Linux (`/proc`). Exit code 1 if any call failed.

mod calls;
mod clients;
mod report;
mod server;
mod stream;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::calls::{Call, Names};
use crate::clients::Clients;
use crate::report::Latencies;
use crate::server::ServerProcess;

// The allocator of the command line.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// An error of a call or of the program.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Distinct subjects and people that calls choose from.
const NAMES: usize = 2_000;

/// RECALLs of one client, for the latencies of a warm server.
const WARM_CALLS: usize = 500;

/// Rows of an answer, so that a call beyond the limit is refused soon.
const FEW_ROWS: [&str; 2] = ["--max-rows", "100000"];

/// Limits that a large answer doesn't reach.
const ANY_ANSWER: [&str; 6] = [
    "--max-rows",
    "1000000000",
    "--max-bytes",
    "1T",
    "--max-time",
    "10m",
];

/// Processes that answer one RECALL each.
const COLD_CALLS: usize = 20;

/// The command line.
struct Options {
    lake: String,
    program: PathBuf,
    memory: String,
    clients: usize,
    seconds: u64,
    stream: Option<usize>,
}

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let options = options(std::env::args().skip(1))?;
    if let Some(rounds) = options.stream {
        println!("{}", stream(&options, rounds).await?);
        return Ok(ExitCode::SUCCESS);
    }
    let server = options.start(&FEW_ROWS)?;
    let mut one = Clients::connect(&server.addresses).await?;
    let names = Arc::new(Names::of(&mut one, NAMES).await?);
    let under_load = load(&options, &server, &names).await?;
    println!("{} clients for {} s:\n", options.clients, options.seconds);
    println!("{}\n{}\n", under_load.markdown(), server.memory());
    let warm = one_client(&options, &mut one, &names).await;
    println!("One client, the server is warm:\n\n{}", warm.markdown());
    server.stop()?;
    let failed = under_load.errors() + warm.errors() > 0;
    Ok(ExitCode::from(u8::from(failed)))
}

impl Options {
    fn start(&self, limits: &[&str]) -> Result<ServerProcess, Failure> {
        ServerProcess::start(&self.program, &self.lake, &self.memory, limits)
    }
}

/// Compares a large answer over Flight SQL with a file.
async fn stream(options: &Options, rounds: usize) -> Result<String, Failure> {
    let server = options.start(&ANY_ANSWER)?;
    let mut clients = Clients::connect(&server.addresses).await?;
    let table = stream::compare(&options.program, &options.lake, &mut clients, rounds).await?;
    let memory = server.memory();
    server.stop()?;
    Ok(format!("{table}\n{memory}"))
}

/// Runs all clients at once.
async fn load(
    options: &Options,
    server: &ServerProcess,
    names: &Arc<Names>,
) -> Result<Latencies, Failure> {
    let mut all = Latencies::default();
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let mut tasks = Vec::new();
    for client in 0..options.clients {
        let clients = Clients::connect(&server.addresses).await?;
        tasks.push(tokio::spawn(run_client(
            clients,
            client,
            names.clone(),
            end,
        )));
    }
    for task in tasks {
        all.add(task.await?);
    }
    Ok(all)
}

/// Runs RECALLs one after another: over both protocols, and in a process each.
async fn one_client(options: &Options, client: &mut Clients, names: &Names) -> Latencies {
    let mut latencies = Latencies::default();
    for call in [Call::RecallOverHttp, Call::RecallOverFlight] {
        for at in 0..WARM_CALLS {
            latencies.measure(call, client.run(call, names, at)).await;
        }
    }
    for at in 0..COLD_CALLS {
        let statement = names.recall(at);
        let process = server::command(&options.program, &options.lake, &statement);
        latencies.measure(Call::RecallInAProcess, process).await;
    }
    latencies
}

/// Runs calls one after another until `end`. Each client begins at another call, name and second.
async fn run_client(
    mut clients: Clients,
    client: usize,
    names: Arc<Names>,
    end: Instant,
) -> Latencies {
    let mut latencies = Latencies::default();
    // Not a divisor of the number of names, so that clients ask for different ones.
    let mut at = client * 7_919;
    while Instant::now() < end {
        let call = Call::of_mix(at);
        latencies.measure(call, clients.run(call, &names, at)).await;
        at += 1;
    }
    latencies
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, Failure> {
    let mut options = Options {
        lake: String::new(),
        program: "target/release/gristmill".into(),
        memory: "1G".to_owned(),
        clients: 50,
        seconds: 300,
        stream: None,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--program" => options.program = value()?.into(),
            "--memory" => options.memory = value()?,
            "--clients" => options.clients = value()?.parse()?,
            "--seconds" => options.seconds = value()?.parse()?,
            "--stream" => options.stream = Some(value()?.parse()?),
            lake => lake.clone_into(&mut options.lake),
        }
    }
    if options.lake.is_empty() {
        return Err(
            "usage: load LAKE [--program FILE] [--memory SIZE] [--clients N] [--seconds N]".into(),
        );
    }
    Ok(options)
}

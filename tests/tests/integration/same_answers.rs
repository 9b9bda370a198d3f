//! The clients of a server get the answers of `gristmill sql`.

use std::process::Command;

use gristmill_tests::binary;
use gristmill_tests::test_server::{Protocol, TestServer, limits};

use crate::namespaces;

/// Asks with each client that is installed.
const PYTHON: &str = include_str!("same_answers.py");

#[tokio::test(flavor = "multi_thread")]
async fn every_client_gets_the_answers_of_the_command() {
    let lake = namespaces::lake(true).await;
    let flight = TestServer::start(Protocol::Flight, &lake, None, limits()).await;
    let postgres = TestServer::start(Protocol::Postgres, &lake, None, limits()).await;
    let python = std::env::var("GRISTMILL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut command = Command::new(python);
    binary::without_settings(&mut command);
    command
        .args(["-c", PYTHON])
        .arg(binary::path())
        .arg(lake.folder().join("lake"))
        .arg(format!("grpc://{}", flight.address))
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", postgres.address.port().to_string())
        .env("PGUSER", "me")
        .env("PGDATABASE", "lake");
    let output = tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap();
    match output {
        Ok(output) => {
            let printed = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{printed}{errors}");
            eprint!("{printed}");
        }
        Err(_) => eprintln!("skipped: there is no Python"),
    }
    flight.end().await;
    postgres.end().await;
}

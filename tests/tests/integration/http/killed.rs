//! Servers that are killed while they append.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use gristmill_queries::sql::Confinement;
use gristmill_server::http::{Scope, new_token};
use gristmill_tests::lake::TestLake;
use serde_json::{Value, json};

use super::parsed;
use super::processes::ServerProcess;

/// Writers that append at the same time.
const WRITERS: usize = 2;

/// Grains that a token may add in a minute.
const QUOTA: usize = 20;

/// Tokens of a writer, so that its quota isn't used up before the server is killed.
const TOKENS: usize = 20;

/// The longest time until a grain of a round is confirmed, also on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(240);

/// Adds a grain and returns its address; `None` if the server confirms nothing.
fn added(address: SocketAddr, token: &str, subject: &str, number: usize) -> Option<String> {
    let statement = format!(
        "ADD belief SET subject = \"{subject}\" SET relation = \"mg:knows\" SET object = \
         \"{number}\" REASON \"r\""
    );
    let body = json!({ "statement": statement }).to_string();
    let head = format!(
        "POST /cal HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer \
         {token}\r\nContent-Type: application/json\r\n"
    );
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let answer = parsed(&bytes);
    if answer.status != 200 {
        return None;
    }
    // A body that is cut isn't JSON.
    let answer: Value = serde_json::from_str(&answer.body).ok()?;
    Some(answer["written"]["content_address"].as_str()?.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_server_has_confirmed_is_in_the_lake() {
    let mut lake = TestLake::new().await;
    let folder = lake.folder().join("lake");
    let made = (0..WRITERS * TOKENS).map(|number| {
        let scopes = [Scope::Read, Scope::Append].into();
        new_token(&format!("token-{number}"), &Confinement::default(), scopes).unwrap()
    });
    let (tokens, tables): (Vec<String>, Vec<String>) = made.unzip();
    let file = lake.folder().join("tokens.toml");
    std::fs::write(&file, tables.concat()).unwrap();
    let options = ["--allow-writes", "--tokens", file.to_str().unwrap()];
    let mut confirmed = Vec::new();
    for round in 0..4 {
        let mut served = ServerProcess::start(&folder, &options);
        let address = served.address("http://");
        let (first, any) = mpsc::channel();
        let writers: Vec<_> = tokens
            .chunks(TOKENS)
            .enumerate()
            .map(|(writer, tokens)| {
                let (tokens, first) = (tokens.to_vec(), first.clone());
                std::thread::spawn(move || {
                    let subject = format!("{round}-{writer}");
                    let adds = (0..).map_while(|number| {
                        let token = tokens.get(number / QUOTA)?;
                        let address = added(address, token, &subject, number)?;
                        let _ = first.send(());
                        Some(address)
                    });
                    adds.collect::<Vec<_>>()
                })
            })
            .collect();
        any.recv_timeout(PATIENCE).unwrap();
        std::thread::sleep(Duration::from_millis(1_000 + 137 * round));
        drop(served);
        for writer in writers {
            confirmed.extend(writer.join().unwrap());
        }
    }
    assert!(confirmed.len() >= 4, "{confirmed:?}");
    lake.lake.refresh().await.unwrap();
    let listed = confirmed.join("', '");
    let query = format!("SELECT count(*) FROM current WHERE content_address IN ('{listed}')");
    assert_eq!(lake.value(&query).await, confirmed.len().to_string());
}

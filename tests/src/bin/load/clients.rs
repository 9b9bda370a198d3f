//! One client of each protocol.

use arrow::array::RecordBatch;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt;
use serde_json::{Value, json};
use tokio_postgres::NoTls;
use tonic::transport::{Channel, Endpoint};

use crate::Failure;
use crate::calls::{Call, Names};
use crate::server::Addresses;

/// Grains of a person; the parameter is `$1`.
const OF_A_PERSON: &str = "SELECT content_address, type, created_at FROM current \
                           WHERE user_id = $1 ORDER BY created_at DESC LIMIT 20";

const COUNTS: &str = "SELECT type, count(*) AS n FROM current GROUP BY type ORDER BY type";

/// Connections of one client.
pub struct Clients {
    http: reqwest::Client,
    base: String,
    flight: FlightSqlServiceClient<Channel>,
    postgres: tokio_postgres::Client,
}

type Outcome = Result<(), Failure>;

impl Clients {
    /// Connects to a server.
    ///
    /// # Errors
    /// If a listener doesn't answer.
    pub async fn connect(addresses: &Addresses) -> Result<Clients, Failure> {
        let channel = Endpoint::from_shared(addresses.flight.clone())?;
        let flight = FlightSqlServiceClient::new(channel.connect().await?);
        let (postgres, connection) = tokio_postgres::connect(&addresses.postgres, NoTls).await?;
        // Ends with the client.
        tokio::spawn(connection);
        Ok(Clients {
            http: reqwest::Client::new(),
            base: addresses.http.clone(),
            flight,
            postgres,
        })
    }

    /// Returns the first column of an answer.
    ///
    /// # Errors
    /// If the query fails.
    pub async fn texts(&self, query: &str) -> Result<Vec<String>, Failure> {
        let rows = self.postgres.query(query, &[]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Runs a call with the name at a place.
    ///
    /// # Errors
    /// If it fails, or if it isn't refused as it must be.
    pub async fn run(&mut self, call: Call, names: &Names, at: usize) -> Outcome {
        match call {
            Call::RecallOverHttp => {
                let body = json!({"statement": names.recall(at)});
                self.post("/cal", body).await.and_then(succeeded)
            }
            Call::PersonOverHttp => {
                let body = json!({"query": OF_A_PERSON, "parameters": [names.user(at)]});
                self.post("/sql", body).await.and_then(succeeded)
            }
            Call::Search => {
                let body = json!({"query": Names::words(at), "limit": 10});
                self.post("/search", body).await.and_then(succeeded)
            }
            Call::BeyondTheLimit => {
                let body = json!({"query": "SELECT content_address FROM grains"});
                let (_, text) = self.post("/sql", body).await?;
                refused_for_its_rows(&text)
            }
            Call::RecallOverFlight => self.flight(&format!("CAL {}", names.recall(at))).await,
            Call::CountsOverFlight => self.flight(COUNTS).await,
            Call::PersonOverPostgres => {
                let user = names.user(at);
                self.postgres.query(OF_A_PERSON, &[&user]).await?;
                Ok(())
            }
            Call::RecallInAProcess => Err("not a call to a server".into()),
        }
    }

    async fn post(&self, path: &str, body: Value) -> Result<(u16, String), Failure> {
        let request = self.http.post(format!("{}{path}", self.base));
        let request = request.header("Content-Type", "application/json");
        let response = request.body(body.to_string()).send().await?;
        let status = response.status().as_u16();
        // A body that is cut has text before its end; what came is kept for the reason.
        let mut bytes = Vec::new();
        let mut chunks = response.bytes_stream();
        while let Ok(Some(chunk)) = chunks.try_next().await {
            bytes.extend_from_slice(&chunk);
        }
        Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Runs a query over Flight SQL, and returns its batches as they arrive.
    ///
    /// # Errors
    /// If it fails before the first of them.
    pub async fn stream(&mut self, query: &str) -> Result<FlightRecordBatchStream, Failure> {
        let info = self.flight.execute(query.to_owned(), None).await?;
        let ticket = info
            .endpoint
            .into_iter()
            .next()
            .and_then(|endpoint| endpoint.ticket);
        Ok(self.flight.do_get(ticket.ok_or("no ticket")?).await?)
    }

    async fn flight(&mut self, query: &str) -> Outcome {
        let batches: Vec<RecordBatch> = self.stream(query).await?.try_collect().await?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if rows == 0 {
            Err("no rows".into())
        } else {
            Ok(())
        }
    }
}

/// Judges an answer over HTTP. An answer whose body has an error may have status 200: it began
/// before the query failed.
fn succeeded((status, text): (u16, String)) -> Outcome {
    let last = text.lines().last().unwrap_or_default();
    if status == 200 && !last.starts_with(r#"{"error""#) {
        return Ok(());
    }
    Err(format!("{status}: {last}").into())
}

fn refused_for_its_rows(text: &str) -> Outcome {
    let last = text.lines().last().unwrap_or_default();
    if last.starts_with(r#"{"error""#) && last.contains("rows") {
        return Ok(());
    }
    Err(format!("not refused: {last}").into())
}

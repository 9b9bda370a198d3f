//! A server with one token, and a client of it.

use std::net::SocketAddr;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow_flight::FlightInfo;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt;
use gristmill_queries::sql::{Confinement, SqlOptions};
use gristmill_server::http::{HttpOptions, QueryLimits, Scope, Server, Tokens, new_token};
use gristmill_server::tls::Tls;
use gristmill_server::{NewestLake, flight};
use gristmill_tests::lake::TestLake;
use tokio::sync::oneshot;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

pub(super) type Client = FlightSqlServiceClient<Channel>;

/// A running server with one token.
pub(super) struct TestServer {
    pub(super) address: SocketAddr,
    pub(super) token: Option<String>,
    stop: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<()>,
}

pub(super) fn limits() -> QueryLimits {
    QueryLimits {
        time: Duration::from_secs(60),
        rows: 100_000,
        memory: 64 << 20,
        concurrent: 4,
        queued: 16,
    }
}

pub(super) fn own() -> Option<Confinement> {
    Some(Confinement {
        namespace: Some("own".to_owned()),
        user: None,
    })
}

impl TestServer {
    /// Starts a server over `lake`; without a confinement it has no tokens.
    pub(super) async fn start(
        lake: &TestLake,
        confinement: Option<Confinement>,
        limits: QueryLimits,
    ) -> TestServer {
        TestServer::start_with(lake, confinement, limits, &[Scope::Read], None).await
    }

    pub(super) async fn start_with(
        lake: &TestLake,
        confinement: Option<Confinement>,
        limits: QueryLimits,
        scopes: &[Scope],
        tls: Option<Tls>,
    ) -> TestServer {
        let made = confinement.map(|confinement| {
            new_token("test", &confinement, scopes.iter().copied().collect()).unwrap()
        });
        let options = HttpOptions {
            tokens: made
                .as_ref()
                .map(|(_, table)| Tokens::parse(table).unwrap()),
            allow_writes: true,
            limits,
            audit_rows: 50,
        };
        let newest = NewestLake::new(lake.lake.clone(), SqlOptions::default());
        let server = Server::new(newest.await.unwrap(), options).await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(async move {
            let stopped = async { stopped.await.unwrap_or_default() };
            flight::listen(server, listener, tls, stopped).await;
        });
        TestServer {
            address,
            token: made.map(|(token, _)| token),
            stop,
            served,
        }
    }

    /// Stops the server and waits for its end.
    pub(super) async fn end(self) {
        self.stop.send(()).unwrap();
        self.served.await.unwrap();
    }

    /// Returns a client with the server's token.
    pub(super) async fn client(&self) -> Client {
        client_of(self.address, self.token.as_deref()).await
    }
}

/// Returns a client of the server at `address`.
pub(super) async fn client_of(address: SocketAddr, token: Option<&str>) -> Client {
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let mut client = FlightSqlServiceClient::new(channel.connect().await.unwrap());
    if let Some(token) = token {
        client.set_token(token.to_owned());
    }
    client
}

/// Returns the rows that an answer names.
pub(super) async fn collected(
    client: &mut Client,
    info: FlightInfo,
) -> Result<Vec<RecordBatch>, FlightError> {
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let rows = client.do_get(ticket).await?;
    let batches: Vec<RecordBatch> = rows.try_collect().await?;
    let with_rows = batches.into_iter().filter(|batch| batch.num_rows() > 0);
    Ok(with_rows.collect())
}

/// Returns the number of rows that an answer names.
pub(super) async fn count(client: &mut Client, info: FlightInfo) -> usize {
    let batches = collected(client, info).await.unwrap();
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// Runs a statement and returns its rows.
pub(super) async fn rows_of(client: &mut Client, query: &str) -> Result<Vec<RecordBatch>, Status> {
    let asked = async {
        let info = client.execute(query.to_owned(), None).await?;
        collected(client, info).await
    };
    asked.await.map_err(status_of)
}

/// Returns the status of an error of the client.
pub(super) fn status_of(error: FlightError) -> Status {
    match error {
        FlightError::Tonic(status) => *status,
        other => Status::unknown(other.to_string()),
    }
}

//! Clients of a server.

use std::net::SocketAddr;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::{FlightClient, FlightInfo};
use futures::TryStreamExt;
use gristmill_tests::test_server::TestServer;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

pub(super) type Client = FlightSqlServiceClient<Channel>;

/// Returns a client with the token of `server`.
pub(super) async fn connected(server: &TestServer) -> Client {
    client_of(server.address, server.token.as_deref()).await
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

/// Returns the columns that `GetSchema` answers for the descriptor of `info`.
pub(super) async fn schema_of(
    address: SocketAddr,
    token: Option<&str>,
    info: &FlightInfo,
) -> Result<Schema, Status> {
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let mut client = FlightClient::new(channel.connect().await.unwrap());
    if let Some(token) = token {
        let value = format!("Bearer {token}");
        client.add_header("authorization", &value).unwrap();
    }
    let descriptor = info.flight_descriptor.clone().unwrap();
    client.get_schema(descriptor).await.map_err(status_of)
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

//! Statements of SQL and CAL: their columns, and their rows as they are sent.

use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::FlightData;
use arrow_flight::encode::{DictionaryHandling, FlightDataEncoder, FlightDataEncoderBuilder};
use arrow_flight::error::FlightError;
use datafusion::prelude::DataFrame;
use futures::future::ready;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt, stream};
use gristmill_queries::cal::Bindings;
use gristmill_queries::sql::{CountedRows, DataFusionError, SessionContext, plan_query};
use tonic::Status;

use super::catalog::{FoundTable, tables};
use super::failure::{counted_as, refused};
use super::handle::{Handle, Statement};
use super::parameters::Parameters;
use super::sent_columns::{hydrated, hydrated_schema};
use crate::http::{Authority, LimitedRows, Refusal, RowQueue, Server, cal_response, sql_context};

/// Largest message with rows in bytes, as most clients accept; larger are single rows only.
const ROW_BYTES: usize = 2 << 20;

/// The answer to a call that requests rows.
pub(super) type FlightStream = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;

/// Columns of the answer to a statement of CAL: its response as JSON.
static CAL_COLUMNS: LazyLock<SchemaRef> = LazyLock::new(|| {
    let response = Field::new("response", DataType::Utf8, false);
    Arc::new(Schema::new(vec![response]))
});

/// Columns and parameters of a statement.
pub(super) struct Described {
    pub(super) columns: SchemaRef,
    pub(super) parameters: Schema,
}

/// Runs `work` in the slot of a query, until the time of a query is over.
///
/// Callers box the result before they wait for it: the compiler proves that plans in `work` are
/// `Send` anew, in seconds, in each method of an async trait whose future contains it unboxed.
///
/// # Errors
/// Those of `work`, and `UNAVAILABLE` or `DEADLINE_EXCEEDED`.
async fn in_slot<T: Send + 'static>(
    server: &Server,
    work: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Status> {
    let deadline = server.admission.deadline();
    let limited = async {
        let permit = server.admission.admit(deadline).await?;
        let work = async move {
            let _permit = permit;
            work.await
        };
        server.run_query(deadline, work).await?
    };
    limited.await.map_err(|refusal| refused(&refusal))
}

/// Returns the context of SQL for an authority, made in the slot of a query.
///
/// # Errors
/// As [`in_slot`].
pub(super) async fn context_in_slot(
    server: &Arc<Server>,
    authority: Authority,
) -> Result<SessionContext, Status> {
    let of_work = Arc::clone(server);
    let work = async move { sql_context(&of_work, &authority).await };
    in_slot(server, work).boxed().await
}

/// Returns the tables that an authority finds, looked up in the slot of a query.
///
/// # Errors
/// As [`in_slot`], and those of a view that can't be planned.
pub(super) async fn tables_in_slot(
    server: &Arc<Server>,
    authority: Authority,
) -> Result<Vec<FoundTable>, Status> {
    let of_work = Arc::clone(server);
    let work = async move {
        let context = sql_context(&of_work, &authority).await?;
        Ok(tables(&context).await?)
    };
    in_slot(server, work).boxed().await
}

/// Returns the columns and parameters of a statement. It is planned but not run: whether a column
/// may have nulls is known of the physical plan only, and clients compare this, too.
///
/// # Errors
/// Those of planning.
pub(super) async fn described(
    server: &Arc<Server>,
    authority: &Authority,
    handle: &Handle,
) -> Result<Described, Status> {
    match handle.statement() {
        Statement::Cal(_) => Ok(Described {
            columns: Arc::clone(&CAL_COLUMNS),
            parameters: Schema::empty(),
        }),
        Statement::Sql(text) => {
            let bound = handle.parameters()?;
            let (of_work, authority) = (Arc::clone(server), authority.clone());
            let text = text.to_owned();
            let work = async move {
                let context = sql_context(&of_work, &authority).await?;
                Ok(described_query(plan_query(&context, &text).await?, bound.as_ref()).await?)
            };
            in_slot(server, work).boxed().await
        }
    }
}

/// Describes a query with the values of its parameters, or with nulls.
async fn described_query(
    query: DataFrame,
    bound: Option<&RecordBatch>,
) -> Result<Described, DataFusionError> {
    let parameters = Parameters::of(query.logical_plan())?;
    let values = match bound {
        None => parameters.nulls()?,
        bound => parameters.bound(bound)?,
    };
    let query = query.with_param_values(values)?;
    Ok(Described {
        columns: query.create_physical_plan().await?.schema(),
        parameters: parameters.schema(),
    })
}

/// Runs a statement and returns its rows while it runs.
///
/// # Errors
/// Those of planning and of the start; later ones end the stream.
pub(super) async fn run(
    server: &Arc<Server>,
    authority: &Authority,
    handle: &Handle,
) -> Result<FlightStream, Status> {
    let started = Instant::now();
    let rows = match handle.statement() {
        Statement::Cal(text) => cal_rows(server, authority, text).boxed().await,
        Statement::Sql(text) => sql_rows(server, authority, handle, text).boxed().await,
    };
    let status = rows.as_ref().map_or_else(counted_as, |_| 200);
    server.count_request("flight", status, started.elapsed());
    rows
}

async fn cal_rows(
    server: &Arc<Server>,
    authority: &Authority,
    text: &str,
) -> Result<FlightStream, Status> {
    let response = cal_response(server, authority, text, &Bindings::new()).await;
    let response = response.map_err(|refusal| refused(&refusal))?;
    let response = StringArray::from(vec![response]);
    let row = RecordBatch::try_new(Arc::clone(&CAL_COLUMNS), vec![Arc::new(response)]);
    Ok(sent_batch(row.map_err(FlightError::from)?))
}

async fn sql_rows(
    server: &Arc<Server>,
    authority: &Authority,
    handle: &Handle,
    text: &str,
) -> Result<FlightStream, Status> {
    let bound = handle.parameters()?;
    let deadline = server.admission.deadline();
    let started = async {
        let permit = server.admission.admit(deadline).await?;
        let (of_work, of_query) = (Arc::clone(server), authority.clone());
        let query_text = text.to_owned();
        let running = async move {
            let context = sql_context(&of_work, &of_query).await?;
            let query = plan_query(&context, &query_text).await?;
            let query = with_values(query, bound.as_ref())?;
            Ok::<_, Refusal>((CountedRows::of(&query).await?, permit))
        };
        let (rows, permit) = server.run_query(deadline, running).await??;
        let audited = server.audited(authority, text);
        let server = Arc::clone(server);
        Ok(LimitedRows::new(server, rows, audited, permit, deadline))
    };
    let rows = started
        .await
        .map_err(|refusal: Refusal| refused(&refusal))?;
    Ok(sent_rows(rows.into_task()))
}

fn with_values(
    query: DataFrame,
    bound: Option<&RecordBatch>,
) -> Result<DataFrame, DataFusionError> {
    let parameters = Parameters::of(query.logical_plan())?;
    query.with_param_values(parameters.bound(bound)?)
}

/// Returns the messages of rows, which end with an error where the query does.
fn sent_rows(rows: RowQueue) -> FlightStream {
    let schema = rows.schema();
    let batches = stream::unfold(rows, |mut rows| async move {
        let next = rows.next().await.map_err(|refusal| refused(&refusal));
        Some((next.map_err(FlightError::from).transpose()?, rows))
    });
    sent(schema, batches)
}

/// Returns the messages of one batch.
pub(super) fn sent_batch(batch: RecordBatch) -> FlightStream {
    let schema = batch.schema();
    sent(schema, stream::iter([Ok(batch)]))
}

fn sent(
    schema: SchemaRef,
    batches: impl Stream<Item = Result<RecordBatch, FlightError>> + Send + 'static,
) -> FlightStream {
    encoder(&schema, batches).map_err(Status::from).boxed()
}

/// Returns the encoder of rows, which sends dictionaries as their values.
fn encoder(
    schema: &SchemaRef,
    batches: impl Stream<Item = Result<RecordBatch, FlightError>> + Send + 'static,
) -> FlightDataEncoder {
    let batches = batches.and_then(|batch| ready(hydrated(&batch).map_err(FlightError::from)));
    FlightDataEncoderBuilder::new()
        .with_schema(hydrated_schema(schema))
        // There are none any more.
        .with_dictionary_handling(DictionaryHandling::Resend)
        .with_max_flight_data_size(ROW_BYTES)
        .build(batches)
}

/// Returns the columns with which rows of `schema` are sent, as they are announced to clients.
pub(super) fn sent_schema(schema: &SchemaRef) -> SchemaRef {
    let no_rows = stream::empty::<Result<RecordBatch, FlightError>>();
    let sent = encoder(schema, no_rows).known_schema();
    sent.unwrap_or_else(|| Arc::clone(schema))
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray};
    use arrow::datatypes::Int64Type;
    use arrow::util::pretty::pretty_format_columns;
    use arrow_flight::decode::FlightRecordBatchStream;
    use gristmill_queries::sql::{SqlOptions, bare_context};

    use super::*;

    /// Returns the only batch of a query, and the same as a client gets it.
    async fn sent_and_received(query: &str) -> (RecordBatch, RecordBatch) {
        let context = bare_context(&SqlOptions::default()).unwrap();
        let query = plan_query(&context, query).await.unwrap();
        let sent = query.collect().await.unwrap().remove(0);
        let messages = encoder(&sent.schema(), stream::iter([Ok(sent.clone())]));
        let received = FlightRecordBatchStream::new_from_flight_data(messages);
        let received: Vec<RecordBatch> = received.try_collect().await.unwrap();
        assert_eq!(received[0].schema(), sent_schema(&sent.schema()));
        (sent, received[0].clone())
    }

    /// Returns the values of a column: the members of unions are announced without their marks.
    fn shown(column: &ArrayRef) -> String {
        let table = pretty_format_columns("values", &[Arc::clone(column)]);
        table.unwrap().to_string()
    }

    #[tokio::test]
    async fn dictionaries_are_sent_next_to_lists_of_json_values() {
        const LIST: &str = r#"make_array(json_get('{"a": [1]}', 'a'), json_get('{"a": 2}', 'a'))"#;
        const DICTIONARY: &str = "arrow_cast('x', 'Dictionary(Int32, Utf8)')";
        let (sent, received) =
            sent_and_received(&format!("SELECT {DICTIONARY} AS d, {LIST} AS l")).await;
        assert_eq!(received.column(0).as_string::<i32>().value(0), "x");
        assert_eq!(shown(received.column(1)), shown(sent.column(1)));
        let both = format!("SELECT named_struct('d', {DICTIONARY}, 'l', {LIST}) AS s");
        let (sent, received) = sent_and_received(&both).await;
        let [sent, received] = [&sent, &received].map(|batch| batch.column(0).as_struct());
        assert_eq!(received.column(0).as_string::<i32>().value(0), "x");
        assert_eq!(shown(received.column(1)), shown(sent.column(1)));
    }

    #[tokio::test]
    async fn large_lists_are_sent_as_lists() {
        let query = "SELECT arrow_cast([1, 2, 3], 'LargeList(Int64)') AS l";
        let (_, received) = sent_and_received(query).await;
        let list = received.column(0).as_list::<i32>().value(0);
        assert_eq!(list.as_primitive::<Int64Type>().values(), &[1, 2, 3]);
    }
}

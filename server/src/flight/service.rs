//! The calls of Flight SQL: authorization, and which answer of the other files belongs to each
//! command.

use std::pin::Pin;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::error::FlightError;
use arrow_flight::sql::server::{FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
    ActionCreatePreparedStatementResult, CommandGetCatalogs, CommandGetCrossReference,
    CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys, CommandGetPrimaryKeys,
    CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables, CommandGetXdbcTypeInfo,
    CommandPreparedStatementQuery, CommandPreparedStatementUpdate, CommandStatementIngest,
    CommandStatementQuery, CommandStatementUpdate, DoPutPreparedStatementResult, ProstMessageExt,
    SqlInfo, TicketStatementQuery,
};
use arrow_flight::{
    Action, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest, HandshakeResponse,
    IpcMessage, SchemaAsIpc, Ticket,
};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use prost::Message;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use super::authority::{authority_of, token_of};
use super::handle::Handle;
use super::statements::{
    FlightStream, context_in_slot, described, run, sent_batch, sent_schema, tables_in_slot,
};
use super::{catalog, failure, parameters, server_info};
use crate::http::{Authority, BODY_TIME, Server};

/// The answer to a call.
pub(super) type Answer<T> = Result<Response<T>, Status>;

/// The answers of a server to the calls of Flight SQL.
pub(super) struct FlightSql(Arc<Server>);

impl FlightSql {
    pub(super) fn new(server: Arc<Server>) -> FlightSql {
        FlightSql(server)
    }

    fn authority<T>(&self, request: &Request<T>) -> Result<Authority, Status> {
        authority_of(&self.0, request.metadata())
    }

    /// Answers where to get the rows of a statement, and which columns they have.
    async fn statement_info(
        &self,
        handle: Handle,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        let authority = self.authority(&request)?;
        let described = described(&self.0, &authority, &handle).await?;
        let ticket = TicketStatementQuery {
            statement_handle: handle.to_bytes(),
        };
        info(&ticket, request.into_inner(), &described.columns)
    }

    /// Sends the rows of a statement.
    async fn statement_rows(&self, handle: &Bytes, metadata: &MetadataMap) -> Answer<FlightStream> {
        let authority = authority_of(&self.0, metadata)?;
        let handle = Handle::from_bytes(handle)?;
        Ok(Response::new(run(&self.0, &authority, &handle).await?))
    }

    /// Answers where to get the rows of a command about the catalog.
    fn command_info(
        &self,
        command: &impl ProstMessageExt,
        request: Request<FlightDescriptor>,
        rows: Result<RecordBatch, FlightError>,
    ) -> Answer<FlightInfo> {
        self.authority(&request)?;
        info(command, request.into_inner(), rows?.schema_ref())
    }

    /// Sends the rows of a command about the catalog.
    fn command_rows(
        &self,
        request: &Request<Ticket>,
        rows: Result<RecordBatch, FlightError>,
    ) -> Answer<FlightStream> {
        self.authority(request)?;
        Ok(Response::new(sent_batch(rows?)))
    }
}

/// Returns where to get the rows of `ticket`: from this server.
fn info(
    ticket: &impl ProstMessageExt,
    descriptor: FlightDescriptor,
    columns: &SchemaRef,
) -> Answer<FlightInfo> {
    let ticket = Ticket::new(ticket.as_any().encode_to_vec());
    let info = FlightInfo::new()
        .try_with_schema(&sent_schema(columns))
        .map_err(FlightError::from)?
        .with_endpoint(FlightEndpoint::new().with_ticket(ticket))
        .with_descriptor(descriptor);
    Ok(Response::new(info))
}

/// Returns a schema as bytes for clients.
fn schema_bytes(schema: &Schema) -> Result<Bytes, Status> {
    let options = IpcWriteOptions::default();
    let IpcMessage(bytes) = SchemaAsIpc::new(schema, &options)
        .try_into()
        .map_err(|error| failure::invalid(&error))?;
    Ok(bytes)
}

fn read_only() -> Status {
    Status::invalid_argument(
        "the lake can't be changed over Flight SQL. Use `gristmill ingest` and `gristmill apply`, \
         or ADD and SUPERSEDE in a statement that begins with CAL.",
    )
}

#[tonic::async_trait]
impl FlightSqlService for FlightSql {
    type FlightService = FlightSql;

    /// Answers a name and a token as password with the token, for later calls.
    async fn do_handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<Pin<Box<dyn Stream<Item = Result<HandshakeResponse, Status>> + Send>>> {
        self.authority(&request)?;
        let token = token_of(request.metadata()).unwrap_or_default();
        let answer = HandshakeResponse {
            protocol_version: 0,
            payload: Bytes::from(token.clone()),
        };
        let mut response = Response::new(stream::iter([Ok(answer)]).boxed());
        if let Ok(value) = format!("Bearer {token}").parse() {
            response.metadata_mut().insert("authorization", value);
        }
        Ok(response)
    }

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        self.statement_info(Handle::new(query.query), request).await
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        request: Request<Ticket>,
    ) -> Answer<FlightStream> {
        self.statement_rows(&ticket.statement_handle, request.metadata())
            .await
    }

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let authority = self.authority(&request)?;
        let handle = Handle::new(query.query);
        let described = described(&self.0, &authority, &handle).await?;
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: handle.to_bytes(),
            dataset_schema: schema_bytes(&sent_schema(&described.columns))?,
            parameter_schema: schema_bytes(&described.parameters)?,
        })
    }

    /// Does nothing: the server keeps no statements.
    async fn do_action_close_prepared_statement(
        &self,
        _: ActionClosePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<(), Status> {
        self.authority(&request).map(drop)
    }

    /// Answers a statement and the row that is bound to it with their handle.
    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        self.authority(&request)?;
        let handle = Handle::from_bytes(&query.prepared_statement_handle)?;
        let received = parameters::received(request.into_inner());
        let row = tokio::time::timeout(BODY_TIME, received)
            .await
            .map_err(|_| Status::deadline_exceeded("the parameters didn't arrive in time"))??;
        let bound = handle
            .bound(&row)
            .map_err(|error| failure::invalid(&error))?;
        Ok(DoPutPreparedStatementResult {
            prepared_statement_handle: Some(bound.to_bytes()),
        })
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        let handle = Handle::from_bytes(&query.prepared_statement_handle)?;
        self.statement_info(handle, request).await
    }

    async fn do_get_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<Ticket>,
    ) -> Answer<FlightStream> {
        self.statement_rows(&query.prepared_statement_handle, request.metadata())
            .await
    }

    async fn do_put_statement_update(
        &self,
        _: CommandStatementUpdate,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(read_only())
    }

    async fn do_put_prepared_statement_update(
        &self,
        _: CommandPreparedStatementUpdate,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(read_only())
    }

    async fn do_put_statement_ingest(
        &self,
        _: CommandStatementIngest,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(read_only())
    }

    async fn get_flight_info_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        let none = query.into_builder().build();
        self.command_info(&query, request, none)
    }

    async fn do_get_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<Ticket>,
    ) -> Answer<FlightStream> {
        let authority = self.authority(&request)?;
        let context = context_in_slot(&self.0, authority).await?;
        self.command_rows(&request, catalog::catalog_rows(query, &context))
    }

    async fn get_flight_info_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        let none = query.clone().into_builder().build();
        self.command_info(&query, request, none)
    }

    async fn do_get_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<Ticket>,
    ) -> Answer<FlightStream> {
        let authority = self.authority(&request)?;
        let context = context_in_slot(&self.0, authority).await?;
        self.command_rows(&request, catalog::schema_rows(query, &context))
    }

    async fn get_flight_info_tables(
        &self,
        query: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        let none = query.clone().into_builder().build();
        self.command_info(&query, request, none)
    }

    async fn do_get_tables(
        &self,
        query: CommandGetTables,
        request: Request<Ticket>,
    ) -> Answer<FlightStream> {
        let authority = self.authority(&request)?;
        let tables = tables_in_slot(&self.0, authority).await?;
        self.command_rows(&request, catalog::table_rows(query, &tables))
    }

    async fn get_flight_info_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        self.command_info(&query, request, catalog::table_type_rows(query))
    }

    async fn do_get_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<Ticket>,
    ) -> Answer<FlightStream> {
        self.command_rows(&request, catalog::table_type_rows(query))
    }

    async fn get_flight_info_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        let rows = server_info::info_rows(query.clone());
        self.command_info(&query, request, rows)
    }

    async fn do_get_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<Ticket>,
    ) -> Answer<FlightStream> {
        let rows = server_info::info_rows(query);
        self.command_rows(&request, rows)
    }

    async fn get_flight_info_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        let rows = server_info::types().and_then(|types| types.record_batch(query.data_type));
        self.command_info(&query, request, rows)
    }

    async fn do_get_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        request: Request<Ticket>,
    ) -> Answer<FlightStream> {
        let rows = server_info::types().and_then(|types| types.record_batch(query.data_type));
        self.command_rows(&request, rows)
    }

    async fn get_flight_info_primary_keys(
        &self,
        query: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        self.command_info(&query, request, Ok(server_info::primary_keys()))
    }

    async fn do_get_primary_keys(
        &self,
        _: CommandGetPrimaryKeys,
        request: Request<Ticket>,
    ) -> Answer<FlightStream> {
        self.command_rows(&request, Ok(server_info::primary_keys()))
    }

    async fn get_flight_info_exported_keys(
        &self,
        query: CommandGetExportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        self.command_info(&query, request, Ok(server_info::foreign_keys()))
    }

    async fn do_get_exported_keys(
        &self,
        _: CommandGetExportedKeys,
        request: Request<Ticket>,
    ) -> Answer<FlightStream> {
        self.command_rows(&request, Ok(server_info::foreign_keys()))
    }

    async fn get_flight_info_imported_keys(
        &self,
        query: CommandGetImportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        self.command_info(&query, request, Ok(server_info::foreign_keys()))
    }

    async fn do_get_imported_keys(
        &self,
        _: CommandGetImportedKeys,
        request: Request<Ticket>,
    ) -> Answer<FlightStream> {
        self.command_rows(&request, Ok(server_info::foreign_keys()))
    }

    async fn get_flight_info_cross_reference(
        &self,
        query: CommandGetCrossReference,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        self.command_info(&query, request, Ok(server_info::foreign_keys()))
    }

    async fn do_get_cross_reference(
        &self,
        _: CommandGetCrossReference,
        request: Request<Ticket>,
    ) -> Answer<FlightStream> {
        self.command_rows(&request, Ok(server_info::foreign_keys()))
    }

    /// Does nothing: [`server_info`] has all that clients can request.
    async fn register_sql_info(&self, _: i32, _: &SqlInfo) {}
}

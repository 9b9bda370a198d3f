//! The messages of queries: simple ones with a text of statements, and extended ones that are
//! bound to parameters and executed.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use datafusion::sql::parser::Statement;
use futures::{FutureExt, Sink, SinkExt};
use gristmill_queries::sql::{CountedRows, ParamValues, query_of};
use pgwire::api::portal::{Format, Portal, PortalExecutionState};
use pgwire::api::query::{
    ExtendedQueryHandler, SimpleQueryHandler, send_execution_response, send_partial_query_response,
    send_query_response, send_ready_for_query,
};
use pgwire::api::results::{FieldFormat, QueryResponse, Response, Tag};
use pgwire::api::stmt::StoredStatement;
use pgwire::api::store::{Entry, PortalStore};
use pgwire::api::{ClientInfo, ClientPortalStore, DEFAULT_NAME, PgWireConnectionState};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Execute, Parse, ParseComplete, Sync as SyncMessage,
};
use pgwire::messages::response::{EmptyQueryResponse, TransactionStatus};
use pgwire::messages::simplequery::Query;

use super::copy::CopiedQuery;
use super::failure::{error, query_error};
use super::parameters::value_of;
use super::prepared::{Prepared, check_bind, with_formats};
use super::rows::{CountedAnswer, RowWriter, RunningQuery};
use super::session::Session;
use super::statements::{ClientStatement, parsed};
use super::types::{Column, columns};
use crate::http::LimitedRows;

/// Answers the queries of a session.
pub(super) struct Handler(Arc<Session>);

impl Handler {
    pub(super) fn new(session: Arc<Session>) -> Handler {
        Handler(session)
    }
}

impl Session {
    /// Starts a query within the server's limits. `expected` are the columns that were sent to
    /// the client before, if any were.
    async fn run(
        &self,
        statement: &Statement,
        text: &str,
        parameters: ParamValues,
        formats: &Format,
        expected: Option<&[Column]>,
    ) -> PgWireResult<QueryResponse> {
        let mut cancelled = self.cancellation().await?;
        let started = Instant::now();
        // Boxed like the other uses of `Session::plan`.
        let rows = self.rows(statement, text, parameters).boxed();
        let result = tokio::select! {
            rows = rows => rows,
            Ok(()) = &mut cancelled => Err(PgWireError::QueryCanceled),
        };
        let mut answer = CountedAnswer::new(self.server(), started.elapsed());
        let rows = answer.checked(result)?;
        let columns = columns(&rows.schema());
        if expected.is_some_and(|expected| !are_of_same_types(expected, &columns)) {
            return answer.checked(Err(columns_changed()));
        }
        let columns = answer.checked(with_formats(columns, formats))?;
        let infos = columns
            .iter()
            .map(|(column, format)| column.info(*format))
            .collect();
        let query = RunningQuery {
            rows,
            writer: RowWriter::new(columns),
            answer,
            cancelled,
            _unfinished: self.unfinished(),
        };
        Ok(QueryResponse::new(Arc::new(infos), query.into_stream()))
    }

    /// Starts the query of a portal with its parameters.
    pub(super) async fn run_portal(
        &self,
        portal: &Portal<Arc<Prepared>>,
        formats: &Format,
    ) -> PgWireResult<QueryResponse> {
        match portal.statement.statement.statement()? {
            ClientStatement::Query(query) => self.run_bound(&query, portal, formats).await,
            _ => Err(no_query()),
        }
    }

    /// Starts `statement`, the query of a portal, with the parameters of the portal.
    async fn run_bound(
        &self,
        statement: &Statement,
        portal: &Portal<Arc<Prepared>>,
        formats: &Format,
    ) -> PgWireResult<QueryResponse> {
        let prepared = &portal.statement.statement;
        let values = prepared
            .parameters
            .iter()
            .zip(&portal.parameters)
            .enumerate();
        let values = values
            .map(|(at, (kind, bytes))| {
                value_of(kind, portal.parameter_format.format_for(at), bytes.as_ref())
            })
            .collect::<PgWireResult<Vec<_>>>()?;
        let (values, expected) = (ParamValues::from(values), Some(&*prepared.columns));
        self.run(statement, &prepared.text, values, formats, expected)
            .await
    }

    async fn rows(
        &self,
        statement: &Statement,
        text: &str,
        parameters: ParamValues,
    ) -> PgWireResult<LimitedRows> {
        let deadline = self.server().admission.deadline();
        let permit = self.slot(deadline).await?;
        let statement = statement.clone();
        let started = self.plan(deadline, async move |context| {
            let query = query_of(&context, statement).await;
            let query = query.and_then(|query| query.with_param_values(parameters));
            let rows = CountedRows::of(&query.map_err(query_error)?).await;
            Ok((rows.map_err(query_error)?, permit))
        });
        let (rows, permit) = started.await?;
        let audited = self.server().audited(self.authority()?, text);
        Ok(LimitedRows::new(
            Arc::clone(self.server()),
            rows,
            audited,
            permit,
            deadline,
        ))
    }
}

fn no_query() -> PgWireError {
    error("42601", "the portal has no query")
}

fn columns_changed() -> PgWireError {
    error(
        "0A000",
        "the columns have changed: prepare the statement again",
    )
}

fn are_of_same_types(one: &[Column], other: &[Column]) -> bool {
    let kinds = |columns: &[Column]| {
        columns
            .iter()
            .map(|column| column.kind.clone())
            .collect::<Vec<_>>()
    };
    kinds(one) == kinds(other)
}

/// Answers a text without a statement.
async fn send_empty<C>(client: &mut C) -> PgWireResult<()>
where
    C: Sink<PgWireBackendMessage> + Unpin,
    PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
{
    let empty = PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new());
    Ok(client.feed(empty).await?)
}

#[async_trait]
impl SimpleQueryHandler for Handler {
    async fn on_query<C>(&self, client: &mut C, query: Query) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let text = query.query;
        let statements = parsed(&text)?;
        if statements.is_empty() {
            send_empty(client).await?;
        }
        for (position, classified) in statements.iter().enumerate() {
            let answer = self.answer_simple(client, classified, &text, position);
            match answer.await? {
                Response::Query(rows) => match classified {
                    ClientStatement::Copy(copied) => copied.send(client, rows).await?,
                    _ => send_query_response(client, rows, true).await?,
                },
                Response::Execution(tag) => send_execution_response(client, tag).await?,
                _ => {}
            }
        }
        client.set_state(PgWireConnectionState::ReadyForQuery);
        let status = client.transaction_status();
        send_ready_for_query(client, status).await
    }

    /// Answers nothing: queries are answered by `on_query`, one statement after another.
    async fn do_query<C>(&self, _: &mut C, _: &str) -> PgWireResult<Vec<Response>>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        Ok(Vec::new())
    }
}

#[async_trait]
impl ExtendedQueryHandler for Handler {
    type Statement = Arc<Prepared>;
    type QueryParser = Session;

    fn query_parser(&self) -> Arc<Session> {
        Arc::clone(&self.0)
    }

    /// Stores a statement; a text without one is a statement, too, so that it counts among those
    /// that the session holds.
    async fn on_parse<C>(&self, client: &mut C, message: Parse) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let name = message.name.as_deref().unwrap_or(DEFAULT_NAME);
        let parsed = StoredStatement::parse(client, &message, self.query_parser()).await?;
        let stored = Arc::new(parsed.unwrap_or_else(|| {
            StoredStatement::new(name.to_owned(), Arc::new(Prepared::empty()), Vec::new())
        }));
        let bytes = name.len() + stored.statement.bytes();
        self.0.held.add(&stored, bytes)?;
        client.portal_store().put_statement(stored);
        let complete = PgWireBackendMessage::ParseComplete(ParseComplete::new());
        Ok(client.send(complete).await?)
    }

    async fn on_bind<C>(&self, client: &mut C, message: Bind) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let name = message.statement_name.as_deref().unwrap_or(DEFAULT_NAME);
        let store = client.portal_store();
        let Some(Entry::Value(stored)) = store.get_statement(name) else {
            return Err(PgWireError::StatementNotFound(name.to_owned()));
        };
        check_bind(&message, &stored.statement)?;
        let portal = Arc::new(Portal::try_new(&message, stored)?);
        let parameters = message.parameters.iter().flatten();
        let values = parameters.map(|value| value.len()).sum::<usize>();
        let bytes = values + size_of_val(message.parameters.as_slice()) + portal.name.len();
        self.0.held.add(&portal, bytes)?;
        store.put_portal(portal);
        let complete = PgWireBackendMessage::BindComplete(BindComplete::new());
        Ok(client.feed(complete).await?)
    }

    async fn on_execute<C>(&self, client: &mut C, message: Execute) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let name = message.name.as_deref().unwrap_or(DEFAULT_NAME);
        let Some(Entry::Value(portal)) = client.portal_store().get_portal(name) else {
            return Err(error("34000", format!("there is no portal `{name}`")));
        };
        let executed = self.execute(client, &portal, message.max_rows).await;
        if executed.is_err() {
            // What is left of a failed query must not look like its end.
            client.portal_store().rm_portal(name);
        }
        executed
    }

    async fn on_sync<C>(&self, client: &mut C, _: SyncMessage) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let status = client.transaction_status();
        if status == TransactionStatus::Idle {
            client.portal_store().clear_portals();
        }
        send_ready_for_query(client, status).await
    }

    /// Starts the query of a portal.
    async fn do_query<C>(
        &self,
        client: &mut C,
        portal: &Portal<Arc<Prepared>>,
        _: usize,
    ) -> PgWireResult<Response>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let statement = portal.statement.statement.statement()?;
        self.start(client, portal, &statement).await
    }
}

impl Handler {
    /// Starts `statement`, that of a portal.
    async fn start<C>(
        &self,
        client: &mut C,
        portal: &Portal<Arc<Prepared>>,
        statement: &ClientStatement,
    ) -> PgWireResult<Response>
    where
        C: ClientInfo + ClientPortalStore + Send + Sync,
        C::PortalStore: PortalStore,
    {
        let session = &self.0;
        let prepared = &portal.statement.statement;
        let formats = &portal.result_column_format;
        if let ClientStatement::Reply(classified) = statement {
            let format = match prepared.columns.is_empty() {
                true => FieldFormat::Text,
                false => formats.format_for(0),
            };
            return session.reply(client, classified, format);
        }
        check_transaction(client)?;
        Ok(match statement {
            ClientStatement::Query(query) => {
                Response::Query(session.run_bound(query, portal, formats).await?)
            }
            ClientStatement::Declare(declaration) => {
                let tag = session.declare(client, declaration, prepared, Some(portal))?;
                Response::Execution(tag)
            }
            ClientStatement::Close(name) => {
                Response::Execution(session.close(client, name.as_deref())?)
            }
            ClientStatement::Fetch { cursor, count } => {
                let cursor = session.cursors.get(cursor)?;
                if !are_of_same_types(&prepared.columns, &cursor.statement.statement.columns) {
                    return Err(columns_changed());
                }
                Response::Query(session.fetch(&cursor, *count, formats).await?)
            }
            ClientStatement::Copy(_) | ClientStatement::Reply(_) => return Err(no_query()),
        })
    }

    /// Starts the answer to a statement of a simple message, which has `position` statements before
    /// it in the text.
    async fn answer_simple<C>(
        &self,
        client: &mut C,
        classified: &ClientStatement,
        text: &str,
        position: usize,
    ) -> PgWireResult<Response>
    where
        C: ClientInfo + ClientPortalStore + Send + Sync,
        C::PortalStore: PortalStore,
    {
        if !matches!(classified, ClientStatement::Reply(_)) {
            check_transaction(client)?;
        }
        let session = &self.0;
        let none = ParamValues::List(Vec::new());
        Ok(match classified {
            ClientStatement::Query(query) => {
                let formats = Format::UnifiedText;
                Response::Query(session.run(query, text, none, &formats, None).await?)
            }
            ClientStatement::Copy(copied) => {
                let (query, formats) = (&copied.query, copied.format());
                Response::Query(session.run(query, text, none, &formats, None).await?)
            }
            ClientStatement::Declare(declaration) => {
                let prepared = session.prepared(text, position, classified, &[]).await?;
                Response::Execution(session.declare(client, declaration, &prepared, None)?)
            }
            ClientStatement::Fetch { cursor, count } => {
                let cursor = session.cursors.get(cursor)?;
                let formats = &cursor.result_column_format;
                Response::Query(session.fetch(&cursor, *count, formats).await?)
            }
            ClientStatement::Close(name) => {
                Response::Execution(session.close(client, name.as_deref())?)
            }
            ClientStatement::Reply(classified) => {
                session.reply(client, classified, FieldFormat::Text)?
            }
        })
    }

    /// Copies the rows of a query to the client.
    async fn copy<C>(&self, client: &mut C, copied: &CopiedQuery, text: &str) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        check_transaction(client)?;
        let none = ParamValues::List(Vec::new());
        let formats = copied.format();
        let rows = self.0.run(&copied.query, text, none, &formats, None);
        copied.send(client, rows.await?).await
    }

    /// Sends up to `max_rows` rows of a portal, all if it isn't positive.
    async fn execute<C>(
        &self,
        client: &mut C,
        portal: &Portal<Arc<Prepared>>,
        max_rows: i32,
    ) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Arc<Prepared>>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let max_rows = usize::try_from(max_rows).unwrap_or(0);
        let state = portal.state();
        // The rows of a FETCH hold the state of their cursor, which is a portal, too.
        let in_use = |_| error("55006", "the rows of a FETCH aren't all taken");
        let mut state = state.try_lock().map_err(in_use)?;
        let mut rows = match std::mem::replace(&mut *state, PortalExecutionState::Finished) {
            PortalExecutionState::Suspended(rows) => rows,
            PortalExecutionState::Initial => {
                let prepared = &portal.statement.statement;
                let statement = prepared.statement()?;
                if let ClientStatement::Copy(copied) = &statement {
                    return self.copy(client, copied, &prepared.text).await;
                }
                match self.start(client, portal, &statement).await? {
                    Response::Query(rows) => rows,
                    Response::Execution(tag) => return send_execution_response(client, tag).await,
                    Response::EmptyQuery => {
                        *state = PortalExecutionState::Initial;
                        return send_empty(client).await;
                    }
                    _ => return Ok(()),
                }
            }
            PortalExecutionState::Finished => {
                let none = Tag::new("SELECT").with_rows(0);
                return send_execution_response(client, none).await;
            }
        };
        let mut cancelled = self.0.cancellation().await?;
        let is_suspended = tokio::select! {
            sent = send_partial_query_response(client, &mut rows, max_rows) => sent?,
            Ok(()) = &mut cancelled => return Err(PgWireError::QueryCanceled),
        };
        if is_suspended {
            *state = PortalExecutionState::Suspended(rows);
        }
        Ok(())
    }
}

/// Checks that the transaction has not failed: a client that ignores an error must not take later
/// answers for those of a whole transaction.
pub(super) fn check_transaction(client: &impl ClientInfo) -> PgWireResult<()> {
    match client.transaction_status() {
        TransactionStatus::Error => Err(error(
            "25P02",
            "the transaction has failed; end it with ROLLBACK",
        )),
        _ => Ok(()),
    }
}

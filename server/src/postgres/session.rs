//! The session of a connection: who the client is, what it sees, and which query it can cancel.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use futures::channel::oneshot;
use futures::{Sink, SinkExt};
use gristmill_queries::sql::SessionContext;
use pgwire::api::auth::{
    DefaultServerParameterProvider, StartupHandler, finish_authentication, protocol_negotiation,
    save_startup_parameters_to_metadata,
};
use pgwire::api::{
    ClientInfo, ConnectionGuard, ConnectionHandle, PgWireConnectionState, PidSecretKeyGenerator,
};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::startup::Authentication;
use pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::Listener;
use super::catalog::with_pg_catalog;
use super::cursors::Cursors;
use super::failure::{fatal, query_error, refused};
use super::held_objects::HeldObjects;
use crate::http::{Authority, Scope, Server, sql_context};

/// Version of PostgreSQL whose protocol and catalog clients expect.
pub(super) const SERVER_VERSION: &str = "16.6";

/// A session that has started.
struct StartedSession {
    authority: Authority,
    cancellation: Arc<ConnectionHandle>,
    _registered: ConnectionGuard,
}

/// The session of a connection.
pub(super) struct Session {
    listener: Arc<Listener>,
    started: OnceLock<StartedSession>,
    /// Cloned by every answer whose rows aren't all sent.
    unfinished: Arc<()>,
    /// The prepared statements and portals that the client holds.
    pub(super) held: HeldObjects,
    /// The portals among them that DECLARE has made.
    pub(super) cursors: Cursors,
}

impl Session {
    pub(super) fn new(listener: Arc<Listener>) -> Session {
        let by_all = Arc::clone(&listener.held);
        Session {
            listener,
            started: OnceLock::new(),
            unfinished: Arc::new(()),
            held: HeldObjects::new(by_all),
            cursors: Cursors::default(),
        }
    }

    pub(super) fn server(&self) -> &Arc<Server> {
        &self.listener.server
    }

    /// Returns true if the client has shown its token.
    pub(super) fn has_started(&self) -> bool {
        self.started.get().is_some()
    }

    /// Returns true if a query waits for the client to request more of its rows.
    pub(super) fn holds_rows(&self) -> bool {
        Arc::strong_count(&self.unfinished) > 1
    }

    /// Returns what marks a query as unfinished until it is dropped.
    pub(super) fn unfinished(&self) -> Arc<()> {
        Arc::clone(&self.unfinished)
    }

    fn started(&self) -> PgWireResult<&StartedSession> {
        let missing = || fatal("28000", "the session has not started");
        self.started.get().ok_or_else(missing)
    }

    pub(super) fn authority(&self) -> PgWireResult<&Authority> {
        Ok(&self.started()?.authority)
    }

    /// Checks the token of a session that has started.
    ///
    /// # Errors
    /// SQLSTATE 28P01, which ends the session, if the token was revoked or changed, or has expired.
    pub(super) fn check_token(&self) -> PgWireResult<()> {
        let started = self.started.get();
        match started.is_none_or(|started| self.server().is_current(&started.authority)) {
            true => Ok(()),
            false => Err(fatal(
                "28P01",
                "the token of the session isn't valid any more: connect with another one",
            )),
        }
    }

    /// Returns what is ready when the client cancels the query that begins now.
    pub(super) async fn cancellation(&self) -> PgWireResult<oneshot::Receiver<()>> {
        Ok(self.started()?.cancellation.start_query().await)
    }

    /// Waits for the slot of a query, which is free again when the permit is dropped.
    ///
    /// # Errors
    /// SQLSTATE 53300 if the queue is full or there is no slot until `deadline`.
    pub(super) async fn slot(&self, deadline: Instant) -> PgWireResult<OwnedSemaphorePermit> {
        let admitted = self.server().admission.admit(deadline).await;
        admitted.map_err(|refusal| refused(&refusal))
    }

    /// Runs `work`, which plans a query, on the threads of queries. It gets a context at the newest
    /// version of the lake.
    ///
    /// Futures that contain the result are boxed before they get into a method of an async trait:
    /// the compiler proves that plans in `work` are `Send` anew, in seconds, in each that has it
    /// unboxed.
    ///
    /// # Errors
    /// Those of `work`, and the time limit at `deadline`.
    pub(super) async fn plan<T, W>(
        &self,
        deadline: Instant,
        work: impl FnOnce(SessionContext) -> W + Send + 'static,
    ) -> PgWireResult<T>
    where
        T: Send + 'static,
        W: Future<Output = PgWireResult<T>> + Send,
    {
        let (server, authority) = (Arc::clone(self.server()), self.authority()?.clone());
        let planned = async move {
            let context = sql_context(&server, &authority).await;
            let context = context.map_err(|refusal| refused(&refusal))?;
            work(with_pg_catalog(&context).map_err(query_error)?).await
        };
        let planned = self.server().run_query(deadline, planned).await;
        planned.map_err(|refusal| refused(&refusal))?
    }

    /// Returns the authority of a token.
    fn authority_of(&self, token: &str) -> PgWireResult<Authority> {
        let authority = self.server().authority_of(Some(token), Scope::Read);
        authority.map_err(|refusal| match refusal.text("code") {
            "SCOPE" => fatal("42501", "the token has no scope `read`"),
            _ => fatal(
                "28P01",
                "no valid token: the password is a token that the operator has made",
            ),
        })
    }

    async fn begin<C>(&self, client: &mut C, authority: Authority) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let (id, key) = self.listener.keys.generate(client);
        client.set_pid_and_secret_key(id, key.clone());
        let (cancellation, registered) = self.listener.connections.register(id, key);
        tracing::debug!(token = authority.name, "session over PostgreSQL's protocol");
        let _ = self.started.set(StartedSession {
            authority,
            cancellation,
            _registered: registered,
        });
        finish_authentication(client, &server_parameters()).await
    }
}

/// Returns the parameters that a client receives when its session begins.
fn server_parameters() -> DefaultServerParameterProvider {
    let mut parameters = DefaultServerParameterProvider::default();
    parameters.server_version = format!("{SERVER_VERSION} (gristmill)");
    parameters.is_superuser = false;
    parameters.default_transaction_read_only = true;
    parameters.time_zone = "UTC".to_owned();
    parameters.date_style = "ISO, MDY".to_owned();
    parameters
}

#[async_trait]
impl StartupHandler for Session {
    async fn on_startup<C>(
        &self,
        client: &mut C,
        message: PgWireFrontendMessage,
    ) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        match (message, client.state()) {
            (PgWireFrontendMessage::Startup(startup), PgWireConnectionState::AwaitingStartup) => {
                if !client.is_secure() && !client.socket_addr().ip().to_canonical().is_loopback() {
                    return Err(fatal("28000", "other machines must connect with TLS"));
                }
                protocol_negotiation(client, &startup).await?;
                save_startup_parameters_to_metadata(client, &startup);
                if self.server().options.tokens.is_none() {
                    return self.begin(client, Authority::local()).await;
                }
                client.set_state(PgWireConnectionState::AuthenticationInProgress);
                let ask = Authentication::CleartextPassword;
                client
                    .send(PgWireBackendMessage::Authentication(ask))
                    .await?;
                Ok(())
            }
            (
                PgWireFrontendMessage::PasswordMessageFamily(message),
                PgWireConnectionState::AuthenticationInProgress,
            ) => {
                let authority = self.authority_of(&message.into_password()?.password)?;
                self.begin(client, authority).await
            }
            _ => Err(PgWireError::NoAuthenticationInProgress),
        }
    }
}

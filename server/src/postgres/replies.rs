//! Answers to statements about the session: transactions, settings, and what the session forgets.

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use futures::stream;
use pgwire::api::results::{FieldFormat, FieldInfo, QueryResponse, Response, Tag};
use pgwire::api::stmt::StoredStatement;
use pgwire::api::store::PortalStore;
use pgwire::api::{ClientInfo, ClientPortalStore, DEFAULT_NAME, Type};
use pgwire::error::PgWireResult;
use pgwire::messages::data::DataRow;
use pgwire::messages::response::TransactionStatus;

use super::failure::error;
use super::prepared::Prepared;
use super::queries::check_transaction;
use super::session::Session;
use super::statements::Reply;

impl Session {
    /// Returns the answer to a statement about the session.
    ///
    /// # Errors
    /// In a failed transaction all but its end, and a return to a savepoint (SQLSTATE 25P02);
    /// DEALLOCATE of a name that no prepared statement has (26000), DISCARD ALL in a transaction
    /// (25001).
    pub(super) fn reply<C>(
        &self,
        client: &mut C,
        reply: &Reply,
        format: FieldFormat,
    ) -> PgWireResult<Response>
    where
        C: ClientInfo + ClientPortalStore,
        C::PortalStore: PortalStore,
    {
        if !matches!(reply, Reply::End(_) | Reply::ToSavepoint | Reply::Empty) {
            check_transaction(client)?;
        }
        let status = client.transaction_status();
        Ok(match reply {
            Reply::Begin => {
                client.set_transaction_status(status.to_in_transaction_state());
                Response::Execution(Tag::new("BEGIN"))
            }
            Reply::End(tag) => {
                let has_failed = status == TransactionStatus::Error;
                client.set_transaction_status(status.to_idle_state());
                client.portal_store().clear_portals();
                Response::Execution(Tag::new(if has_failed { "ROLLBACK" } else { tag }))
            }
            Reply::ToSavepoint => {
                if status == TransactionStatus::Error {
                    client.set_transaction_status(TransactionStatus::Transaction);
                }
                Response::Execution(Tag::new("ROLLBACK"))
            }
            Reply::Done(tag) => Response::Execution(Tag::new(tag)),
            Reply::Deallocate(name) => {
                let store = client.portal_store();
                if store.get_statement(name).is_none() {
                    let message = format!("there is no prepared statement `{name}`");
                    return Err(error("26000", message));
                }
                store.rm_statement(name);
                Response::Execution(Tag::new("DEALLOCATE"))
            }
            Reply::DeallocateAll => {
                self.forget_statements(client.portal_store());
                Response::Execution(Tag::new("DEALLOCATE ALL"))
            }
            Reply::DiscardAll => {
                if status != TransactionStatus::Idle {
                    let message = "DISCARD ALL can't run in a transaction";
                    return Err(error("25001", message));
                }
                client.portal_store().clear_portals();
                self.forget_statements(client.portal_store());
                Response::Execution(Tag::new("DISCARD ALL"))
            }
            Reply::Setting { name, value } => Response::Query(setting_row(name, value, format)),
            Reply::Empty => Response::EmptyQuery,
        })
    }

    /// Removes the prepared statements that have a name. As in PostgreSQL, the unnamed one stays
    /// until another takes its place.
    fn forget_statements(&self, store: &impl PortalStore) {
        let statements = self.held.all::<StoredStatement<Arc<Prepared>>>();
        let names = statements.iter().map(|statement| statement.id.as_str());
        names
            .filter(|name| *name != DEFAULT_NAME)
            .for_each(|name| store.rm_statement(name));
    }
}

/// Returns the one row of a setting.
fn setting_row(name: &str, value: &str, format: FieldFormat) -> QueryResponse {
    let info = FieldInfo::new(name.to_owned(), None, None, Type::TEXT, format);
    let mut data = BytesMut::new();
    data.put_i32(i32::try_from(value.len()).unwrap_or(0));
    data.put_slice(value.as_bytes());
    let row = stream::iter([Ok(DataRow::new(data, 1))]);
    let mut response = QueryResponse::new(Arc::new(vec![info]), row);
    response.set_command_tag("SHOW");
    response
}

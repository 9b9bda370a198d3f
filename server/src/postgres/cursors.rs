//! Cursors of SQL: DECLARE makes one, FETCH reads it, CLOSE drops it. A cursor is a portal with its
//! name, so it can be described as one, ends with the transaction, and counts as one.
//!
//! It reads forwards. Its query begins with the first FETCH, whose format all of its rows have.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures::{StreamExt, stream};
use pgwire::api::portal::{Format, Portal, PortalExecutionState};
use pgwire::api::results::{FieldInfo, QueryResponse, Tag};
use pgwire::api::stmt::StoredStatement;
use pgwire::api::store::{MemPortalStore, PortalStore};
use pgwire::api::{ClientInfo, ClientPortalStore};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::response::TransactionStatus;

use super::failure::error;
use super::prepared::{Prepared, with_formats};
use super::session::Session;
use super::statements::Declaration;

/// A portal that DECLARE has made.
pub(super) type Cursor = Portal<Arc<Prepared>>;

/// The cursors of a session by their names. The store of portals keeps them.
#[derive(Default)]
pub(super) struct Cursors(Mutex<HashMap<String, Weak<Cursor>>>);

impl Cursors {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Weak<Cursor>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a cursor.
    ///
    /// # Errors
    /// SQLSTATE 34000 if there is none with this name.
    pub(super) fn get(&self, name: &str) -> PgWireResult<Arc<Cursor>> {
        let cursor = self.all().get(name).and_then(Weak::upgrade);
        cursor.ok_or_else(|| error("34000", format!("there is no cursor `{name}`")))
    }

    fn add(&self, cursor: &Arc<Cursor>) {
        let mut all = self.all();
        all.retain(|_, cursor| cursor.strong_count() > 0);
        all.insert(cursor.name.clone(), Arc::downgrade(cursor));
    }

    /// Removes the cursor with this name, or all of them. Returns their names.
    fn remove(&self, name: Option<&str>) -> PgWireResult<Vec<String>> {
        if let Some(name) = name {
            self.get(name)?;
        }
        let mut all = self.all();
        let removed = all.extract_if(|cursor, _| name.is_none_or(|name| cursor == name));
        Ok(removed.map(|(cursor, _)| cursor).collect())
    }
}

impl Session {
    /// Makes a cursor with the parameters that are `bound` to DECLARE, if some are.
    ///
    /// # Errors
    /// No transaction, a name that another cursor has, and too many portals.
    pub(super) fn declare<C>(
        &self,
        client: &C,
        declaration: &Declaration,
        prepared: &Prepared,
        bound: Option<&Cursor>,
    ) -> PgWireResult<Tag>
    where
        C: ClientInfo + ClientPortalStore,
        C::PortalStore: PortalStore,
    {
        let Declaration {
            name, is_binary, ..
        } = declaration;
        if client.transaction_status() == TransactionStatus::Idle {
            let message = "a cursor exists in a transaction only: send BEGIN before DECLARE";
            return Err(error("25P01", message));
        }
        let store = client.portal_store().as_any();
        let store = store.downcast_ref::<MemPortalStore<Arc<Prepared>>>();
        let store = store.ok_or_else(|| error("XX000", "portals can't be stored"))?;
        if store.get_portal(name).is_some() {
            return Err(error(
                "42P03",
                format!("there is a cursor `{name}` already"),
            ));
        }
        let query = Arc::new(prepared.cursor());
        let stored = StoredStatement::new(name.clone(), Arc::clone(&query), Vec::new());
        let mut cursor = Portal::new_cursor(name.clone(), Arc::new(stored));
        if let Some(bound) = bound {
            cursor.parameter_format = bound.parameter_format.clone();
            cursor.parameters = bound.parameters.clone();
        }
        if *is_binary {
            cursor.result_column_format = Format::UnifiedBinary;
        }
        let values = cursor.parameters.iter().flatten();
        let bytes = values.map(|value| value.len()).sum::<usize>() + query.bytes();
        let cursor = Arc::new(cursor);
        self.held.add(&cursor, bytes)?;
        self.cursors.add(&cursor);
        store.put_portal(cursor);
        Ok(Tag::new("DECLARE CURSOR"))
    }

    /// Drops the cursor with this name, or all of them.
    ///
    /// # Errors
    /// SQLSTATE 34000 if there is none with this name.
    pub(super) fn close<C>(&self, client: &C, name: Option<&str>) -> PgWireResult<Tag>
    where
        C: ClientPortalStore,
        C::PortalStore: PortalStore,
    {
        for cursor in self.cursors.remove(name)? {
            client.portal_store().rm_portal(&cursor);
        }
        Ok(Tag::new(match name {
            Some(_) => "CLOSE CURSOR",
            None => "CLOSE CURSOR ALL",
        }))
    }

    /// Returns the next rows of a cursor: `count` at most, or all that are left.
    ///
    /// # Errors
    /// Those of starting the query with the first FETCH; other formats than those of the first; a
    /// FETCH whose rows aren't all taken.
    pub(super) async fn fetch(
        &self,
        cursor: &Cursor,
        count: Option<usize>,
        formats: &Format,
    ) -> PgWireResult<QueryResponse> {
        let state = cursor.state().try_lock_owned();
        let in_use = |_| error("55006", "the rows of another FETCH aren't all taken");
        let mut state = state.map_err(in_use)?;
        let columns = with_formats(cursor.statement.statement.columns.clone(), formats)?;
        let infos: Vec<FieldInfo> = columns
            .iter()
            .map(|(column, format)| column.info(*format))
            .collect();
        if matches!(*state, PortalExecutionState::Initial) {
            *state = PortalExecutionState::Suspended(self.run_portal(cursor, formats).await?);
        }
        if let PortalExecutionState::Suspended(rows) = &*state {
            let begun = rows.row_schema();
            let mut pairs = begun.iter().zip(&infos);
            if pairs.any(|(begun, asked)| begun.format() != asked.format()) {
                let message = "the rows of a cursor have the format of its first FETCH";
                return Err(error("0A000", message));
            }
        }
        // A query that the session began since the first FETCH took the cancellation of its rows.
        let begin = (
            state,
            count.unwrap_or(usize::MAX),
            self.cancellation().await?,
        );
        let rows = stream::try_unfold(begin, |(mut state, left, mut cancelled)| async move {
            let next = match &mut *state {
                PortalExecutionState::Suspended(rows) if left > 0 => tokio::select! {
                    next = rows.data_rows().next() => next,
                    Ok(()) = &mut cancelled => return Err(PgWireError::QueryCanceled),
                },
                _ => return PgWireResult::Ok(None),
            };
            match next.transpose()? {
                Some(row) => Ok(Some((row, (state, left - 1, cancelled)))),
                None => {
                    *state = PortalExecutionState::Finished;
                    Ok(None)
                }
            }
        });
        let mut response = QueryResponse::new(Arc::new(infos), rows);
        response.set_command_tag("FETCH");
        Ok(response)
    }
}

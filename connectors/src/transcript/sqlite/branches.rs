//! The branches of sessions, from a database with the parent of each message.

use std::collections::{HashMap, HashSet};

use gristmill_schemas::json::Json;
use gristmill_schemas::message::Message;
use rusqlite::Connection;

use super::canonical::message_from_row;
use super::database::for_each_row;
use crate::transcript::line::Line;
use crate::transcript::message_placer::MessagePlacer;
use crate::transcript::parsed::PlacedMessage;

/// The messages with the addresses of their grains and of their parents, session by session.
const QUERY: &str = "
    SELECT m.rowid AS row, m.*, p.address, p.parent FROM messages m JOIN places p ON p.message_id = m.id
    ORDER BY m.session_id, m.created_at, m.id";

/// Emits every branch of every session. Memory is that of the longest session.
pub(super) fn emit_branches(
    connection: &Connection,
    emit: &mut dyn FnMut(Vec<PlacedMessage>),
) -> Result<(), rusqlite::Error> {
    let mut session = SessionMessages::default();
    for_each_row(connection, QUERY, &mut |row, line| {
        let text = |key: &str| row.get(key).and_then(Json::as_str).map(str::to_owned);
        let Ok(message) = message_from_row(&row) else {
            return;
        };
        if session.id.as_deref() != Some(&*message.session_id) {
            std::mem::take(&mut session).emit_branches(emit);
            session.id = Some(message.session_id.to_string());
        }
        let address = text("address").unwrap_or_default();
        session.push(address, text("parent"), message, line);
    })?;
    session.emit_branches(emit);
    Ok(())
}

/// The messages of one session.
#[derive(Default)]
struct SessionMessages {
    id: Option<String>,
    placer: MessagePlacer,
    /// The addresses in the order of the rows.
    order: Vec<String>,
    /// Each message with the address of its parent, by its address.
    messages: HashMap<String, (PlacedMessage, Option<String>)>,
}

impl SessionMessages {
    fn push(
        &mut self,
        address: String,
        parent: Option<String>,
        message: Message<'static>,
        line: Line,
    ) {
        let key = (Some(address.clone()), parent.as_deref());
        let placed = self.placer.place_by_key(message, key, line);
        self.order.push(address.clone());
        self.messages.insert(address, (placed, parent));
    }

    /// Emits the path from the root to every message without successors.
    fn emit_branches(self, emit: &mut dyn FnMut(Vec<PlacedMessage>)) {
        let parents: HashSet<&str> = self
            .messages
            .values()
            .filter_map(|(_, parent)| parent.as_deref())
            .collect();
        let leaves = self
            .order
            .iter()
            .filter(|address| !parents.contains(address.as_str()));
        for leaf in leaves {
            let mut branch = Vec::new();
            let mut next = Some(leaf.as_str());
            while let Some((placed, parent)) = next.and_then(|address| self.messages.get(address)) {
                branch.push(placed.clone());
                // Only forged links form a cycle. It ends when the branch is as long as the
                // session.
                next = parent
                    .as_deref()
                    .filter(|_| branch.len() < self.messages.len());
            }
            branch.reverse();
            emit(branch);
        }
    }
}

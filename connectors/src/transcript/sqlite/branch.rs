//! The branches of sessions, read from a database that knows which message each follows.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;

use super::read::{message_of, rows_of};
use crate::transcript::line::Line;
use crate::transcript::said::{Said, Walk};

/// Messages, session by session, each with its place.
const QUERY: &str = "
    SELECT m.rowid AS row, m.*, p.address, p.parent FROM messages m JOIN places p ON p.message_id = m.id
    ORDER BY m.session_id, m.created_at, m.id";

/// A message that wasn't read yet.
struct Place {
    said: Said,
    parent: Option<String>,
}

/// Tells every branch of every session. Memory is that of the longest session.
pub(super) fn branches(
    connection: &Connection,
    tell: &mut dyn FnMut(Vec<Said>),
) -> Result<(), rusqlite::Error> {
    let mut session = Session::default();
    rows_of(connection, QUERY, &mut |row, line| {
        let text = |key: &str| {
            row.get(key)
                .and_then(|value| value.as_str())
                .map(str::to_owned)
        };
        let Ok(message) = message_of(&row) else {
            return;
        };
        if session.id.as_deref() != Some(&*message.session_id) {
            std::mem::take(&mut session).tell(tell);
            session.id = Some(message.session_id.to_string());
        }
        session.push(
            text("address").unwrap_or_default(),
            text("parent"),
            message,
            line,
        );
    })?;
    session.tell(tell);
    Ok(())
}

/// A session while its messages come in.
#[derive(Default)]
struct Session {
    id: Option<String>,
    walk: Walk,
    order: Vec<String>,
    places: HashMap<String, Place>,
}

impl Session {
    fn push(
        &mut self,
        address: String,
        parent: Option<String>,
        message: gristmill_schemas::message::Message<'static>,
        line: Line,
    ) {
        let said = self
            .walk
            .follow_marked(message, (address.clone(), parent.as_deref()), line);
        self.order.push(address.clone());
        self.places.insert(address, Place { said, parent });
    }

    /// From every message that none follows back to the first.
    fn tell(self, tell: &mut dyn FnMut(Vec<Said>)) {
        let followed: HashSet<&str> = self
            .places
            .values()
            .filter_map(|place| place.parent.as_deref())
            .collect();
        for leaf in self
            .order
            .iter()
            .filter(|address| !followed.contains(address.as_str()))
        {
            let mut branch = Vec::new();
            let mut at = Some(leaf.as_str());
            while let Some(place) = at.and_then(|address| self.places.get(address)) {
                branch.push(place.said.clone());
                // A circle, which only forged links can make, ends where it is as long as the
                // session.
                at = place
                    .parent
                    .as_deref()
                    .filter(|_| branch.len() < self.places.len());
            }
            branch.reverse();
            tell(branch);
        }
    }
}

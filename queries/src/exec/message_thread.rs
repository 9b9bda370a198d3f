//! THREAD FROM: the conversation around a message.

use std::collections::BTreeSet;

use datafusion::logical_expr::{Expr, col, in_list, lit};
use gristmill_schemas::columns::IdentityColumn;
use gristmill_schemas::grain::GrainType;

use super::columns::ADDRESS;
use super::condition::among;
use super::error::Result;
use super::grain_reader::{GrainReader, names, no_such};
use crate::cal::ast::Address;

/// Messages of one conversation that are told by their links; the rest of a longer one is left out.
const MAX_LINKED: usize = 1000;

const SESSION: &str = "session_id";
const PARENT: &str = "parent_message_id";

/// What holds of the messages of the conversation that `address` is part of: those of its session
/// if it has one, else those that links to parents reach, in both directions.
///
/// # Errors
/// E046 if there is no such message, E015 if the address is the beginning of several.
pub(super) async fn around(
    reader: &GrainReader<'_>,
    address: &Address,
    explain_only: bool,
) -> Result<Expr> {
    if explain_only {
        return Ok(names(address));
    }
    let message = reader
        .look_up(address)
        .await?
        .ok_or_else(|| no_such(address))?;
    let own = reader
        .visible()
        .await?
        .filter(col(ADDRESS).eq(lit(message.as_str())))?;
    let session = reader
        .texts(own.select(vec![col(SESSION)])?, SESSION)
        .await?
        .into_iter()
        .next();
    match session {
        Some(session) => Ok(col(SESSION).eq(lit(session))),
        None => Ok(among(&linked(reader, message).await?)),
    }
}

/// The messages that are linked with `start`, in the order of their addresses.
async fn linked(reader: &GrainReader<'_>, start: String) -> Result<Vec<String>> {
    let mut known: BTreeSet<String> = BTreeSet::from([start.clone()]);
    let mut frontier = vec![start];
    while !frontier.is_empty() && known.len() < MAX_LINKED {
        let listed = |column: &str| {
            in_list(
                col(column),
                frontier.iter().map(|one| lit(one.as_str())).collect(),
                false,
            )
        };
        let event = col(IdentityColumn::TypeByte.name()).eq(lit(i16::from(GrainType::Event as u8)));
        let events = || async {
            Ok::<_, super::ExecutionError>(reader.visible().await?.filter(event.clone())?)
        };
        let children = events().await?.filter(listed(PARENT))?;
        let parents = events()
            .await?
            .filter(listed(ADDRESS).and(col(PARENT).is_not_null()))?;
        let mut found = reader.texts(children, ADDRESS).await?;
        found.extend(reader.texts(parents, PARENT).await?);
        found.sort();
        frontier = found
            .into_iter()
            .filter(|one| known.insert(one.clone()))
            .take(MAX_LINKED)
            .collect();
    }
    Ok(known.into_iter().take(MAX_LINKED).collect())
}

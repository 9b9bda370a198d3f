//! THREAD: the messages of a conversation, by session or by reply links, and their order.

use std::collections::BTreeSet;

use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{Expr, col, lit};
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::GrainType;

use super::columns::{ADDRESS, is_one_of};
use super::error::Result;
use super::grain_reader::{GrainReader, address_filter, not_found};
use crate::cal::ast::Address;

/// Maximum number of messages found by reply links. The rest of a longer conversation is left out.
const MAX_LINKED: usize = 1000;

const SESSION: &str = "session_id";
const PARENT: &str = "parent_message_id";

/// What a reference to a grain may have before the address.
const PREFIX: &str = "sha256:";

/// What THREAD asks for beyond the conditions and stages of the RECALL without it.
#[derive(Clone)]
pub(super) struct ThreadPart {
    /// THREAD FROM: the messages of the conversation.
    pub(super) of_address: Option<Expr>,
}

/// Returns the id of a message; null for other events.
pub(super) fn message_id(reader: &GrainReader<'_>) -> Result<Expr> {
    let member = reader.context.udf("json_get_str")?;
    Ok(member.call(vec![col("context"), lit("msg:id")]))
}

/// Returns the filter for the conversation of a message: all messages of its session, or, for a
/// message without session, those reachable by `parent_message_id` in both directions.
///
/// # Errors
/// E046 if there is no such message, E015 if the address is a prefix of several.
pub(super) async fn thread_filter(
    reader: &GrainReader<'_>,
    address: &Address,
    explain_only: bool,
) -> Result<Expr> {
    if explain_only {
        return Ok(address_filter(address));
    }
    let message = reader
        .look_up(address)
        .await?
        .ok_or_else(|| not_found(address))?;
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
        None => {
            let messages = linked_messages(reader, message).await?;
            Ok(is_one_of(ADDRESS, &messages))
        }
    }
}

/// Returns the addresses of the messages linked with `start`, sorted. It reads one round of links
/// after another (breadth-first search).
async fn linked_messages(reader: &GrainReader<'_>, start: String) -> Result<Vec<String>> {
    let mut known: BTreeSet<String> = BTreeSet::from([start.clone()]);
    let mut frontier = vec![start];
    while !frontier.is_empty() && known.len() < MAX_LINKED {
        let mut neighbours = neighbours(reader, &frontier).await?;
        neighbours.sort();
        frontier = neighbours
            .into_iter()
            .filter(|address| known.insert(address.clone()))
            .take(MAX_LINKED)
            .collect();
    }
    Ok(known.into_iter().take(MAX_LINKED).collect())
}

/// Returns the replies to the messages of `frontier`, and their parents.
async fn neighbours(reader: &GrainReader<'_>, frontier: &[String]) -> Result<Vec<String>> {
    let is_event = col(SystemColumn::TypeByte.name()).eq(lit(i16::from(GrainType::Event as u8)));
    let events = reader.visible().await?.filter(is_event)?;
    let spellings = frontier.iter().map(|address| format!("{PREFIX}{address}"));
    let spellings: Vec<String> = spellings.chain(frontier.iter().cloned()).collect();
    let replies = events.clone().filter(is_one_of(PARENT, &spellings))?;
    let parents = events.filter(is_one_of(ADDRESS, frontier).and(col(PARENT).is_not_null()))?;
    let mut addresses = reader.texts(replies, ADDRESS).await?;
    let parents = reader.texts(parents, PARENT).await?.into_iter();
    addresses.extend(parents.map(|parent| match parent.strip_prefix(PREFIX) {
        Some(address) => address.to_owned(),
        None => parent,
    }));
    Ok(addresses)
}

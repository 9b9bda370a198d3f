//! THREAD FROM: the conversation around a message.

use std::collections::BTreeSet;

use datafusion::logical_expr::{Expr, col, in_list, lit};
use gristmill_schemas::columns::IdentityColumn;
use gristmill_schemas::grain::GrainType;

use super::columns::ADDRESS;
use super::condition::among;
use super::corpus::{Corpus, names, no_such};
use super::error::Result;
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
pub(super) async fn around(corpus: &Corpus<'_>, address: &Address, asks: bool) -> Result<Expr> {
    if !asks {
        return Ok(names(address));
    }
    let message = corpus
        .look_up(address)
        .await?
        .ok_or_else(|| no_such(address))?;
    let own = corpus
        .visible()
        .await?
        .filter(col(ADDRESS).eq(lit(message.as_str())))?;
    let session = corpus
        .texts(own.select(vec![col(SESSION)])?, SESSION)
        .await?
        .into_iter()
        .next();
    match session {
        Some(session) => Ok(col(SESSION).eq(lit(session))),
        None => Ok(among(&linked(corpus, message).await?)),
    }
}

/// The messages that are linked with `start`, in the order of their addresses.
async fn linked(corpus: &Corpus<'_>, start: String) -> Result<Vec<String>> {
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
            Ok::<_, super::ExecutionError>(corpus.visible().await?.filter(event.clone())?)
        };
        let children = events().await?.filter(listed(PARENT))?;
        let parents = events()
            .await?
            .filter(listed(ADDRESS).and(col(PARENT).is_not_null()))?;
        let mut found = corpus.texts(children, ADDRESS).await?;
        found.extend(corpus.texts(parents, PARENT).await?);
        found.sort();
        frontier = found
            .into_iter()
            .filter(|one| known.insert(one.clone()))
            .take(MAX_LINKED)
            .collect();
    }
    Ok(known.into_iter().take(MAX_LINKED).collect())
}

//! `export --pseudonymize`: the people whose identifiers are replaced, and the key of the tokens.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use futures::StreamExt;
use gristmill_engine::erase::{
    Person, Pseudonymizer, SubjectRequest, is_blank_identifier, pseudonym_key,
};
use gristmill_engine::export::GrainRewriter;
use gristmill_engine::lake::Lake;
use gristmill_queries::sql::SessionContext;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::Grain;
use gristmill_schemas::json::Json;

use super::CommandContext;
use super::export::session_of;
use super::sql::failure;
use super::subject_selector::add_people;
use crate::args::transfer::ExportArgs;
use crate::exit::Failure;

/// Values by which any grain of the lake identifies a person.
const IDENTIFIERS: &str = "SELECT DISTINCT user_id FROM grains WHERE user_id IS NOT NULL \
     UNION SELECT DISTINCT subject_did FROM grains WHERE subject_did IS NOT NULL \
     UNION SELECT DISTINCT entity_id FROM grains WHERE entity_id IS NOT NULL";

/// Writes tokens of a key.
#[derive(Debug)]
struct KeyedPseudonyms(Pseudonymizer);

impl GrainRewriter for KeyedPseudonyms {
    fn address(&self, address: &ContentAddress) -> String {
        self.0.token(&address.to_string())
    }

    fn grain(&self, grain: &Grain<'_>) -> Option<Json<'static>> {
        self.0.rewrite(grain)
    }
}

/// Returns the rewriter of a pseudonymised export; `None` for any other export. Names are those of
/// `--subjects`, and the user ids, entity ids and DIDs of subjects of the whole lake.
pub async fn rewriter(
    lake: &Lake,
    context: &CommandContext,
    arguments: &ExportArgs,
) -> Result<Option<Arc<dyn GrainRewriter>>, Failure> {
    let Some(path) = arguments
        .pseudonym_key
        .as_deref()
        .filter(|_| arguments.pseudonymize)
    else {
        return Ok(None);
    };
    let mut request = SubjectRequest::default();
    if let Some(path) = &arguments.subjects {
        add_people(context, &mut request, path)?;
    }
    let listed = request.people.iter().flat_map(|person| &person.identifiers);
    let listed: BTreeSet<String> = listed.cloned().collect();
    let session = session_of(context, lake).await?;
    let found = identifiers(&session).await?;
    let others = found
        .into_iter()
        .filter(|identifier| !listed.contains(identifier));
    request.people.extend(others.map(|identifier| Person {
        identifiers: [identifier].into(),
        ..Person::default()
    }));
    let pseudonyms = Pseudonymizer::new(request, pseudonym_key(path)?)?;
    Ok(Some(Arc::new(KeyedPseudonyms(pseudonyms))))
}

/// Returns the identifiers in the fields of the lake's grains.
async fn identifiers(session: &SessionContext) -> Result<BTreeSet<String>, Failure> {
    let mut identifiers = BTreeSet::new();
    let mut batches = session
        .sql(IDENTIFIERS)
        .await
        .map_err(failure)?
        .execute_stream()
        .await
        .map_err(failure)?;
    while let Some(batch) = batches.next().await {
        let batch = batch.map_err(failure)?;
        let Some(column) = batch.columns().first() else {
            continue;
        };
        let texts = cast(column, &DataType::Utf8).map_err(|error| failure(error.into()))?;
        let texts = texts.as_string::<i32>().iter().flatten();
        identifiers.extend(
            texts
                .filter(|text| !is_blank_identifier(text))
                .map(str::to_owned),
        );
    }
    Ok(identifiers)
}

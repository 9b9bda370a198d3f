//! Fetches grains by address: their bytes from the sidecars' positions or by a scan, decoded, with
//! their lifecycle state.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::logical_expr::{Expr, col};
use gristmill_engine::text::{Terms, text_fields, with_grain};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::Grain;

use super::answer::Hit;
use super::blob_functions::grain_view;
use super::columns::{ADDRESS, BLOB, is_one_of};
use super::error::{ExecutionError, Result};
use super::grain_reader::{GrainReader, ScoredAddress};
use super::lifecycle::{LifecycleStates, fold};
use crate::cal::{CalError, Code};
use crate::render::GrainView;

/// Maximum total size of the grains of one answer, in bytes. More is E030.
const MAX_ANSWER_BYTES: usize = 256 << 20;

impl GrainReader<'_> {
    /// Fetches the grains with these addresses, in this order. Unreadable grains are left out. The
    /// matched fields are those that contain a word of `terms`, or `fields` without terms.
    ///
    /// # Errors
    /// E030 if the grains exceed [`MAX_ANSWER_BYTES`] together.
    pub(super) async fn hits(
        &self,
        scored: Vec<ScoredAddress>,
        terms: Option<&Terms>,
        fields: &[String],
    ) -> Result<Vec<Hit>> {
        if scored.is_empty() {
            return Ok(Vec::new());
        }
        let states = self.states_of(&scored).await?;
        let visible = self.visible_successors(&scored, &states).await?;
        let mut hits = self.decoded(&scored, terms, fields).await?;
        let finished = scored.into_iter().filter_map(|(address, score)| {
            let mut hit = hits.remove(&address)?;
            hit.score = score;
            hit.view.score = Some(score);
            set_lifecycle(&mut hit, &address, &states, visible.as_ref());
            Some(hit)
        });
        Ok(finished.collect())
    }

    /// Returns the lifecycle states of the given grains, or of all grains where these are cached.
    async fn states_of(&self, scored: &[ScoredAddress]) -> Result<Arc<LifecycleStates>> {
        if let Some(table) = self.lake_table().await? {
            let addresses = scored
                .iter()
                .filter_map(|(address, _)| address.parse().ok());
            let addresses: Vec<ContentAddress> = addresses.collect();
            if let Some(folds) = table.lifecycles(&addresses).await? {
                return Ok(Arc::new(LifecycleStates::of_folds(&folds)));
            }
        }
        if let Some(states) = self.lifecycle_states(false).await? {
            return Ok(states);
        }
        let fold = fold(self.context, self.copies(false)).await?;
        let rows = fold.filter(listed(scored))?;
        Ok(Arc::new(LifecycleStates::of_rows(rows).await?))
    }

    /// Returns the superseding grains that the session may see, because only those are named to
    /// it; `None` for all.
    async fn visible_successors(
        &self,
        scored: &[ScoredAddress],
        states: &LifecycleStates,
    ) -> Result<Option<BTreeSet<String>>> {
        let successors = scored
            .iter()
            .filter_map(|(address, _)| Some(states.of(address).successor?.to_string()))
            .collect();
        self.visible_among(successors).await
    }

    /// Fetches and decodes grains, by address.
    async fn decoded(
        &self,
        scored: &[ScoredAddress],
        terms: Option<&Terms>,
        fields: &[String],
    ) -> Result<HashMap<String, Hit>> {
        let mut hits: HashMap<String, Hit> = HashMap::with_capacity(scored.len());
        let mut bytes = 0;
        for (address, blob) in self.blobs(scored).await? {
            let blob = cast(&blob, &DataType::Binary)?;
            for blob in blob.as_binary::<i32>().iter().flatten() {
                bytes += blob.len();
                if bytes > MAX_ANSWER_BYTES {
                    return Err(too_large());
                }
                if let Some(hit) = decode(&address, blob, terms, fields) {
                    hits.insert(address.clone(), hit);
                }
            }
        }
        Ok(hits)
    }

    /// Returns the blobs of grains, each with its address.
    async fn blobs(&self, scored: &[ScoredAddress]) -> Result<Vec<(String, ArrayRef)>> {
        match self.indexed_blobs(scored).await? {
            Some(blobs) => Ok(blobs),
            None => self.scanned_blobs(scored).await,
        }
    }

    /// Reads blobs at the positions in the address sidecars; `None` if some segment has none.
    async fn indexed_blobs(
        &self,
        scored: &[ScoredAddress],
    ) -> Result<Option<Vec<(String, ArrayRef)>>> {
        let addresses = scored
            .iter()
            .map(|(address, _)| address.parse().ok())
            .collect::<Option<Vec<_>>>();
        let Some((table, addresses)) = self.lake_table().await?.zip(addresses) else {
            return Ok(None);
        };
        let Some(blobs) = table.blobs(&self.context.state(), &addresses).await? else {
            return Ok(None);
        };
        self.add_scanned(blobs.len() as u64);
        let blobs = blobs.into_iter();
        Ok(Some(
            blobs
                .map(|(address, blob)| (address.to_string(), blob))
                .collect(),
        ))
    }

    async fn scanned_blobs(&self, scored: &[ScoredAddress]) -> Result<Vec<(String, ArrayRef)>> {
        let rows = self
            .everything()
            .await?
            .filter(listed(scored))?
            .select(vec![col(ADDRESS), col(BLOB)])?;
        let mut blobs = Vec::new();
        for batch in self.collect(rows).await? {
            let addresses = cast(batch.column(0), &DataType::Utf8)?;
            for (row, address) in addresses.as_string::<i32>().iter().enumerate() {
                blobs.extend(
                    address.map(|address| (address.to_owned(), batch.column(1).slice(row, 1))),
                );
            }
        }
        if self.session.namespace.is_some() {
            self.add_scanned(blobs.len() as u64);
        }
        Ok(blobs)
    }
}

fn listed(scored: &[ScoredAddress]) -> Expr {
    is_one_of(ADDRESS, scored.iter().map(|(address, _)| address))
}

/// Sets what `state` contains about a grain. `visible` has the superseding grains that the session
/// may see, `None` for all.
fn set_lifecycle(
    hit: &mut Hit,
    address: &str,
    states: &LifecycleStates,
    visible: Option<&BTreeSet<String>>,
) {
    let state = states.of(address);
    hit.view.contradicted = state.contradicted;
    hit.view.verification_status = states.verification(state).map(str::to_owned);
    hit.is_superseded = state.successor.is_some();
    hit.superseded_by = state
        .successor
        .map(|successor| successor.to_string())
        .filter(|successor| visible.is_none_or(|visible| visible.contains(successor)));
}

fn decode(address: &str, blob: &[u8], terms: Option<&Terms>, fields: &[String]) -> Option<Hit> {
    with_grain(blob, |grain| {
        let view = grain_view(address.to_owned(), grain)?;
        let matched_fields = match terms {
            Some(terms) => fields_with_terms(&view, grain, terms),
            None => fields.to_vec(),
        };
        Some(Hit {
            view,
            score: 1.0,
            matched_fields,
            is_superseded: false,
            superseded_by: None,
        })
    })
}

/// Returns the names of the text fields that contain at least one of the terms.
fn fields_with_terms(view: &GrainView<'static>, grain: &Grain<'_>, terms: &Terms) -> Vec<String> {
    text_fields(view.grain_type)
        .iter()
        .filter(|field| terms.count_in(grain, &[**field]).touches())
        .map(|field| field.name().to_owned())
        .collect()
}

fn too_large() -> ExecutionError {
    let message = format!(
        "The grains of the answer have more than {} MiB together.",
        MAX_ANSWER_BYTES >> 20
    );
    CalError::new(Code::E030, message)
        .suggest("Ask for fewer grains with LIMIT.")
        .into()
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::grain::{EncodeOptions, encode_json};
    use gristmill_schemas::json::Json;

    use super::*;
    use crate::exec::testing::hit;

    fn blob() -> Vec<u8> {
        let json = r#"{"type":"belief","subject":"alice","relation":"likes","object":"green tea",
            "confidence":0.5,"created_at":1700000000000}"#;
        let json = Json::parse(json.as_bytes()).unwrap();
        encode_json(&json, EncodeOptions::default()).unwrap().blob
    }

    #[test]
    fn a_search_names_the_fields_with_its_words_and_a_filter_those_of_its_conditions() {
        let by_words = decode("01", &blob(), Some(&Terms::of("tea milk")), &[]).unwrap();
        assert_eq!(by_words.matched_fields, ["object"]);
        let fields = ["confidence".to_owned()];
        let by_filter = decode("01", &blob(), None, &fields).unwrap();
        assert_eq!(by_filter.matched_fields, fields);
    }

    #[test]
    fn an_unreadable_blob_is_no_hit() {
        assert!(decode("01", b"damaged", None, &[]).is_none());
    }

    #[test]
    fn a_successor_in_another_namespace_is_not_named() {
        let (old, new) = ("aa".repeat(32), "bb".repeat(32));
        let states = LifecycleStates::of_supersessions(&[(&old, &new)]);
        let mut found = hit(&old, "{}");
        set_lifecycle(&mut found, &old, &states, None);
        assert_eq!(found.superseded_by.as_deref(), Some(new.as_str()));
        set_lifecycle(&mut found, &old, &states, Some(&BTreeSet::new()));
        assert_eq!((found.is_superseded, found.superseded_by), (true, None));
    }
}

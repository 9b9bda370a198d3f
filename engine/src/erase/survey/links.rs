//! Step 3 of a survey: follows links to what was found.

use std::collections::HashSet;
use std::sync::Arc;

use gristmill_schemas::address::ContentAddress;
use rustc_hash::FxHashMap;

use super::{FoundGrain, RowId, SurveyRun, selects};
use crate::erase::matcher::{NO_PERSON, PersonNumber};
use crate::erase::reason::Reason;
use crate::error::Result;
use crate::lake::{Link, link_columns, links};

/// The targets of links, each with the person that it was found for.
pub(super) type Targets = FxHashMap<ContentAddress, PersonNumber>;

impl SurveyRun<'_> {
    /// Adds the grains that were derived from what was found, transitively, and those that refer to
    /// it: directly, or transitively if the request selects related grains.
    pub(super) async fn follow_links(&mut self) -> Result<()> {
        let is_root = |found: &&FoundGrain| selects(found.reasons, self.request.extent);
        let mut frontier: Targets = self
            .found
            .values()
            .filter(is_root)
            .map(|found| (found.address, found.person))
            .collect();
        let mut visited: HashSet<ContentAddress> = frontier.keys().copied().collect();
        let mut is_first = true;
        while !frontier.is_empty() {
            let targets = Arc::new(std::mem::take(&mut frontier));
            let with_references = is_first || self.request.extent.related;
            is_first = false;
            let linked = self.linked_rows(&targets, with_references).await?;
            let derived: HashSet<RowId> = linked
                .iter()
                .filter(|(_, (_, reason))| *reason == Reason::Derived)
                .map(|(row, _)| *row)
                .collect();
            self.add_rows(linked).await?;
            for (row, found) in &self.found {
                let is_followed = derived.contains(row)
                    || self.request.extent.related && found.reasons.contains(Reason::Related);
                if is_followed && visited.insert(found.address) {
                    frontier.insert(found.address, found.person);
                }
            }
        }
        Ok(())
    }

    /// Returns the rows that link to `targets`, each with the reason. A derivation takes precedence
    /// over a reference.
    async fn linked_rows(
        &self,
        targets: &Arc<Targets>,
        with_references: bool,
    ) -> Result<FxHashMap<RowId, (PersonNumber, Reason)>> {
        let mut linked = FxHashMap::default();
        for (row, link, target) in self.referrers(targets).await? {
            let person = targets.get(&target).copied().unwrap_or(NO_PERSON);
            match link {
                Link::DerivedFrom | Link::Source => {
                    linked.insert(row, (person, Reason::Derived));
                }
                Link::Reference if with_references => {
                    linked.entry(row).or_insert((person, Reason::Related));
                }
                Link::Reference => {}
            }
        }
        Ok(linked)
    }

    /// Returns the rows that link to one of `targets`, with the kind and target of each link.
    pub(super) async fn referrers(
        &self,
        targets: &Arc<Targets>,
    ) -> Result<Vec<(RowId, Link, ContentAddress)>> {
        let mut out = Vec::new();
        for number in 0..self.survey.segments.len() {
            if self.rules_out(number, |filter| {
                targets
                    .keys()
                    .any(|target| filter.may_hold(&target.to_string()))
            }) {
                continue;
            }
            let Some(file) = self.open(number).await? else {
                continue;
            };
            let targets = Arc::clone(targets);
            let batches = self
                .on_cores(move || {
                    file.map_batches(Some(&link_columns()), |first, batch| {
                        let mut hits = Vec::new();
                        links(batch, |row, link, target| {
                            if targets.contains_key(&target) {
                                hits.push((first + row as u32, link, target));
                            }
                        });
                        Ok(hits)
                    })
                })
                .await?;
            let hits = batches.into_iter().flatten();
            out.extend(hits.map(|(row, link, target)| ((number as u32, row), link, target)));
        }
        Ok(out)
    }
}

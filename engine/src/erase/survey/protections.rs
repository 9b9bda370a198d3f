//! Step 4 of a survey: exempts grains that the hold of another grain reaches.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::SystemColumn;
use rustc_hash::FxHashMap;

use super::links::Targets;
use super::{RowId, SurveyRun};
use crate::erase::matcher::NO_PERSON;
use crate::erase::reason::Exemption;
use crate::erase::row_findings::Protection;
use crate::error::Result;
use crate::lake::{Link, address_at, links, text_at, texts};
use crate::policy::HOPS;

impl SurveyRun<'_> {
    /// Exempts what a hold reaches down its derivations, or along its supersession chain.
    pub(super) async fn apply_protections(&mut self, protecting: Vec<Protection>) -> Result<()> {
        if protecting.is_empty() || self.found.is_empty() {
            return Ok(());
        }
        let with = |reaches: fn(&Protection) -> bool| {
            let roots = protecting.iter().filter(move |root| reaches(root));
            roots.map(|root| root.address)
        };
        let derived = self
            .derived_from(with(|root| root.reaches_derived).collect())
            .await?;
        let chain = self
            .supersession_chain(with(|root| root.reaches_lineage).collect())
            .await?;
        for found in self.found.values_mut() {
            if derived.contains(&found.address) || chain.contains(&found.address) {
                found.exemption = Some(Exemption::Hold { hold: None });
            }
        }
        Ok(())
    }

    /// Returns the grains that are derived from `roots`, up to [`HOPS`] steps down.
    async fn derived_from(&self, roots: Vec<ContentAddress>) -> Result<HashSet<ContentAddress>> {
        let mut derived: HashSet<ContentAddress> = HashSet::new();
        let mut frontier: Targets = roots.into_iter().map(|root| (root, NO_PERSON)).collect();
        for _ in 0..HOPS {
            if frontier.is_empty() {
                break;
            }
            let targets = Arc::new(std::mem::take(&mut frontier));
            let rows = self.referrers(&targets).await?;
            let rows = rows
                .into_iter()
                .filter(|(_, link, _)| *link == Link::DerivedFrom)
                .map(|(row, ..)| row);
            for address in self.addresses_of(rows.collect()).await? {
                if derived.insert(address) {
                    frontier.insert(address, NO_PERSON);
                }
            }
        }
        Ok(derived)
    }

    /// Returns `roots` and all grains that are connected to them by supersessions.
    async fn supersession_chain(
        &self,
        roots: HashSet<ContentAddress>,
    ) -> Result<HashSet<ContentAddress>> {
        let mut chain = roots;
        if chain.is_empty() {
            return Ok(chain);
        }
        let mut linked: FxHashMap<ContentAddress, Vec<ContentAddress>> = FxHashMap::default();
        for (old, new) in self.supersessions().await? {
            linked.entry(old).or_default().push(new);
            linked.entry(new).or_default().push(old);
        }
        let mut open: Vec<ContentAddress> = chain.iter().copied().collect();
        while let Some(address) = open.pop() {
            let near = linked.get(&address).into_iter().flatten();
            open.extend(near.filter(|near| chain.insert(**near)));
        }
        Ok(chain)
    }

    /// Returns the addresses of `rows`.
    async fn addresses_of(&self, rows: Vec<RowId>) -> Result<Vec<ContentAddress>> {
        let mut out = Vec::new();
        for (number, rows) in by_segment(rows) {
            let Some(file) = self.open(number as usize).await? else {
                continue;
            };
            let name = SystemColumn::ContentAddress.name();
            let batches = self
                .on_cores(move || file.read_rows(&[name], &rows))
                .await?;
            for batch in &batches {
                out.extend(
                    (0..batch.num_rows()).filter_map(|row| address_at(texts(batch, name), row)),
                );
            }
        }
        Ok(out)
    }

    /// Returns the old and the new grain of every supersession: from `state`, and from grains
    /// whose own row states what they supersede.
    async fn supersessions(&self) -> Result<Vec<(ContentAddress, ContentAddress)>> {
        let mut pairs = Vec::new();
        for batch in self
            .lake
            .state
            .read_columns(&["content_address", "event", "value"])
            .await?
        {
            for row in 0..batch.num_rows() {
                let superseded = text_at(texts(&batch, "event"), row) == Some("superseded");
                let pair = address_at(texts(&batch, "content_address"), row)
                    .zip(address_at(texts(&batch, "value"), row));
                pairs.extend(pair.filter(|_| superseded));
            }
        }
        let columns = [
            SystemColumn::ContentAddress.name(),
            SystemColumn::Supersedes.name(),
        ];
        for number in 0..self.survey.segments.len() {
            let Some(file) = self.open(number).await? else {
                continue;
            };
            let batches = self
                .on_cores(move || {
                    file.map_batches(Some(&columns), |_, batch| {
                        let own = texts(batch, columns[0]);
                        let mut pairs = Vec::new();
                        links(batch, |row, _, old| {
                            pairs.extend(address_at(own, row).map(|new| (old, new)))
                        });
                        Ok(pairs)
                    })
                })
                .await?;
            pairs.extend(batches.into_iter().flatten());
        }
        Ok(pairs)
    }
}

/// Groups `rows` by segment; the rows of each are sorted and distinct.
fn by_segment(rows: Vec<RowId>) -> BTreeMap<u32, Vec<u32>> {
    let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (segment, row) in rows {
        groups.entry(segment).or_default().push(row);
    }
    for rows in groups.values_mut() {
        rows.sort_unstable();
        rows.dedup();
    }
    groups
}

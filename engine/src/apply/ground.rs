//! What the gate needs to know about the grains that a batch of operations touches, looked up together.

use std::collections::{BTreeMap, HashMap, HashSet};

use arrow::array::AsArray;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{IdentityColumn, LifecycleEvent};
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, Grain, Mode, Payload};

use crate::erase::rows::{OpenFile, address_at, links, text_at, texts};
use crate::error::Result;
use crate::ingest::KnownAddresses;
use crate::lake::Lake;
use crate::policy::{Facts, HOPS, Known};

/// Facts of grains, of the lake and of the batch, and the lifecycle state of those that operations are about.
#[derive(Debug, Default)]
pub(crate) struct Ground {
    facts: HashMap<ContentAddress, Facts>,
    /// Whether each is contradicted, and its verification status.
    states: HashMap<ContentAddress, (bool, Option<String>)>,
}

impl Known for Ground {
    fn facts(&self, address: &ContentAddress) -> Option<&Facts> {
        self.facts.get(address)
    }
}

impl Ground {
    /// Nothing yet, with room for so many grains.
    pub(crate) fn with_capacity(grains: usize) -> Ground {
        Ground { facts: HashMap::with_capacity(grains), states: HashMap::new() }
    }

    /// Looks up `wanted` in `lake`, and their ancestors as far as the gate walks, beside what is here already.
    pub(crate) async fn look_up(
        &mut self,
        lake: &Lake,
        known: &KnownAddresses,
        wanted: HashSet<ContentAddress>,
        targets: &HashSet<ContentAddress>,
    ) -> Result<()> {
        let mut missing = wanted;
        let mut superseding: HashMap<ContentAddress, Vec<ContentAddress>> = HashMap::new();
        self.read_states(lake, targets, &mut superseding).await?;
        for _ in 0..=HOPS {
            if missing.is_empty() {
                break;
            }
            let fresh = self.read(lake, known, &missing, &superseding).await?;
            let ancestors = fresh.iter().filter_map(|address| self.facts.get(address));
            let ancestors = ancestors.flat_map(|facts| facts.parents.iter().chain(&facts.supersedes).copied());
            missing = ancestors.filter(|address| !self.facts.contains_key(address)).collect();
        }
        Ok(())
    }

    /// Adds a grain of the batch itself.
    pub(crate) fn add(&mut self, address: ContentAddress, facts: Facts) {
        self.facts.insert(address, facts);
    }

    /// Notes that `successor` takes the place of `target`, if anything is known of it.
    pub(crate) fn add_superseded(&mut self, successor: &ContentAddress, target: ContentAddress) {
        if let Some(facts) = self.facts.get_mut(successor) {
            facts.supersedes.push(target);
        }
    }

    /// True if `address` is marked as contradicted.
    pub(super) fn is_contradicted(&self, address: &ContentAddress) -> bool {
        self.states.get(address).is_some_and(|state| state.0)
    }

    /// The verification status of `address`, if it was ever set.
    pub(super) fn status(&self, address: &ContentAddress) -> Option<&str> {
        self.states.get(address)?.1.as_deref()
    }

    /// Notes that `address` was marked.
    pub(super) fn set_contradicted(&mut self, address: ContentAddress, contradicted: bool) {
        self.states.entry(address).or_default().0 = contradicted;
    }

    /// Notes the verification status of `address`.
    pub(super) fn set_status(&mut self, address: ContentAddress, status: &str) {
        self.states.entry(address).or_default().1 = Some(status.to_owned());
    }

    /// Reads those of `wanted` that the lake has; answers which.
    async fn read(
        &mut self,
        lake: &Lake,
        known: &KnownAddresses,
        wanted: &HashSet<ContentAddress>,
        superseding: &HashMap<ContentAddress, Vec<ContentAddress>>,
    ) -> Result<Vec<ContentAddress>> {
        let mut rows: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for (segment, row) in wanted.iter().filter_map(|address| known.find(address)) {
            rows.entry(segment.as_str()).or_default().push(row);
        }
        let columns =
            [IdentityColumn::ContentAddress.name(), IdentityColumn::Blob.name(), IdentityColumn::Supersedes.name()];
        let mut fresh = Vec::new();
        for segment in lake.segments()? {
            let Some(rows) = rows.get_mut(segment.id.as_str()) else { continue };
            rows.sort_unstable();
            let file = OpenFile::open(lake, &lake.grains.path_of(&segment.file.name)).await?;
            for batch in file.pick(&columns, rows)? {
                let mut supersedes: Vec<Vec<ContentAddress>> = vec![Vec::new(); batch.num_rows()];
                links(&batch, |row, _, old| supersedes.get_mut(row).into_iter().for_each(|all| all.push(old)));
                let blobs = batch.column_by_name(columns[1]).and_then(|column| column.as_binary_opt::<i32>());
                for (row, mut supersedes) in supersedes.into_iter().enumerate() {
                    let Some((address, blobs)) = address_at(texts(&batch, columns[0]), row).zip(blobs) else {
                        continue;
                    };
                    supersedes.extend(superseding.get(&address).into_iter().flatten());
                    let payload = Payload::open(blobs.value(row), DEFAULT_PAYLOAD_LIMIT);
                    let grain = payload.as_ref().ok().and_then(|payload| Grain::decode(payload, Mode::Lenient).ok());
                    if let Some(grain) = grain {
                        self.facts.insert(address, Facts::of(&grain, supersedes));
                        fresh.push(address);
                    }
                }
            }
        }
        Ok(fresh)
    }

    /// Reads what `state` says of `targets`, and every supersession that it knows.
    async fn read_states(
        &mut self,
        lake: &Lake,
        targets: &HashSet<ContentAddress>,
        superseding: &mut HashMap<ContentAddress, Vec<ContentAddress>>,
    ) -> Result<()> {
        for batch in lake.state.read_columns(&["content_address", "event", "value"]).await? {
            let [addresses, events, values] = ["content_address", "event", "value"].map(|name| texts(&batch, name));
            for row in 0..batch.num_rows() {
                let Some(address) = address_at(addresses, row) else { continue };
                let event = text_at(events, row).unwrap_or_default();
                if event == LifecycleEvent::Superseded.name() {
                    if let Some(successor) = address_at(values, row) {
                        superseding.entry(successor).or_default().push(address);
                    }
                } else if targets.contains(&address) {
                    let value = text_at(values, row).unwrap_or_default();
                    if event == LifecycleEvent::Contradicted.name() {
                        self.set_contradicted(address, value == "true");
                    } else if event == LifecycleEvent::Verification.name() {
                        self.set_status(address, value);
                    }
                }
            }
        }
        Ok(())
    }
}

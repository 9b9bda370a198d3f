//! The grains that a hold is placed on: of people, of namespaces, or named by their addresses.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::Field;

use crate::erase::{Exemption, SubjectRequest, plan_disclosure};
use crate::error::{Context, EngineError, Result};
use crate::lake::{KnownAddresses, Lake, LakeFile, address_at, text_at, texts};
use crate::text::NamePattern;

/// A selection of grains; what any of its parts selects is selected.
#[derive(Debug, Clone, Default)]
pub struct HoldSelection {
    /// People, sessions, consents and addresses, as for an erasure.
    pub request: SubjectRequest,
    /// Namespaces.
    pub namespaces: Vec<NamePattern>,
}

/// Addresses that an error names individually.
const NAMED: usize = 3;

impl HoldSelection {
    /// Returns true if it selects nothing by construction.
    pub fn is_empty(&self) -> bool {
        self.request.is_empty() && self.namespaces.is_empty()
    }

    /// Returns the selected grains of `lake`, ascending, each once. Holds 32 bytes for each.
    ///
    /// # Errors
    /// [`EngineError::Request`] if it selects nothing by construction, or names an address that the
    /// lake doesn't contain; errors of the lake.
    pub async fn addresses(&self, lake: &mut Lake, threads: usize) -> Result<Vec<ContentAddress>> {
        if self.is_empty() {
            let message = "nothing is selected: give --user, --subject, --did, --session, \
                           --subjects, --consent, --addresses, --address or --namespace";
            return Err(EngineError::Request(message.to_owned()));
        }
        let mut found = self.request.addresses.clone();
        check_known(lake, &found).await?;
        // A survey would read every segment to find what the address indexes find at once.
        let people = SubjectRequest {
            addresses: Vec::new(),
            ..self.request.clone()
        };
        if !people.is_empty() {
            let (_, survey) = plan_disclosure(lake, &people, threads).await?;
            let grains = survey.grains.iter();
            let selected = grains.filter(|found| found.exemption != Some(Exemption::NotSelected));
            found.extend(selected.map(|found| found.address));
        }
        if !self.namespaces.is_empty() {
            found.extend(self.in_namespaces(lake).await?);
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Returns the grains in the namespaces. Reads two columns of all segments.
    async fn in_namespaces(&self, lake: &Lake) -> Result<Vec<ContentAddress>> {
        const COLUMNS: [&str; 2] = [SystemColumn::ContentAddress.name(), Field::Namespace.name()];
        let mut out = Vec::new();
        for segment in lake.segments()? {
            let path = lake.grains.path_of(&segment.file.name);
            let file = LakeFile::open(lake, &path).await?;
            let patterns = self.namespaces.clone();
            let read = move || {
                file.map_batches(Some(&COLUMNS), |_, batch| {
                    let [addresses, namespaces] = COLUMNS.map(|name| texts(batch, name));
                    let is_selected = |row: &usize| {
                        let namespace = text_at(namespaces, *row);
                        namespace.is_some_and(|name| patterns.iter().any(|it| it.matches(name)))
                    };
                    let rows = (0..batch.num_rows()).filter(is_selected);
                    Ok(rows
                        .filter_map(|row| address_at(addresses, row))
                        .collect::<Vec<_>>())
                })
            };
            let found = tokio::task::spawn_blocking(read).await;
            out.extend(found.file("can't read", &path)??.into_iter().flatten());
        }
        Ok(out)
    }
}

/// Refuses addresses that `lake` doesn't contain.
pub(super) async fn check_known(lake: &mut Lake, addresses: &[ContentAddress]) -> Result<()> {
    if addresses.is_empty() {
        return Ok(());
    }
    lake.refresh().await?;
    let known = KnownAddresses::load(lake).await?;
    let is_there = |address: &ContentAddress| known.contains(address) && !known.is_erased(address);
    let missing: Vec<_> = addresses.iter().filter(|it| !is_there(it)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let named: Vec<String> = missing
        .iter()
        .take(NAMED)
        .map(ToString::to_string)
        .collect();
    Err(EngineError::Request(format!(
        "the lake doesn't contain {} of the {} addresses, such as {}; nothing was changed",
        missing.len(),
        addresses.len(),
        named.join(", ")
    )))
}

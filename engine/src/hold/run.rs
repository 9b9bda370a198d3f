//! Placing and lifting a hold, through the operations of `apply`.
//!
//! Every batch of operations is one commit. A run that was killed is simply run again: what is done
//! is recognised. Until then, a hold that is being placed covers a part of its grains, and one that
//! is being lifted still covers a part.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::lifecycle::{HoldName, HoldTerms};
use serde::Serialize;
use serde_json::json;

use super::selection::{HoldSelection, check_known};
use crate::apply::{
    ApplyOptions, ApplyReport, Operation, OperationOutcome, OperationRequest, apply_batches,
};
use crate::erase::{Hits, IdentifierMatcher};
use crate::error::{EngineError, Result};
use crate::lake::Lake;

/// A request to place a hold.
#[derive(Debug, Clone)]
pub struct HoldRequest {
    /// Its name and end.
    pub terms: HoldTerms,
    /// The person or office that orders it, such as a court or a counsel.
    pub authority: String,
    /// Why.
    pub reason: String,
    /// The grains.
    pub selection: HoldSelection,
}

/// A request to lift a hold.
#[derive(Debug, Clone)]
pub struct ReleaseRequest {
    /// The name of the hold.
    pub name: HoldName,
    /// The person or office that orders it.
    pub authority: String,
    /// Why.
    pub reason: String,
    /// The grains; empty for all that the hold is in force on.
    pub addresses: Vec<ContentAddress>,
}

/// The result of placing or lifting a hold.
#[derive(Debug, Clone, Serialize)]
pub struct HoldReport {
    /// The name of the hold.
    pub hold: String,
    /// Grains that were selected.
    pub selected: u64,
    /// Grains on which the hold was placed, or from which it was lifted, by this run.
    pub changed: u64,
    /// Grains for which it had been done before.
    pub already: u64,
    /// Grains whose policy refuses it.
    pub denied: u64,
    /// Grains for which it failed, such as those that were erased in between.
    pub failed: u64,
    /// The first refusals.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<OperationOutcome>,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Wall-clock time in seconds.
    pub seconds: f64,
}

/// Refusals that a report lists individually.
const LISTED: usize = 10;

/// Places a hold on the grains that `request` selects.
///
/// # Errors
/// [`EngineError::Request`] if nothing is selected, an address isn't in the lake, the name or end
/// is refused, or the name names a person that is selected; errors of the lake.
pub async fn place(
    lake: &mut Lake,
    request: &HoldRequest,
    options: &ApplyOptions,
    threads: usize,
) -> Result<HoldReport> {
    check_name_is_anonymous(request)?;
    let addresses = request.selection.addresses(lake, threads).await?;
    if addresses.is_empty() {
        let message = "no grain of the lake is selected, so the hold would cover nothing";
        return Err(EngineError::Request(message.to_owned()));
    }
    let operation = |address| Operation::Hold(address, request.terms.clone());
    let orders = Orders {
        name: &request.terms.name,
        authority: &request.authority,
        reason: &request.reason,
    };
    orders
        .carry_out(lake, addresses, &operation, options, "hold place")
        .await
}

/// Refuses a name that names one of the people: no erasure removes it from the audit log, so none
/// of theirs could be proven.
fn check_name_is_anonymous(request: &HoldRequest) -> Result<()> {
    let matcher = IdentifierMatcher::new(&request.selection.request);
    let name = request.terms.name.as_str();
    match matcher.names_person(name, &mut Hits::default()) {
        true => Err(EngineError::Request(format!(
            "the name `{name}` of the hold names a person that it selects, but the audit log keeps \
             it for ever: use the number of a case"
        ))),
        false => Ok(()),
    }
}

/// Lifts a hold from the grains that `request` names, or from all that it is in force on.
///
/// # Errors
/// [`EngineError::Request`] if the hold was never placed, or a grain isn't in the lake; errors of
/// the lake.
pub async fn lift(
    lake: &mut Lake,
    request: &ReleaseRequest,
    options: &ApplyOptions,
) -> Result<HoldReport> {
    let mut addresses = request.addresses.clone();
    check_known(lake, &addresses).await?;
    if addresses.is_empty() {
        addresses = covered_by(lake, &request.name).await?;
    }
    addresses.sort_unstable();
    addresses.dedup();
    let operation = |address| Operation::Release(address, request.name.clone());
    let orders = Orders {
        name: &request.name,
        authority: &request.authority,
        reason: &request.reason,
    };
    orders
        .carry_out(lake, addresses, &operation, options, "hold lift")
        .await
}

/// Returns the grains on which the hold `name` was placed. Those from which it was lifted are
/// included, so that a run that was killed and is repeated reports them as done.
async fn covered_by(lake: &mut Lake, name: &HoldName) -> Result<Vec<ContentAddress>> {
    if name.is_stated() {
        let message = "holds that grains state themselves are lifted from the grains named by \
                       --address or --addresses; `hold list --grains` shows them";
        return Err(EngineError::Request(message.to_owned()));
    }
    lake.refresh().await?;
    let holds = lake.holds().await?;
    let entries = holds.iter().filter(|entry| entry.name == name.as_str());
    let addresses: Vec<_> = entries.map(|entry| entry.address).collect();
    match addresses.is_empty() {
        true => Err(EngineError::Request(format!(
            "the lake has no hold `{name}`; `hold list` shows those that it has"
        ))),
        false => Ok(addresses),
    }
}

/// Authority and reason of a hold that is placed or lifted.
struct Orders<'r> {
    name: &'r HoldName,
    authority: &'r str,
    reason: &'r str,
}

impl Orders<'_> {
    async fn carry_out(
        &self,
        lake: &mut Lake,
        addresses: Vec<ContentAddress>,
        operation: &dyn Fn(ContentAddress) -> Operation,
        options: &ApplyOptions,
        action: &'static str,
    ) -> Result<HoldReport> {
        let mut refusals = Vec::new();
        let mut keep = |outcome: &OperationOutcome| {
            if !outcome.ok && refusals.len() < LISTED {
                refusals.push(outcome.clone());
            }
        };
        let selected = addresses.len() as u64;
        let requests = addresses.into_iter().map(|address| OperationRequest {
            operation: operation(address),
            actor: Some(self.authority.to_owned()),
            reason: Some(self.reason.to_owned()),
            authorization: Vec::new(),
        });
        let details = json!({ "hold": self.name.as_str() });
        let applied = apply_batches(lake, requests, options, (action, details), &mut keep).await?;
        Ok(self.report(selected, &applied, refusals, options.dry_run))
    }

    fn report(
        &self,
        selected: u64,
        applied: &ApplyReport,
        refusals: Vec<OperationOutcome>,
        dry_run: bool,
    ) -> HoldReport {
        HoldReport {
            hold: self.name.to_string(),
            selected,
            changed: applied.done - applied.already,
            already: applied.already,
            denied: applied.denied,
            failed: applied.failed,
            refusals,
            dry_run,
            seconds: applied.seconds,
        }
    }
}

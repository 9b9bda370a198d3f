//! What must not be exported, according to the rules of the shipped packs, and the audit entries of
//! an export.

use std::collections::BTreeMap;
use std::fmt::Write;

use gristmill_engine::erase::rows_to_erase;
use gristmill_engine::export::{ExportFormat, ExportReport};
use gristmill_engine::lake::Lake;
use gristmill_queries::detect;
use gristmill_queries::packs::{ExportPurpose, Rule, Scan};
use gristmill_queries::sql::SessionContext;
use serde_json::json;

use super::scan::failure;
use super::unfinished_erasure::refusal_of_rows;
use crate::args::transfer::{ExportArgs, ExportPurposeArg};
use crate::exit::Failure;
use crate::human_readable::with_separators;

/// Name of the entry that is written before an export writes anything.
const STARTED: &str = "export";

/// Name of the entry with the counts of an export that is complete.
const FINISHED: &str = "export-finished";

/// Number of addresses of each rule in a refusal.
const SAMPLES: usize = 5;

/// Findings of one rule.
#[derive(Clone, Default)]
struct BarredGrains {
    count: u64,
    samples: Vec<String>,
}

/// Decides whether an export may proceed, and records it.
pub struct ExportGate {
    purpose: ExportPurpose,
    override_reason: Option<String>,
    condition: Option<String>,
    is_pseudonymized: bool,
}

impl ExportGate {
    /// Returns the gate for the options of an export.
    ///
    /// # Errors
    /// A usage failure if the reason for an override is blank or contains personal data: the audit
    /// log can't be erased.
    pub fn new(arguments: &ExportArgs) -> Result<ExportGate, Failure> {
        if let Some(reason) = &arguments.override_reason {
            check_reason(reason)?;
        }
        Ok(ExportGate {
            purpose: arguments.purpose.into(),
            override_reason: arguments.override_reason.clone(),
            condition: arguments.condition.clone(),
            is_pseudonymized: arguments.pseudonymize,
        })
    }

    /// Evaluates the rules over the grains of the export and records in the audit log of `lake`
    /// that they are handed out.
    ///
    /// # Errors
    /// A policy failure that lists what is barred, or if an unfinished erasure has rows to remove,
    /// unless there is a reason for an override; errors of the lake.
    pub async fn pass(
        &self,
        lake: &Lake,
        session: SessionContext,
        format: ExportFormat,
    ) -> Result<(), Failure> {
        let to_erase = rows_to_erase(lake).await?;
        if to_erase > 0 && self.override_reason.is_none() {
            return Err(Failure::policy(refusal_of_rows(to_erase)));
        }
        let scan = Scan::of_export(lake, session, self.condition.as_deref(), self.purpose);
        let scan = scan.await.map_err(failure)?;
        let barred = barred_grains(&scan).await?;
        if !barred.is_empty() && self.override_reason.is_none() {
            return Err(Failure::policy(refusal(&barred)));
        }
        self.record_start(lake, format, &barred, to_erase).await
    }

    async fn record_start(
        &self,
        lake: &Lake,
        format: ExportFormat,
        barred: &[(&Rule, BarredGrains)],
        to_erase: u64,
    ) -> Result<(), Failure> {
        let overridden: BTreeMap<&str, u64> = barred
            .iter()
            .map(|(rule, grains)| (rule.id.as_str(), grains.count))
            .collect();
        let details = json!({
            "version": lake.grains.version(),
            "format": format.name(),
            "purpose": self.purpose,
            "all_grains": self.condition.is_none(),
            "pseudonymized": self.is_pseudonymized,
            "overridden": overridden,
            "of_unfinished_erasures": to_erase,
            "override_reason": self.override_reason,
        });
        // Recording moves a lake to its newest version, which the export must not see.
        Ok(lake.clone().record(STARTED, details).await?)
    }

    /// Records the counts of an export that is complete.
    ///
    /// # Errors
    /// Errors of the audit log.
    pub async fn record_end(&self, lake: &Lake, report: &ExportReport) -> Result<(), Failure> {
        let details = json!({
            "version": lake.grains.version(),
            "grains": report.grains,
            "bytes": report.bytes,
            "files": report.files.len(),
            "not_written": report.not_written,
        });
        Ok(lake.clone().record(FINISHED, details).await?)
    }
}

/// Runs `scan` and returns its rules with findings.
async fn barred_grains(scan: &Scan) -> Result<Vec<(&Rule, BarredGrains)>, Failure> {
    let mut barred = vec![BarredGrains::default(); scan.rules().len()];
    let summary = scan.run(|_, finding| {
        if let Some(rule) = barred.get_mut(finding.rule) {
            rule.add(finding.address.as_deref());
        }
        Ok(())
    });
    summary.await.map_err(failure)?;
    let all = scan.rules().iter().zip(barred);
    Ok(all.filter(|(_, grains)| grains.count > 0).collect())
}

impl BarredGrains {
    fn add(&mut self, address: Option<&str>) {
        self.count += 1;
        if self.samples.len() < SAMPLES {
            self.samples.extend(address.map(str::to_owned));
        }
    }
}

fn check_reason(reason: &str) -> Result<(), Failure> {
    if reason.trim().is_empty() {
        return Err(Failure::usage("--override-reason is empty"));
    }
    let kinds = detect::kinds(reason);
    if kinds.is_empty() {
        return Ok(());
    }
    let kinds: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    Err(Failure::usage(format!(
        "--override-reason contains personal data ({}): the audit log keeps it for ever; refer to \
         a ticket instead",
        kinds.join(", ")
    )))
}

/// Lists what is barred and what can be done about it.
fn refusal(barred: &[(&Rule, BarredGrains)]) -> String {
    let total: u64 = barred.iter().map(|(_, grains)| grains.count).sum();
    let mut text = format!(
        "the export is barred by {} findings; nothing was written",
        with_separators(total)
    );
    for (rule, grains) in barred {
        let more = match grains.count > grains.samples.len() as u64 {
            true => ", …",
            false => "",
        };
        // Writing to a String can't fail.
        let _ = write!(
            text,
            "\n  {} ({}), {} grains: {}{more}\n    {}",
            rule.id,
            rule.norm,
            with_separators(grains.count),
            grains.samples.join(", "),
            rule.remediation
        );
    }
    text.push_str(
        "\n`gristmill scan --pack NAME` lists all findings of a pack. Leave the grains out with \
         --where, or give a reason with --override-reason, which is recorded",
    );
    text
}

impl From<ExportPurposeArg> for ExportPurpose {
    fn from(purpose: ExportPurposeArg) -> ExportPurpose {
        match purpose {
            ExportPurposeArg::Copy => ExportPurpose::Copy,
            ExportPurposeArg::Transfer => ExportPurpose::Transfer,
            ExportPurposeArg::Sale => ExportPurpose::Sale,
        }
    }
}

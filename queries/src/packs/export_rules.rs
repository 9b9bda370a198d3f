//! Rules that bar grains from being exported (Appendix A.2, A.3 and A.6), evaluated over exactly
//! the grains that an export would write.

use datafusion::prelude::SessionContext;
use gristmill_engine::lake::Lake;
use gristmill_schemas::columns::GRAINS;
use serde::{Deserialize, Serialize};

use super::changes::register_everything;
use super::error::Result;
use super::pack::{Pack, Rule};
use super::scan::{SCANNED, Scan, ScanScope};
use super::shipped::{NAMES, shipped};

/// Purpose of an export. Each purpose is subject to its own rules and to those of the purposes
/// before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ExportPurpose {
    /// A copy that the exporter keeps.
    Copy,
    /// A transfer to another system.
    Transfer,
    /// A sale of data, or a transfer to a data broker.
    Sale,
}

impl Rule {
    /// Returns whether an export for `purpose` must not contain the grains that the rule finds.
    pub fn bars_export(&self, purpose: ExportPurpose) -> bool {
        self.bars.is_some_and(|bars| bars <= purpose)
    }

    /// Returns whether a finding of the rule is about a grain that stays in the lake.
    /// Rules on sales alone don't: the grain itself violates nothing.
    pub(super) fn concerns_stored_grains(&self) -> bool {
        self.bars != Some(ExportPurpose::Sale)
    }
}

impl Scan {
    /// Compiles the rules of the shipped packs that bar an export for `purpose`. They are evaluated
    /// on the grains of `lake` that match `condition`, a WHERE expression on the tables of
    /// `context`; `None` for all.
    ///
    /// # Errors
    /// [`PackError::Query`](super::PackError::Query) if the condition can't be planned.
    pub async fn of_export(
        lake: &Lake,
        context: SessionContext,
        condition: Option<&str>,
        purpose: ExportPurpose,
    ) -> Result<Scan> {
        let text = match condition {
            // On a line of its own, so that a trailing comment doesn't hide the parenthesis.
            Some(condition) => format!("SELECT * FROM {GRAINS} WHERE (\n{condition}\n)"),
            None => format!("SELECT * FROM {GRAINS}"),
        };
        let selected = context.sql(&text).await?.into_view();
        context.register_table(SCANNED, selected)?;
        let files = lake.grains.files()?;
        let scope = ScanScope {
            lake: lake.location().name(),
            version: lake.grains.version(),
            since: None,
            segments: files.len(),
            grains: files.iter().map(|file| file.rows).sum(),
        };
        register_everything(&context)?;
        Scan::over(context, packs_for(purpose)?, scope, lake.state.version()).await
    }
}

/// Returns the shipped packs with only the rules that bar an export for `purpose`.
fn packs_for(purpose: ExportPurpose) -> Result<Vec<Pack>> {
    let mut packs = Vec::new();
    for name in NAMES {
        let mut pack = shipped(name)?;
        pack.rules.retain(|rule| rule.bars_export(purpose));
        packs.extend((!pack.rules.is_empty()).then_some(pack));
    }
    Ok(packs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(purpose: ExportPurpose) -> Vec<String> {
        let packs = packs_for(purpose).unwrap();
        let rules = packs.iter().flat_map(|pack| &pack.rules);
        rules.map(|rule| rule.id.clone()).collect()
    }

    #[test]
    fn each_purpose_is_subject_to_the_rules_of_those_before_it() {
        let copy = rules(ExportPurpose::Copy);
        assert_eq!(copy, ["legal/privilege-hold", "finance/basis"]);
        let transfer = rules(ExportPurpose::Transfer);
        assert!(copy.iter().all(|rule| transfer.contains(rule)));
        assert!(transfer.contains(&"consumer/basis".to_owned()));
        let sale = rules(ExportPurpose::Sale);
        assert!(transfer.iter().all(|rule| sale.contains(rule)));
        assert!(sale.contains(&"consumer/opted-out-sale".to_owned()));
    }

    #[test]
    fn a_rule_on_sales_alone_is_no_finding_on_a_stored_grain() {
        let consumer = shipped("consumer").unwrap();
        let stored = consumer.rules.iter();
        let stored: Vec<_> = stored
            .filter(|rule| rule.concerns_stored_grains())
            .collect();
        assert_eq!(stored.len(), consumer.rules.len() - 1);
    }
}

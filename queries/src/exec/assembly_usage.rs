//! What each source of an ASSEMBLE contributed, and how much of the budget was used.

use gristmill_schemas::json::{Json, Object};

use crate::cal::ast::{Assemble, Budget};
use crate::cal::vocabulary::BudgetUnit;
use crate::render::assemble::{GrainRef, SourceUsage};
use crate::render::{Assembled, AssemblyInput, RenderGrain};

/// The used part of a budget and the contributions of the sources.
#[derive(Debug, Clone, PartialEq)]
pub struct AssemblyUsage {
    /// The budget of the statement, or the default.
    pub budget: Budget,
    /// The used part, in the unit of the budget.
    pub used: u64,
    /// The sources, in the order of FROM.
    pub sources: Vec<SourceContribution>,
    /// Addresses and estimated tokens of the grains that exceeded the budget.
    pub cut: Vec<(String, u64)>,
}

/// What one source contributed.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceContribution {
    /// Its label, or its index in FROM.
    pub label: String,
    /// Number of grains that match it, before its LIMIT.
    pub matched: u64,
    /// Counts of the grains that it returned.
    pub usage: SourceUsage,
    /// True if the source could not be run.
    pub failed: bool,
}

impl SourceContribution {
    /// Returns the number of matching grains that the source didn't return, because of its LIMIT or
    /// its options.
    pub fn not_returned(&self) -> u64 {
        let returned = self.usage.included + self.usage.duplicates + self.usage.cut;
        self.matched.saturating_sub(returned as u64)
    }
}

impl AssemblyUsage {
    /// Returns the usage of `statement`, whose `input` became `assembled`. `matched` has the number
    /// of matching grains of each source.
    pub(super) fn of<G: RenderGrain>(
        statement: &Assemble,
        input: &AssemblyInput<'_, G>,
        matched: &[u64],
        assembled: &Assembled,
    ) -> AssemblyUsage {
        let outcomes = input.sources.iter().zip(&assembled.sources).zip(matched);
        let sources = statement.sources.iter().zip(outcomes).enumerate();
        let sources = sources.map(
            |(at, (source, ((given, usage), matched)))| SourceContribution {
                label: source.label.clone().unwrap_or_else(|| at.to_string()),
                matched: *matched,
                usage: *usage,
                failed: given.failed,
            },
        );
        let address = |placed: &GrainRef| {
            let grain = input.sources.get(placed.source)?.grains.get(placed.grain)?;
            Some((grain.address().to_owned(), placed.tokens))
        };
        AssemblyUsage {
            budget: input.budget,
            used: assembled.used,
            sources: sources.collect(),
            cut: assembled.cut.iter().filter_map(address).collect(),
        }
    }

    /// Returns a sentence for people: included and matching grains, the used part of the budget,
    /// and what was left out for which reason.
    pub fn summary(&self) -> String {
        let total =
            |count: fn(&SourceContribution) -> u64| -> u64 { self.sources.iter().map(count).sum() };
        let mut text = format!(
            "{} of {} grains, {} of {} {}",
            total(|source| source.usage.included as u64),
            total(|source| source.matched),
            self.used,
            self.budget.amount,
            unit_name(self.budget.unit)
        );
        let reasons = [
            (
                total(SourceContribution::not_returned),
                "are beyond the LIMIT of their source",
            ),
            (
                total(|source| source.usage.cut as u64),
                "didn't fit into the budget",
            ),
            (
                total(|source| source.usage.duplicates as u64),
                "are in another source too",
            ),
        ];
        for (count, reason) in reasons.into_iter().filter(|(count, _)| *count > 0) {
            text += &format!("; {count} {reason}");
        }
        let empty = self.empty_sources();
        if !empty.is_empty() {
            text += "; no grains match";
            if self.sources.len() > 1 {
                text += &format!(" in the source {}", empty.join(", "));
            }
        }
        text
    }

    /// Returns the labels of the sources that nothing matches.
    fn empty_sources(&self) -> Vec<&str> {
        let empty = self.sources.iter();
        let empty = empty.filter(|source| source.matched == 0 && !source.failed);
        empty.map(|source| source.label.as_str()).collect()
    }

    /// Returns the number of included grains by source.
    pub(super) fn counts_to_json(&self) -> Json<'static> {
        let counts = self.sources.iter();
        let counts = counts.map(|source| (source.label.clone(), count(source.usage.included)));
        Json::Object(counts.collect())
    }

    /// Returns the budget and the counts of all sources.
    pub(super) fn to_json(&self) -> Json<'static> {
        let mut budget = Object::new();
        budget.insert("unit", unit_name(self.budget.unit));
        budget.insert("total", u64::from(self.budget.amount));
        budget.insert("used", self.used);
        let sources = self.sources.iter().map(contribution_to_json);
        let mut object = Object::new();
        object.insert("budget", budget);
        object.insert("sources", Json::Array(sources.collect()));
        let cut = self.cut.iter().map(cut_grain_to_json);
        object.insert("cut", Json::Array(cut.collect()));
        Json::Object(object)
    }
}

fn contribution_to_json(source: &SourceContribution) -> Json<'static> {
    let mut object = Object::new();
    object.insert("label", source.label.clone());
    object.insert("matched", source.matched);
    object.insert("included", count(source.usage.included));
    object.insert("duplicates", count(source.usage.duplicates));
    object.insert("cut", count(source.usage.cut));
    object.insert("not_returned", source.not_returned());
    object.insert("failed", source.failed);
    Json::Object(object)
}

fn cut_grain_to_json((address, tokens): &(String, u64)) -> Json<'static> {
    let mut grain = Object::new();
    grain.insert("content_address", address.clone());
    grain.insert("tokens", *tokens);
    Json::Object(grain)
}

fn count(count: usize) -> Json<'static> {
    Json::from(count as u64)
}

fn unit_name(unit: BudgetUnit) -> &'static str {
    match unit {
        BudgetUnit::Tokens => "tokens",
        BudgetUnit::Grains => "grains",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(label: &str, [included, duplicates, cut]: [usize; 3]) -> SourceContribution {
        SourceContribution {
            label: label.to_owned(),
            matched: (included + duplicates + cut) as u64,
            usage: SourceUsage {
                included,
                duplicates,
                cut,
                ..SourceUsage::default()
            },
            failed: false,
        }
    }

    fn usage(sources: Vec<SourceContribution>) -> AssemblyUsage {
        AssemblyUsage {
            budget: Budget {
                amount: 500,
                unit: BudgetUnit::Tokens,
            },
            used: 481,
            sources,
            cut: vec![("ab".to_owned(), 90)],
        }
    }

    #[test]
    fn the_summary_has_what_was_left_out_and_why() {
        let all = usage(vec![source("facts", [3, 0, 0])]);
        assert_eq!(all.summary(), "3 of 3 grains, 481 of 500 tokens");
        let parts = usage(vec![
            source("facts", [3, 1, 5]),
            source("goals", [0, 0, 0]),
            source("talk", [2, 0, 0]),
        ]);
        assert_eq!(
            parts.summary(),
            "5 of 11 grains, 481 of 500 tokens; 5 didn't fit into the budget; 1 are in another \
             source too; no grains match in the source goals"
        );
        let none = usage(vec![source("facts", [0, 0, 0])]);
        assert_eq!(
            none.summary(),
            "0 of 0 grains, 481 of 500 tokens; no grains match"
        );
        let mut limited = source("events", [2, 0, 0]);
        limited.matched = 116;
        assert_eq!(
            usage(vec![limited]).summary(),
            "2 of 116 grains, 481 of 500 tokens; 114 are beyond the LIMIT of their source"
        );
    }

    #[test]
    fn the_json_form_counts_every_source() {
        assert_eq!(
            usage(vec![source("facts", [3, 1, 5])])
                .to_json()
                .to_string(),
            r#"{"budget":{"unit":"tokens","total":500,"used":481},"sources":[{"label":"facts","matched":9,"included":3,"duplicates":1,"cut":5,"not_returned":0,"failed":false}],"cut":[{"content_address":"ab","tokens":90}]}"#
        );
    }
}

//! The plan: what would be erased and why, what stays and why. Printed before anything is changed.

use std::collections::BTreeMap;

use serde::Serialize;

use super::reason::{Exemption, Reasons};
use super::survey::{Survey, type_name};
use super::variations::{Variation, Variations};

/// What an erasure would do.
#[derive(Debug, Clone, Serialize)]
pub struct ErasurePlan {
    /// How many people the request names.
    pub people: usize,
    /// How many of them have something that is to be erased.
    pub people_found: usize,
    /// What goes.
    pub selected: SelectedCounts,
    /// What was found and stays, by reason.
    pub excluded: BTreeMap<String, u64>,
    /// The first of what stays, one by one.
    pub exclusions: Vec<Exclusion>,
    /// Values that equal an identifier as they are written, with how often; the most frequent
    /// first.
    pub spellings: Vec<Spelling>,
    /// How many grains and rejects were found by each class of variation that was searched for; one
    /// may be found by several.
    pub variations: BTreeMap<&'static str, u64>,
    /// The classes that weren't searched for.
    pub variations_off: Vec<&'static str>,
    /// Identifiers that are too short or plain to be looked for inside of texts: values that equal
    /// them are reported.
    pub too_short_for_text: Vec<String>,
    /// Encrypted or undecodable grains: nobody can tell whom they are about.
    pub unsearchable: u64,
    /// Grains that were looked at.
    pub grains_read: u64,
    /// Bytes of the segments that were looked at.
    pub bytes_read: u64,
    /// Segments of the lake.
    pub segments: usize,
    /// Segments that were read.
    pub segments_read: u64,
    /// Segments that weren't: their word filters tell that they hold nothing of what was looked
    /// for.
    pub segments_skipped: u64,
    /// Segments that would be rewritten.
    pub segments_holding: usize,
    /// Bytes of these.
    pub bytes_to_rewrite: u64,
}

/// What goes.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SelectedCounts {
    /// Grains.
    pub grains: u64,
    /// Bytes of their blobs.
    pub bytes: u64,
    /// Refused parts of sources.
    pub rejects: u64,
    /// How many grains and rejects were found for which reason; one may have several.
    pub by_reason: BTreeMap<String, u64>,
    /// Grains by type.
    pub by_type: BTreeMap<String, u64>,
}

/// Something that was found and stays.
#[derive(Debug, Clone, Serialize)]
pub struct Exclusion {
    /// Its address; for refused input, that of its bytes.
    pub content_address: String,
    /// `grains` or `rejects`.
    pub table: &'static str,
    /// Why it was found.
    pub found_by: Vec<&'static str>,
    /// Why it stays.
    #[serde(flatten)]
    pub exemption: Exemption,
}

/// One spelling of an identifier in the lake.
#[derive(Debug, Clone, Serialize)]
pub struct Spelling {
    /// As it is written.
    pub text: String,
    /// How often.
    pub count: u64,
}

/// Exclusions that are listed one by one.
const LISTED: usize = 1_000;

/// Spellings that are listed.
const SPELLINGS: usize = 100;

impl ErasurePlan {
    /// The plan that follows from `survey`.
    pub fn of(survey: &Survey, people: usize) -> ErasurePlan {
        let mut selected = SelectedCounts::default();
        for found in survey.selected() {
            selected.grains += 1;
            selected.bytes += u64::from(found.size);
            count(found.reasons, &mut selected.by_reason);
            *selected
                .by_type
                .entry(type_name(found.type_byte))
                .or_default() += 1;
        }
        for found in survey.selected_rejects() {
            selected.rejects += 1;
            count(found.reasons, &mut selected.by_reason);
        }
        let holding = survey.rows_by_segment();
        let bytes = holding
            .keys()
            .filter_map(|number| survey.segments.get(*number as usize));
        let mut found: Vec<u32> = survey.selected().map(|found| found.person).collect();
        found.extend(survey.selected_rejects().map(|found| found.person));
        found.sort_unstable();
        found.dedup();
        let (excluded, exclusions) = exclusions(survey);
        let off: Vec<Variation> = Variation::ALL
            .iter()
            .copied()
            .filter(|class| !survey.variations.contains(*class))
            .collect();
        ErasurePlan {
            people,
            people_found: found
                .iter()
                .filter(|person| **person != super::matcher::NO_PERSON)
                .count(),
            selected,
            excluded,
            exclusions,
            spellings: spellings(survey),
            variations: variations(survey),
            variations_off: off.iter().map(|class| class.name()).collect(),
            too_short_for_text: survey.non_distinctive.clone(),
            unsearchable: survey.unsearchable,
            grains_read: survey.grains_read,
            bytes_read: survey.bytes_read,
            segments: survey.segments.len(),
            segments_read: survey.segments_read,
            segments_skipped: survey.segments_skipped,
            segments_holding: holding.len(),
            bytes_to_rewrite: bytes.map(|segment| segment.file.size).sum(),
        }
    }

    /// True if there is something to erase.
    pub fn has_work(&self) -> bool {
        self.selected.grains > 0 || self.selected.rejects > 0
    }
}

fn count(reasons: Reasons, counts: &mut BTreeMap<String, u64>) {
    reasons
        .iter()
        .for_each(|reason| *counts.entry(reason.name().to_owned()).or_default() += 1);
}

fn exclusions(survey: &Survey) -> (BTreeMap<String, u64>, Vec<Exclusion>) {
    let grains = survey
        .grains
        .iter()
        .map(|found| ("grains", found.address, found.reasons, &found.exemption));
    let rejects = survey
        .rejects
        .iter()
        .map(|found| ("rejects", found.address, found.reasons, &found.exemption));
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut listed = Vec::new();
    for (table, address, reasons, exemption) in grains.chain(rejects) {
        let Some(exemption) = exemption else { continue };
        *counts.entry(exemption.name().to_owned()).or_default() += 1;
        if listed.len() < LISTED {
            let found_by = reasons.iter().map(|reason| reason.name()).collect();
            listed.push(Exclusion {
                content_address: address.to_string(),
                table,
                found_by,
                exemption: exemption.clone(),
            });
        }
    }
    (counts, listed)
}

/// The matches of each class.
fn variations(survey: &Survey) -> BTreeMap<&'static str, u64> {
    let mut counts: BTreeMap<&'static str, u64> = survey
        .variations
        .iter()
        .map(|class| (class.name(), 0))
        .collect();
    let grains = survey.grains.iter().map(|found| found.variations);
    let found = grains.chain(survey.rejects.iter().map(|found| found.variations));
    found
        .flat_map(Variations::iter)
        .for_each(|class| *counts.entry(class.name()).or_default() += 1);
    counts
}

fn spellings(survey: &Survey) -> Vec<Spelling> {
    let mut all: Vec<Spelling> = survey
        .spellings
        .iter()
        .map(|(text, count)| Spelling {
            text: text.clone(),
            count: *count,
        })
        .collect();
    all.sort_by(|left, right| {
        right
            .count
            .cmp(&left.count)
            .then_with(|| left.text.cmp(&right.text))
    });
    all.truncate(SPELLINGS);
    all
}

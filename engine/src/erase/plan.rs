//! The plan of an erasure: what would be erased and why, what stays and why. It is printed before
//! anything changes.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;

use super::matcher::{NO_PERSON, PersonNumber};
use super::reason::{Exemption, Reasons};
use super::survey::{Survey, type_name};
use super::variations::{Variation, Variations};

/// What an erasure would do.
#[derive(Debug, Clone, Serialize)]
pub struct ErasurePlan {
    /// Number of people that the request names.
    pub people: usize,
    /// Number of them of whom something was found, whether it is to be erased or must stay.
    pub people_found: usize,
    /// What would be erased.
    pub selected: SelectedCounts,
    /// What was found and stays, counted by exemption.
    pub excluded: BTreeMap<String, u64>,
    /// The first of what stays, individually.
    pub exclusions: Vec<Exclusion>,
    /// Values that equal an identifier, as they are written, with their counts; the most frequent
    /// first.
    pub spellings: Vec<Spelling>,
    /// Number of grains and rejects found by each class of variation that was searched for. One may
    /// be found by several.
    pub variations: BTreeMap<&'static str, u64>,
    /// Classes of variation that weren't searched for.
    pub variations_off: Vec<&'static str>,
    /// Identifiers that are too short or common to be searched for in text. Values that equal them
    /// are reported.
    pub too_short_for_text: Vec<String>,
    /// Number of encrypted or undecodable grains, which can't be attributed to a person, and of
    /// rejects with bytes that are compressed or encrypted and can't be opened.
    pub unsearchable: u64,
    /// Number of grains that were read.
    pub grains_read: u64,
    /// Bytes of the segments that were read.
    pub bytes_read: u64,
    /// Number of segments of the lake.
    pub segments: usize,
    /// Number of segments that were read.
    pub segments_read: u64,
    /// Number of segments that weren't read, because their word filters exclude a match.
    pub segments_skipped: u64,
    /// Number of segments that would be rewritten.
    pub segments_holding: usize,
    /// Their size in bytes.
    pub bytes_to_rewrite: u64,
}

/// Counts of what would be erased.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SelectedCounts {
    /// Number of grains.
    pub grains: u64,
    /// Bytes of the blobs of these grains.
    pub bytes: u64,
    /// Number of rejects.
    pub rejects: u64,
    /// Number of grains and rejects by reason; one may have several reasons.
    pub by_reason: BTreeMap<String, u64>,
    /// Number of grains by type.
    pub by_type: BTreeMap<String, u64>,
}

/// A grain or reject that was found and stays.
#[derive(Debug, Clone, Serialize)]
pub struct Exclusion {
    /// Its address; for a reject, the SHA-256 of its bytes.
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
    /// The text as it is written.
    pub text: String,
    /// Number of occurrences.
    pub count: u64,
}

/// Maximal number of exclusions that are listed individually.
const LISTED: usize = 1_000;

/// Maximal number of spellings that are listed.
const SPELLINGS: usize = 100;

impl ErasurePlan {
    /// Summarises `survey`, whose request names `people` people.
    pub fn of(survey: &Survey, people: usize) -> ErasurePlan {
        let holding = survey.rows_by_segment();
        let bytes = holding
            .keys()
            .filter_map(|number| survey.segments.get(*number as usize));
        let (excluded, exclusions) = exclusions(survey);
        let disabled = Variation::ALL
            .iter()
            .filter(|class| !survey.variations.contains(**class));
        ErasurePlan {
            people,
            people_found: people_found(survey),
            selected: SelectedCounts::of(survey),
            excluded,
            exclusions,
            spellings: spellings(survey),
            variations: variations(survey),
            variations_off: disabled.map(|class| class.name()).collect(),
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

    /// Returns whether there is something to erase.
    pub fn has_work(&self) -> bool {
        self.selected.grains > 0 || self.selected.rejects > 0
    }
}

impl SelectedCounts {
    fn of(survey: &Survey) -> SelectedCounts {
        let mut selected = SelectedCounts::default();
        for found in survey.selected() {
            selected.grains += 1;
            selected.bytes += u64::from(found.size);
            count(found.reasons, &mut selected.by_reason);
            let by_type = selected.by_type.entry(type_name(found.type_byte));
            *by_type.or_default() += 1;
        }
        for found in survey.selected_rejects() {
            selected.rejects += 1;
            count(found.reasons, &mut selected.by_reason);
        }
        selected
    }
}

/// Returns the number of people of whom something was found by what the request selects by, whether
/// it is to be erased or must stay.
fn people_found(survey: &Survey) -> usize {
    let grains = survey.grains.iter();
    let grains = grains.map(|found| (&found.exemption, found.person));
    let rejects = survey.rejects.iter();
    let rejects = rejects.map(|found| (&found.exemption, found.person));
    let people: HashSet<PersonNumber> = grains
        .chain(rejects)
        .filter(|(exemption, _)| **exemption != Some(Exemption::NotSelected))
        .map(|(_, person)| person)
        .filter(|person| *person != NO_PERSON)
        .collect();
    people.len()
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

/// Counts the matches of each class of variation.
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

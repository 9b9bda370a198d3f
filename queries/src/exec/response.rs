//! What a response shows of the grains that were found: SELECT, AS, and the notes that WITH options
//! ask for.

use std::collections::BTreeSet;

use gristmill_engine::text::words;
use gristmill_schemas::json::{Json, Object};

use super::answer::{Answer, Hit, ResultEntry};
use super::error::Result;
use crate::cal::ast::{Diversity, Field, Recall, StageKind, WithOption};
use crate::cal::span::Span;
use crate::cal::{Warning, WarningCode, shape};
use crate::render::budget::token_cost;
use crate::render::field_value::value_of;
use crate::render::{self, RenderStyle, render_recall};

/// Puts the grains of a RECALL into its answer. `recall` is as it was written, `plain` is without
/// shortcuts.
pub(super) fn fill(
    answer: &mut Answer,
    hits: &[Hit],
    recall: &Recall,
    plain: &Recall,
    now_ms: i64,
) {
    let fields = selected(recall);
    answer.results = hits
        .iter()
        .map(|hit| entry(hit, fields.as_deref(), plain))
        .collect();
    if fields.is_some() {
        answer.rows = Some(
            answer
                .results
                .iter()
                .map(|entry| entry.grain.clone())
                .collect(),
        );
    }
    if let Some(format) = recall
        .format
        .filter(|_| shape(&recall.stages).is_of_grains())
    {
        let style = RenderStyle::new(now_ms, &recall.options, None);
        let entries: Vec<_> = hits
            .iter()
            .map(|hit| render::GrainEntry::new(hit, recall.projection(), &style))
            .collect();
        let text = render_recall(&entries, format, &style);
        answer.tokens_used = if hits.is_empty() {
            0
        } else {
            token_cost(&text)
        };
        answer.formatted = Some(text);
    }
}

/// A grain as a response holds it: whole, or these fields of it, with what the WITH options of
/// `plain` add.
pub(super) fn entry(hit: &Hit, fields: Option<&[&Field]>, plain: &Recall) -> ResultEntry {
    ResultEntry {
        grain: match fields {
            Some(fields) => row(hit, fields),
            None => hit.view.payload.clone(),
        },
        score: hit.score,
        matched_fields: hit.matched_fields.clone(),
        content_address: hit.address().to_owned(),
        notes: notes(hit, plain),
    }
}

/// A grain of a statement that has no WITH and no stages.
pub(super) fn plain_entry(hit: &Hit) -> ResultEntry {
    entry(hit, None, &Recall::default())
}

/// The fields that are left when each SELECT has kept its own, in the order of the last; `None`
/// without any SELECT.
pub(super) fn selected(recall: &Recall) -> Option<Vec<&Field>> {
    let mut kept: Option<Vec<&Field>> = None;
    for stage in &recall.stages {
        if let StageKind::Select(fields) = &stage.kind {
            let left = |field: &&Field| kept.as_ref().is_none_or(|before| before.contains(field));
            kept = Some(fields.iter().filter(left).collect());
        }
    }
    kept
}

fn row(hit: &Hit, fields: &[&Field]) -> Object<'static> {
    let cell = |field: &&Field| {
        Some((
            field.to_string(),
            value_of(hit, field)?.into_owned().into_owned(),
        ))
    };
    fields.iter().filter_map(cell).collect()
}

/// What WITH options add to a grain.
fn notes(hit: &Hit, plain: &Recall) -> Object<'static> {
    let mut notes = Object::new();
    for option in &plain.options {
        match option {
            WithOption::Superseded => {
                let successor = hit.superseded_by.clone().map_or(Json::Null, Json::from);
                notes.insert("superseded_by", successor);
            }
            WithOption::ScoreBreakdown => {
                let searched = hit.score < 1.0;
                let part = if searched { "text" } else { "filter" };
                let score = hit.score;
                let number = gristmill_schemas::json::Number::from_f64(score)
                    .map_or(Json::Null, Json::Number);
                notes.insert(
                    "score_breakdown",
                    [(part, number)].into_iter().collect::<Object<'static>>(),
                );
            }
            WithOption::Explanation => {
                let conditions = plain
                    .conditions
                    .iter()
                    .map(|condition| Json::from(condition.to_string()));
                notes.insert("explanation", Json::Array(conditions.collect()));
            }
            WithOption::Provenance => {
                let told = [
                    "derived_from",
                    "provenance_chain",
                    "source_type",
                    "author_did",
                    "origin_did",
                ];
                let known = told
                    .into_iter()
                    .filter_map(|name| Some((name, hit.view.payload.get(name)?.clone())));
                notes.insert("provenance", known.collect::<Object<'static>>());
            }
            WithOption::ContradictionDetection => {
                notes.insert("contradicted", hit.view.contradicted);
            }
            _ => {}
        }
    }
    notes
}

/// Warnings of options that were read and change nothing here.
pub(super) fn warnings(options: &[WithOption]) -> Vec<Warning> {
    let warn = |message: &str| Warning {
        code: WarningCode::W101,
        message: message.to_owned(),
        span: None::<Span>,
    };
    options
        .iter()
        .filter_map(|option| match option {
            WithOption::Summarize => Some(warn(
                "WITH summarize has no effect: no language model is part of this engine.",
            )),
            WithOption::Locale(_) => Some(warn(
                "WITH locale has no effect: texts are ordered by code point.",
            )),
            WithOption::Cache(_) => Some(warn("WITH cache has no effect: every answer is fresh.")),
            WithOption::Dedup(_) => {
                Some(warn("WITH dedup works among the sources of an ASSEMBLE."))
            }
            _ => None,
        })
        .collect()
}

/// How much a grain's fit counts beside its difference from those before it, if MMR doesn't say.
const DEFAULT_LAMBDA: f64 = 0.5;

/// The grains as `WITH diversity` wants them: MMR reorders the page, a threshold leaves out what is
/// too near to a grain before it. Nearness is the part of words that two grains share (Jaccard).
pub(super) fn diverse(hits: Vec<Hit>, options: &[WithOption]) -> Result<Vec<Hit>> {
    let wanted = options.iter().find_map(|option| match option {
        WithOption::Diversity(diversity) => Some(diversity),
        _ => None,
    });
    Ok(match wanted {
        None => hits,
        Some(Diversity::Threshold(least)) => apart(hits, least.as_f64()),
        Some(Diversity::Mmr(lambda)) => marginal(
            hits,
            lambda
                .as_ref()
                .map_or(DEFAULT_LAMBDA, |lambda| lambda.as_f64().clamp(0.0, 1.0)),
        ),
    })
}

fn apart(hits: Vec<Hit>, least: f64) -> Vec<Hit> {
    let mut kept: Vec<(Hit, BTreeSet<String>)> = Vec::new();
    for hit in hits {
        let own = word_set(&hit);
        if kept
            .iter()
            .all(|(_, other)| 1.0 - nearness(&own, other) >= least)
        {
            kept.push((hit, own));
        }
    }
    kept.into_iter().map(|(hit, _)| hit).collect()
}

fn marginal(hits: Vec<Hit>, lambda: f64) -> Vec<Hit> {
    // The greatest nearness to any chosen grain is kept beside each grain that isn't chosen yet.
    let mut left: Vec<(Hit, BTreeSet<String>, f64)> = hits
        .into_iter()
        .map(|hit| (word_set(&hit), hit))
        .map(|(own, hit)| (hit, own, 0.0))
        .collect();
    let mut chosen = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let worth = |(hit, _, nearest): &(Hit, BTreeSet<String>, f64)| {
            lambda * hit.score - (1.0 - lambda) * nearest
        };
        // Of equals the first, which keeps the order of the page.
        let best = (1..left.len()).fold(0, |best, at| {
            if worth(&left[at]) > worth(&left[best]) {
                at
            } else {
                best
            }
        });
        let (hit, own, _) = left.remove(best);
        for (_, other, nearest) in &mut left {
            *nearest = nearest.max(nearness(&own, other));
        }
        chosen.push(hit);
    }
    chosen
}

fn word_set(hit: &Hit) -> BTreeSet<String> {
    let style = RenderStyle::new(0, &[], None);
    let shown = render::GrainEntry::new(hit, None, &style);
    words(shown.projected.content())
        .chain(
            hit.view
                .payload
                .get("subject")
                .and_then(Json::as_str)
                .into_iter()
                .flat_map(words),
        )
        .collect()
}

fn nearness(left: &BTreeSet<String>, right: &BTreeSet<String>) -> f64 {
    let shared = left.intersection(right).count();
    let all = left.len() + right.len() - shared;
    if all == 0 {
        1.0
    } else {
        shared as f64 / all as f64
    }
}

//! Answers of both executors in one form.

use std::collections::BTreeMap;

use gristmill_queries::cal::ast::{Recall, Statement};
use gristmill_queries::exec::Answer;
use gristmill_schemas::json::Json;

use crate::naive::{self, Store};

pub(super) fn searches(statement: &Statement) -> bool {
    let of = |recall: &Recall| recall.about.is_some() || recall.like.is_some();
    match statement {
        Statement::Recall(recall) => of(recall),
        Statement::Coalesce(coalesce) => coalesce.branches.iter().any(of),
        _ => false,
    }
}

/// An answer in a form that both executors share.
#[derive(Debug, PartialEq, Default)]
pub(super) struct Shown {
    pub(super) grains: Vec<String>,
    total: u64,
    pub(super) value: Option<Json<'static>>,
    rows: Vec<String>,
    pub(super) groups: Option<BTreeMap<String, Vec<String>>>,
    branch: Option<usize>,
    text: Option<String>,
}

pub(super) fn shown(answer: &Answer) -> Shown {
    let addresses = |entries: &[gristmill_queries::exec::ResultEntry]| {
        entries
            .iter()
            .map(|entry| entry.content_address.clone())
            .collect()
    };
    Shown {
        grains: addresses(&answer.results),
        total: answer.total,
        value: answer.value.clone(),
        rows: answer
            .rows
            .iter()
            .flatten()
            .map(|row| Json::Object(row.clone()).to_string())
            .collect(),
        groups: answer.groups.as_ref().map(|groups| {
            groups
                .iter()
                .map(|(key, group)| (key.clone(), addresses(group)))
                .collect()
        }),
        branch: answer.branch,
        text: answer.context.as_ref().map(|(_, text)| text.clone()),
    }
}

pub(super) fn expected(store: &Store, answer: naive::Answer, is_assembly: bool) -> Shown {
    let addresses = |places: &[usize]| {
        places
            .iter()
            .map(|at| store.grains[*at].view.address.clone())
            .collect::<Vec<_>>()
    };
    let grains = addresses(&answer.grains);
    Shown {
        total: if is_assembly {
            grains.len() as u64
        } else {
            answer.total as u64
        },
        grains,
        value: answer.value,
        rows: answer
            .rows
            .iter()
            .map(|row| Json::Object(row.clone()).to_string())
            .collect(),
        groups: answer.groups.map(|groups| {
            groups
                .iter()
                .map(|(key, group)| (key.clone(), addresses(group)))
                .collect()
        }),
        branch: answer.branch,
        text: answer.text,
    }
}

/// The oracle has no scores. For searches it only returns the set of grains, and parts that depend
/// on the order are not compared.
pub(super) fn without_order(mut shown: Shown) -> Shown {
    shown.grains.sort();
    shown.rows.clear();
    if let Some(Json::Array(values)) = &mut shown.value {
        values.sort_by_key(ToString::to_string);
    }
    shown
        .groups
        .iter_mut()
        .flat_map(BTreeMap::values_mut)
        .for_each(|group| group.sort());
    shown
}

pub(super) fn cuts(statement: &str) -> bool {
    ["LIMIT", "OFFSET", "FIRST"]
        .iter()
        .any(|word| statement.contains(word))
}

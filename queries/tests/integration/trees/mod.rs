//! Random syntax trees of valid queries, for property tests.

mod assemblies;
mod reads;
mod recalls;
mod values;
mod writes;

use gristmill_queries::cal::ast::*;
use gristmill_queries::cal::span::Span;
use gristmill_queries::cal::vocabulary::Extractor;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use assemblies::{assemble, definition};
use reads::{batch, coalesce, describe, exists, history, set_operation};
use recalls::{Use, recall};
use writes::{add, revert, supersede};

fn statement() -> impl Strategy<Value = Statement> {
    let explained = prop_oneof![
        recall(2, Use::Alone).prop_map(|one| Explainable::Recall(Box::new(one))),
        assemble().prop_map(|one| Explainable::Assemble(Box::new(one))),
        set_operation().prop_map(|one| Explainable::SetOperation(Box::new(one))),
        add().prop_map(Explainable::Add),
        supersede().prop_map(Explainable::Supersede),
        revert().prop_map(Explainable::Revert),
        batch().prop_map(Explainable::Batch),
        coalesce().prop_map(Explainable::Coalesce),
    ];
    prop_oneof![
        5 => recall(3, Use::Alone).prop_map(|one| Statement::Recall(Box::new(one))),
        3 => assemble().prop_map(|one| Statement::Assemble(Box::new(one))),
        1 => set_operation().prop_map(|one| Statement::SetOperation(Box::new(one))),
        1 => exists().prop_map(Statement::Exists),
        1 => history().prop_map(Statement::History),
        1 => explained.prop_map(Statement::Explain),
        1 => describe().prop_map(Statement::Describe),
        1 => batch().prop_map(Statement::Batch),
        1 => coalesce().prop_map(Statement::Coalesce),
        1 => definition().prop_map(Statement::DefineTemplate),
        1 => add().prop_map(Statement::Add),
        1 => supersede().prop_map(Statement::Supersede),
        1 => revert().prop_map(Statement::Revert),
    ]
}

/// A query. Its bindings have names that nothing else uses, except for an ASSEMBLE with one as a
/// source.
pub fn query() -> impl Strategy<Value = Query> {
    let binding = (recall(1, Use::Beliefs), of(select(Extractor::ALL.to_vec())));
    (vec(binding, 0..3), statement()).prop_map(|(bindings, mut statement)| {
        let lets: Vec<Let> = bindings
            .into_iter()
            .enumerate()
            .map(|(at, (query, extract))| Let {
                name: format!("let{at}"),
                query,
                extract,
                span: Span::default(),
            })
            .collect();
        if let (Statement::Assemble(assemble), Some(binding)) = (
            &mut statement,
            lets.iter().find(|one| one.extract.is_none()),
        ) {
            let parameter = Parameter {
                name: binding.name.clone(),
                span: Span::default(),
            };
            assemble.sources.push(Source {
                label: None,
                body: SourceBody::Binding(parameter),
                span: Span::default(),
            });
        }
        Query { lets, statement }
    })
}

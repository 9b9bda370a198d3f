//! CAL can't destroy anything, because it has no keywords and no syntax trees for that (CAL 1.0,
//! section 2).

use gristmill_queries::cal::ast::*;
use gristmill_queries::cal::keywords::EXCLUDED_WORDS;
use gristmill_queries::cal::{Code, Effect, Options, parse};

/// The operations of a store that statements use. An operation that removes, rewrites or re-keys
/// would need a variant here, and a statement below that maps to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StoreVerb {
    /// Finds grains.
    Query,
    /// Looks up an address.
    Get,
    /// Follows a chain of versions.
    Walk,
    /// Appends a new grain.
    Put,
    /// Appends a new grain that supersedes another, which is kept.
    Supersede,
    /// Registers a template.
    KeepTemplate,
}

/// Returns the operations of a statement. Every match is exhaustive and names every variant, so a
/// new statement doesn't compile until its operations are listed here.
fn verbs(statement: &Statement) -> Vec<StoreVerb> {
    match statement {
        Statement::Recall(recall) => of_recall(recall),
        Statement::Assemble(assemble) => of_assemble(assemble),
        Statement::SetOperation(operation) => of_set_operation(operation),
        Statement::Exists(Exists { target: _ }) => vec![StoreVerb::Get],
        Statement::History(history) => of_history(history),
        Statement::Explain(explained) => of_explained(explained),
        Statement::Describe(Describe {
            target: _,
            grain_type: _,
        }) => vec![],
        Statement::Batch(batch) => of_batch(batch),
        Statement::Coalesce(coalesce) => of_coalesce(coalesce),
        Statement::DefineTemplate(TemplateDefinition {
            name: _,
            extends: _,
            sections: _,
            span: _,
        }) => {
            vec![StoreVerb::KeepTemplate]
        }
        Statement::Add(Add {
            grain_type: _,
            set: _,
            reason: _,
        }) => vec![StoreVerb::Put],
        Statement::Supersede(Supersede {
            target: _,
            set: _,
            reason: _,
        }) => vec![StoreVerb::Get, StoreVerb::Supersede],
        Statement::Revert(Revert {
            target: _,
            reason: _,
        }) => {
            vec![StoreVerb::Get, StoreVerb::Walk, StoreVerb::Supersede]
        }
    }
}

fn of_recall(recall: &Recall) -> Vec<StoreVerb> {
    let Recall {
        my: _,
        grain_type: _,
        namespace: _,
        about: _,
        like: _,
        since: _,
        between: _,
        thread,
        conditions,
        options: _,
        stages,
        recent: _,
        contradictions: _,
        format: _,
        span: _,
    } = recall;
    let mut verbs = vec![StoreVerb::Query];
    match thread {
        None | Some(Thread::Session(_)) => {}
        Some(Thread::From(_)) => verbs.push(StoreVerb::Walk),
    }
    for Condition {
        field: _,
        test,
        span: _,
    } in conditions
    {
        match test {
            Test::Compare(..)
            | Test::Between(..)
            | Test::Include(_)
            | Test::Exclude(_)
            | Test::Is(_) => {}
            Test::In(InSet::Values(_)) => {}
            Test::In(InSet::Subquery(subquery)) => verbs.extend(of_recall(&subquery.query)),
        }
    }
    for Stage { kind, span: _ } in stages {
        match kind {
            // Stages transform the rows that were found, without access to the store.
            StageKind::Select(_)
            | StageKind::OrderBy(..)
            | StageKind::Limit(_)
            | StageKind::Offset(_)
            | StageKind::Count
            | StageKind::First
            | StageKind::Extract(_)
            | StageKind::GroupBy(_)
            | StageKind::Project(_) => {}
        }
    }
    verbs
}

fn of_assemble(assemble: &Assemble) -> Vec<StoreVerb> {
    let of_source = |source: &Source| match &source.body {
        SourceBody::Recall(recall) => of_recall(recall),
        SourceBody::Binding(_) => vec![],
    };
    assemble.sources.iter().flat_map(of_source).collect()
}

fn of_set_operation(operation: &SetOperation) -> Vec<StoreVerb> {
    let of_operand = |operand: &SetOperand| {
        let mut verbs: Vec<StoreVerb> = operand
            .lets
            .iter()
            .flat_map(|binding| of_recall(&binding.query))
            .collect();
        verbs.extend(match &operand.body {
            SetBody::Recall(recall) => of_recall(recall),
            SetBody::SetOperation(inner) => of_set_operation(inner),
        });
        verbs
    };
    [&operation.left, &operation.right]
        .into_iter()
        .flat_map(of_operand)
        .collect()
}

fn of_history(history: &History) -> Vec<StoreVerb> {
    match history {
        History::Versions { target: _, diff: _ } => vec![StoreVerb::Get, StoreVerb::Walk],
        History::Triple {
            namespace: _,
            subject: _,
            relation: _,
            as_of: _,
        } => vec![StoreVerb::Query],
    }
}

fn of_explained(explained: &Explainable) -> Vec<StoreVerb> {
    match explained {
        // The statement is planned but not executed.
        Explainable::Recall(_)
        | Explainable::Assemble(_)
        | Explainable::SetOperation(_)
        | Explainable::Add(_)
        | Explainable::Supersede(_)
        | Explainable::Revert(_)
        | Explainable::Batch(_)
        | Explainable::Coalesce(_) => vec![],
    }
}

fn of_batch(batch: &Batch) -> Vec<StoreVerb> {
    let of_entry = |entry: &BatchEntry| match &entry.query {
        BatchQuery::Recall(recall) => of_recall(recall),
        BatchQuery::Exists(_) => vec![StoreVerb::Get],
        BatchQuery::History(history) => of_history(history),
        BatchQuery::Describe(_) => vec![],
        BatchQuery::Coalesce(coalesce) => of_coalesce(coalesce),
    };
    batch.entries.iter().flat_map(of_entry).collect()
}

fn of_coalesce(coalesce: &Coalesce) -> Vec<StoreVerb> {
    coalesce.branches.iter().flat_map(of_recall).collect()
}

#[test]
fn every_statement_reads_defines_a_template_or_appends() {
    let address = "sha256:a1b2c3d4";
    for (text, effect, expected) in [
        ("RECALL".to_owned(), Effect::Reads, vec![StoreVerb::Query]),
        (
            "ASSEMBLE FROM (RECALL)".to_owned(),
            Effect::Reads,
            vec![StoreVerb::Query],
        ),
        (
            "(RECALL) EXCEPT (RECALL)".to_owned(),
            Effect::Reads,
            vec![StoreVerb::Query; 2],
        ),
        (
            format!("EXISTS {address}"),
            Effect::Reads,
            vec![StoreVerb::Get],
        ),
        (
            format!("HISTORY {address}"),
            Effect::Reads,
            vec![StoreVerb::Get, StoreVerb::Walk],
        ),
        (
            format!("EXPLAIN REVERT {address} REASON \"r\""),
            Effect::Reads,
            vec![],
        ),
        ("DESCRIBE server".to_owned(), Effect::Reads, vec![]),
        (
            format!("BATCH {{ a: EXISTS {address} }}"),
            Effect::Reads,
            vec![StoreVerb::Get],
        ),
        (
            "COALESCE(RECALL, RECALL)".to_owned(),
            Effect::Reads,
            vec![StoreVerb::Query; 2],
        ),
        (
            "DEFINE TEMPLATE t ELEMENT { x }".to_owned(),
            Effect::DefinesTemplate,
            vec![StoreVerb::KeepTemplate],
        ),
        (
            "ADD belief SET subject = \"s\" SET relation = \"r\" SET object = \"o\" REASON \"r\""
                .to_owned(),
            Effect::Appends,
            vec![StoreVerb::Put],
        ),
        (
            format!("SUPERSEDE {address} SET object = \"o\" REASON \"r\""),
            Effect::Appends,
            vec![StoreVerb::Get, StoreVerb::Supersede],
        ),
        (
            format!("REVERT {address} REASON \"r\""),
            Effect::Appends,
            vec![StoreVerb::Get, StoreVerb::Walk, StoreVerb::Supersede],
        ),
    ] {
        let statement = parse(&text, Options::default())
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .query
            .statement;
        assert_eq!(verbs(&statement), expected, "{text}");
        assert_eq!(statement.effect(), effect, "{text}");
        assert_eq!(effect.tier(), u8::from(effect == Effect::Appends));
    }
}

#[test]
fn destructive_words_are_errors_everywhere() {
    for word in EXCLUDED_WORDS {
        for text in [
            format!("{word} beliefs"),
            format!("{word} sha256:a1b2c3d4 REASON \"r\""),
            format!("EXPLAIN {word} beliefs"),
            format!("RECALL beliefs {word}"),
            format!("RECALL beliefs | {word}"),
            format!("RECALL beliefs WHERE {word} = \"x\""),
            format!("RECALL beliefs WITH {word}"),
            format!("RECALL beliefs; {word} beliefs"),
            format!("ASSEMBLE {word} FROM (RECALL)"),
            format!("ASSEMBLE x FROM {word}: (RECALL)"),
            format!("BATCH {{ {word}: RECALL }}"),
            format!("BATCH {{ a: {word} beliefs }}"),
            format!("DEFINE TEMPLATE {word} ELEMENT {{ x }}"),
            format!("ASSEMBLE x FROM (RECALL) FORMAT TEMPLATE {word}"),
            format!("(RECALL) {word} (RECALL)"),
        ] {
            for text in [text.clone(), text.to_lowercase()] {
                let error = parse(&text, Options::default()).expect_err(&text);
                assert_eq!(error.code(), Code::E002, "{text}");
            }
        }
    }
}

#[test]
fn consent_is_valid_only_as_a_grain_type() {
    let code = |text: &str| {
        parse(text, Options::default())
            .err()
            .map(|error| error.code())
    };
    assert_eq!(code("DESCRIBE fields consent"), None);
    assert_eq!(code("RECALL consents"), None);
    assert_eq!(code("RECALL WHERE type = \"consent\""), None);
    assert_eq!(
        code("ADD consent SET subject = \"a\" REASON \"r\""),
        Some(Code::E051)
    );
    assert_eq!(code("RECALL consent"), Some(Code::E003));
    assert_eq!(code("ASSEMBLE consent FROM (RECALL)"), Some(Code::E002));
}

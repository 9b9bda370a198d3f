//! ASSEMBLE: duplicates, budgets, disclosure, the choice of a format, and streams.

use gristmill_queries::cal::ast::{Budget, Statement, Stream};
use gristmill_queries::cal::vocabulary::{BudgetUnit, StreamEvent};
use gristmill_queries::cal::{Options, parse};
use gristmill_queries::render::assemble::auto_toon;
use gristmill_queries::render::budget::budget_of;
use gristmill_queries::render::stream_events::events;
use gristmill_queries::render::*;

use super::{assembled, belief, grain, input};

#[test]
fn an_assembly_without_grains_is_an_envelope() {
    let text = |query: &str| assembled(query, &[vec![]]).text;
    assert_eq!(
        text("ASSEMBLE c FOR \"say \\\"hi\\\"\" FROM (RECALL)"),
        "<context intent=\"say 'hi'\">\n\n</context>"
    );
    assert_eq!(
        text("ASSEMBLE c FROM (RECALL) FORMAT markdown"),
        "## Context: c"
    );
    assert_eq!(
        text("ASSEMBLE c FROM (RECALL) FORMAT toon"),
        "context: c\ntokens: 0/4000"
    );
    assert_eq!(
        text("ASSEMBLE FROM (RECALL) BUDGET 9 grains FORMAT toon"),
        "grains: 0/9"
    );
    assert_eq!(text("ASSEMBLE FROM (RECALL) FORMAT json"), "[]");
}

#[test]
fn in_toon_sources_with_and_without_a_projection_share_a_table_that_drops_nothing() {
    let sources = [
        vec![belief("carol", "likes", "tea")],
        vec![belief("dave", "likes", "rum")],
    ];
    let query = "ASSEMBLE FROM a: (RECALL beliefs PROJECT content(object), attr(confidence, tags)), b: (RECALL beliefs)
                 FORMAT toon";
    let text = assembled(query, &sources).text;
    assert!(
        text.contains("beliefs[2]{subject,content,confidence,tags}:"),
        "{text}"
    );
    assert!(text.contains("\n  dave,"), "{text}");
}

#[test]
fn duplicates_are_dropped_from_less_important_sources_only() {
    let (tea, rum) = (
        belief("alice", "prefers", "tea"),
        belief("alice", "drinks", "rum"),
    );
    let goal = grain(r#"{"type":"goal","subject":"alice","description":"rest","created_at":0}"#);
    let nameless = grain(r#"{"type":"belief","object":"x","created_at":1}"#);
    let sources = [
        vec![tea.clone()],
        vec![
            tea.clone(),
            rum.clone(),
            goal.clone(),
            nameless.clone(),
            nameless.clone(),
        ],
    ];
    let plain = assembled(
        "ASSEMBLE FROM a: (RECALL), b: (RECALL) FORMAT text",
        &sources,
    );
    assert_eq!(
        plain
            .sources
            .iter()
            .map(|source| source.duplicates)
            .collect::<Vec<_>>(),
        [0, 2],
        "by address"
    );
    let dedup = assembled(
        "ASSEMBLE FROM a: (RECALL), b: (RECALL) FORMAT text WITH dedup(subject)",
        &sources,
    );
    assert_eq!(
        dedup
            .sources
            .iter()
            .map(|source| source.duplicates)
            .collect::<Vec<_>>(),
        [0, 3],
        "rum by subject too"
    );
    let turned = assembled(
        "ASSEMBLE FROM a: (RECALL), b: (RECALL) PRIORITY b FORMAT text WITH dedup(subject)",
        &sources,
    );
    assert_eq!(
        turned
            .sources
            .iter()
            .map(|source| source.duplicates)
            .collect::<Vec<_>>(),
        [1, 1],
        "b keeps both of its own"
    );
}

#[test]
fn a_failed_source_leaves_its_budget_to_the_others() {
    let Statement::Assemble(statement) = parse(
        "ASSEMBLE FROM a: (RECALL), b: (RECALL) BUDGET 10 grains FORMAT text",
        Options::default(),
    )
    .unwrap()
    .query
    .statement
    else {
        panic!()
    };
    let many: Vec<GrainView> = (0..20)
        .map(|at| belief("s", "r", &"o".repeat(at)))
        .collect();
    let sources = [vec![], many];
    let mut input = input(&statement, &sources, None);
    input.sources[0].failed = true;
    let assembled = assemble(&input);
    assert_eq!(assembled.sources[1].allocated, 10);
    assert_eq!(assembled.sources[1].included, 10);
    assert_eq!(assembled.sources[1].cut, 10);
}

#[test]
fn disclosure_follows_the_option_and_a_tight_budget() {
    let sources = [vec![belief("alice", "prefers", "tea")]];
    let text = |query: &str| assembled(query, &sources).text;
    assert_eq!(
        text("ASSEMBLE FROM (RECALL) BUDGET 900 tokens FORMAT text WITH progressive_disclosure"),
        "[belief] alice prefers tea"
    );
    assert_eq!(
        text("ASSEMBLE FROM (RECALL) BUDGET 1000 tokens FORMAT text WITH progressive_disclosure"),
        "[belief] alice prefers tea (0.9)"
    );
    assert_eq!(
        text(
            "ASSEMBLE FROM (RECALL) BUDGET 900 tokens FORMAT text WITH \
             progressive_disclosure(headlines)"
        ),
        "[belief] alice prefers tea (0.9)"
    );
    assert_eq!(
        text("ASSEMBLE FROM (RECALL) BUDGET 5 grains FORMAT text WITH progressive_disclosure"),
        "[belief] alice prefers tea (0.9)"
    );
}

#[test]
fn auto_toon_needs_a_tight_token_budget_and_sources_of_one_type() {
    let decide = |query: &str, sources: &[Vec<GrainView<'static>>]| {
        let Statement::Assemble(statement) =
            parse(query, Options::default()).unwrap().query.statement
        else {
            panic!()
        };
        auto_toon(&input(&statement, sources, None))
    };
    let beliefs: Vec<GrainView> = (1..=10)
        .map(|at| belief("s", "r", &"o".repeat(at)))
        .collect();
    let mut mixed = beliefs.clone();
    mixed.push(grain(r#"{"type":"goal","description":"d","created_at":0}"#));
    assert!(decide(
        "ASSEMBLE FROM (RECALL) BUDGET 100 tokens",
        std::slice::from_ref(&beliefs)
    ));
    assert!(!decide(
        "ASSEMBLE FROM (RECALL) BUDGET 1000 tokens",
        std::slice::from_ref(&beliefs)
    ));
    assert!(!decide(
        "ASSEMBLE FROM (RECALL) BUDGET 100 grains",
        &[beliefs]
    ));
    assert!(!decide(
        "ASSEMBLE FROM (RECALL) BUDGET 100 tokens",
        &[mixed]
    ));
}

#[test]
fn streams_have_the_requested_events_in_causal_order() {
    let Statement::Assemble(statement) = parse(
        "ASSEMBLE c FROM a: (RECALL), (RECALL) BUDGET 500 tokens FORMAT text",
        Options::default(),
    )
    .unwrap()
    .query
    .statement
    else {
        panic!()
    };
    let sources = [
        (0..40)
            .map(|at| belief("s", "r", &"word ".repeat(at)))
            .collect::<Vec<_>>(),
        vec![],
    ];
    let input = input(&statement, &sources, None);
    let assembled = assemble(&input);
    let told = |stream: Stream| -> Vec<String> {
        let events = events("asm_1", &stream, &input, &assembled);
        events
            .iter()
            .map(|event| event.get("type").unwrap().as_str().unwrap().to_owned())
            .collect()
    };
    let all = told(Stream {
        events: vec![StreamEvent::All],
        chunk_size: Some(50),
    });
    assert_eq!(
        all[..8],
        [
            "assembly_started",
            "source_started",
            "source_completed",
            "source_started",
            "source_completed",
            "dedup_completed",
            "budget_allocated",
            "disclosure_decided"
        ]
    );
    assert!(all[8..all.len() - 1].iter().all(|event| event == "chunk") && all.len() > 12);
    assert_eq!(all.last().unwrap(), "assembly_completed");
    assert_eq!(
        told(Stream {
            events: vec![StreamEvent::Budget],
            chunk_size: None
        })
        .len(),
        3
    );
    let text: String = events(
        "a",
        &Stream {
            events: vec![StreamEvent::Chunks],
            chunk_size: None,
        },
        &input,
        &assembled,
    )
    .iter()
    .map(|event| event.get("content").unwrap().as_str().unwrap().to_owned())
    .collect();
    assert_eq!(text, assembled.text);
}

#[test]
fn the_default_budget_is_four_thousand_tokens() {
    let Statement::Assemble(statement) = parse("ASSEMBLE FROM (RECALL)", Options::default())
        .unwrap()
        .query
        .statement
    else {
        panic!()
    };
    assert_eq!(
        budget_of(&statement),
        Budget {
            amount: 4000,
            unit: BudgetUnit::Tokens
        }
    );
}

//! Message views: the cost of a query over all views, and of the input of a policy.
//!
//! The targets are 500,000 views/s for `SELECT kind, action, count(*)` from JSON Lines, and the
//! inputs of 150,000 policy evaluations/s.

use std::collections::HashMap;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use gristmill_schemas::cmf::view::{DictOptions, JsonText, JsonTree};
use gristmill_schemas::cmf::{CapabilitySet, Envelope, ExtensionAccess, UriPattern, views};
use gristmill_schemas::json::Json;

const MESSAGES: usize = 1000;

/// Returns turns of an agent: a question, reasoning with an answer and a call, the result of the
/// call.
fn lines() -> Vec<String> {
    let extensions = r#"{"request":{"environment":"production","request_id":"r-1"},"agent":{"session_id":"s-1","turn":2},"security":{"labels":["CONFIDENTIAL"],"subject":{"id":"alice","type":"user","roles":["admin","viewer"]}},"http":{"headers":{"Authorization":"Bearer x","Content-Type":"application/json"}}}"#;
    let turn = |at: usize| {
        let message = match at % 3 {
            0 => format!(
                r#"{{"role":"user","content":[{{"content_type":"text","text":"What did customer {at} order in the last quarter, and was it delivered?"}}]}}"#
            ),
            1 => format!(
                r#"{{"role":"assistant","content":[{{"content_type":"thinking","text":"The orders of customer {at} are in the order service."}},{{"content_type":"text","text":"Let me look that up."}},{{"content_type":"tool_call","content":{{"tool_call_id":"c{at}","name":"find_orders","arguments":{{"customer":{at},"from":"2026-01-01","to":"2026-03-31","fields":["id","state"]}},"namespace":"orders"}}}}]}}"#
            ),
            _ => format!(
                r#"{{"role":"tool","content":[{{"content_type":"tool_result","content":{{"tool_call_id":"c{at}","tool_name":"find_orders","content":{{"orders":[{{"id":{at},"state":"delivered"}},{{"id":7,"state":"open"}}]}}}}}}]}}"#
            ),
        };
        format!(r#"{{"message":{message},"extensions":{extensions}}}"#)
    };
    (0..MESSAGES).map(turn).collect()
}

fn parse(line: &str) -> Envelope {
    Json::parse(line.as_bytes())
        .ok()
        .and_then(|json| Envelope::parse(&json).ok())
        .expect("the line is valid")
}

fn message_views(criterion: &mut Criterion) {
    let lines = lines();
    let envelopes: Vec<Envelope> = lines.iter().map(|line| parse(line)).collect();
    let access = |envelope| ExtensionAccess::new(Option::as_ref(envelope), CapabilitySet::all());
    let count: usize = envelopes
        .iter()
        .map(|envelope| envelope.message.content.len())
        .sum();
    let mut group = criterion.benchmark_group("message_views");
    group.throughput(Throughput::Elements(count as u64));
    group.bench_function("kind_action_count_from_json_lines", |bencher| {
        bencher.iter(|| {
            let mut counts = HashMap::new();
            for line in &lines {
                let envelope = parse(line);
                for view in views(&envelope.message, ExtensionAccess::NONE) {
                    *counts.entry((view.kind(), view.action())).or_insert(0_u64) += 1;
                }
            }
            counts
        });
    });
    group.bench_function("kind_action_count", |bencher| {
        bencher.iter(|| {
            let mut counts = HashMap::new();
            for view in envelopes
                .iter()
                .flat_map(|envelope| views(&envelope.message, access(&envelope.extensions)))
            {
                *counts.entry((view.kind(), view.action())).or_insert(0_u64) += 1;
            }
            counts
        });
    });
    group.bench_function("uri_pattern", |bencher| {
        let pattern = UriPattern::new("tool://*/find_**").expect("the pattern is valid");
        let all = || {
            envelopes
                .iter()
                .flat_map(|envelope| views(&envelope.message, ExtensionAccess::NONE))
        };
        bencher.iter(|| {
            all()
                .filter(|view| view.matches_uri_pattern(&pattern))
                .count()
        });
    });
    group.bench_function("dict_as_tree", |bencher| {
        bencher.iter(|| {
            for view in envelopes
                .iter()
                .flat_map(|envelope| views(&envelope.message, access(&envelope.extensions)))
            {
                let mut tree = JsonTree::default();
                view.write_dict(DictOptions::default(), &mut tree);
                black_box(tree.into_json());
            }
        });
    });
    group.bench_function("dict_as_text", |bencher| {
        bencher.iter(|| {
            for view in envelopes
                .iter()
                .flat_map(|envelope| views(&envelope.message, access(&envelope.extensions)))
            {
                let mut text = JsonText::default();
                view.write_dict(DictOptions::default(), &mut text);
                black_box(text.into_string());
            }
        });
    });
    group.finish();
}

criterion_group!(benches, message_views);
criterion_main!(benches);

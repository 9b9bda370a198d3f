//! The time to parse, print, hash and convert CAL. The specification allows one millisecond to
//! parse four kilobytes.

use std::fmt::Write;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use gristmill_queries::cal::{Options, from_json, parse, print, query_hash, to_json};

/// Returns an ASSEMBLE statement of about `bytes` bytes with all parts of a query: LETs,
/// conditions, lists, stages, options.
fn statement(bytes: usize) -> String {
    let mut text = String::from(
        "LET $team = RECALL beliefs WHERE relation = \"member_of\" AND object = \"team-alpha\" | \
         SUBJECTS;\nASSEMBLE context FOR \"helping alice with her quarterly review\" FROM\n",
    );
    for source in 0..7 {
        let _ = writeln!(
            text,
            "  s{source}: (RECALL beliefs ABOUT \"alice\" WHERE subject IN ($team, \"bob\", \
             \"carol\") AND confidence >= 0.75 AND tags INCLUDE [\"profile:healthcare\", \
             \"review\"] AND hc:patient_id = \"P-{source}\" AND time = \"last 7 days\" WITH \
             superseded, dedup(subject) | ORDER BY confidence DESC | LIMIT 20),"
        );
    }
    text.push_str("  last: (RECALL beliefs WHERE subject IN (");
    while text.len() + 190 < bytes {
        let _ = write!(
            text,
            "\"value number {:04} of a list of values that take some room\", ",
            text.len()
        );
    }
    text.push_str(
        "\"end\") RECENT 5)\n  BUDGET 4000 tokens PRIORITY last > s0 > s1 FORMAT \
                   markdown WITH progressive_disclosure\n",
    );
    text
}

fn cal(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cal");
    let short =
        r#"RECALL beliefs ABOUT "alice" WHERE confidence >= 0.8 | ORDER BY time DESC | LIMIT 5 AS sml"#.to_owned();
    for (name, text) in [
        ("short", short),
        ("4 KB", statement(4096)),
        ("8 KB", statement(8000)),
    ] {
        let query = parse(&text, Options::default())
            .expect("the statement is valid")
            .query;
        let json = to_json(&query);
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(format!("parse {name}"), |bencher| {
            bencher.iter(|| parse(black_box(&text), Options::default()));
        });
        group.bench_function(format!("print {name}"), |bencher| {
            bencher.iter(|| print(black_box(&query)))
        });
        group.bench_function(format!("hash {name}"), |bencher| {
            bencher.iter(|| query_hash(black_box(&query)))
        });
        group.bench_function(format!("to JSON {name}"), |bencher| {
            bencher.iter(|| to_json(black_box(&query)))
        });
        group.bench_function(format!("from JSON {name}"), |bencher| {
            bencher.iter(|| from_json(black_box(&json), Options::default()));
        });
    }
    group.finish();
}

criterion_group!(benches, cal);
criterion_main!(benches);

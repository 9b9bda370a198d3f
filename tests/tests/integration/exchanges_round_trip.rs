//! Recorded exchanges of every endpoint that an adapter speaks for survive the round trip, value
//! for value.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use gristmill_connectors::wire::exchange::Exchange;
use gristmill_connectors::wire::registry;
use gristmill_connectors::wire::round_trip::{RoundTripOutcome, RoundTripSizes, check};
use gristmill_schemas::json::Json;
use gristmill_tests::paths::shared_or_skip;

#[derive(Default)]
struct Tally {
    exchanges: usize,
    equal: usize,
    unequal: usize,
    opaque: usize,
    sizes: RoundTripSizes,
}

#[test]
fn every_recorded_exchange_of_a_known_dialect_comes_back_equal() {
    let Some(folder) = shared_or_skip("transcripts") else {
        return;
    };
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let mut faults = Vec::new();
    for part in ["exchanges", "exchanges-authored"] {
        let mut files: Vec<_> = fs::read_dir(folder.join(part))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        files
            .iter()
            .for_each(|file| check_file(file, &mut tallies, &mut faults));
    }
    println!(
        "{:<28}{:>10}{:>8}{:>9}{:>8}{:>11}{:>10}{:>9}",
        "endpoint", "exchanges", "equal", "unequal", "opaque", "wire B", "residual", "unknown"
    );
    let mut total = Tally::default();
    for (endpoint, tally) in &tallies {
        println!("{}", row(endpoint, tally));
        total.add(tally);
    }
    println!("{}", row("all", &total));
    faults.iter().for_each(|fault| println!("{fault}"));
    assert!(
        total.exchanges > 0 && total.unequal == 0,
        "{} exchanges came back different",
        total.unequal
    );
    // What the six blocks can't hold (a provider's own tools above all) stands in residuals: a
    // small share, or an adapter has rotted.
    assert!(
        total.sizes.residual_bytes * 100 < total.sizes.wire_bytes * 30,
        "residuals are above 30 % of the wire"
    );
}

fn check_file(file: &Path, tallies: &mut BTreeMap<String, Tally>, faults: &mut Vec<String>) {
    for line in fs::read(file)
        .unwrap()
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let json = Json::parse(line).unwrap();
        let Some(exchange) = Exchange::from_json(&json) else {
            continue;
        };
        let Some(adapter) = registry::for_exchange(&exchange) else {
            continue;
        };
        let verdict = check(adapter, &exchange);
        let tally = tallies.entry(adapter.key().to_owned()).or_default();
        tally.exchanges += 1;
        tally.sizes.wire_bytes += verdict.sizes.wire_bytes;
        tally.sizes.residual_bytes += verdict.sizes.residual_bytes;
        tally.sizes.unknown_block_bytes += verdict.sizes.unknown_block_bytes;
        match verdict.outcome() {
            RoundTripOutcome::Equal => tally.equal += 1,
            RoundTripOutcome::Unequal(path) => {
                tally.unequal += 1;
                faults.push(format!("unequal {} {}: {path}", adapter.key(), exchange.id));
            }
            RoundTripOutcome::Opaque(why) => {
                tally.opaque += 1;
                faults.push(format!("opaque {} {}: {why}", adapter.key(), exchange.id));
            }
        }
    }
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.exchanges += other.exchanges;
        self.equal += other.equal;
        self.unequal += other.unequal;
        self.opaque += other.opaque;
        self.sizes.wire_bytes += other.sizes.wire_bytes;
        self.sizes.residual_bytes += other.sizes.residual_bytes;
        self.sizes.unknown_block_bytes += other.sizes.unknown_block_bytes;
    }
}

fn row(endpoint: &str, tally: &Tally) -> String {
    let share = |part: usize| {
        format!(
            "{:.1} %",
            part as f64 * 100.0 / tally.sizes.wire_bytes.max(1) as f64
        )
    };
    let Tally {
        exchanges,
        equal,
        unequal,
        opaque,
        sizes,
    } = tally;
    let (residual, unknown) = (
        share(sizes.residual_bytes),
        share(sizes.unknown_block_bytes),
    );
    format!(
        "{endpoint:<28}{exchanges:>10}{equal:>8}{unequal:>9}{opaque:>8}{:>11}{residual:>10}{unknown:>9}",
        sizes.wire_bytes
    )
}

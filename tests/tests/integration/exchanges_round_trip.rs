//! The round trip of exchanges: wire JSON to canonical messages and back gives the same JSON, value
//! for value, for every endpoint that has an adapter.

use std::collections::BTreeMap;
use std::fs;

use gristmill_connectors::wire::exchange::Exchange;
use gristmill_connectors::wire::registry;
use gristmill_connectors::wire::round_trip::{RoundTripOutcome, RoundTripSizes, check};
use gristmill_connectors::wire::standalone_body::detect_standalone_body;
use gristmill_schemas::json::Json;
use gristmill_tests::exchanges::own_exchanges;
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
fn every_exchange_of_ours_comes_back_equal() {
    let mut tallies = Tallies::default();
    for line in own_exchanges() {
        tallies.check_line(line.as_bytes());
    }
    assert!(
        tallies.by_endpoint.len() >= 19,
        "{:?}",
        tallies.by_endpoint.keys()
    );
    tallies.assert_equal();
}

#[test]
fn a_request_or_response_of_ours_is_recognised_without_its_exchange() {
    let mut bodies = 0;
    for line in own_exchanges() {
        let json = Json::parse(line.as_bytes()).unwrap();
        let request = json.get("request");
        let request = request.filter(|body| registry::detect_request(body).is_some());
        let response = json.get("response");
        let response = response.filter(|body| registry::detect_response(body).is_some());
        for body in request.into_iter().chain(response) {
            assert!(detect_standalone_body(body).is_some(), "{body:?} of {line}");
            bodies += 1;
        }
    }
    assert!(bodies > 200, "{bodies} bodies");
}

#[test]
fn every_recorded_exchange_of_a_known_dialect_comes_back_equal() {
    let Some(folder) = shared_or_skip("transcripts") else {
        return;
    };
    let mut tallies = Tallies::default();
    for part in ["exchanges", "exchanges-authored"] {
        let mut files: Vec<_> = fs::read_dir(folder.join(part))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        for file in files {
            let bytes = fs::read(file).unwrap();
            bytes
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
                .for_each(|line| tallies.check_line(line));
        }
    }
    let total = tallies.assert_equal();
    // Residuals hold what the six block kinds can't, mainly providers' own tools. A large share
    // means that an adapter no longer maps its fields.
    assert!(
        total.sizes.residual_bytes * 100 < total.sizes.wire_bytes * 30,
        "residuals are above 30 % of the wire"
    );
}

/// Results by endpoint, and a line for each exchange that didn't come back equal.
#[derive(Default)]
struct Tallies {
    by_endpoint: BTreeMap<String, Tally>,
    faults: Vec<String>,
}

impl Tallies {
    /// Checks the round trip of one exchange; lines without a known dialect are skipped.
    fn check_line(&mut self, line: &[u8]) {
        let json = Json::parse(line).unwrap();
        let Some(exchange) = Exchange::from_json(&json) else {
            return;
        };
        let Some(adapter) = registry::for_exchange(&exchange) else {
            return;
        };
        let verdict = check(adapter, &exchange);
        let tally = self
            .by_endpoint
            .entry(adapter.key().to_owned())
            .or_default();
        tally.exchanges += 1;
        tally.sizes.wire_bytes += verdict.sizes.wire_bytes;
        tally.sizes.residual_bytes += verdict.sizes.residual_bytes;
        tally.sizes.unknown_block_bytes += verdict.sizes.unknown_block_bytes;
        match verdict.outcome() {
            RoundTripOutcome::Equal => tally.equal += 1,
            RoundTripOutcome::Unequal(path) => {
                tally.unequal += 1;
                let fault = format!("unequal {} {}: {path}", adapter.key(), exchange.id);
                self.faults.push(fault);
            }
            RoundTripOutcome::Opaque(why) => {
                tally.opaque += 1;
                let fault = format!("opaque {} {}: {why}", adapter.key(), exchange.id);
                self.faults.push(fault);
            }
        }
    }

    /// Prints the table and asserts that no exchange came back different; returns the sum.
    fn assert_equal(&self) -> Tally {
        println!(
            "{:<28}{:>10}{:>8}{:>9}{:>8}{:>11}{:>10}{:>9}",
            "endpoint", "exchanges", "equal", "unequal", "opaque", "wire B", "residual", "unknown"
        );
        let mut total = Tally::default();
        for (endpoint, tally) in &self.by_endpoint {
            println!("{}", row(endpoint, tally));
            total.add(tally);
        }
        println!("{}", row("all", &total));
        self.faults.iter().for_each(|fault| println!("{fault}"));
        assert!(
            total.exchanges > 0 && total.unequal == 0,
            "{} exchanges came back different",
            total.unequal
        );
        total
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

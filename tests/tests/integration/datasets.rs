//! The data sets in the repository equal the output of their recipe, and are small.

use std::fs;

use gristmill_connectors::wire::exchange::Exchange;
use gristmill_connectors::wire::registry;
use gristmill_connectors::wire::round_trip::{RoundTripOutcome, check};
use gristmill_schemas::json::Json;
use gristmill_tests::datasets::make;
use gristmill_tests::paths::workspace;

/// Limit of all data sets together, in bytes.
const SIZE_LIMIT: u64 = 3 << 20;

#[test]
fn the_data_sets_are_reproducible_byte_for_byte() {
    for set in make().unwrap() {
        let path = workspace().join("datasets").join(set.name);
        let kept = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(
            kept == set.bytes,
            "{} differs; `cargo run --bin datasets` makes it again",
            path.display()
        );
    }
}

#[test]
fn the_data_sets_stay_small() {
    let sizes = fs::read_dir(workspace().join("datasets"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len());
    let total: u64 = sizes.sum();
    assert!(total <= SIZE_LIMIT, "{total} bytes");
}

#[test]
fn the_exchanges_are_of_two_providers_and_survive_the_round_trip() {
    let text = fs::read_to_string(workspace().join("datasets/exchanges.jsonl")).unwrap();
    let mut providers = std::collections::BTreeSet::new();
    for line in text.lines() {
        let json = Json::parse(line.as_bytes()).unwrap();
        let exchange = Exchange::from_json(&json).unwrap();
        let adapter = registry::find(&exchange.provider, &exchange.endpoint).unwrap();
        assert!(
            matches!(check(adapter, &exchange).outcome(), RoundTripOutcome::Equal),
            "{}",
            exchange.id
        );
        providers.insert(exchange.provider.to_string());
    }
    assert_eq!(providers.len(), 2, "{providers:?}");
}

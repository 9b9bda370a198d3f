//! Does recorded traffic survive the round trip? Counted per endpoint.

use std::collections::BTreeMap;

use serde::Serialize;

use super::line::{Line, LineFault, lines};
use super::read::{ReadOptions, in_parallel, portions};
use super::traffic::{Reading, reading};
use crate::threads;
use crate::wire::exchange::Exchange;
use crate::wire::round_trip::{RoundTripOutcome, check};

/// How the exchanges of one endpoint fared.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct EndpointReport {
    /// `provider/endpoint`, as the exchanges name it.
    pub endpoint: String,
    /// How many there are.
    pub exchanges: u64,
    /// Those that came back value for value.
    pub equal: u64,
    /// Those that came back different.
    pub unequal: u64,
    /// Those that no adapter reads; they are kept whole.
    pub opaque: u64,
    /// The path of the first difference of the first that differs.
    pub first_difference: Option<String>,
}

/// An exchange that came back different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The line, counted from 1.
    pub line: u64,
    /// `provider/endpoint`.
    pub endpoint: String,
    /// The exchange's own id.
    pub id: String,
    /// The path of its first difference.
    pub path: String,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// Per endpoint, in the order of their names.
    pub endpoints: Vec<EndpointReport>,
    /// Every exchange that came back different.
    pub differences: Vec<Difference>,
    /// Lines that can't be read.
    pub faults: Vec<LineFault>,
}

/// What became of one line.
enum Checked {
    Exchange {
        endpoint: String,
        id: String,
        outcome: RoundTripOutcome,
    },
    Fault(LineFault),
}

/// Reads and writes back every exchange of `bytes`.
pub fn check_round_trip(bytes: &[u8], options: ReadOptions<'_>) -> CheckReport {
    let all: Vec<Line> = lines(bytes).collect();
    let portions = portions(&all);
    let mut endpoints: BTreeMap<String, EndpointReport> = BTreeMap::new();
    let mut report = CheckReport::default();
    let work = |portion: &&[Line]| -> Vec<Checked> {
        portion
            .iter()
            .map(|line| checked(bytes, line, options))
            .collect()
    };
    in_parallel(
        &portions,
        threads(options.threads),
        &work,
        &mut |portion, results| {
            for (line, result) in portion.iter().zip(results) {
                let (endpoint, id, outcome) = match result {
                    Checked::Fault(fault) => {
                        report.faults.push(fault);
                        continue;
                    }
                    Checked::Exchange {
                        endpoint,
                        id,
                        outcome,
                    } => (endpoint, id, outcome),
                };
                let entry = endpoints.entry(endpoint.clone()).or_default();
                entry.exchanges += 1;
                match outcome {
                    RoundTripOutcome::Equal => entry.equal += 1,
                    RoundTripOutcome::Opaque(_) => entry.opaque += 1,
                    RoundTripOutcome::Unequal(path) => {
                        entry.unequal += 1;
                        entry.first_difference.get_or_insert_with(|| path.clone());
                        report.differences.push(Difference {
                            line: line.number,
                            endpoint,
                            id,
                            path,
                        });
                    }
                }
            }
        },
    );
    report.endpoints = endpoints
        .into_iter()
        .map(|(endpoint, entry)| EndpointReport { endpoint, ..entry })
        .collect();
    report
}

fn checked(bytes: &[u8], line: &Line, options: ReadOptions) -> Checked {
    let json = match line.json(bytes) {
        Ok(json) => json,
        Err(fault) => return Checked::Fault(fault),
    };
    let Some(exchange) = Exchange::from_json_or_detect(&json, options.provider) else {
        return Checked::Fault(line.fault(super::line::FaultCode::Shape, super::read::NO_EXCHANGE));
    };
    let outcome = match reading(&exchange) {
        Reading::Opaque(why) => RoundTripOutcome::Opaque(why.to_owned()),
        Reading::Known(adapter) => check(adapter, &exchange).outcome(),
    };
    let endpoint = format!("{}/{}", exchange.provider, exchange.endpoint);
    Checked::Exchange {
        endpoint,
        id: exchange.id.to_string(),
        outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_is_counted_and_broken_lines_are_told() {
        let text = r#"{"provider":"openai","endpoint":"chat","request":{"messages":[{"role":"user","content":"hi"}]},"response":{"choices":[]}}
            {"provider":"x","endpoint":"y","request":{"a":1}}
            oops"#;
        let report = check_round_trip(
            text.as_bytes(),
            ReadOptions {
                threads: 2,
                ..ReadOptions::default()
            },
        );
        let told: Vec<_> = report
            .endpoints
            .iter()
            .map(|entry| (&*entry.endpoint, entry.equal, entry.opaque))
            .collect();
        assert_eq!(told, [("openai/chat", 1, 0), ("x/y", 0, 1)]);
        assert_eq!((report.faults.len(), report.faults[0].number), (1, 3));
    }
}

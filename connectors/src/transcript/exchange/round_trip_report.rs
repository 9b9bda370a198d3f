//! A check that every exchange is written back value for value, with counts per endpoint.

use std::collections::BTreeMap;

use serde::Serialize;

use super::extract::{AdapterMatch, match_adapter};
use super::item::NOT_AN_EXCHANGE;
use crate::threads;
use crate::transcript::line::{FaultCode, Line, LineFault, lines};
use crate::transcript::options::ReadOptions;
use crate::transcript::parallel::{chunk_lines, map_ordered};
use crate::wire::exchange::{Exchange, with_parsed_request};
use crate::wire::round_trip::{RoundTripOutcome, check};

/// The results of the exchanges of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct EndpointReport {
    /// `provider/endpoint`, as in the exchanges.
    pub endpoint: String,
    /// Number of exchanges.
    pub exchanges: u64,
    /// Exchanges that are written back value for value.
    pub equal: u64,
    /// Exchanges that are written back differently.
    pub unequal: u64,
    /// Exchanges that no adapter reads. They are kept as a whole.
    pub opaque: u64,
    /// The path of the first difference in the first unequal exchange.
    pub first_difference: Option<String>,
}

/// An exchange that is written back differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The line number, counted from 1.
    pub line: u64,
    /// `provider/endpoint`.
    pub endpoint: String,
    /// The `id` of the exchange.
    pub id: String,
    /// The path of the first difference.
    pub path: String,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// One report per endpoint, by name.
    pub endpoints: Vec<EndpointReport>,
    /// All exchanges that are written back differently.
    pub differences: Vec<Difference>,
    /// Lines that can't be read.
    pub faults: Vec<LineFault>,
}

/// The result of one line that holds an exchange.
struct CheckedExchange {
    endpoint: String,
    id: String,
    outcome: RoundTripOutcome,
}

/// Reads every exchange of `bytes`, writes it back, and compares the two.
pub fn check_round_trip(bytes: &[u8], options: ReadOptions<'_>) -> CheckReport {
    let all: Vec<Line> = lines(bytes).collect();
    let work = |chunk: &&[Line]| -> Vec<_> {
        chunk
            .iter()
            .map(|line| check_line(bytes, line, options))
            .collect()
    };
    let mut totals = Totals::default();
    map_ordered(
        &chunk_lines(&all),
        threads(options.threads),
        &work,
        &mut |chunk, results| {
            for (line, result) in chunk.iter().zip(results) {
                match result {
                    Ok(checked) => totals.add(line, checked),
                    Err(fault) => totals.report.faults.push(fault),
                }
            }
        },
    );
    totals.into_report()
}

/// The results so far.
#[derive(Default)]
struct Totals {
    endpoints: BTreeMap<String, EndpointReport>,
    report: CheckReport,
}

impl Totals {
    fn add(&mut self, line: &Line, checked: CheckedExchange) {
        let CheckedExchange {
            endpoint,
            id,
            outcome,
        } = checked;
        let entry = self.endpoints.entry(endpoint.clone()).or_default();
        entry.exchanges += 1;
        match outcome {
            RoundTripOutcome::Equal => entry.equal += 1,
            RoundTripOutcome::Opaque(_) => entry.opaque += 1,
            RoundTripOutcome::Unequal(path) => {
                entry.unequal += 1;
                entry.first_difference.get_or_insert_with(|| path.clone());
                self.report.differences.push(Difference {
                    line: line.number,
                    endpoint,
                    id,
                    path,
                });
            }
        }
    }

    fn into_report(self) -> CheckReport {
        let endpoints = self
            .endpoints
            .into_iter()
            .map(|(endpoint, report)| EndpointReport { endpoint, ..report })
            .collect();
        CheckReport {
            endpoints,
            ..self.report
        }
    }
}

fn check_line(
    bytes: &[u8],
    line: &Line,
    options: ReadOptions,
) -> Result<CheckedExchange, LineFault> {
    let json = line.json(bytes)?;
    let parsed = with_parsed_request(&json);
    let readable = parsed.as_ref().unwrap_or(&json);
    let exchange = Exchange::from_json_or_detect(readable, options.provider)
        .ok_or_else(|| line.fault(FaultCode::Shape, NOT_AN_EXCHANGE))?;
    let outcome = match match_adapter(&exchange) {
        AdapterMatch::Opaque(reason) => RoundTripOutcome::Opaque(reason.to_owned()),
        AdapterMatch::Matched(adapter) => check(adapter, &exchange).outcome(),
    };
    Ok(CheckedExchange {
        endpoint: format!("{}/{}", exchange.provider, exchange.endpoint),
        id: exchange.id.to_string(),
        outcome,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_is_counted_and_unreadable_lines_are_faults() {
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
        let endpoints: Vec<_> = report
            .endpoints
            .iter()
            .map(|entry| (&*entry.endpoint, entry.equal, entry.opaque))
            .collect();
        assert_eq!(endpoints, [("openai/chat", 1, 0), ("x/y", 0, 1)]);
        assert_eq!((report.faults.len(), report.faults[0].number), (1, 3));
    }
}

//! The table of all sizes and the growth between the smallest and the largest.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::child::Cost;
use crate::night::Step;

/// The steps of one lake.
pub struct SizeResult {
    /// Grains of the lake.
    pub grains: u64,
    /// Grains that were new.
    pub new: u64,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// Returns the results as a Markdown table, one row for each step and size.
pub fn markdown(results: &[SizeResult]) -> String {
    let mut out = String::from(
        "| step | grains | processor s | wall s | peak MB | read MB | written MB |\n\
         |---|---:|---:|---:|---:|---:|---:|\n",
    );
    let steps = results.first().map_or(&[][..], |first| &first.steps[..]);
    for (at, (name, _)) in steps.iter().enumerate() {
        for result in results {
            let Some((_, cost)) = result.steps.get(at) else {
                continue;
            };
            let grains = result.grains;
            let megabytes = |bytes: u64| bytes as f64 / 1e6;
            let _ = writeln!(
                out,
                "| {name} | {grains} | {:.2} | {:.2} | {:.0} | {:.1} | {:.1} |",
                cost.cpu,
                cost.wall,
                megabytes(cost.peak),
                megabytes(cost.read),
                megabytes(cost.written),
            );
        }
    }
    out + &growth_table(results)
}

/// Returns how often each cost of the smallest lake the largest has.
fn growth_table(results: &[SizeResult]) -> String {
    let (Some(first), Some(last)) = (results.first(), results.last()) else {
        return String::new();
    };
    if results.len() < 2 {
        return String::new();
    }
    let mut out = format!(
        "\nGrowth from {} to {} grains, with {} and {} new ones:\n\n\
         | step | processor | wall | peak | read | written |\n|---|---:|---:|---:|---:|---:|\n",
        first.grains, last.grains, first.new, last.new
    );
    for ((name, small), (_, large)) in first.steps.iter().zip(&last.steps) {
        let [cpu, wall, peak, read, written] = growth(small, large).map(shown);
        let _ = writeln!(
            out,
            "| {name} | {cpu} | {wall} | {peak} | {read} | {written} |"
        );
    }
    out
}

/// Returns the ratios of processor time, wall time, peak, bytes read and bytes written; `None`
/// where the small lake has no such cost.
fn growth(small: &Cost, large: &Cost) -> [Option<f64>; 5] {
    let ratio = |small: f64, large: f64| (small > 0.0).then(|| large / small);
    [
        ratio(small.cpu, large.cpu),
        ratio(small.wall, large.wall),
        ratio(small.peak as f64, large.peak as f64),
        ratio(small.read as f64, large.read as f64),
        ratio(small.written as f64, large.written as f64),
    ]
}

fn shown(ratio: Option<f64>) -> String {
    ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}"))
}

/// Returns the results as JSON.
pub fn as_json(results: &[SizeResult], peers: &Value) -> Value {
    let steps =
        |result: &SizeResult| -> Vec<Value> { result.steps.iter().map(step_json).collect() };
    let sizes: Vec<Value> = results
        .iter()
        .map(|result| json!({"grains": result.grains, "new": result.new, "steps": steps(result)}))
        .collect();
    let growth: Vec<Value> = match (results.first(), results.last()) {
        (Some(first), Some(last)) if results.len() > 1 => first
            .steps
            .iter()
            .zip(&last.steps)
            .map(|((name, small), (_, large))| {
                let [cpu, wall, peak, read, written] = growth(small, large);
                json!({"step": name, "cpu": cpu, "wall": wall, "peak": peak, "read": read,
                       "written": written})
            })
            .collect(),
        _ => Vec::new(),
    };
    json!({"sizes": sizes, "growth": growth, "peers": peers})
}

fn step_json((name, cost): &Step) -> Value {
    json!({
        "step": name,
        "cpu_seconds": cost.cpu,
        "wall_seconds": cost.wall,
        "peak_bytes": cost.peak,
        "read_bytes": cost.read,
        "written_bytes": cost.written,
    })
}

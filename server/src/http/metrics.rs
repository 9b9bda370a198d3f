//! Figures about the server in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Upper bounds of the buckets of durations, in milliseconds.
const BUCKETS: [u64; 8] = [5, 20, 50, 100, 500, 1_000, 5_000, 30_000];

/// Durations of the requests to one endpoint.
#[derive(Debug, Default, Clone)]
struct Durations {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    seconds: f64,
}

/// Counters of a server.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    durations: Mutex<BTreeMap<&'static str, Durations>>,
    rows: AtomicU64,
}

/// Values that are read when metrics are requested.
pub(super) struct Gauges {
    pub(super) running: usize,
    pub(super) waiting: usize,
    pub(super) lake_version: u64,
}

impl Metrics {
    /// Counts a request; `duration` is the time until its answer begins.
    pub(super) fn count_request(&self, endpoint: &'static str, status: u16, duration: Duration) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((endpoint, status)).or_default() += 1;
        let mut durations = self
            .durations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let durations = durations.entry(endpoint).or_default();
        durations.count += 1;
        durations.seconds += duration.as_secs_f64();
        for (bucket, bound) in durations.buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(duration <= Duration::from_millis(bound));
        }
    }

    pub(super) fn add_rows(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Returns all figures.
    pub(super) fn render(&self, gauges: &Gauges) -> String {
        let mut out = String::new();
        for (name, kind, value) in [
            ("gristmill_queries_running", "gauge", gauges.running as u64),
            ("gristmill_queries_waiting", "gauge", gauges.waiting as u64),
            ("gristmill_lake_version", "gauge", gauges.lake_version),
            (
                "gristmill_rows_total",
                "counter",
                self.rows.load(Ordering::Relaxed),
            ),
        ] {
            let _ = writeln!(out, "# TYPE {name} {kind}\n{name} {value}");
        }
        self.render_requests(&mut out);
        self.render_durations(&mut out);
        out
    }

    fn render_requests(&self, out: &mut String) {
        let _ = writeln!(out, "# TYPE gristmill_requests_total counter");
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        for ((endpoint, status), count) in &*requests {
            let _ = writeln!(
                out,
                "gristmill_requests_total{{endpoint=\"{endpoint}\",status=\"{status}\"}} {count}"
            );
        }
    }

    fn render_durations(&self, out: &mut String) {
        let name = "gristmill_request_seconds";
        let _ = writeln!(out, "# TYPE {name} histogram");
        let durations = self
            .durations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (endpoint, durations) in &*durations {
            let label = format!("endpoint=\"{endpoint}\"");
            for (count, bound) in durations.buckets.iter().zip(BUCKETS) {
                let bound = bound as f64 / 1e3;
                let _ = writeln!(out, "{name}_bucket{{{label},le=\"{bound}\"}} {count}");
            }
            let Durations { count, seconds, .. } = durations;
            let _ = writeln!(out, "{name}_bucket{{{label},le=\"+Inf\"}} {count}");
            let _ = writeln!(out, "{name}_sum{{{label}}} {seconds}");
            let _ = writeln!(out, "{name}_count{{{label}}} {count}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_endpoint_status_and_duration() {
        let metrics = Metrics::default();
        metrics.count_request("/sql", 200, Duration::from_millis(30));
        metrics.count_request("/sql", 400, Duration::from_millis(3));
        metrics.add_rows(7);
        let text = metrics.render(&Gauges {
            running: 1,
            waiting: 0,
            lake_version: 4,
        });
        for line in [
            "gristmill_queries_running 1",
            "gristmill_rows_total 7",
            "gristmill_requests_total{endpoint=\"/sql\",status=\"400\"} 1",
            "gristmill_request_seconds_bucket{endpoint=\"/sql\",le=\"0.02\"} 1",
            "gristmill_request_seconds_bucket{endpoint=\"/sql\",le=\"0.05\"} 2",
            "gristmill_request_seconds_count{endpoint=\"/sql\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }
}

//! The two axes of time (§15): `known_at(instant)`, the grains that were current in the lake at an
//! instant of transaction time, and `valid_at(instant[, known])`, those of them that hold at an
//! instant of valid time.
//!
//! Transaction time is the lake's own: a grain counts from its `ingested_at`, a supersession from
//! that of the superseding grain, and an event from its time, but not before the source that
//! brought it was read. What is ingested later, however it is dated, never changes what an earlier
//! instant returns. `as_of` in contrast goes by the times that authors state. Erased grains don't
//! reappear.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue, plan_datafusion_err};
use datafusion::datasource::ViewTable;
use datafusion::prelude::SessionContext;
use gristmill_schemas::columns::SOURCES;

use super::as_of::literal_value;
use super::lazy_views;
use super::lifecycle::{Copies, EventSources, fold_query};

pub(super) const KNOWN_AT: &str = "known_at";
pub(super) const VALID_AT: &str = "valid_at";

/// Parameters of the plans: instants of transaction time and of valid time.
const KNOWN: &str = "known";
const VALID: &str = "valid";

/// Error of a session without the table `sources`.
const WITHOUT_SOURCES: &str = "known_at, and valid_at with two instants, go by when each source \
                               was read, which a session that is confined to a namespace or user \
                               can't see; use as_of(instant), which goes by the times that authors \
                               state, or valid_at(instant)";

/// One of the functions.
#[derive(Debug)]
struct BitemporalFunction {
    has_valid_time: bool,
    /// False in a confined session, which has no table `sources`.
    has_sources: bool,
}

/// Registers the functions. The stored tables must be registered already.
///
/// # Errors
/// If the context has no default schema.
pub(super) fn register(context: &SessionContext) -> Result<()> {
    let has_sources = context.table_exist(SOURCES)?;
    for (name, has_valid_time) in [(KNOWN_AT, false), (VALID_AT, true)] {
        let function = BitemporalFunction {
            has_valid_time,
            has_sources,
        };
        context.register_udtf(name, Arc::new(function));
    }
    Ok(())
}

/// Query of the grains that were current in the lake at the parameter [`KNOWN`].
fn known_query(copies: Copies) -> String {
    let grains = format!("(SELECT * FROM grains WHERE ingested_at <= ${KNOWN})");
    let state = format!(
        "(SELECT s.* FROM state s
          LEFT JOIN (SELECT source_id, min(at) AS read_at FROM sources GROUP BY source_id) r
          ON s.source_id = r.source_id
          WHERE s.at <= ${KNOWN} AND (r.read_at IS NULL OR r.read_at <= ${KNOWN}))"
    );
    let sources = EventSources {
        state: &state,
        grains: &grains,
        copies,
        about: None,
    };
    format!(
        "SELECT g.* FROM {grains} g LEFT ANTI JOIN
             (SELECT content_address FROM ({fold})
              WHERE system_valid_to IS NOT NULL OR verification_status = 'retracted') AS closed
         ON g.content_address = closed.content_address",
        fold = fold_query(&sources, None)
    )
}

/// Query of the grains of `known` (a relation) that hold at the parameter [`VALID`]. A missing
/// bound is open; both bounds are inclusive (§15.2).
fn valid_query(known: &str) -> String {
    format!(
        "SELECT * FROM {known} WHERE (valid_from IS NULL OR valid_from <= ${VALID})
             AND (valid_to IS NULL OR ${VALID} <= valid_to)"
    )
}

impl BitemporalFunction {
    /// Returns the function's query for a number of arguments, and the names of its parameters.
    fn query(&self, arguments: usize, copies: Copies) -> Option<(String, &'static [&'static str])> {
        match (self.has_valid_time, arguments) {
            (false, 1) => Some((known_query(copies), &[KNOWN])),
            (true, 1) => Some((valid_query("current"), &[VALID])),
            (true, 2) => Some((
                valid_query(&format!("({})", known_query(copies))),
                &[VALID, KNOWN],
            )),
            _ => None,
        }
    }

    fn usage(&self) -> &'static str {
        match self.has_valid_time {
            true => {
                "valid_at takes an instant such as '2026-01-31T12:00:00Z', and optionally the \
                 instant at which the lake knew it"
            }
            false => "known_at takes an instant such as '2026-01-31T12:00:00Z'",
        }
    }
}

impl TableFunctionImpl for BitemporalFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let usage = || plan_datafusion_err!("{}", self.usage());
        let copies = Copies::of(args.session().config());
        let (query, names) = self.query(args.exprs().len(), copies).ok_or_else(usage)?;
        if names.contains(&KNOWN) && !self.has_sources {
            return Err(plan_datafusion_err!("{WITHOUT_SOURCES}"));
        }
        let mut values: Vec<(&str, ScalarValue)> = Vec::with_capacity(names.len());
        for (name, argument) in names.iter().zip(args.exprs()) {
            let instant = literal_value(argument).ok_or_else(usage)?;
            let instant = instant.cast_to(&DataType::Timestamp(
                TimeUnit::Microsecond,
                Some("UTC".into()),
            ))?;
            values.push((name, instant));
        }
        let plan = lazy_views::plan(args.session(), &query)?.with_param_values(values)?;
        Ok(Arc::new(ViewTable::new(plan, None)))
    }
}

//! Rows that are gone without a command that removed them: another engine deleted them, or somebody
//! changed the lake's log.

use gristmill_schemas::columns::{AuditRow, GRAINS};

use super::tables::{TablesCheck, problem};
use crate::error::Result;
use crate::lake::{
    ACCEPT, ERASURES, Heads, Lake, LostRows, Table, TableHead, is_accepted, recorded_version,
};

/// What the logs of tables have lost.
#[derive(Debug, Default)]
pub(super) struct LostInLogs {
    /// Rows that commits remove whose writers may not, by their tables.
    pub(super) by_commits: Vec<(&'static str, LostRows)>,
    /// Tables whose logs are ahead of their heads.
    pub(super) beyond_heads: Vec<BeyondHead>,
}

/// A table that has fewer rows than at the version of its head.
#[derive(Debug)]
pub(super) struct BeyondHead {
    table: &'static str,
    version: u64,
    of_head: u64,
    rows: u64,
}

impl BeyondHead {
    /// Compares `table` with `earlier`, which is the table at the version of its head. Returns
    /// `None` if no row is missing.
    ///
    /// # Errors
    /// [`EngineError::Delta`](crate::error::EngineError::Delta).
    pub(super) fn of(table: &Table, earlier: &Table) -> Result<Option<BeyondHead>> {
        let (before, now) = (rows_of(earlier)?, rows_of(table)?);
        Ok((now < before).then(|| BeyondHead {
            table: table.name(),
            version: table.version(),
            of_head: earlier.version(),
            rows: before - now,
        }))
    }

    /// Returns whether a command of this program made the version: it has recorded it since, or
    /// was killed before that.
    async fn is_explained(&self, lake: &Lake, entries: &[AuditRow]) -> Result<bool> {
        let is_known = |version: Option<u64>| version.is_some_and(|known| known >= self.version);
        if is_known(recorded_version(entries, self.table)) {
            return Ok(true);
        }
        let heads = Heads::load(lake.location()).await?;
        let head = |heads: &Heads| heads.tables.get(self.table).map(version_of);
        if is_known(heads.as_ref().and_then(head)) {
            return Ok(true);
        }
        let files = lake.location().list(ERASURES).await?;
        let mut names = files.iter().filter_map(|file| file.location.filename());
        Ok(names.any(|name| name.ends_with(".journal")))
    }

    fn cause(&self) -> String {
        let BeyondHead {
            table,
            version,
            of_head,
            rows,
        } = self;
        format!(
            "version {version} of `{table}` has {rows} rows less than version {of_head}, and no \
             command of this program recorded that it removed them"
        )
    }
}

fn version_of(head: &TableHead) -> u64 {
    head.version
}

fn rows_of(table: &Table) -> Result<u64> {
    Ok(table.files()?.iter().map(|file| file.rows).sum())
}

/// Adds the problems of what the logs have lost, unless it was accepted since.
///
/// # Errors
/// Errors of reading the lake that aren't damage.
pub(super) async fn check(
    lake: &Lake,
    entries: &[AuditRow],
    check: &mut TablesCheck<'_>,
) -> Result<()> {
    let lost = std::mem::take(&mut check.lost);
    let mut reported = Vec::new();
    for (table, lost) in &lost.by_commits {
        if !is_accepted(entries, table, lost.version, lost.at) {
            reported.push(*table);
            report(check, table, &lost.cause(table), lost.rows);
        }
    }
    for beyond in &lost.beyond_heads {
        if !reported.contains(&beyond.table) && !beyond.is_explained(lake, entries).await? {
            report(check, beyond.table, &beyond.cause(), Some(beyond.rows));
        }
    }
    Ok(())
}

/// Adds the problem of a log that lost something, for `cause`.
pub(super) fn report(
    check: &mut TablesCheck<'_>,
    table: &'static str,
    cause: &str,
    rows: Option<u64>,
) {
    let mut found = problem(table, &format!("{table}/_delta_log"), cause, ACCEPT);
    found.rows = rows.filter(|rows| *rows > 1);
    check.found(found);
}

/// Returns the problem of a log that sets the lake's format from `before` back to `now`: from then
/// on no digest would be compared.
pub(super) fn format_set_back(before: u32, now: u32) -> super::Problem {
    let cause = format!(
        "it sets the lake's format from {before} back to {now}, in which digests and `heads.json` \
         aren't compared"
    );
    problem(GRAINS, &format!("{GRAINS}/_delta_log"), &cause, ACCEPT)
}

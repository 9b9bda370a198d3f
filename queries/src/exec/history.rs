//! HISTORY: the versions of a grain or of a statement about a subject.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::logical_expr::{Expr, col, in_list, lit};
use gristmill_schemas::json::{Json, Object};

use super::columns::{ADDRESS, SCORE, instant};
use super::condition::among;
use super::error::Result;
use super::grain_reader::{NEW, OLD};
use super::recall::{unbound, within};
use super::{Answer, Hit, QueryRun, response};
use crate::cal::ast::{History, NamespaceScope, Target, Value};
use crate::cal::limits::{MAX_CHAIN, MAX_HISTORY_VERSIONS};
use crate::cal::time::TimePoint;
use crate::cal::{CalError, Code};

/// Versions of a grain, by their addresses.
pub(super) struct VersionChain {
    versions: BTreeSet<String>,
    /// Who was superseded by whom.
    links: BTreeSet<(String, String)>,
}

impl VersionChain {
    /// Adds a link; answers those of its ends that are new.
    fn add(&mut self, (old, new): (String, String)) -> Vec<String> {
        let ends = [old.clone(), new.clone()];
        self.links.insert((old, new));
        ends.into_iter()
            .filter(|end| self.versions.insert(end.clone()))
            .collect()
    }

    /// False if there may be more versions than were looked at.
    pub(super) fn is_whole(&self) -> bool {
        self.versions.len() < MAX_CHAIN
    }

    /// The version that took the place of `address`; where the chain forks, the one whose address
    /// comes first.
    pub(super) fn after(&self, address: &str) -> Option<&str> {
        let (old, new) = self
            .links
            .range((address.to_owned(), String::new())..)
            .next()?;
        (old == address).then_some(new.as_str())
    }
}

impl QueryRun<'_, '_> {
    pub(super) async fn history(&self, history: &History) -> Result<Answer> {
        match history {
            History::Versions { target, diff: None } => self.versions(target).await,
            History::Versions {
                target,
                diff: Some(other),
            } => self.difference(target, other).await,
            History::Triple {
                namespace,
                subject,
                relation,
                as_of,
            } => {
                self.triple(namespace.as_ref(), subject, relation, as_of.as_deref())
                    .await
            }
        }
    }

    async fn versions(&self, target: &Target) -> Result<Answer> {
        let start = self.reader.resolve(target).await?;
        let versions: Vec<String> = self.chain(start).await?.versions.into_iter().collect();
        self.newest_first(among(&versions)).await
    }

    /// What supersession links with `start`, whichever version of the chain it is. The whole chain:
    /// which of its versions are the newest is known only then.
    pub(super) async fn chain(&self, start: String) -> Result<VersionChain> {
        let states = self.reader.lifecycle_states(false).await?;
        let mut chain = VersionChain {
            versions: BTreeSet::from([start.clone()]),
            links: BTreeSet::new(),
        };
        let mut frontier = vec![start];
        // What is held in memory leads along the chain without a query for each link. The queries
        // find what isn't held: all branches of a chain that forks, and the chains of a lake whose
        // states are too many.
        while !frontier.is_empty() && chain.is_whole() {
            if let Some(states) = &states {
                let reached: Vec<String> = match self.reader.session.namespace {
                    None => Vec::new(),
                    Some(_) => states.linked(
                        frontier.clone(),
                        &mut chain.versions.clone(),
                        MAX_CHAIN,
                        |_| true,
                    ),
                };
                let seen = self.reader.seen(reached).await?;
                let may = |address: &str| seen.as_ref().is_none_or(|seen| seen.contains(address));
                frontier = states.linked(frontier, &mut chain.versions, MAX_CHAIN, may);
            }
            let listed = |column: &str| {
                in_list(
                    col(column),
                    frontier.iter().map(|one| lit(one.as_str())).collect(),
                    false,
                )
            };
            let links = self.reader.links(listed(OLD).or(listed(NEW))).await?;
            let links: Vec<_> = links
                .into_iter()
                .filter_map(|(old, new)| Some((old, new?)))
                .collect();
            let ends = links
                .iter()
                .flat_map(|(old, new)| [old.clone(), new.clone()])
                .collect();
            let seen = self.reader.seen(ends).await?;
            let may = |(old, new): &(String, String)| {
                seen.as_ref()
                    .is_none_or(|seen| seen.contains(old) && seen.contains(new))
            };
            frontier = links
                .into_iter()
                .filter(may)
                .flat_map(|link| chain.add(link))
                .collect();
        }
        Ok(chain)
    }

    async fn triple(
        &self,
        namespace: Option<&NamespaceScope>,
        subject: &Value,
        relation: &Value,
        as_of: Option<&str>,
    ) -> Result<Answer> {
        let is = |column: &str, value: &Value| match value {
            Value::Text(text) => Ok(col(column).eq(lit(text.as_str()))),
            Value::Parameter(parameter) => Err(unbound(parameter)),
            other => Err(CalError::new(
                Code::E020,
                format!("\"{column}\" can't be {}.", other.kind()),
            )),
        };
        let mut filter = is("subject", subject)?.and(is("relation", relation)?);
        if let Some(within) = within(namespace, self.reader.session.namespace.is_some()) {
            filter = filter.and(within);
        }
        if let Some(text) = as_of {
            let point = TimePoint::parse(text)
                .ok_or_else(|| CalError::new(Code::E020, format!("\"{text}\" is not a time.")))?;
            filter = filter
                .and(col("created_at").lt_eq(instant(point.resolve(self.reader.session.now_ms))));
        }
        self.newest_first(filter).await
    }

    /// The visible grains for which `filter` holds, newest first, as many as HISTORY shows; counted
    /// in full.
    async fn newest_first(&self, filter: Expr) -> Result<Answer> {
        let matched = self.reader.visible().await?.filter(filter)?;
        let order = vec![
            col("created_at").sort(false, false),
            col(ADDRESS).sort(true, false),
        ];
        let page = matched.clone().select(vec![
            col(ADDRESS),
            lit(1.0_f64).alias(SCORE),
            col("created_at"),
        ])?;
        let found = self
            .reader
            .found(page.sort(order)?.limit(0, Some(MAX_HISTORY_VERSIONS))?)
            .await?;
        let total = match found.len() {
            MAX_HISTORY_VERSIONS => {
                self.reader
                    .count(matched.select(vec![col(ADDRESS)])?)
                    .await?
            }
            fewer => fewer as u64,
        };
        let hits = self.reader.hits(found, None, &[]).await?;
        Ok(Answer {
            results: hits.iter().map(version).collect(),
            total,
            ..Answer::default()
        })
    }

    async fn difference(&self, target: &Target, other: &Target) -> Result<Answer> {
        let (from, to) = (
            self.reader.resolve(target).await?,
            self.reader.resolve(other).await?,
        );
        let hits = self
            .reader
            .hits(vec![(from, 1.0), (to, 1.0)], None, &[])
            .await?;
        let changes = match hits.as_slice() {
            [from, to] => changes(&from.view.payload, &to.view.payload),
            // The same grain twice is one row.
            _ => Vec::new(),
        };
        let results: Vec<_> = hits.iter().map(version).collect();
        Ok(Answer {
            total: results.len() as u64,
            results,
            changes: Some(changes),
            ..Answer::default()
        })
    }
}

/// A version, with what took its place.
fn version(hit: &Hit) -> super::ResultEntry {
    let mut entry = response::plain_entry(hit);
    entry.notes.insert(
        "superseded_by",
        hit.superseded_by.clone().map_or(Json::Null, Json::from),
    );
    entry
}

/// The fields that differ, by name: `{field, from, to}`, null for a field that one of them lacks.
fn changes(from: &Object<'static>, to: &Object<'static>) -> Vec<Json<'static>> {
    let mut fields: BTreeMap<&str, [Option<&Json<'static>>; 2]> = BTreeMap::new();
    for (side, payload) in [from, to].into_iter().enumerate() {
        for (name, value) in payload.iter() {
            fields.entry(name).or_default()[side] = Some(value);
        }
    }
    let differing = fields.into_iter().filter(|(_, [from, to])| from != to);
    differing
        .map(|(name, [from, to])| {
            let mut change = Object::new();
            change.insert("field", name.to_owned());
            change.insert("from", from.cloned().unwrap_or(Json::Null));
            change.insert("to", to.cloned().unwrap_or(Json::Null));
            Json::Object(change)
        })
        .collect()
}

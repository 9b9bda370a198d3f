//! HISTORY: the versions of a grain by supersession, or of a (subject, relation) pair by time.
//!
//! A version comes after those that superseded it, whatever their creation times: two writes may
//! have the same millisecond, and clocks differ. Where supersession gives no order, the newest
//! creation time is first, then the smallest address. A circle of supersessions, which grains and
//! manifests may state, begins with its newest version, after those that superseded the circle.

use std::collections::{BTreeSet, HashMap};

use datafusion::logical_expr::{Expr, col, lit};
use datafusion::prelude::DataFrame;
use gristmill_schemas::json::{Json, Object};
use petgraph::Direction::Incoming;
use petgraph::algo::kosaraju_scc;
use petgraph::graphmap::DiGraphMap;

use super::columns::{ADDRESS, SCORE, instant, is_one_of};
use super::condition::namespace_filter;
use super::error::Result;
use super::grain_reader::{NEW, OLD};
use super::lifecycle::LifecycleStates;
use super::recall::unbound_parameter;
use super::{Answer, Hit, QueryRun, ResultEntry, response};
use crate::cal::ast::{History, NamespaceScope, Target, Value};
use crate::cal::limits::{MAX_CHAIN, MAX_HISTORY_VERSIONS};
use crate::cal::time::TimePoint;
use crate::cal::{CalError, Code};

/// Versions of a grain, and the supersessions between them.
pub(super) struct VersionChain {
    versions: BTreeSet<String>,
    /// Pairs of the old and the new version.
    links: BTreeSet<(String, String)>,
}

impl VersionChain {
    fn new(start: String) -> VersionChain {
        VersionChain {
            versions: BTreeSet::from([start]),
            links: BTreeSet::new(),
        }
    }

    /// Adds a supersession, and returns those of its ends that are new.
    fn add(&mut self, (old, new): (String, String)) -> Vec<String> {
        let ends = [old.clone(), new.clone()];
        self.links.insert((old, new));
        ends.into_iter()
            .filter(|end| self.versions.insert(end.clone()))
            .collect()
    }

    /// Returns false if the maximum was reached, so that there may be more versions.
    pub(super) fn is_complete(&self) -> bool {
        self.versions.len() < MAX_CHAIN
    }

    /// Returns the version that superseded `address`. Where the chain forks, it is the one with the
    /// smaller address.
    pub(super) fn successor(&self, address: &str) -> Option<&str> {
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
        let chain = self.chain(start).await?;
        let matched = self.reader.visible().await?;
        let matched = matched.filter(is_one_of(ADDRESS, &chain.versions))?;
        let scored = self.reader.scored_addresses(by_time(matched)?).await?;
        let total = scored.len() as u64;
        let mut newest = after_successors(scored, |scored| scored.0.as_str(), &chain.links);
        newest.truncate(MAX_HISTORY_VERSIONS);
        let hits = self.reader.hits(newest, None, &[]).await?;
        Ok(versions_answer(&hits, total))
    }

    /// Loads the versions linked with `start` by supersession, in both directions. The newest
    /// versions are only known once the whole chain is loaded.
    ///
    /// The cached lifecycle states give most links without a query. Queries find the rest: all
    /// branches of forks, and the links of a lake whose states aren't cached.
    pub(super) async fn chain(&self, start: String) -> Result<VersionChain> {
        let states = self.reader.lifecycle_states(false).await?;
        let mut chain = VersionChain::new(start.clone());
        let mut frontier = vec![start];
        while !frontier.is_empty() && chain.is_complete() {
            if let Some(states) = &states {
                frontier = self.cached_links(states, frontier, &mut chain).await?;
            }
            let links = self.visible_links(&frontier).await?;
            frontier = links.into_iter().flat_map(|link| chain.add(link)).collect();
        }
        Ok(chain)
    }

    /// Adds the versions that the cached states link with those of `frontier`. Returns `frontier`
    /// and what was added.
    async fn cached_links(
        &self,
        states: &LifecycleStates,
        frontier: Vec<String>,
        chain: &mut VersionChain,
    ) -> Result<Vec<String>> {
        // A session with a namespace first reaches all grains, and then filters the visible ones.
        let reached: Vec<String> = match self.reader.session.namespace {
            None => Vec::new(),
            Some(_) => {
                let mut known = chain.versions.clone();
                states.linked(frontier.clone(), &mut known, MAX_CHAIN, |_| true)
            }
        };
        let visible = self.reader.visible_among(reached).await?;
        let is_visible = |address: &str| {
            visible
                .as_ref()
                .is_none_or(|visible| visible.contains(address))
        };
        Ok(states.linked(frontier, &mut chain.versions, MAX_CHAIN, is_visible))
    }

    /// Queries the supersessions from and to `frontier` whose ends are both visible.
    async fn visible_links(&self, frontier: &[String]) -> Result<Vec<(String, String)>> {
        let links = self
            .reader
            .links(is_one_of(OLD, frontier).or(is_one_of(NEW, frontier)))
            .await?;
        let links: Vec<(String, String)> = links
            .into_iter()
            .filter_map(|(old, new)| Some((old, new?)))
            .collect();
        let ends = links
            .iter()
            .flat_map(|(old, new)| [old.clone(), new.clone()])
            .collect();
        Ok(match self.reader.visible_among(ends).await? {
            None => links,
            Some(visible) => links
                .into_iter()
                .filter(|(old, new)| visible.contains(old) && visible.contains(new))
                .collect(),
        })
    }

    async fn triple(
        &self,
        namespace: Option<&NamespaceScope>,
        subject: &Value,
        relation: &Value,
        as_of: Option<&str>,
    ) -> Result<Answer> {
        let session = self.reader.session;
        let mut filter = equals("subject", subject)?.and(equals("relation", relation)?);
        if let Some(scope) = namespace_filter(namespace, session.namespace.is_some()) {
            filter = filter.and(scope);
        }
        if let Some(text) = as_of {
            let point = TimePoint::parse(text)
                .ok_or_else(|| CalError::new(Code::E020, format!("\"{text}\" is not a time.")))?;
            let created_until = instant(point.resolve(session.now_ms));
            filter = filter.and(col("created_at").lt_eq(created_until));
        }
        self.newest_first(filter).await
    }

    /// Returns the number of rows of `matched`, the first `shown` of which are shown.
    async fn total(&self, matched: DataFrame, shown: usize) -> Result<u64> {
        Ok(match shown {
            MAX_HISTORY_VERSIONS => {
                let addresses = matched.select(vec![col(ADDRESS)])?;
                self.reader.count(addresses).await?
            }
            fewer => fewer as u64,
        })
    }

    /// Returns the visible grains that pass `filter`, newest first, up to the limit of HISTORY. The
    /// total counts all of them.
    async fn newest_first(&self, filter: Expr) -> Result<Answer> {
        let matched = self.reader.visible().await?.filter(filter)?;
        let page = by_time(matched.clone())?.limit(0, Some(MAX_HISTORY_VERSIONS))?;
        let scored = self.reader.scored_addresses(page).await?;
        let total = self.total(matched, scored.len()).await?;
        let hits = self.reader.hits(scored, None, &[]).await?;
        let link = |hit: &Hit| Some((hit.address().to_owned(), hit.superseded_by.clone()?));
        let links = hits.iter().filter_map(link).collect();
        Ok(versions_answer(
            &after_successors(hits, Hit::address, &links),
            total,
        ))
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

/// Returns the addresses of `grains` with a score, the newest first, then by address.
fn by_time(grains: DataFrame) -> Result<DataFrame> {
    let columns = vec![col(ADDRESS), lit(1.0_f64).alias(SCORE), col("created_at")];
    let order = vec![
        col("created_at").sort(false, false),
        col(ADDRESS).sort(true, false),
    ];
    Ok(grains.select(columns)?.sort(order)?)
}

/// Returns `versions` in their order, except that each one comes after those that superseded it.
/// `links` are pairs of the old and the new version. Versions of a circle of links are together, in
/// their order. Takes `O(n log n)` for n versions and links.
fn after_successors<T>(
    versions: Vec<T>,
    address_of: impl Fn(&T) -> &str,
    links: &BTreeSet<(String, String)>,
) -> Vec<T> {
    let graph = linked_places(&versions, address_of, links);
    // Circles, and single versions; each begins with its first.
    let mut groups = kosaraju_scc(&graph);
    let mut group_of = vec![0; versions.len()];
    for (number, group) in groups.iter_mut().enumerate() {
        group.sort_unstable();
        group.iter().for_each(|at| group_of[*at] = number);
    }
    // The number of links to versions of other groups that aren't placed yet.
    let mut waiting = vec![0_usize; groups.len()];
    for (old, new, ()) in graph.all_edges() {
        waiting[group_of[old]] += usize::from(group_of[old] != group_of[new]);
    }
    let free = groups
        .iter()
        .zip(&waiting)
        .filter(|(_, links)| **links == 0);
    let mut ready: BTreeSet<usize> = free.map(|(group, _)| group[0]).collect();
    let mut slots: Vec<Option<T>> = versions.into_iter().map(Some).collect();
    let mut ordered = Vec::with_capacity(slots.len());
    while let Some(first) = ready.pop_first() {
        let placed = group_of[first];
        for &at in &groups[placed] {
            ordered.extend(slots[at].take());
            let before = graph.neighbors_directed(at, Incoming);
            for group in before
                .map(|old| group_of[old])
                .filter(|group| *group != placed)
            {
                waiting[group] -= 1;
                if waiting[group] == 0 {
                    ready.insert(groups[group][0]);
                }
            }
        }
    }
    ordered
}

/// Returns the places of `versions`, and the links between them.
fn linked_places<T>(
    versions: &[T],
    address_of: impl Fn(&T) -> &str,
    links: &BTreeSet<(String, String)>,
) -> DiGraphMap<usize, ()> {
    let places: HashMap<&str, usize> = versions.iter().map(address_of).zip(0..).collect();
    let place = |address: &String| places.get(address.as_str()).copied();
    let known = links
        .iter()
        .filter_map(|(old, new)| place(old).zip(place(new)));
    let mut graph = DiGraphMap::from_edges(known);
    (0..versions.len()).for_each(|at| _ = graph.add_node(at));
    graph
}

fn versions_answer(hits: &[Hit], total: u64) -> Answer {
    Answer {
        results: hits.iter().map(version).collect(),
        total,
        ..Answer::default()
    }
}

/// Returns the comparison of a text column with a bound value.
fn equals(column: &str, value: &Value) -> Result<Expr> {
    match value {
        Value::Text(text) => Ok(col(column).eq(lit(text.as_str()))),
        Value::Parameter(parameter) => Err(unbound_parameter(parameter).into()),
        other => {
            let message = format!("\"{column}\" can't be {}.", other.kind());
            Err(CalError::new(Code::E020, message).into())
        }
    }
}

/// Returns the entry of a version, with the version that superseded it.
fn version(hit: &Hit) -> ResultEntry {
    let mut entry = response::plain_entry(hit);
    let successor = hit.superseded_by.clone().map_or(Json::Null, Json::from);
    entry.annotations.insert("superseded_by", successor);
    entry
}

/// Returns the fields that differ, by name, as `{field, from, to}`. A missing field is null.
fn changes(from: &Object<'static>, to: &Object<'static>) -> Vec<Json<'static>> {
    let names: BTreeSet<&str> = from.iter().chain(to.iter()).map(|(name, _)| name).collect();
    let changed = names.into_iter().filter_map(|name| {
        let (from, to) = (from.get(name), to.get(name));
        (from != to).then(|| change(name, from, to))
    });
    changed.collect()
}

fn change(name: &str, from: Option<&Json<'static>>, to: Option<&Json<'static>>) -> Json<'static> {
    let mut change = Object::new();
    change.insert("field", name.to_owned());
    change.insert("from", from.cloned().unwrap_or(Json::Null));
    change.insert("to", to.cloned().unwrap_or(Json::Null));
    Json::Object(change)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::testing::hit;

    fn link(old: &str, new: &str) -> (String, String) {
        (old.to_owned(), new.to_owned())
    }

    #[test]
    fn a_chain_returns_the_ends_that_are_new_to_it() {
        let mut chain = VersionChain::new("b".to_owned());
        assert_eq!(chain.add(link("a", "b")), ["a"]);
        assert_eq!(chain.add(link("b", "c")), ["c"]);
        assert!(chain.add(link("b", "c")).is_empty());
        assert_eq!(chain.versions.len(), 3);
    }

    #[test]
    fn the_successor_in_a_fork_has_the_smaller_address_and_the_newest_has_none() {
        let mut chain = VersionChain::new("a".to_owned());
        chain.add(link("a", "d"));
        chain.add(link("a", "c"));
        assert_eq!(chain.successor("a"), Some("c"));
        assert_eq!(chain.successor("c"), None);
        assert_eq!(chain.successor("b"), None);
    }

    #[test]
    fn a_chain_with_the_maximum_of_versions_may_be_incomplete() {
        let mut chain = VersionChain::new("start".to_owned());
        chain.versions = (1..MAX_CHAIN).map(|version| version.to_string()).collect();
        assert!(chain.is_complete());
        chain.add(link("1", "new"));
        assert!(!chain.is_complete());
    }

    #[test]
    fn versions_follow_their_successors_and_keep_their_order_otherwise() {
        let ordered = |versions: &[&str], links: &[(&str, &str)]| {
            let links = links.iter().map(|(old, new)| link(old, new)).collect();
            let versions = versions.iter().map(|version| (*version).to_owned());
            let versions: Vec<String> = versions.collect();
            after_successors(versions, String::as_str, &links).join(" ")
        };
        assert_eq!(ordered(&["a", "b", "c"], &[]), "a b c");
        assert_eq!(
            ordered(&["a", "b", "c"], &[("a", "b"), ("b", "c")]),
            "c b a"
        );
        // Both branches precede the version that they superseded.
        assert_eq!(
            ordered(&["b", "a", "c"], &[("a", "b"), ("a", "c")]),
            "b c a"
        );
        // Versions that aren't listed give no order.
        assert_eq!(ordered(&["a", "b"], &[("a", "x"), ("a", "a")]), "a b");
        // A circle begins with its first version, and those that it superseded follow.
        let circle = [("a", "b"), ("b", "a"), ("c", "a")];
        assert_eq!(ordered(&["c", "b", "a"], &circle), "b a c");
        assert_eq!(ordered(&["d", "b", "a", "c"], &circle), "d b a c");
        let two = [
            ("a", "b"),
            ("b", "a"),
            ("a", "c"),
            ("c", "d"),
            ("d", "c"),
            ("d", "e"),
        ];
        assert_eq!(ordered(&["a", "b", "c", "d", "e"], &two), "e c d a b");
        assert_eq!(ordered(&["b", "a", "d", "c"], &two[..5]), "d c b a");
    }

    #[test]
    fn changes_are_sorted_by_name_and_missing_fields_are_null() {
        let from = hit("01", r#"{"object":"tea","tags":["x"],"subject":"a"}"#);
        let to = hit("02", r#"{"object":"milk","subject":"a","confidence":1}"#);
        let changes = Json::Array(changes(&from.view.payload, &to.view.payload));
        assert_eq!(
            changes.to_string(),
            r#"[{"field":"confidence","from":null,"to":1},{"field":"object","from":"tea","to":"milk"},{"field":"tags","from":["x"],"to":null}]"#
        );
    }

    #[test]
    fn a_version_names_its_successor_or_null() {
        let newest = version(&hit("01", "{}"));
        assert_eq!(newest.annotations.get("superseded_by"), Some(&Json::Null));
    }
}

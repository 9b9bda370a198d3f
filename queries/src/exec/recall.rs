//! Plans RECALL as one DataFusion plan over `grains`.
//!
//! The plan narrows the grains by namespace, type, conditions and supersession, and then keeps the
//! address, the score and the keys that the stages need. Grains are fetched by address once the
//! answer is known. Subqueries and LETs with an extractor become joins of the same plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::logical_expr::{Expr, col, lit};
use datafusion::prelude::DataFrame;
use futures::FutureExt;
use futures::future::BoxFuture;
use gristmill_engine::text::{Scorer, Statistics, Terms};
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::Field as GrainField;

use super::answer::Hit;
use super::columns::{ADDRESS, BLOB, SCORE, is_lifecycle_field, key_name, single};
use super::condition::namespace_filter;
use super::error::Result;
use super::grain_reader::GrainReader;
use super::indexed_search::IndexedSearch;
use super::message_thread::ThreadPart;
use super::pipeline::{MESSAGE_ID, Pipeline, VALUE, stage_keys};
use super::rule::RuleTables;
use super::{blob_functions, condition, message_thread, search_statistics};
use crate::cal::ast::*;
use crate::cal::desugar::{Desugared, desugar};
use crate::cal::fields::{FieldKind, KnownField};
use crate::cal::vocabulary::Extractor;
use crate::cal::{CalError, Code};

/// Bindings of LETs.
#[derive(Clone, Default)]
pub(super) struct LetScope {
    /// Plans with the column [`VALUE`], of LETs with an extractor.
    pub(super) values: BTreeMap<String, DataFrame>,
    /// Grains, of LETs without one.
    pub(super) grains: BTreeMap<String, Arc<RecalledGrains>>,
}

/// Grains of an executed RECALL.
#[derive(Clone, Default)]
pub(super) struct RecalledGrains {
    /// The grains, in order.
    pub(super) hits: Vec<Hit>,
    /// Exact number of matches before LIMIT and OFFSET.
    pub(super) total: u64,
    /// The RECALL without shortcuts.
    pub(super) desugared: Recall,
}

/// A planned RECALL.
pub(super) struct RecallPlan {
    /// A row for every match: address, score and keys.
    pub(super) matched: DataFrame,
    /// The search terms.
    pub(super) terms: Option<Terms>,
    /// The matches of the search, if the full-text sidecars have all of them.
    pub(super) search: Option<IndexedSearch>,
    /// Names of the fields in conditions.
    pub(super) fields: Vec<String>,
    /// The stages, including those of shortcuts.
    pub(super) stages: Vec<Stage>,
    /// The RECALL without shortcuts.
    pub(super) desugared: Recall,
}

/// Plans RECALLs.
pub(super) struct RecallPlanner<'p, 'e> {
    pub(super) reader: &'p GrainReader<'e>,
    /// Plans without reading the store, for EXPLAIN and for rules of compliance packs. Where a plan
    /// depends on stored data, it is the one for the common case: ABOUT without its fallback, an
    /// address prefix as a range, a search with empty statistics.
    pub(super) explain_only: bool,
    /// The grains that a rule is about; `None` for all. Subqueries and LETs are about all.
    pub(super) scope: Option<RuleTables>,
}

impl<'p, 'e> RecallPlanner<'p, 'e> {
    /// Plans `recall`. ABOUT becomes a search if no grain has that subject.
    pub(super) async fn plan(&self, recall: &Recall, scope: &LetScope) -> Result<RecallPlan> {
        let Desugared {
            recall: desugared,
            fallback,
            thread_from,
            is_thread,
        } = desugar(recall, self.reader.session.user.as_deref())?;
        let of_address = match &thread_from {
            Some(address) => {
                Some(message_thread::thread_filter(self.reader, address, self.explain_only).await?)
            }
            None => None,
        };
        let thread = is_thread.then_some(ThreadPart { of_address });
        let planned = self
            .plan_desugared(desugared, thread.clone(), scope)
            .await?;
        match fallback {
            Some(fallback)
                if !self.explain_only && self.reader.is_empty(planned.matched.clone()).await? =>
            {
                self.plan_desugared(fallback, thread, scope).await
            }
            _ => Ok(planned),
        }
    }

    /// Plans the values that a RECALL with an extractor yields, in the column [`VALUE`].
    pub(super) fn values<'a>(
        &'a self,
        query: &'a Recall,
        extract: Extractor,
        scope: &'a LetScope,
    ) -> BoxFuture<'a, Result<DataFrame>> {
        async move {
            let mut query = query.clone();
            query.stages.push(Stage {
                kind: StageKind::Extract(extract),
                span: query.span,
            });
            let of_all = RecallPlanner {
                scope: None,
                ..*self
            };
            let planned = of_all.plan(&query, scope).await?;
            Pipeline::new(planned.matched)
                .apply_stages(&planned.stages)?
                .into_values()
        }
        .boxed()
    }

    async fn plan_desugared(
        &self,
        desugared: Recall,
        thread: Option<ThreadPart>,
        scope: &LetScope,
    ) -> Result<RecallPlan> {
        let keys = stage_keys(&desugared.stages);
        let hides_ended = !desugared.options.contains(&WithOption::Superseded);
        let mut frame = self.candidates(&desugared).await?;
        let mut has_ended = hides_ended;
        if hides_ended && let Some(current) = self.reader.without_ended(frame.clone())? {
            (frame, has_ended) = (current, false);
        }
        if let Some(thread) = thread.as_ref().and_then(|thread| thread.of_address.clone()) {
            frame = frame.filter(thread)?;
        }
        if reads_lifecycle(&desugared, &keys) {
            frame = match self.scope.map(|tables| tables.lifecycle) {
                Some(table) => self.reader.with_lifecycle_of(frame, table).await?,
                None => self.reader.with_lifecycle(frame, self.explain_only).await?,
            };
        }
        for condition in desugared.conditions.iter().filter(|one| is_filter(one)) {
            frame = self.apply_condition(frame, condition, scope).await?;
        }
        let search = search_text(&desugared.conditions);
        if search
            .as_ref()
            .is_some_and(|search| search.has_empty_search)
        {
            frame = frame.filter(lit(false))?;
        }
        let terms = search.map(|search| Terms::of(&search.words));
        let (mut score, mut indexed) = (lit(1.0_f64), None);
        if let Some(terms) = &terms {
            let statistics = self.statistics(terms).await?;
            if !has_ended && self.may_use_index(terms, &desugared) {
                let scorer = Scorer::new(&statistics);
                indexed = IndexedSearch::of(self.reader, terms, &scorer, frame.clone()).await?;
            }
            score = blob_functions::score(terms.clone(), statistics).call(vec![col(BLOB)]);
            frame = frame.filter(score.clone().is_not_null())?;
        }
        // Without masks, superseded grains are removed last, when few rows are left to look up.
        if has_ended {
            frame = self.reader.current(frame, self.explain_only).await?;
        }
        let mut columns = vec![col(ADDRESS), score.alias(SCORE)];
        columns.extend(keys.iter().map(|key| single(*key).alias(key_name(*key))));
        if thread.is_some() {
            columns.push(message_thread::message_id(self.reader)?.alias(MESSAGE_ID));
        }
        let matched = self.filter_by_score(frame.select(columns)?, &desugared.conditions)?;
        Ok(RecallPlan {
            matched,
            terms,
            search: indexed,
            fields: condition_fields(&desugared.conditions),
            stages: desugared.stages.clone(),
            desugared,
        })
    }

    /// Returns the visible grains of the RECALL's type and namespace.
    async fn candidates(&self, desugared: &Recall) -> Result<DataFrame> {
        let mut frame = match self.scope {
            Some(tables) => self.reader.visible_in(tables.grains_for(desugared)).await?,
            None => self.reader.visible().await?,
        };
        if let Some(grain_type) = desugared.grain_type {
            let byte = i16::from(grain_type as u8);
            frame = frame.filter(col(SystemColumn::TypeByte.name()).eq(lit(byte)))?;
        }
        let is_fixed = self.reader.session.namespace.is_some();
        match namespace_filter(desugared.namespace.as_ref(), is_fixed) {
            Some(filter) => Ok(frame.filter(filter)?),
            None => Ok(frame),
        }
    }

    async fn apply_condition(
        &self,
        frame: DataFrame,
        condition: &Condition,
        scope: &LetScope,
    ) -> Result<DataFrame> {
        match (&condition.field, &condition.test) {
            (Field::Known(KnownField::Namespace), Test::Compare(_, Value::Text(namespace))) => {
                // A session with a namespace overrides the one in the statement.
                match self.reader.session.namespace {
                    Some(_) => Ok(frame),
                    None => Ok(frame.filter(col("namespace").eq(lit(namespace.as_str())))?),
                }
            }
            (Field::Known(known), Test::Compare(_, Value::Text(text)))
                if known.spec().kind == FieldKind::Search =>
            {
                Ok(frame.filter(has_words(*known, text))?)
            }
            (Field::Known(KnownField::Hash), Test::Compare(_, Value::Hash(address)))
                if !self.explain_only =>
            {
                Ok(frame.filter(self.address_filter(address).await?)?)
            }
            (_, Test::In(InSet::Subquery(subquery))) => {
                let values = self
                    .values(&subquery.query, subquery.extract, scope)
                    .await?;
                condition::semi_join(frame, condition, values)
            }
            (_, Test::In(InSet::Values(values))) if values.iter().any(Value::is_parameter) => {
                let values = self.in_values(values, scope)?;
                condition::semi_join(frame, condition, values)
            }
            _ => match condition::filter(condition, self.reader.session.now_ms)? {
                Some(filter) => Ok(frame.filter(filter)?),
                None => Err(unsearchable(condition).into()),
            },
        }
    }

    /// Returns the filter for one address; a prefix is resolved first.
    async fn address_filter(&self, address: &Address) -> Result<Expr> {
        let resolved = match address.is_whole() {
            true => Some(address.digits().to_owned()),
            false => self.reader.look_up(address).await?,
        };
        Ok(resolved.map_or_else(|| lit(false), |address| col(ADDRESS).eq(lit(address))))
    }

    /// Returns literals and the values of LETs as one plan with the column [`VALUE`].
    fn in_values(&self, values: &[Value], scope: &LetScope) -> Result<DataFrame> {
        let mut literals = Vec::new();
        let mut plans = Vec::new();
        for value in values {
            match value {
                Value::Parameter(parameter) => {
                    let bound = scope
                        .values
                        .get(&parameter.name)
                        .ok_or_else(|| unbound_parameter(parameter))?;
                    plans.push(bound.clone().select(vec![col(VALUE)])?);
                }
                Value::Text(text) => literals.push(lit(text.as_str())),
                other => {
                    let message = format!("A list of texts can't hold {}.", other.kind());
                    return Err(CalError::new(Code::E020, message).into());
                }
            }
        }
        if !literals.is_empty() {
            plans.push(self.reader.values(literals)?);
        }
        let mut plans = plans.into_iter();
        let first = plans
            .next()
            .ok_or_else(|| CalError::new(Code::E002, "IN has no values."))?;
        plans.try_fold(first, |all, next| Ok(all.union(next)?))
    }

    /// Returns the statistics of all grains that the session may see, which weigh a search.
    async fn statistics(&self, terms: &Terms) -> Result<Statistics> {
        match self.explain_only {
            true => Ok(Statistics::new(terms.words().len())),
            false => search_statistics::search_statistics(self.reader, terms).await,
        }
    }

    /// Returns false for searches whose matches aren't known without their texts: with a condition
    /// on the score. Also for those with a condition that sidecars look up, which leaves few
    /// candidates, and for those of which values are extracted, which need all matches.
    fn may_use_index(&self, terms: &Terms, recall: &Recall) -> bool {
        let excluded = [
            KnownField::Score,
            KnownField::Subject,
            KnownField::Relation,
            KnownField::Object,
            KnownField::Hash,
        ];
        let is_excluded = |condition: &Condition| {
            let field = &condition.field;
            excluded.iter().any(|known| *field == (*known).into())
        };
        let is_extracted = |stage: &Stage| matches!(stage.kind, StageKind::Extract(_));
        !self.explain_only
            && !terms.is_empty()
            && !recall.conditions.iter().any(is_excluded)
            && !recall.stages.iter().any(is_extracted)
    }

    /// Applies the conditions on the score, which is a column of the plan only now.
    fn filter_by_score(&self, frame: DataFrame, conditions: &[Condition]) -> Result<DataFrame> {
        let on_score = conditions
            .iter()
            .filter(|condition| condition.field == KnownField::Score.into());
        let now_ms = self.reader.session.now_ms;
        on_score.into_iter().try_fold(frame, |frame, condition| {
            match condition::filter(condition, now_ms)? {
                Some(filter) => Ok(frame.filter(filter)?),
                None => Ok(frame),
            }
        })
    }
}

/// Returns true if conditions or sort keys need the lifecycle columns.
pub(super) fn reads_lifecycle(desugared: &Recall, keys: &[KnownField]) -> bool {
    let by_condition = |condition: &Condition| is_lifecycle_field(&condition.field);
    keys.iter().any(|key| is_lifecycle_field(&(*key).into()))
        || desugared.conditions.iter().any(by_condition)
}

/// Returns false for conditions on the score and for searches, which the plan handles separately.
fn is_filter(condition: &Condition) -> bool {
    let is_score = condition.field == KnownField::Score.into();
    !is_score && searched_text(condition).is_none()
}

fn searched_text(condition: &Condition) -> Option<&str> {
    match (&condition.field, &condition.test) {
        (Field::Known(KnownField::Query), Test::Compare(_, Value::Text(text))) => Some(text),
        _ => None,
    }
}

/// The searches of a RECALL as one.
#[derive(Debug, PartialEq)]
struct SearchText {
    /// The words of all searches.
    words: String,
    /// True if one of the searches has no word. Such a search matches nothing.
    has_empty_search: bool,
}

/// Joins all searches into one for all their words; `None` without a search.
fn search_text(conditions: &[Condition]) -> Option<SearchText> {
    let texts: Vec<&str> = conditions.iter().filter_map(searched_text).collect();
    (!texts.is_empty()).then(|| SearchText {
        words: texts.join(" "),
        has_empty_search: texts.iter().any(|text| Terms::of(text).is_empty()),
    })
}

fn unsearchable(condition: &Condition) -> CalError {
    let message = format!("\"{condition}\" can't be searched for.");
    CalError::new(Code::E020, message).at(condition.span)
}

pub(super) fn unbound_parameter(parameter: &Parameter) -> CalError {
    let message = format!("\"${}\" has no value that fits here.", parameter.name);
    CalError::new(Code::E008, message).at(parameter.span)
}

/// Returns whether the full-text field contains all words of `text`.
fn has_words(field: KnownField, text: &str) -> Expr {
    let function = blob_functions::has_words(Terms::of(text), searched_fields(field));
    function.call(vec![col(BLOB)])
}

/// Returns the grain fields that a full-text field of CAL covers.
fn searched_fields(field: KnownField) -> Vec<GrainField> {
    match field {
        KnownField::Content => vec![GrainField::Content, GrainField::ContentBlocks],
        KnownField::Plan => vec![GrainField::Plan],
        KnownField::Steps => vec![GrainField::Steps],
        KnownField::Premises => vec![GrainField::Premises],
        _ => Vec::new(),
    }
}

/// Returns the names of the fields in conditions, each once, without `namespace`.
fn condition_fields(conditions: &[Condition]) -> Vec<String> {
    let mut fields: Vec<String> = Vec::new();
    for condition in conditions
        .iter()
        .filter(|condition| condition.field != KnownField::Namespace.into())
    {
        let name = condition.field.to_string();
        if !fields.contains(&name) {
            fields.push(name);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::exec::lifecycle::LifecycleCache;
    use crate::exec::session::Session;
    use crate::exec::testing::recall;

    #[test]
    fn several_searches_are_one_for_all_their_words() {
        let one = recall("RECALL WHERE query = \"green tea\" AND query = \"morning\"");
        let text = search_text(&one.conditions).unwrap();
        assert_eq!(
            (text.words.as_str(), text.has_empty_search),
            ("green tea morning", false)
        );
        assert_eq!(
            search_text(&recall("RECALL WHERE subject = \"a\"").conditions),
            None
        );
    }

    #[test]
    fn a_search_without_words_in_conjunction_with_another_matches_nothing() {
        let one = recall("RECALL WHERE query = \"tea\" AND query = \"!?\"");
        assert!(search_text(&one.conditions).unwrap().has_empty_search);
    }

    #[test]
    fn conditions_on_the_score_and_on_looked_up_fields_need_the_texts() {
        let (context, session) = (SessionContext::new(), Session::at(0));
        let lifecycle = LifecycleCache::default();
        let reader = GrainReader::new(&context, &session, &lifecycle);
        let may_use_index = |explain_only: bool, conditions: &str| {
            let planner = RecallPlanner {
                reader: &reader,
                explain_only,
                scope: None,
            };
            let one = recall(&format!("RECALL WHERE query = \"tea\" AND {conditions}"));
            planner.may_use_index(&Terms::of("tea"), &one)
        };
        assert!(may_use_index(false, "user_id = \"a\""));
        assert!(!may_use_index(true, "user_id = \"a\""));
        assert!(!may_use_index(false, "score > 0.5"));
        assert!(!may_use_index(false, "subject = \"a\""));
        assert!(!may_use_index(false, "user_id = \"a\" | SUBJECTS"));
    }

    #[test]
    fn lifecycle_columns_are_added_for_conditions_and_for_sort_keys() {
        let reads = |text: &str| {
            let one = recall(text);
            reads_lifecycle(&one, &stage_keys(&one.stages))
        };
        assert!(reads("RECALL WHERE contradicted = TRUE"));
        assert!(reads("RECALL | GROUP BY verification_status"));
        assert!(!reads("RECALL WHERE subject = \"a\" | ORDER BY time DESC"));
    }

    #[test]
    fn matched_fields_are_named_once_and_without_the_namespace() {
        let one = recall(
            "RECALL WHERE confidence >= 0.5 AND namespace = \"n\" AND confidence <= 0.9 AND \
             subject = \"a\"",
        );
        assert_eq!(condition_fields(&one.conditions), ["confidence", "subject"]);
    }
}

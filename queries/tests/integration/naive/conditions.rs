//! The grains that satisfy the conditions of a RECALL.

use gristmill_engine::text::text_fields;
use gristmill_queries::cal::ast::*;
use gristmill_queries::cal::fields::{FieldKind, KnownField};
use gristmill_queries::cal::time::TimePoint;
use gristmill_queries::render::RenderGrain;
use gristmill_queries::render::field_value::value_of;
use gristmill_schemas::json::Json;

use super::comparison::{compare, contains_words, text};
use super::{Result, Scope, Scored, Session, Stored};

impl Session<'_> {
    pub(super) fn candidates(
        &self,
        recall: &Recall,
        thread: Option<&Address>,
        scope: &Scope,
    ) -> Result<Scored> {
        let session = match thread {
            Some(address) => {
                let message = self.find(&Target::Address(address.clone()))?;
                Some(self.grains[message].view.field("session_id").cloned())
            }
            None => None,
        };
        let with_superseded = recall.options.contains(&WithOption::Superseded);
        let mut found = Vec::new();
        for (at, grain) in self.grains.iter().enumerate() {
            let in_thread = session
                .as_ref()
                .is_none_or(|session| grain.view.field("session_id") == session.as_ref());
            let shown = self.is_visible(grain)
                && recall
                    .grain_type
                    .is_none_or(|grain_type| grain_type == grain.view.grain_type)
                && (with_superseded || grain.superseded_by.is_none())
                && in_thread;
            if !shown {
                continue;
            }
            let mut holds = true;
            for condition in &recall.conditions {
                holds = holds && self.holds(grain, condition, scope)?;
            }
            if holds {
                found.push((at, 1.0));
            }
        }
        Ok(found)
    }

    fn holds(&self, grain: &Stored, condition: &Condition, scope: &Scope) -> Result<bool> {
        let Field::Known(known) = &condition.field else {
            return self.holds_value(grain, condition, scope);
        };
        match known {
            KnownField::Namespace => Ok(true),
            // Without a search, every score is 1.
            KnownField::Score => {
                let Test::Compare(comparison, literal) = &condition.test else {
                    panic!("score")
                };
                Ok(compare(
                    &condition.field,
                    &Json::from(1_i64),
                    &[],
                    *comparison,
                    literal,
                ))
            }
            _ if known.spec().kind == FieldKind::Search => {
                let Test::Compare(_, Value::Text(words)) = &condition.test else {
                    panic!("search")
                };
                let all = text_fields(grain.view.grain_type)
                    .iter()
                    .map(|field| field.name());
                let names = if *known == KnownField::Query {
                    all.collect()
                } else {
                    vec![known.name()]
                };
                Ok(contains_words(&grain.view, &names, words))
            }
            _ => self.holds_value(grain, condition, scope),
        }
    }

    fn holds_value(&self, grain: &Stored, condition: &Condition, scope: &Scope) -> Result<bool> {
        let Some(value) = value_of(&grain.view, &condition.field) else {
            return Ok(matches!(condition.test, Test::Exclude(_)));
        };
        let is_time = condition
            .field
            .spec()
            .is_some_and(|spec| spec.kind == FieldKind::Time);
        let time = |value: &Value| TimePoint::of(value).unwrap().resolve(self.now_ms);
        let members: Vec<String> = match &*value {
            Json::Array(items) => items
                .iter()
                .map(|item| item.as_str().unwrap_or_default().to_owned())
                .collect(),
            // The column contains the canonical JSON of an object that is a map.
            map @ Json::Object(_) if matches!(condition.field, Field::Known(_)) => vec![text(map)],
            other => other.as_str().map(str::to_owned).into_iter().collect(),
        };
        Ok(match &condition.test {
            Test::Compare(_, literal) if is_time => value.as_i64().unwrap() >= time(literal),
            Test::Between(low, high) if is_time => {
                (time(low)..=time(high)).contains(&value.as_i64().unwrap())
            }
            Test::Compare(comparison, literal) => {
                compare(&condition.field, &value, &members, *comparison, literal)
            }
            Test::Between(low, high) => {
                compare(&condition.field, &value, &members, Comparison::AtLeast, low)
                    && compare(&condition.field, &value, &members, Comparison::AtMost, high)
            }
            Test::In(InSet::Values(values)) => values.iter().any(|literal| match literal {
                Value::Parameter(parameter) => scope.values[&parameter.name]
                    .iter()
                    .any(|one| members.contains(one)),
                literal => compare(
                    &condition.field,
                    &value,
                    &members,
                    Comparison::Equal,
                    literal,
                ),
            }),
            Test::In(InSet::Subquery(subquery)) => {
                let grains = self.recall_unlimited(&subquery.query, scope)?;
                self.extract(&grains, subquery.extract)
                    .iter()
                    .any(|one| members.contains(one))
            }
            Test::Include(values) => values
                .iter()
                .all(|one| members.iter().any(|member| one.as_text() == Some(member))),
            Test::Exclude(values) => !values
                .iter()
                .any(|one| members.iter().any(|member| one.as_text() == Some(member))),
            Test::Is(category) => category
                .relations()
                .iter()
                .any(|one| members.iter().any(|member| member == one)),
        })
    }
}

//! A reference executor of CAL, simple and slow: it reads every grain for every condition.
//!
//! Tests compare plans with it, and use it to render the grains of the conformance cases. It has no
//! ADD, SUPERSEDE and REVERT.
//!
//! It is one file so that the reference can be read from top to bottom.

use std::collections::BTreeMap;

use gristmill_engine::text::text_fields;
use gristmill_queries::cal::ast::*;
use gristmill_queries::cal::fields::{FieldKind, KnownField, stored_goal_state};
use gristmill_queries::cal::limits::DEFAULT_LIMIT;
use gristmill_queries::cal::time::TimePoint;
use gristmill_queries::cal::vocabulary::{Direction, Extractor, Format, SetOperator};
use gristmill_queries::cal::{CalError, Code, GrainType, Number, desugar};
use gristmill_queries::render::field_value::value_of;
use gristmill_queries::render::{
    AssemblyInput, CustomTemplate, GrainEntry, GrainView, RenderGrain, RenderStyle, SourceInput,
    assemble, render_recall,
};
use gristmill_schemas::json::{Json, Object};

/// A grain of the store.
pub struct Stored {
    pub key: String,
    pub view: GrainView<'static>,
    pub superseded_by: Option<String>,
}

/// All grains, and the session.
pub struct Store {
    pub grains: Vec<Stored>,
    pub now_ms: i64,
    pub namespace: String,
    pub user: Option<String>,
}

/// The result of a query.
#[derive(Debug, Default)]
pub struct Answer {
    /// Indexes of the grains, in order.
    pub grains: Vec<usize>,
    pub total: usize,
    pub value: Option<Json<'static>>,
    pub rows: Vec<Object<'static>>,
    pub groups: Option<BTreeMap<String, Vec<usize>>>,
    pub text: Option<String>,
    pub branch: Option<usize>,
    pub source_counts: BTreeMap<String, usize>,
}

impl Answer {
    /// Returns true if the pipeline has a result: a grain, a value, a count or a group.
    fn has_grains(&self) -> bool {
        let has_value = match &self.value {
            None | Some(Json::Null) => false,
            Some(Json::Array(values)) => !values.is_empty(),
            Some(value) => value.as_u64() != Some(0),
        };
        has_value
            || !self.grains.is_empty()
            || self
                .groups
                .as_ref()
                .is_some_and(|groups| !groups.is_empty())
    }
}

type Lists = BTreeMap<String, Vec<String>>;
type Scored = Vec<(usize, f64)>;
type Result<T> = std::result::Result<T, CalError>;

/// Bindings of a query: lists of values and lists of grains.
#[derive(Default, Clone)]
struct Scope {
    values: Lists,
    grains: BTreeMap<String, Vec<usize>>,
}

impl Store {
    /// Executes the query for a session of `user`.
    pub fn run(&self, query: &Query, user: Option<&str>) -> Result<Answer> {
        Session { store: self, user }.run(query)
    }
}

/// One execution.
struct Session<'s> {
    store: &'s Store,
    user: Option<&'s str>,
}

impl std::ops::Deref for Session<'_> {
    type Target = Store;

    fn deref(&self) -> &Store {
        self.store
    }
}

impl Session<'_> {
    fn run(&self, query: &Query) -> Result<Answer> {
        let scope = self.bindings(&query.lets, &Scope::default())?;
        match &query.statement {
            Statement::Recall(recall) => self.recall(recall, &scope),
            Statement::Assemble(assemble) => self.assemble(assemble, &scope),
            Statement::SetOperation(operation) => {
                let scored = ordered(self.store, self.set_operation(operation, &scope)?);
                let grains: Vec<usize> = scored.iter().map(|(at, _)| *at).collect();
                Ok(Answer {
                    total: grains.len(),
                    grains,
                    ..Answer::default()
                })
            }
            Statement::Coalesce(coalesce) => {
                for (branch, recall) in coalesce.branches.iter().enumerate() {
                    let answer = self.recall(recall, &scope)?;
                    if answer.has_grains() {
                        return Ok(Answer {
                            branch: Some(branch),
                            ..answer
                        });
                    }
                }
                Ok(Answer::default())
            }
            Statement::Exists(exists) => Ok(Answer {
                value: Some(Json::from(self.find(&exists.target).is_ok())),
                ..Answer::default()
            }),
            Statement::History(history) => self.history(history),
            other => panic!("the naive executor doesn't run {}", other.name()),
        }
    }

    fn bindings(&self, lets: &[Let], outer: &Scope) -> Result<Scope> {
        let mut scope = outer.clone();
        for binding in lets {
            let answer = self.recall_unlimited(&binding.query, &scope)?;
            match binding.extract {
                Some(extract) => {
                    scope
                        .values
                        .insert(binding.name.clone(), self.extract(&answer, extract));
                }
                None => {
                    scope.grains.insert(
                        binding.name.clone(),
                        self.recall(&binding.query, &scope)?.grains,
                    );
                }
            }
        }
        Ok(scope)
    }

    /// Returns the grain of a target.
    fn find(&self, target: &Target) -> Result<usize> {
        let Target::Address(address) = target else {
            panic!("unbound target")
        };
        let visible = self
            .grains
            .iter()
            .enumerate()
            .filter(|(_, grain)| self.is_visible(grain));
        let mut found = visible
            .filter(|(_, grain)| grain.view.address.starts_with(address.digits()))
            .map(|(at, _)| at);
        found
            .next()
            .ok_or_else(|| CalError::new(Code::E046, "not found"))
    }

    fn is_visible(&self, grain: &Stored) -> bool {
        grain.view.field("namespace").and_then(Json::as_str) == Some(self.namespace.as_str())
    }

    fn history(&self, history: &History) -> Result<Answer> {
        let mut grains: Vec<usize> = match history {
            History::Versions { target, .. } => {
                let start = self.find(target)?;
                let linked = |older: usize, newer: usize| {
                    self.grains[older].superseded_by.as_deref()
                        == Some(self.grains[newer].view.address.as_str())
                };
                let mut chain = vec![start];
                loop {
                    let next = (0..self.grains.len()).find(|at| {
                        !chain.contains(at)
                            && chain
                                .iter()
                                .any(|member| linked(*at, *member) || linked(*member, *at))
                    });
                    match next {
                        Some(next) => chain.push(next),
                        None => break chain,
                    }
                }
            }
            History::Triple {
                subject,
                relation,
                as_of,
                ..
            } => {
                let is = |at: &usize, name: &str, value: &Value| {
                    self.grains[*at].view.field(name).and_then(Json::as_str) == value.as_text()
                };
                let until = as_of
                    .as_deref()
                    .map(|text| TimePoint::parse(text).unwrap().resolve(self.now_ms));
                let all = (0..self.grains.len()).filter(|at| self.is_visible(&self.grains[*at]));
                all.filter(|at| is(at, "subject", subject) && is(at, "relation", relation))
                    .filter(|at| {
                        until.is_none_or(|until| self.grains[*at].view.created_at() <= until)
                    })
                    .collect()
            }
        };
        grains.sort_by_key(|at| {
            let view = &self.grains[*at].view;
            (std::cmp::Reverse(view.created_at()), view.address.clone())
        });
        Ok(Answer {
            total: grains.len(),
            grains,
            ..Answer::default()
        })
    }

    fn set_operation(&self, operation: &SetOperation, scope: &Scope) -> Result<Scored> {
        let side = |operand: &SetOperand| {
            let scope = self.bindings(&operand.lets, scope)?;
            match &operand.body {
                SetBody::Recall(recall) => {
                    let answer = self.recall(recall, &scope)?;
                    Ok(answer.grains.into_iter().map(|at| (at, 1.0)).collect())
                }
                SetBody::SetOperation(inner) => self.set_operation(inner, &scope),
            }
        };
        let (left, right): (Scored, Scored) = (side(&operation.left)?, side(&operation.right)?);
        let score = |list: &Scored, at: usize| {
            list.iter()
                .find(|(one, _)| *one == at)
                .map(|(_, score)| *score)
        };
        Ok(match operation.operator {
            SetOperator::Union => {
                let all = left
                    .iter()
                    .chain(right.iter().filter(|(at, _)| score(&left, *at).is_none()));
                all.map(|&(at, own)| (at, own.max(score(&right, at).unwrap_or(own))))
                    .collect()
            }
            SetOperator::Intersect => left
                .iter()
                .filter_map(|&(at, own)| Some((at, own.min(score(&right, at)?))))
                .collect(),
            SetOperator::Except => left
                .iter()
                .copied()
                .filter(|(at, _)| score(&right, *at).is_none())
                .collect(),
        })
    }

    fn recall(&self, recall: &Recall, scope: &Scope) -> Result<Answer> {
        self.recall_with(recall, scope, true)
    }

    fn recall_unlimited(&self, recall: &Recall, scope: &Scope) -> Result<Vec<usize>> {
        Ok(self.recall_with(recall, scope, false)?.grains)
    }

    fn recall_with(&self, recall: &Recall, scope: &Scope, limited: bool) -> Result<Answer> {
        let plain = desugar(recall, self.user)?;
        let mut found = self.candidates(&plain.recall, plain.thread_from.as_ref(), scope)?;
        if let Some(fallback) = plain.fallback.as_ref().filter(|_| found.is_empty()) {
            found = self.candidates(fallback, plain.thread_from.as_ref(), scope)?;
        }
        let total = found.len();
        let found = ordered(self.store, found)
            .into_iter()
            .map(|(at, _)| at)
            .collect();
        let mut answer = self.stages(&plain.recall.stages, found, limited);
        answer.total = total;
        if let Some(format) = recall.format {
            answer.text = Some(self.render(&plain.recall, &answer.grains, format));
        }
        Ok(answer)
    }

    fn render(&self, recall: &Recall, grains: &[usize], format: Format) -> String {
        let style = RenderStyle::new(self.now_ms, &recall.options, None);
        let entry =
            |at: &usize| GrainEntry::new(&self.grains[*at].view, recall.projection(), &style);
        render_recall(
            &grains.iter().map(entry).collect::<Vec<_>>(),
            format,
            &style,
        )
    }

    fn candidates(
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

    fn extract(&self, grains: &[usize], extract: Extractor) -> Vec<String> {
        let mut values: Vec<String> = Vec::new();
        for at in grains {
            let grain = &self.grains[*at].view;
            let of_belief = |name| {
                grain
                    .field(name)
                    .filter(|_| grain.grain_type == GrainType::Belief)
                    .map(text)
            };
            let value = match extract {
                Extractor::Subjects => of_belief("subject"),
                Extractor::Objects => of_belief("object"),
                Extractor::Hashes => Some(format!("sha256:{}", grain.address)),
            };
            values.extend(value.filter(|value| !values.contains(value)));
        }
        values
    }

    fn stages(&self, stages: &[Stage], mut grains: Vec<usize>, limited: bool) -> Answer {
        let mut answer = Answer::default();
        let mut values: Option<Vec<String>> = None;
        let mut bounded = false;
        let mut chosen: Option<Vec<Field>> = None;
        for stage in stages {
            match &stage.kind {
                StageKind::OrderBy(field, direction) => self.sort(&mut grains, field, *direction),
                StageKind::Limit(count) => {
                    bounded = true;
                    grains.truncate(*count as usize);
                    values
                        .iter_mut()
                        .for_each(|values| values.truncate(*count as usize));
                }
                StageKind::Offset(Offset::Count(count)) => {
                    let skip = |length: usize| (*count as usize).min(length);
                    grains.drain(..skip(grains.len()));
                    values
                        .iter_mut()
                        .for_each(|values| drop(values.drain(..skip(values.len()))));
                }
                StageKind::Offset(Offset::Parameter(_)) => panic!("unbound"),
                StageKind::Count => {
                    answer.value = Some(Json::from(
                        values.as_ref().map_or(grains.len(), Vec::len) as u64
                    ));
                    return answer;
                }
                StageKind::First if values.is_some() => {
                    let first = values.and_then(|values| values.into_iter().next());
                    answer.value = Some(first.map_or(Json::Null, Json::from));
                    return answer;
                }
                StageKind::First => {
                    grains.truncate(1);
                    bounded = true;
                }
                StageKind::Extract(extract) => values = Some(self.extract(&grains, *extract)),
                StageKind::GroupBy(field) => {
                    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
                    for at in grains {
                        if let Some(value) = value_of(&self.grains[at].view, field) {
                            groups.entry(text(&value)).or_default().push(at);
                        }
                    }
                    answer.groups = Some(groups);
                    return answer;
                }
                StageKind::Select(fields) => {
                    let before = chosen.take();
                    let kept = |field: &Field| {
                        before
                            .as_ref()
                            .is_none_or(|before: &Vec<Field>| before.contains(field))
                    };
                    chosen = Some(fields.iter().filter(|field| kept(field)).cloned().collect());
                }
                StageKind::Project(_) => {}
            }
        }
        if let Some(values) = values {
            answer.value = Some(Json::Array(values.into_iter().map(Json::from).collect()));
        } else {
            if limited && !bounded {
                grains.truncate(DEFAULT_LIMIT as usize);
            }
            answer.rows = chosen
                .map(|fields| grains.iter().map(|at| self.row(*at, &fields)).collect())
                .unwrap_or_default();
            answer.grains = grains;
        }
        answer
    }

    fn row(&self, at: usize, fields: &[Field]) -> Object<'static> {
        let view = &self.grains[at].view;
        let cell = |field: &Field| {
            Some((
                field.to_string(),
                value_of(view, field)?.into_owned().into_owned(),
            ))
        };
        fields.iter().filter_map(cell).collect()
    }

    fn sort(&self, grains: &mut [usize], field: &Field, direction: Direction) {
        grains.sort_by(|left, right| {
            let [left, right] = [left, right].map(|at| &self.grains[*at].view);
            let by_value = match (value_of(left, field), value_of(right, field)) {
                (Some(left), Some(right)) => {
                    let order = order(&left, &right);
                    if direction == Direction::Descending {
                        order.reverse()
                    } else {
                        order
                    }
                }
                (left, right) => left.is_none().cmp(&right.is_none()),
            };
            by_value.then_with(|| left.address.cmp(&right.address))
        });
    }

    fn assemble(&self, statement: &Assemble, scope: &Scope) -> Result<Answer> {
        let found: Vec<Vec<usize>> = statement
            .sources
            .iter()
            .map(|source| match &source.body {
                SourceBody::Recall(recall) => Ok(self.recall(recall, scope)?.grains),
                SourceBody::Binding(parameter) => Ok(scope.grains[&parameter.name].clone()),
            })
            .collect::<Result<_>>()?;
        let views: Vec<Vec<&GrainView>> = found
            .iter()
            .map(|grains| grains.iter().map(|at| &self.grains[*at].view).collect())
            .collect();
        let inline = match &statement.format {
            Some(FormatSpec::Inline(sections)) => Some(CustomTemplate::new(sections, None)?),
            _ => None,
        };
        let sources = statement
            .sources
            .iter()
            .zip(&views)
            .map(|(source, grains)| SourceInput::of(source, grains));
        let input = AssemblyInput::of(statement, sources.collect(), inline.as_ref(), self.now_ms);
        let assembled = assemble(&input);
        let labels = statement
            .sources
            .iter()
            .map(|source| source.label.clone().unwrap_or_default());
        Ok(Answer {
            grains: assembled
                .grains
                .iter()
                .map(|placed| found[placed.source][placed.grain])
                .collect(),
            source_counts: labels
                .zip(assembled.sources.iter().map(|source| source.included))
                .collect(),
            text: Some(assembled.text),
            ..Answer::default()
        })
    }
}

fn text(value: &Json) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_canonical_string(), str::to_owned)
}

fn ordered(store: &Store, mut scored: Scored) -> Scored {
    scored.sort_by(|left, right| {
        let address = |at: usize| &store.grains[at].view.address;
        right
            .1
            .total_cmp(&left.1)
            .then_with(|| address(left.0).cmp(address(right.0)))
    });
    scored
}

fn order(left: &Json, right: &Json) -> std::cmp::Ordering {
    match (number(left), number(right)) {
        (Some(left), Some(right)) => left.compare(&right),
        _ => text(left).cmp(&text(right)),
    }
}

fn number(value: &Json) -> Option<Number> {
    Number::from_json(value.as_number()?)
}

fn compare(
    field: &Field,
    value: &Json,
    members: &[String],
    comparison: Comparison,
    literal: &Value,
) -> bool {
    use std::cmp::Ordering::*;
    let is_domain = matches!(field, Field::Domain(_));
    let order = match literal {
        Value::Number(literal) => number(value).map(|number| number.compare(literal)),
        Value::Boolean(literal) => value.as_bool().map(|value| value.cmp(literal)),
        Value::Hash(address) => Some(if text(value).starts_with(&address.to_string()) {
            Equal
        } else {
            Less
        }),
        Value::Text(literal) if is_domain && value.as_array().is_none() => {
            value.as_str().map(|text| text.cmp(literal))
        }
        Value::Text(literal) => {
            let literal = match field {
                Field::Known(KnownField::GoalState) => stored_goal_state(literal),
                Field::Known(KnownField::DependsOn) => {
                    literal.strip_prefix("sha256:").unwrap_or(literal)
                }
                _ => literal,
            };
            Some(if members.iter().any(|member| member == literal) {
                Equal
            } else {
                Less
            })
        }
        _ => None,
    };
    if is_domain && order.is_none() {
        // A value of another type.
        return comparison == Comparison::NotEqual;
    }
    order.is_some_and(|order| match comparison {
        Comparison::Equal => order == Equal,
        Comparison::NotEqual => order != Equal,
        Comparison::AtLeast => order != Less,
        Comparison::AtMost => order != Greater,
        Comparison::Greater => order == Greater,
        Comparison::Less => order == Less,
    })
}

/// Returns true if these fields of the grain contain all words, and there is at least one word.
fn contains_words(view: &GrainView, names: &[&str], words: &str) -> bool {
    let split = |text: &str| -> Vec<String> {
        let words = text
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let mut all = Vec::new();
    for name in names {
        let Some(value) = view.field(name) else {
            continue;
        };
        match (*name, value.as_str()) {
            ("relation", Some(relation)) => all.extend(split(
                relation.split_once(':').map_or(relation, |(_, rest)| rest),
            )),
            (_, Some(text)) => all.extend(split(text)),
            (_, None) => all.extend(split(&text(value))),
        }
    }
    let wanted = split(words);
    !wanted.is_empty() && wanted.iter().all(|word| all.contains(word))
}

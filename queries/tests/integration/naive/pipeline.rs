//! The stages after a RECALL: order, limits, groups, extracted values.

use std::collections::BTreeMap;

use gristmill_queries::cal::GrainType;
use gristmill_queries::cal::ast::*;
use gristmill_queries::cal::limits::DEFAULT_LIMIT;
use gristmill_queries::cal::vocabulary::{Direction, Extractor};
use gristmill_queries::render::RenderGrain;
use gristmill_queries::render::field_value::value_of;
use gristmill_schemas::json::{Json, Object};

use super::comparison::{order, text};
use super::{Answer, Session};

impl Session<'_> {
    pub(super) fn extract(&self, grains: &[usize], extract: Extractor) -> Vec<String> {
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

    pub(super) fn stages(&self, stages: &[Stage], mut grains: Vec<usize>, limited: bool) -> Answer {
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
}

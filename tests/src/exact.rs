//! Exact answers: counts, aggregates and pages of a lake of any size, by CAL and SQL, compared with
//! a pass over every grain of the files that the lake was made from.
//!
//! For any LIMIT a count is that of all matches and a page the first rows of the whole order. The
//! files are read without the engine, so both sides share only the codec.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::error::Error;
use std::path::Path;

use arrow::util::display::array_value_to_string;
use gristmill_queries::cal::{Bindings, Options, TypeName};
use gristmill_queries::exec::Executor;
use gristmill_queries::sql::SessionContext;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{Container, ContainerLimits};
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, Field, Grain, GrainType, Payload,
};
use gristmill_schemas::json::Json;
use rand::prelude::*;
use rand::rngs::StdRng;

/// Fields of a grain that questions use.
#[derive(Debug, Clone)]
struct Row {
    address: ContentAddress,
    kind: GrainType,
    subject: Option<Box<str>>,
    relation: Option<Box<str>>,
    confidence: Option<f64>,
    superseded: bool,
}

/// The grains of some containers, by address.
#[derive(Debug)]
pub struct Corpus(Vec<Row>);

/// A question in CAL or SQL, and its answer by a pass over every grain, one line per row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The statement.
    pub text: String,
    /// True for CAL, false for SQL.
    pub is_cal: bool,
    /// The expected answer.
    pub wanted: Vec<String>,
}

impl Corpus {
    /// Reads the grains of the containers in `folder`, with the state in their manifests.
    ///
    /// # Errors
    /// If a file can't be read or isn't a container of grains.
    pub fn read(folder: &Path) -> Result<Corpus, Box<dyn Error>> {
        let mut rows = Vec::new();
        let mut ended: HashSet<ContentAddress> = HashSet::new();
        for file in std::fs::read_dir(folder)? {
            let container =
                Container::open(std::fs::read(file?.path())?, ContainerLimits::default())?;
            let states = container
                .manifest()
                .into_iter()
                .flat_map(|manifest| &manifest.entries);
            let is_over = |state: &gristmill_schemas::container::IndexState| {
                state.superseded_by.is_some() || state.system_valid_to.is_some()
            };
            ended.extend(
                states
                    .filter(|(_, state)| is_over(state))
                    .map(|(address, _)| *address),
            );
            for number in 0..container.len() {
                rows.push(row(container.grain(number).ok_or("a grain is missing")?)?);
            }
        }
        rows.iter_mut()
            .for_each(|row| row.superseded = ended.contains(&row.address));
        rows.sort_unstable_by_key(|row| row.address);
        rows.dedup_by_key(|row| row.address);
        Ok(Corpus(rows))
    }

    /// Number of grains.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no grains.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `count` random questions, chosen by `seed`.
    pub fn questions(&self, count: usize, seed: u64) -> Vec<Question> {
        let mut random = StdRng::seed_from_u64(seed);
        (0..count).map(|_| self.question(&mut random)).collect()
    }

    fn question(&self, random: &mut StdRng) -> Question {
        let condition = Condition::random(self, random);
        let limit = *[1, 7, 20, 100, 1_000].choose(random).unwrap_or(&1);
        let offset = *[0, 0, 1, 50, 5_000].choose(random).unwrap_or(&0);
        let all: Vec<&Row> = self.0.iter().filter(|row| condition.passes(row)).collect();
        let current: Vec<&Row> = all.iter().copied().filter(|row| !row.superseded).collect();
        let recall = condition.cal();
        let of = |is_cal: bool, text: String, wanted: Vec<String>| Question {
            text,
            is_cal,
            wanted,
        };
        match random.random_range(0..10) {
            0 => of(
                true,
                format!("{recall} | COUNT"),
                vec![current.len().to_string()],
            ),
            1 => of(
                true,
                format!("{recall} | LIMIT {limit}"),
                page(&current, 0, limit),
            ),
            2 => of(
                true,
                format!("{recall} WITH superseded | LIMIT {limit}"),
                page(&all, 0, limit),
            ),
            3 => of(
                true,
                format!("{recall} | OFFSET {offset} | LIMIT {limit}"),
                page(&current, offset, limit),
            ),
            4 => {
                let text = format!("{recall} | ORDER BY confidence DESC | LIMIT {limit}");
                of(true, text, page(&most_confident(current), 0, limit))
            }
            5 => {
                let of_beliefs = Condition {
                    kind: Some(GrainType::Belief),
                    ..condition
                };
                let matches = self
                    .0
                    .iter()
                    .filter(|row| of_beliefs.passes(row) && !row.superseded);
                let subjects: BTreeSet<_> =
                    matches.filter_map(|row| row.subject.as_deref()).collect();
                of(
                    true,
                    format!("{} | SUBJECTS | COUNT", of_beliefs.cal()),
                    vec![subjects.len().to_string()],
                )
            }
            6 => {
                let text = format!(
                    "SELECT count(*), count(DISTINCT subject), count(confidence), min(confidence), \
                     max(confidence) FROM grains WHERE {}",
                    condition.sql()
                );
                of(false, text, vec![aggregates(&all)])
            }
            7 => {
                let text = format!(
                    "SELECT content_address FROM grains WHERE {} ORDER BY 1 LIMIT {limit} OFFSET \
                     {offset}",
                    condition.sql()
                );
                of(false, text, addresses(&all, offset, limit))
            }
            8 => {
                let text = format!(
                    "SELECT count(*) FROM (SELECT blob FROM current WHERE {} LIMIT {limit})",
                    condition.sql()
                );
                of(false, text, vec![current.len().min(limit).to_string()])
            }
            _ => {
                let text = format!(
                    "SELECT relation, count(*) FROM current WHERE relation IS NOT NULL AND {} \
                     GROUP BY 1 ORDER BY 1",
                    condition.sql()
                );
                of(false, text, by_relation(&current))
            }
        }
    }
}

fn row(blob: &[u8]) -> Result<Row, Box<dyn Error>> {
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT)?;
    let grain = Grain::decode(&payload, DecodeMode::Lenient)?;
    let text = |field| grain.text(field).map(Into::into);
    Ok(Row {
        address: ContentAddress::of(blob),
        kind: grain.grain_type().ok_or("a grain of no known type")?,
        subject: text(Field::Subject),
        relation: text(Field::Relation),
        confidence: grain
            .get(Field::Confidence)
            .and_then(|value| value.as_number()),
        superseded: false,
    })
}

/// Condition on a grain.
#[derive(Debug, Default)]
struct Condition {
    kind: Option<GrainType>,
    subject: Option<Box<str>>,
    relation: Option<Box<str>>,
    least: Option<f64>,
}

impl Condition {
    /// Returns a condition that at least one grain meets.
    fn random(corpus: &Corpus, random: &mut StdRng) -> Condition {
        let Some(like) = corpus.0.choose(random) else {
            return Condition::default();
        };
        let mut some = |chance: f64| random.random_bool(chance);
        Condition {
            kind: some(0.7).then_some(like.kind),
            subject: like.subject.clone().filter(|_| some(0.4)),
            relation: like.relation.clone().filter(|_| some(0.4)),
            least: like.confidence.filter(|_| some(0.4)),
        }
    }

    fn passes(&self, row: &Row) -> bool {
        self.kind.is_none_or(|kind| row.kind == kind)
            && (self.subject.is_none() || row.subject == self.subject)
            && (self.relation.is_none() || row.relation == self.relation)
            && self
                .least
                .is_none_or(|least| row.confidence.is_some_and(|confidence| confidence >= least))
    }

    fn cal(&self) -> String {
        let texts = [("subject", &self.subject), ("relation", &self.relation)];
        let texts = texts
            .into_iter()
            .filter_map(|(name, text)| Some(format!("{name} = {}", Json::from(&**text.as_ref()?))));
        let all: Vec<String> = texts
            .chain(self.least.map(|least| format!("confidence >= {least}")))
            .collect();
        let kind = self
            .kind
            .map_or(String::new(), |kind| format!(" {}", kind.plural()));
        let filter = if all.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", all.join(" AND "))
        };
        format!("RECALL{kind}{filter}")
    }

    fn sql(&self) -> String {
        let kind = self.kind.map(|kind| kind.name().into());
        let texts = [
            ("type", &kind),
            ("subject", &self.subject),
            ("relation", &self.relation),
        ];
        let texts = texts.into_iter().filter_map(|(name, text)| {
            Some(format!("{name} = '{}'", text.as_ref()?.replace('\'', "''")))
        });
        let all = texts.chain(self.least.map(|least| format!("confidence >= {least}")));
        let all: Vec<String> = all.chain(["true".to_owned()]).collect();
        all.join(" AND ")
    }
}

fn addresses(rows: &[&Row], offset: usize, limit: usize) -> Vec<String> {
    rows.iter()
        .skip(offset)
        .take(limit)
        .map(|row| row.address.to_string())
        .collect()
}

/// Returns the number of matches, and the page.
fn page(rows: &[&Row], offset: usize, limit: usize) -> Vec<String> {
    [rows.len().to_string()]
        .into_iter()
        .chain(addresses(rows, offset, limit))
        .collect()
}

/// Descending, nulls last, then by address.
fn most_confident(mut rows: Vec<&Row>) -> Vec<&Row> {
    let key = |row: &Row| row.confidence.unwrap_or(f64::NEG_INFINITY);
    rows.sort_by(|left, right| {
        key(right)
            .total_cmp(&key(left))
            .then(left.address.cmp(&right.address))
    });
    rows
}

fn aggregates(rows: &[&Row]) -> String {
    let subjects: HashSet<&str> = rows
        .iter()
        .filter_map(|row| row.subject.as_deref())
        .collect();
    let confidences: Vec<f64> = rows.iter().filter_map(|row| row.confidence).collect();
    let shown = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:?}"));
    let (least, most) = (
        confidences.iter().copied().reduce(f64::min),
        confidences.iter().copied().reduce(f64::max),
    );
    format!(
        "{} {} {} {} {}",
        rows.len(),
        subjects.len(),
        confidences.len(),
        shown(least),
        shown(most)
    )
}

fn by_relation(rows: &[&Row]) -> Vec<String> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    rows.iter()
        .filter_map(|row| row.relation.as_deref())
        .for_each(|relation| *counts.entry(relation).or_default() += 1);
    counts
        .into_iter()
        .map(|(relation, count)| format!("{relation} {count}"))
        .collect()
}

/// Returns the lake's answer to `question`, in the form of [`Question::wanted`].
///
/// # Errors
/// The answer of the execution.
pub async fn answered(
    context: &SessionContext,
    executor: &Executor,
    question: &Question,
) -> Result<Vec<String>, Box<dyn Error>> {
    if question.is_cal {
        let response = executor
            .run_text(
                question.text.as_bytes(),
                &Bindings::new(),
                Options::default(),
            )
            .await?;
        let answer = response.answer;
        return Ok(match answer.value {
            Some(value) => vec![value.to_string()],
            None => {
                let found = answer
                    .results
                    .iter()
                    .map(|entry| entry.content_address.clone());
                [answer.total.to_string()]
                    .into_iter()
                    .chain(found)
                    .collect()
            }
        });
    }
    let mut lines = Vec::new();
    for batch in context.sql(&question.text).await?.collect().await? {
        for row in 0..batch.num_rows() {
            let cells = batch
                .columns()
                .iter()
                .map(|column| array_value_to_string(column, row));
            lines.push(cells.collect::<Result<Vec<_>, _>>()?.join(" "));
        }
    }
    Ok(lines)
}

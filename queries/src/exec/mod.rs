//! CAL executes: statements become DataFusion plans over the tables `grains` and `state` of a
//! [`SessionContext`].
//!
//! | module | what it answers |
//! |---|---|
//! | [`session`] | who asks, and what may they do? |
//! | `grain_reader` | which grains can they see, and how are grains fetched? |
//! | `lifecycle` | what became of grains? |
//! | `columns`, `functions` | where is a field of CAL in a row? |
//! | `condition`, `domain` | which rows pass a condition? |
//! | `recall`, `pipeline`, `search`, `thread` | what is the plan of a RECALL? |
//! | `set`, `history`, `assembly`, `explain` | what do the other statements do? |
//! | `rule` | which grains does a rule match, however many? |
//! | [`evolve`], [`writer`] | what do statements append, and where to? |
//! | [`answer`] | how is it told? |
//! | [`error`] | why is there no answer? |
//!
//! There is one executor, DataFusion's: what is done here beside plans is what has no rows, such as
//! sharing a budget among grains that were found. Answers are exact (LIMIT bounds the answer, not
//! the scan) and the same for the same state, time and parameters: every order ends with the
//! content address.

pub mod answer;
mod assembly;
mod blob_functions;
mod columns;
mod condition;
mod domain_field;
pub mod error;
pub mod evolve;
mod explain;
mod grain_reader;
mod history;
mod lifecycle;
mod message_thread;
mod pipeline;
mod recall;
mod response;
mod rule;
mod search_statistics;
pub mod session;
mod set_operation;
pub mod writer;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use datafusion::prelude::SessionContext;
use gristmill_schemas::json::{Json, Object};

pub use answer::{Answer, Hit, Response, ResultEntry};
pub use error::{ExecutionError, Result};
pub use evolve::{GrainWrite, GrainWriter, WriteKind};
pub use rule::plan_rule;
pub use session::Session;
pub use writer::LakeWriter;

use crate::cal::ast::*;
use crate::cal::template::registry::Registry;
use crate::cal::vocabulary::DescribeTarget;
use crate::cal::{
    Bindings, CalError, Code, Effect, Options, Parsed, Shape, bind, describe, from_json_bytes,
    parse_bytes, query_hash, shape,
};
pub(crate) use blob_functions::search_terms_of;
use grain_reader::GrainReader;
pub(crate) use lifecycle::LifecycleCache;
use pipeline::{Pipeline, VALUE};
use recall::{Grains, RecallPlan, RecallPlanner, Scope};

/// Executes CAL for one session.
pub struct Executor {
    context: SessionContext,
    session: Session,
    templates: Mutex<Registry>,
    writer: Option<Arc<dyn GrainWriter>>,
    quotas: Mutex<evolve::Quotas>,
    lifecycle: Arc<LifecycleCache>,
}

impl Executor {
    /// An executor over the tables `grains` and `state` of `context`. It reads only, until it has a
    /// writer.
    pub fn new(context: SessionContext, session: Session) -> Executor {
        Executor {
            lifecycle: lifecycle_cache_of(&context),
            context,
            session,
            templates: Mutex::new(Registry::new()),
            writer: None,
            quotas: Mutex::new(evolve::Quotas::default()),
        }
    }

    /// Appends what ADD, SUPERSEDE and REVERT make through `writer`, if the session may write.
    pub fn with_writer(mut self, writer: Arc<dyn GrainWriter>) -> Executor {
        self.writer = Some(writer);
        self
    }

    /// Reads other tables from now on: those of a newer version of the lake.
    pub fn set_context(&mut self, context: SessionContext) {
        self.lifecycle = lifecycle_cache_of(&context);
        self.context = context;
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The session, to be changed between queries: the clock goes on.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Reads, checks, binds and runs a query in text or JSON form.
    ///
    /// # Errors
    /// Those of [`crate::cal::parse`] or [`crate::cal::from_json`], of [`bind()`], and of
    /// execution, with line and column where the query is at fault.
    pub async fn run_text(
        &self,
        text: &[u8],
        bindings: &Bindings,
        options: Options,
    ) -> Result<Response> {
        let parsed = read(text, options)?;
        let run = async {
            let bound = bind(&parsed.query, bindings, options)?;
            let mut response = self.run(&bound).await?;
            response.query_hash = query_hash(&parsed.query);
            response.answer.warnings.splice(0..0, parsed.warnings);
            Ok(response)
        };
        run.await
            .map_err(|error: ExecutionError| error.located(text))
    }

    /// Runs a query whose parameters are bound.
    ///
    /// # Errors
    /// [`ExecutionError::Cal`] with the code of the specification (E031 and E075 if it takes too
    /// long), [`ExecutionError::Store`] and [`ExecutionError::Engine`] for problems of the
    /// environment.
    pub async fn run(&self, query: &Query) -> Result<Response> {
        let started = Instant::now();
        if query.statement.effect() == Effect::Appends {
            // Before anything is read: whether a grain exists is nobody's business who may not
            // write.
            evolve::allowed(&self.session, self.writer.is_some())?;
        }
        let reader = GrainReader::new(&self.context, &self.session, &self.lifecycle);
        if reads(&query.statement) {
            reader.open().await?;
        }
        let limit = self.time_limit(&query.statement);
        let answer = match tokio::time::timeout(limit, self.query(&reader, query)).await {
            Ok(answer) => answer?,
            Err(_) => return Err(too_slow(&query.statement, limit).into()),
        };
        Ok(Response {
            statement_type: query.statement.name(),
            tier: query.statement.effect().tier(),
            query_hash: query_hash(query),
            duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            grains_scanned: reader.scanned(),
            answer,
        })
    }

    fn time_limit(&self, statement: &Statement) -> Duration {
        match statement {
            Statement::Assemble(_) => self.session.assemble_timeout,
            _ => self.session.query_timeout,
        }
    }

    async fn query(&self, reader: &GrainReader<'_>, query: &Query) -> Result<Answer> {
        let explain_only = matches!(query.statement, Statement::Explain(_));
        let reader = QueryRun {
            executor: self,
            reader,
            planner: RecallPlanner {
                reader,
                explain_only,
            },
        };
        let lets = assembly::lets(query);
        let scope = reader.bindings(&lets, &Scope::default()).await?;
        match &query.statement {
            Statement::Recall(recall) => reader.recall(recall, &scope).await,
            Statement::Assemble(assemble) => reader.assemble(assemble, &scope).await,
            Statement::SetOperation(operation) => reader.set_operation(operation, &scope).await,
            Statement::Exists(exists) => reader.exists(exists).await,
            Statement::History(history) => reader.history(history).await,
            Statement::Explain(explained) => reader.explain(explained, &lets, &scope).await,
            Statement::Describe(describe) => Ok(self.describe(describe)),
            Statement::Batch(batch) => reader.batch(batch, &scope).await,
            Statement::Coalesce(coalesce) => reader.coalesce(coalesce, &scope).await,
            Statement::DefineTemplate(definition) => self.define(definition),
            Statement::Add(add) => reader.add(add).await,
            Statement::Supersede(supersede) => reader.supersede(supersede).await,
            Statement::Revert(revert) => reader.revert(revert).await,
        }
    }

    fn templates(&self) -> std::sync::MutexGuard<'_, Registry> {
        self.templates
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn define(&self, definition: &TemplateDefinition) -> Result<Answer> {
        crate::render::CustomTemplate::new(&definition.sections, definition.extends)?;
        self.templates().define(definition.clone())?;
        Ok(Answer::of_value(definition.name.clone()))
    }

    fn describe(&self, asked: &Describe) -> Answer {
        Answer::of_value(match asked.target {
            DescribeTarget::GrainTypes => describe::grain_types(),
            DescribeTarget::Fields => describe::fields(asked.grain_type),
            DescribeTarget::Capabilities => self.capabilities(),
            DescribeTarget::Server => Json::Object(
                [
                    ("name", "gristmill"),
                    ("version", env!("CARGO_PKG_VERSION")),
                ]
                .into_iter()
                .map(|(key, value)| (key, Json::from(value)))
                .collect(),
            ),
            DescribeTarget::Templates => {
                let templates = self.templates();
                let defined = templates.iter().map(|definition| {
                    let text = Statement::DefineTemplate(definition.clone()).to_string();
                    let pairs = [("name", definition.name.clone()), ("definition", text)];
                    Json::Object(
                        pairs
                            .into_iter()
                            .map(|(key, value)| (key, Json::from(value)))
                            .collect(),
                    )
                });
                Json::Array(defined.collect())
            }
            DescribeTarget::Grammar => Json::from(describe::GRAMMAR),
        })
    }

    fn capabilities(&self) -> Json<'static> {
        let mut object = Object::new();
        object.insert("cal_conformance", describe::CONFORMANCE);
        object.insert("cal_version", describe::VERSION);
        object.insert(
            "tier1_enabled",
            self.session.writes && self.writer.is_some(),
        );
        object.insert("streaming", true);
        object.insert("cross_lingual_search", false);
        object.insert("auto_toon_enabled", self.session.auto_toon);
        Json::Object(object)
    }
}

/// What all executors over a lake's context know together; an executor over other tables knows it
/// alone.
fn lifecycle_cache_of(context: &SessionContext) -> Arc<LifecycleCache> {
    context
        .state_ref()
        .read()
        .config()
        .get_extension()
        .unwrap_or_default()
}

/// Reads and checks a query in either form: one that begins with a brace is JSON.
///
/// # Errors
/// Those of [`crate::cal::parse`] and [`crate::cal::from_json`].
pub fn read(query: &[u8], options: Options) -> crate::cal::Result<Parsed> {
    match query.trim_ascii_start().first() {
        Some(b'{') => from_json_bytes(query, options),
        _ => parse_bytes(query, options),
    }
}

/// True if the statement looks at grains.
fn reads(statement: &Statement) -> bool {
    !matches!(
        statement,
        Statement::Explain(_) | Statement::Describe(_) | Statement::DefineTemplate(_)
    )
}

fn too_slow(statement: &Statement, limit: Duration) -> CalError {
    let code = match statement {
        Statement::Assemble(_) => Code::E075,
        _ => Code::E031,
    };
    CalError::new(
        code,
        format!("The query was stopped after {} ms.", limit.as_millis()),
    )
}

/// One query that is being run.
struct QueryRun<'r, 'e> {
    executor: &'r Executor,
    reader: &'r GrainReader<'e>,
    planner: RecallPlanner<'r, 'e>,
}

impl QueryRun<'_, '_> {
    /// What LETs bind, on top of what is bound `outside`.
    async fn bindings(&self, lets: &[Let], outside: &Scope) -> Result<Scope> {
        let mut scope = outside.clone();
        for binding in lets {
            match binding.extract {
                Some(extract) => {
                    let values = self.planner.values(&binding.query, extract, &scope).await?;
                    scope.values.insert(binding.name.clone(), values);
                }
                None if !self.planner.explain_only => {
                    let grains = self.grains(&binding.query, &scope).await?;
                    scope.grains.insert(binding.name.clone(), Arc::new(grains));
                }
                None => {
                    scope.grains.insert(binding.name.clone(), Arc::default());
                }
            }
        }
        Ok(scope)
    }

    /// The grains of a RECALL.
    ///
    /// # Errors
    /// E021 if it yields something else.
    async fn grains(&self, recall: &Recall, scope: &Scope) -> Result<Grains> {
        if !shape(&recall.stages).is_of_grains() {
            let message = "A source holds grains, not a count, values or groups.";
            let advice = "Leave COUNT, GROUP BY, SUBJECTS, OBJECTS and HASHES out of it.";
            return Err(CalError::new(Code::E021, message)
                .at(recall.span)
                .suggest(advice)
                .into());
        }
        let planned = self.planner.plan(recall, scope).await?;
        let flow = Pipeline::new(planned.matched.clone())
            .through(&planned.stages)?
            .finish()?;
        let hits = self.hits_of(flow, &planned).await?;
        Ok(Grains {
            hits: response::diverse(hits, &recall.options)?,
            plain: planned.plain,
        })
    }

    async fn hits_of(&self, flow: Pipeline, planned: &RecallPlan) -> Result<Vec<Hit>> {
        let found = self.reader.found(flow.into_frame()).await?;
        self.reader
            .hits(found, planned.terms.as_ref(), &planned.fields)
            .await
    }

    async fn recall(&self, recall: &Recall, scope: &Scope) -> Result<Answer> {
        let planned = self.planner.plan(recall, scope).await?;
        let flow = Pipeline::new(planned.matched.clone())
            .through(&planned.stages)?
            .finish()?;
        let mut answer = Answer {
            warnings: response::warnings(&recall.options),
            ..Answer::default()
        };
        match flow.shape {
            Shape::Count => {
                answer.value = Some(Json::from(self.counted(flow).await?));
                answer.total = self.reader.count(planned.matched).await?;
            }
            Shape::Values => {
                let values = self.reader.texts(flow.into_frame(), VALUE).await?;
                answer.value = Some(Json::Array(values.into_iter().map(Json::from).collect()));
                answer.total = self.reader.count(planned.matched).await?;
            }
            Shape::FirstValue => {
                let first = self
                    .reader
                    .texts(flow.into_frame(), VALUE)
                    .await?
                    .into_iter()
                    .next();
                answer.value = Some(first.map_or(Json::Null, Json::from));
                answer.total = self.reader.count(planned.matched).await?;
            }
            Shape::Groups => {
                answer.groups = Some(self.groups(flow, recall, &planned).await?);
                answer.total = self.reader.count(planned.matched).await?;
            }
            Shape::Grains | Shape::First => {
                let bound = (flow.most, flow.skips);
                let found = self.reader.found(flow.into_frame()).await?;
                // Grains are read by tasks of their own while the matches are counted.
                let total = self.total(bound, found.len() as u64, &planned);
                let hits = self
                    .reader
                    .hits(found, planned.terms.as_ref(), &planned.fields);
                let (hits, total) = tokio::try_join!(hits, total)?;
                answer.total = total;
                let hits = response::diverse(hits, &recall.options)?;
                response::fill(
                    &mut answer,
                    &hits,
                    recall,
                    &planned.plain,
                    self.executor.session.now_ms,
                );
            }
        }
        Ok(answer)
    }

    /// How many grains matched. A page that isn't full holds them all.
    async fn total(
        &self,
        (most, skips): (Option<u64>, bool),
        found: u64,
        planned: &RecallPlan,
    ) -> Result<u64> {
        match most {
            Some(most) if found < most && !skips => Ok(found),
            _ => self.reader.count(planned.matched.clone()).await,
        }
    }

    /// The number in the one row of a counted flow.
    async fn counted(&self, flow: Pipeline) -> Result<u64> {
        let counts = self
            .reader
            .texts(flow.into_frame(), pipeline::COUNT)
            .await?;
        Ok(counts
            .first()
            .and_then(|count| count.parse().ok())
            .unwrap_or_default())
    }

    /// Grains by the value of a field, values in order.
    async fn groups(
        &self,
        flow: Pipeline,
        recall: &Recall,
        planned: &RecallPlan,
    ) -> Result<Vec<(String, Vec<ResultEntry>)>> {
        let Some(field) = flow.group else {
            return Ok(Vec::new());
        };
        let hits = self.hits_of(flow, planned).await?;
        let fields = response::selected(recall);
        let mut groups: std::collections::BTreeMap<String, Vec<ResultEntry>> =
            std::collections::BTreeMap::new();
        for hit in &hits {
            if let Some(value) = crate::render::field_value::value_of(hit, &field.into()) {
                let value = value
                    .as_str()
                    .map_or_else(|| value.to_canonical_string(), str::to_owned);
                groups.entry(value).or_default().push(response::entry(
                    hit,
                    fields.as_deref(),
                    &planned.plain,
                ));
            }
        }
        Ok(groups.into_iter().collect())
    }

    async fn exists(&self, exists: &Exists) -> Result<Answer> {
        let address = grain_reader::target_address(&exists.target)?;
        Ok(Answer::of_value(
            self.reader.look_up(address).await?.is_some(),
        ))
    }

    async fn coalesce(&self, coalesce: &Coalesce, scope: &Scope) -> Result<Answer> {
        let mut last = Answer::default();
        for (branch, recall) in coalesce.branches.iter().enumerate() {
            let answer = self.recall(recall, scope).await?;
            if answer.has_grains() {
                return Ok(Answer {
                    branch: Some(branch),
                    ..answer
                });
            }
            last.warnings.extend(answer.warnings);
        }
        Ok(last)
    }

    /// Every entry has its own answer or error; one that fails leaves the others as they are.
    async fn batch(&self, batch: &Batch, scope: &Scope) -> Result<Answer> {
        let mut entries = Vec::with_capacity(batch.entries.len());
        for entry in &batch.entries {
            let answer = match &entry.query {
                BatchQuery::Recall(recall) => self.recall(recall, scope).await,
                BatchQuery::Exists(exists) => self.exists(exists).await,
                BatchQuery::History(history) => self.history(history).await,
                BatchQuery::Describe(describe) => Ok(self.executor.describe(describe)),
                BatchQuery::Coalesce(coalesce) => self.coalesce(coalesce, scope).await,
            };
            let told = match answer {
                Ok(answer) => answer.to_object(),
                Err(error) => [("error", error.to_json())].into_iter().collect(),
            };
            entries.push((entry.label.clone(), Json::Object(told)));
        }
        Ok(Answer {
            entries: Some(entries),
            ..Answer::default()
        })
    }
}

//! The entry point of CAL: parse, bind, check permissions, run within the time limit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use datafusion::prelude::SessionContext;
use gristmill_schemas::json::{Json, Object};

use super::answer::{Answer, Response};
use super::error::{ExecutionError, Result};
use super::evolve::{self, GrainWriter};
use super::grain_reader::GrainReader;
use super::lifecycle::{LifecycleCache, lifecycle_cache_of};
use super::query_run::QueryRun;
use super::quota::WriteQuotas;
use super::session::Session;
use crate::cal::ast::*;
use crate::cal::template::registry::Registry;
use crate::cal::vocabulary::DescribeTarget;
use crate::cal::{
    Bindings, CalError, Code, Effect, Options, Parsed, bind, describe, from_json_bytes,
    parse_bytes, query_hash,
};

/// Executes CAL for one session.
pub struct Executor {
    context: SessionContext,
    pub(super) session: Session,
    templates: Mutex<Registry>,
    pub(super) writer: Option<Arc<dyn GrainWriter>>,
    pub(super) quotas: WriteQuotas,
    lifecycle: Arc<LifecycleCache>,
}

impl Executor {
    /// Returns an executor over the tables `grains` and `state` of `context`. It is read-only
    /// until [`Executor::with_writer`] adds a writer.
    pub fn new(context: SessionContext, session: Session) -> Executor {
        Executor {
            lifecycle: lifecycle_cache_of(&context),
            context,
            session,
            templates: Mutex::new(Registry::new()),
            writer: None,
            quotas: WriteQuotas::default(),
        }
    }

    /// Sends the grains of ADD, SUPERSEDE and REVERT to `writer`. [`Session::writes`] must also be
    /// set for these statements to run.
    pub fn with_writer(mut self, writer: Arc<dyn GrainWriter>) -> Executor {
        self.writer = Some(writer);
        self
    }

    /// Counts writes among those of `quotas`, which other executors of the same session share.
    pub fn with_quotas(mut self, quotas: WriteQuotas) -> Executor {
        self.quotas = quotas;
        self
    }

    /// Replaces the tables, e.g. with those of a newer version of the lake.
    pub fn set_context(&mut self, context: SessionContext) {
        self.lifecycle = lifecycle_cache_of(&context);
        self.context = context;
    }

    /// Returns the session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the session for changes between queries, such as a new current time.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Parses, checks, binds and runs a query in text or JSON form.
    ///
    /// # Errors
    /// Those of [`crate::cal::parse`] or [`crate::cal::from_json`], of [`bind()`], and of
    /// execution, with line and column if the error points into the query.
    pub async fn run_text(
        &self,
        text: &[u8],
        bindings: &Bindings,
        options: Options,
    ) -> Result<Response> {
        let parsed = parse_query(text, options)?;
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
    /// [`ExecutionError::Cal`] with the code of the specification (E031 or E075 after the time
    /// limit), [`ExecutionError::Store`] and [`ExecutionError::Engine`] for problems of the
    /// environment.
    pub async fn run(&self, query: &Query) -> Result<Response> {
        let response = self.response(query).await;
        response.map_err(|error| self.disclosed(error))
    }

    /// Returns an error as the session may see it.
    pub fn disclosed(&self, error: ExecutionError) -> ExecutionError {
        match self.session.hides_causes {
            true => error.without_cause(),
            false => error,
        }
    }

    async fn response(&self, query: &Query) -> Result<Response> {
        let started = Instant::now();
        if query.statement.effect() == Effect::Appends {
            // Checked before anything is read, so that a session without write permission can't
            // find out whether a grain exists.
            evolve::check_writable(&self.session, self.writer.is_some())?;
        }
        let reader = GrainReader::new(&self.context, &self.session, &self.lifecycle);
        if reads_grains(&query.statement) {
            reader.open().await?;
        }
        let answer = self.execute_in_time(&reader, query).await?;
        Ok(Response {
            statement_type: query.statement.name(),
            tier: query.statement.effect().tier(),
            query_hash: query_hash(query),
            duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            grains_scanned: reader.scanned(),
            answer,
        })
    }

    async fn execute_in_time(&self, reader: &GrainReader<'_>, query: &Query) -> Result<Answer> {
        let limit = self.time_limit(&query.statement);
        let run = QueryRun::new(self, reader, query);
        match tokio::time::timeout(limit, run.execute(query)).await {
            Ok(answer) => answer,
            Err(_) => Err(timeout_error(&query.statement, limit).into()),
        }
    }

    fn time_limit(&self, statement: &Statement) -> Duration {
        match statement {
            Statement::Assemble(_) => self.session.assemble_timeout,
            _ => self.session.query_timeout,
        }
    }

    pub(super) fn templates(&self) -> MutexGuard<'_, Registry> {
        self.templates
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes DEFINE TEMPLATE. The template is compiled first, so that a broken one is never
    /// registered.
    pub(super) fn define_template(&self, definition: &TemplateDefinition) -> Result<Answer> {
        crate::render::CustomTemplate::new(&definition.sections, definition.extends)?;
        self.templates().define(definition.clone())?;
        Ok(Answer::of_value(definition.name.clone()))
    }

    /// Executes DESCRIBE.
    pub(super) fn describe(&self, describe: &Describe) -> Answer {
        Answer::of_value(match describe.target {
            DescribeTarget::GrainTypes => describe::grain_types(),
            DescribeTarget::Fields => describe::fields(describe.grain_type),
            DescribeTarget::Capabilities => self.capabilities(),
            DescribeTarget::Server => object_of([
                ("name", "gristmill".to_owned()),
                ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ]),
            DescribeTarget::Templates => {
                Json::Array(self.templates().iter().map(describe_template).collect())
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

/// Parses and checks a query. A query that begins with a brace is JSON, any other is text.
///
/// # Errors
/// Those of [`crate::cal::parse`] and [`crate::cal::from_json`].
pub fn parse_query(query: &[u8], options: Options) -> crate::cal::Result<Parsed> {
    match query.trim_ascii_start().first() {
        Some(b'{') => from_json_bytes(query, options),
        _ => parse_bytes(query, options),
    }
}

fn describe_template(definition: &TemplateDefinition) -> Json<'static> {
    let text = Statement::DefineTemplate(definition.clone()).to_string();
    object_of([("name", definition.name.clone()), ("definition", text)])
}

fn object_of<const N: usize>(members: [(&'static str, String); N]) -> Json<'static> {
    let members = members.into_iter();
    Json::Object(
        members
            .map(|(key, value)| (key, Json::from(value)))
            .collect(),
    )
}

/// Returns true if executing the statement reads grains. EXPLAIN only plans.
fn reads_grains(statement: &Statement) -> bool {
    !matches!(
        statement,
        Statement::Explain(_) | Statement::Describe(_) | Statement::DefineTemplate(_)
    )
}

fn timeout_error(statement: &Statement, limit: Duration) -> CalError {
    let code = match statement {
        Statement::Assemble(_) => Code::E075,
        _ => Code::E031,
    };
    CalError::new(
        code,
        format!("The query was stopped after {} ms.", limit.as_millis()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(text: &str) -> Statement {
        parse_query(text.as_bytes(), Options::default())
            .unwrap()
            .query
            .statement
    }

    #[test]
    fn a_query_that_begins_with_a_brace_is_json() {
        let text = parse_query(b"RECALL beliefs", Options::default()).unwrap();
        let json = crate::cal::to_json(&text.query).to_canonical_string();
        let read = parse_query(format!(" \n{json}").as_bytes(), Options::default()).unwrap();
        assert_eq!(query_hash(&read.query), query_hash(&text.query));
        assert!(parse_query(b"{RECALL beliefs}", Options::default()).is_err());
    }

    #[test]
    fn explain_describe_and_definitions_open_no_lake() {
        assert!(reads_grains(&statement("RECALL beliefs")));
        assert!(!reads_grains(&statement("EXPLAIN RECALL beliefs")));
        assert!(!reads_grains(&statement("DESCRIBE server")));
    }

    #[test]
    fn a_timeout_has_a_code_of_its_own_for_assemble() {
        let limit = Duration::from_millis(7);
        let recall = timeout_error(&statement("RECALL beliefs"), limit);
        assert_eq!(recall.code(), Code::E031);
        assert!(recall.message().contains("7 ms"));
        let assemble = statement("ASSEMBLE x FROM (RECALL beliefs)");
        assert_eq!(timeout_error(&assemble, limit).code(), Code::E075);
    }
}

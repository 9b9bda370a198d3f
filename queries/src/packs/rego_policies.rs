//! Rego policies over message views, compiled to the bytecode of the policy engine `regorus`.
//!
//! The input of a policy is the document that the Common Message Format defines for policy engines,
//! with the additional member `grain` that identifies the view's origin (`content_address`,
//! `namespace`, `processing_basis`). Each member of the set `violation` (or `deny`) is a finding: a
//! text, or an object whose members are evidence.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Result as QueryResult;
use datafusion::prelude::{DataFrame, SessionContext};
use gristmill_schemas::cmf::view::{DictOptions, MessageView};
use gristmill_schemas::cmf::{CapabilitySet, ContentType, ExtensionAccess, views};
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::Field;
use regorus::languages::rego::compiler::Compiler;
use regorus::rvm::program::Program;
use regorus::rvm::vm::RegoVM;
use regorus::{Engine, Rc, Value};

use super::error::PackError;
use super::finding::Finding;
use super::grain_messages::{self, MessageRows};
use super::pack::Check;
use super::rego_value::ValueBuilder;
use super::rule_checks::PlacedCheck;
use super::scan::SCANNED;

/// Instruction limit of a policy for one view.
const INSTRUCTION_LIMIT: usize = 1_000_000;

/// Names of the set whose members are findings, in order of preference.
const SETS: [&str; 2] = ["violation", "deny"];

/// Compiled policies of a scan.
pub(super) struct RegoPolicies {
    policies: Vec<Arc<RegoPolicy>>,
}

struct RegoPolicy {
    /// Index of the rule in the scan.
    rule: usize,
    program: Arc<Program>,
    /// Kinds of views on which it is evaluated; empty for all.
    kinds: Vec<ContentType>,
}

impl RegoPolicies {
    /// Compiles the policies among `checks`.
    ///
    /// # Errors
    /// [`PackError::Rule`] with the message of the policy compiler.
    pub(super) fn compile(checks: &[PlacedCheck]) -> Result<RegoPolicies, PackError> {
        let mut policies = Vec::new();
        for PlacedCheck { rule, id, check } in checks {
            if let Check::Rego { policy, kinds } = check {
                let kinds = kinds
                    .iter()
                    .map(|kind| kind_of(kind))
                    .collect::<Result<_, _>>();
                let program = program(id, policy);
                let fault = |problem| PackError::rule(id, problem);
                policies.push(Arc::new(RegoPolicy {
                    rule: *rule,
                    program: program.map_err(fault)?,
                    kinds: kinds.map_err(fault)?,
                }));
            }
        }
        Ok(RegoPolicies { policies })
    }

    /// Returns the scan of the columns that the policies read.
    pub(super) async fn source(&self, context: &SessionContext) -> QueryResult<DataFrame> {
        let grains = context.table(SCANNED).await?;
        let condition = grains.parse_sql_expr(&grain_messages::condition())?;
        grains
            .filter(condition)?
            .select_columns(&grain_messages::COLUMNS)
    }

    /// Creates an evaluator, to be used by one thread.
    pub(super) fn evaluator(&self) -> PolicyEvaluator {
        let machine = |policy: &RegoPolicy| {
            let mut machine = RegoVM::new();
            machine.set_max_instructions(INSTRUCTION_LIMIT);
            machine.load_program(Arc::clone(&policy.program));
            machine
        };
        PolicyEvaluator {
            evaluator: self
                .policies
                .iter()
                .map(|policy| (Arc::clone(policy), machine(policy)))
                .collect(),
            builder: ValueBuilder::default(),
        }
    }
}

/// Result of a policy on a view.
pub(super) enum PolicyOutcome {
    /// The view violates the rule.
    Finding(Finding),
    /// The policy failed: rule index and message.
    Failure(usize, String),
}

/// Evaluates all policies; holds a virtual machine for each.
pub(super) struct PolicyEvaluator {
    evaluator: Vec<(Arc<RegoPolicy>, RegoVM)>,
    builder: ValueBuilder,
}

impl PolicyEvaluator {
    /// Evaluates all policies on all views of one batch; returns the number of views.
    pub(super) fn evaluate(
        &mut self,
        batch: &RecordBatch,
        mut emit: impl FnMut(PolicyOutcome),
    ) -> u64 {
        let rows = MessageRows::new(batch);
        let mut count = 0;
        for row in 0..batch.num_rows() {
            let messages = rows.messages(row);
            if messages.is_empty() {
                continue;
            }
            let extensions = rows.extensions(row);
            let access = ExtensionAccess::new(Some(&extensions), CapabilitySet::all());
            for view in messages
                .iter()
                .flat_map(|message| views(message, access).recursive())
            {
                count += 1;
                self.evaluate_view(&view, &rows, row, &mut emit);
            }
        }
        count
    }

    fn evaluate_view(
        &mut self,
        view: &MessageView<'_>,
        rows: &MessageRows<'_>,
        row: usize,
        emit: &mut impl FnMut(PolicyOutcome),
    ) {
        let mut input: Option<Value> = None;
        for (policy, machine) in &mut self.evaluator {
            if !policy.kinds.is_empty() && !policy.kinds.contains(&view.kind()) {
                continue;
            }
            let input = input.get_or_insert_with(|| input_of(&mut self.builder, view, rows, row));
            machine.set_input(input.clone());
            match machine.execute_entry_point_by_index(0) {
                Ok(members) => emit_findings(policy.rule, &members, view, rows, row, emit),
                Err(error) => emit(PolicyOutcome::Failure(policy.rule, error.to_string())),
            }
        }
    }
}

fn kind_of(name: &str) -> Result<ContentType, String> {
    let found = ContentType::ALL
        .iter()
        .copied()
        .find(|kind| kind.as_str() == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = ContentType::ALL.iter().map(|kind| kind.as_str()).collect();
        format!(
            "unknown kind of view `{name}`; known kinds: {}",
            known.join(", ")
        )
    })
}

fn program(id: &str, text: &str) -> Result<Arc<Program>, String> {
    let mut engine = Engine::new();
    let package = engine
        .add_policy(format!("{id}.rego"), text.to_owned())
        .map_err(trimmed)?;
    for set in SETS {
        let entry: Rc<str> = format!("{package}.{set}").into();
        let Ok(compiled) = engine.compile_with_entrypoint(&entry) else {
            continue;
        };
        if compiled.get_rules().contains_key(entry.as_ref()) {
            return Compiler::compile_from_policy(&compiled, &[&entry]).map_err(trimmed);
        }
    }
    Err(format!(
        "the policy must define the set `{}` or `{}`",
        SETS[0], SETS[1]
    ))
}

/// Returns the text of `error` without the white space around it.
fn trimmed(error: impl std::fmt::Display) -> String {
    error.to_string().trim().to_owned()
}

fn input_of(
    builder: &mut ValueBuilder,
    view: &MessageView<'_>,
    rows: &MessageRows<'_>,
    row: usize,
) -> Value {
    view.write_dict(DictOptions::default(), builder);
    let mut input = builder.take();
    let grain = origin_of(builder, rows, row);
    let key = builder.key_value("grain");
    if let Ok(object) = input.as_object_mut() {
        object.insert(key, grain);
    }
    input
}

/// Returns the members that identify the origin of a view.
fn origin_of(builder: &mut ValueBuilder, rows: &MessageRows<'_>, row: usize) -> Value {
    let members = [
        SystemColumn::ContentAddress.name(),
        Field::Namespace.name(),
        Field::ProcessingBasis.name(),
    ];
    let members = members
        .into_iter()
        .filter_map(|name| Some((name, rows.text(name, row)?)));
    let origin: std::collections::BTreeMap<Value, Value> = members
        .map(|(name, value)| (builder.key_value(name), Value::String(value.into())))
        .collect();
    Value::from(origin)
}

fn emit_findings(
    rule: usize,
    members: &Value,
    view: &MessageView<'_>,
    rows: &MessageRows<'_>,
    row: usize,
    emit: &mut impl FnMut(PolicyOutcome),
) {
    let Value::Set(members) = members else { return };
    let address = rows.text(SystemColumn::ContentAddress.name(), row);
    for member in members.iter_sorted() {
        emit(PolicyOutcome::Finding(Finding {
            rule,
            address: address.map(str::to_owned),
            evidence: evidence_of(member, view, rows, row),
        }));
    }
}

/// Columns that are evidence of every finding.
const ALWAYS: [Field; 3] = [Field::Namespace, Field::UserId, Field::SessionId];

/// Returns the evidence of a finding: [`ALWAYS`], kind and name of the view, and the members of the
/// policy's result, which replace others of the same name.
fn evidence_of(
    member: &Value,
    view: &MessageView<'_>,
    rows: &MessageRows<'_>,
    row: usize,
) -> Vec<(String, String)> {
    let always = ALWAYS.iter().map(|field| field.name());
    let mut evidence: Vec<(String, String)> = always
        .filter_map(|name| Some((name.to_owned(), rows.text(name, row)?.to_owned())))
        .collect();
    evidence.push(("kind".to_owned(), view.kind().as_str().to_owned()));
    if let Some(name) = view.name().filter(|name| !name.is_empty()) {
        evidence.push(("name".to_owned(), name.to_owned()));
    }
    let reported: Vec<(String, String)> = match member {
        Value::Object(object) => {
            let members = object.iter_sorted();
            members
                .map(|(name, value)| (plain(name), plain(value)))
                .collect()
        }
        other => vec![("detail".to_owned(), plain(other))],
    };
    evidence.retain(|(name, _)| reported.iter().all(|(own, _)| own != name));
    evidence.extend(reported);
    evidence
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        other => other.to_json_str().unwrap_or_default(),
    }
}

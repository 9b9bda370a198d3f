//! Parses and validates pack files: rules with norms, messages and examples. `docs/packs.md`
//! describes the format for users.
//!
//! Parsing checks everything that needs no tables: names, versions, exactly one check per rule,
//! messages that refer only to evidence, and a passing and a failing example of each rule. Tables
//! and columns are checked when the rules are compiled (`compile`).

use std::collections::HashSet;
use std::path::Path;

use serde::Deserialize;

use super::error::{PackError, Result};
use super::export_rules::ExportPurpose;
use super::message_template::MessageTemplate;
use super::pack_file::read_text;

/// Severity of findings.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, serde::Serialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Informational.
    Note,
    /// A probable violation, or missing records that would prove compliance.
    Warning,
    /// A violation.
    Error,
}

impl Severity {
    /// All severities, highest first.
    pub const ALL: [Severity; 3] = [Severity::Error, Severity::Warning, Severity::Note];

    /// Returns the name used in packs and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// The check that finds violations of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
pub enum Check {
    /// A condition on one grain. All conditions of a scan are evaluated in one pass over the lake.
    Where {
        /// SQL expression that is true for a violation.
        condition: String,
        /// SQL expressions with optional `AS name`, evaluated for findings only.
        evidence: Vec<String>,
    },
    /// A query whose rows are findings. Its first column is `content_address`; the others are
    /// evidence.
    Sql(String),
    /// A RECALL of CAL. Every grain that it matches is a finding; the columns that the message
    /// names are evidence.
    Cal(String),
    /// A Rego policy that is evaluated on message views. Members of its set `violation` (or `deny`)
    /// are findings. Needs the cargo feature `rego`.
    Rego {
        /// Source of the policy.
        policy: String,
        /// Kinds of views that it is evaluated on; empty for all.
        kinds: Vec<String>,
    },
}

impl Check {
    /// Returns the key of the check in the pack file.
    pub const fn kind(&self) -> &'static str {
        match self {
            Check::Where { .. } => "where",
            Check::Sql(_) => "sql",
            Check::Cal(_) => "cal",
            Check::Rego { .. } => "rego",
        }
    }
}

/// One rule of a pack.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Pack and rule: `gdpr/storage-limit`.
    pub id: String,
    /// The requirement, in one line.
    pub title: String,
    /// Severity of findings.
    pub severity: Severity,
    /// Article and section.
    pub norm: String,
    /// Remedy for a finding.
    pub remediation: String,
    /// The least purpose of exports that must not contain the grains that the rule finds.
    pub bars: Option<ExportPurpose>,
    /// The check.
    pub check: Check,
    /// Message of a finding.
    pub message: MessageTemplate,
    /// Examples that the rule must pass and fail.
    pub examples: Vec<Example>,
}

/// A set of grains with the expected number of findings.
#[derive(Debug, Clone)]
pub struct Example {
    /// Number of the example in the pack, from 1.
    pub number: usize,
    /// The grains as a JSON array; see `examples`.
    pub grains: String,
    /// Lifecycle events as a JSON array.
    pub state: Option<String>,
    /// Expected number of findings.
    pub findings: usize,
}

/// Rules of one regulation.
#[derive(Debug, Clone)]
pub struct Pack {
    /// Its name on the command line.
    pub id: String,
    /// Display name.
    pub title: String,
    /// Version; changes with the rules.
    pub version: String,
    /// The regulation or specification to which the norms refer.
    pub regulation: String,
    /// Scope and limits of the pack.
    pub description: String,
    /// The rules, in order.
    pub rules: Vec<Rule>,
    /// First 16 hex digits of the SHA-256 of the file.
    pub digest: String,
}

impl Pack {
    /// Reads the pack in the file `path`.
    ///
    /// # Errors
    /// [`PackError`], with the line where there is one.
    pub fn read(path: &Path) -> Result<Pack> {
        Pack::parse(&path.display().to_string(), &read_text(path)?)
    }

    /// Parses the text of a pack; errors refer to it as `name`.
    ///
    /// # Errors
    /// [`PackError::Form`], [`PackError::Pack`], [`PackError::Rule`].
    pub fn parse(name: &str, text: &str) -> Result<Pack> {
        let file: PackFile = toml::from_str(text).map_err(|cause| PackError::Form {
            pack: name.to_owned(),
            cause: Box::new(cause),
        })?;
        let fault = |problem: String| PackError::Pack {
            pack: name.to_owned(),
            problem,
        };
        file.check().map_err(fault)?;
        let mut seen = HashSet::new();
        let mut rules = Vec::with_capacity(file.rule.len());
        for rule in file.rule {
            if !seen.insert(rule.id.clone()) {
                return Err(fault(format!("the rule id `{}` occurs twice", rule.id)));
            }
            rules.push(rule.into_rule(&file.id)?);
        }
        let mut pack = Pack {
            id: file.id,
            title: file.title,
            version: file.version,
            regulation: file.regulation,
            description: file.description,
            rules,
            digest: digest(text),
        };
        pack.take_examples(file.test).map_err(fault)?;
        pack.check_examples()?;
        Ok(pack)
    }

    fn take_examples(&mut self, tests: Vec<TestTable>) -> Result<(), String> {
        for (at, test) in tests.into_iter().enumerate() {
            let number = at + 1;
            let id = format!("{}/{}", self.id, test.rule);
            let rule = self.rules.iter_mut().find(|rule| rule.id == id);
            let rule = rule.ok_or_else(|| {
                format!(
                    "[[test]] {number} refers to the unknown rule `{}`",
                    test.rule
                )
            })?;
            let findings = test
                .expected_findings()
                .map_err(|problem| format!("[[test]] {number}: {problem}"))?;
            rule.examples.push(Example {
                number,
                grains: test.grains,
                state: test.state,
                findings,
            });
        }
        Ok(())
    }

    /// Checks that each rule has a failing example, which shows that it can fire, and a passing
    /// one, which shows that it doesn't fire on everything.
    fn check_examples(&self) -> Result<()> {
        for rule in &self.rules {
            let fails = rule
                .examples
                .iter()
                .filter(|example| example.findings > 0)
                .count();
            let missing = match (fails, rule.examples.len() - fails) {
                (0, _) => "fail",
                (_, 0) => "pass",
                _ => continue,
            };
            let problem = format!(
                "has no [[test]] with `expect = \"{missing}\"`; each rule needs one of each"
            );
            return Err(PackError::rule(&rule.id, problem));
        }
        Ok(())
    }

    /// Returns version and digest of the file, as recorded in the audit log.
    pub fn stamp(&self) -> String {
        format!("{}+{}", self.version, self.digest)
    }
}

fn digest(text: &str) -> String {
    use sha2::Digest;
    let hash = sha2::Sha256::digest(text.as_bytes());
    hash.iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Checks an id, which is part of file names, URLs and SARIF rule ids.
fn check_id(id: &str) -> Result<(), String> {
    let plain =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    if id.is_empty() || id.len() > 64 || !id.chars().all(plain) {
        return Err(format!(
            "invalid id `{id}`: use 1 to 64 characters of a–z, 0–9 and -"
        ));
    }
    Ok(())
}

fn check_filled(key: &str, value: &str) -> Result<(), String> {
    if value.trim().is_empty() {
        Err(format!("`{key}` is empty"))
    } else {
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PackFile {
    id: String,
    title: String,
    version: String,
    regulation: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    rule: Vec<RuleTable>,
    #[serde(default)]
    test: Vec<TestTable>,
}

impl PackFile {
    /// Checks what concerns the pack as a whole, except the ids of its rules.
    fn check(&self) -> Result<(), String> {
        check_id(&self.id)?;
        check_filled("title", &self.title)?;
        check_filled("version", &self.version)?;
        check_filled("regulation", &self.regulation)?;
        match self.rule.is_empty() {
            true => Err("the file has no [[rule]]".to_owned()),
            false => Ok(()),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    id: String,
    title: String,
    severity: Severity,
    norm: String,
    #[serde(default)]
    remediation: String,
    bars: Option<ExportPurpose>,
    #[serde(rename = "where")]
    condition: Option<String>,
    evidence: Option<Vec<String>>,
    sql: Option<String>,
    cal: Option<String>,
    rego: Option<String>,
    kinds: Option<Vec<String>>,
    message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TestTable {
    rule: String,
    expect: Expect,
    grains: String,
    state: Option<String>,
    findings: Option<usize>,
}

impl TestTable {
    fn expected_findings(&self) -> Result<usize, &'static str> {
        match (self.expect, self.findings) {
            (Expect::Pass, None) => Ok(0),
            (Expect::Fail, None) => Ok(1),
            (Expect::Fail, Some(findings)) if findings > 0 => Ok(findings),
            _ => Err("`findings` must be positive and needs `expect = \"fail\"`"),
        }
    }
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Expect {
    Pass,
    Fail,
}

impl RuleTable {
    fn into_rule(mut self, pack: &str) -> Result<Rule> {
        let id = format!("{pack}/{}", self.id);
        let fault = |problem: String| PackError::rule(&id, problem);
        check_id(&self.id).map_err(fault)?;
        for (key, value) in [
            ("title", &self.title),
            ("norm", &self.norm),
            ("message", &self.message),
        ] {
            check_filled(key, value).map_err(fault)?;
        }
        let check = self.take_check().map_err(fault)?;
        let message = MessageTemplate::parse(&self.message).map_err(fault)?;
        Ok(Rule {
            title: self.title,
            severity: self.severity,
            norm: self.norm,
            remediation: self.remediation,
            bars: self.bars,
            check,
            message,
            examples: Vec::new(),
            id,
        })
    }

    /// Takes the one check of the rule.
    fn take_check(&mut self) -> Result<Check, String> {
        let keys = (
            self.condition.take(),
            self.sql.take(),
            self.cal.take(),
            self.rego.take(),
            self.evidence.take(),
            self.kinds.take(),
        );
        Ok(match keys {
            (Some(condition), None, None, None, evidence, None) => Check::Where {
                condition,
                evidence: evidence.unwrap_or_default(),
            },
            (None, Some(sql), None, None, None, None) => Check::Sql(sql),
            (None, None, Some(cal), None, None, None) => Check::Cal(cal),
            (None, None, None, Some(policy), None, kinds) => Check::Rego {
                policy,
                kinds: kinds.unwrap_or_default(),
            },
            _ => {
                let problem = "needs exactly one of `where` (with `evidence`), `sql`, `cal` and \
                               `rego` (with `kinds`)";
                return Err(problem.to_owned());
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
        id = "own"
        title = "Own rules"
        version = "1"
        regulation = "House rules"
        [[rule]]
        id = "no-cats"
        title = "No cats"
        severity = "note"
        norm = "1"
        where = "subject = 'cat'"
        evidence = ["subject"]
        message = "about {subject}"
        [[test]]
        rule = "no-cats"
        expect = "fail"
        grains = "[]"
        [[test]]
        rule = "no-cats"
        expect = "pass"
        grains = "[]"
    "#;

    fn problem_with(old: &str, new: &str) -> String {
        assert!(WHOLE.contains(old));
        Pack::parse("own.toml", &WHOLE.replacen(old, new, 1))
            .expect_err("a broken pack")
            .to_string()
    }

    #[test]
    fn a_pack_is_parsed_with_its_rules_and_examples() {
        let pack = Pack::parse("own.toml", WHOLE).expect("a good pack");
        assert_eq!(pack.rules.len(), 1);
        assert_eq!(pack.rules[0].id, "own/no-cats");
        assert_eq!(
            pack.rules[0]
                .examples
                .iter()
                .map(|example| example.findings)
                .collect::<Vec<_>>(),
            [1, 0]
        );
    }

    #[test]
    fn a_rule_without_a_passing_example_is_refused() {
        assert!(
            problem_with("expect = \"pass\"", "expect = \"fail\"").contains("expect = \"pass\"")
        );
    }

    #[test]
    fn a_rule_with_two_checks_is_refused() {
        assert!(
            problem_with("norm = \"1\"", "norm = \"1\"\nsql = \"SELECT 1\"")
                .contains("exactly one of")
        );
    }

    #[test]
    fn an_unknown_key_is_reported_with_its_line() {
        let problem = problem_with("norm = \"1\"", "norms = \"1\"");
        assert!(
            problem.contains("line 10") && problem.contains("norms"),
            "{problem}"
        );
    }

    #[test]
    fn a_test_of_an_unknown_rule_is_refused() {
        assert!(problem_with("rule = \"no-cats\"", "rule = \"no-dogs\"").contains("no-dogs"));
    }

    #[test]
    fn different_texts_have_different_digests() {
        let one = Pack::parse("own.toml", WHOLE).expect("a good pack").digest;
        let other = Pack::parse("own.toml", &WHOLE.replace("'cat'", "'dog'"))
            .expect("a good pack")
            .digest;
        assert_ne!(one, other);
        assert_eq!(one.len(), 16);
    }
}

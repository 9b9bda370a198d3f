//! The SARIF 2.1.0 report: results first, as they are found; tool and rules after them.

use std::io::Write;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::super::error::Result;
use super::super::finding::Finding;
use super::super::pack::{Pack, Rule};
use super::super::scan::{Scan, ScanSummary};
use super::write_json;

/// The JSON schema of the report.
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

pub(super) fn begin(out: &mut impl Write) -> Result<()> {
    Ok(write!(
        out,
        "{{\"$schema\":\"{SCHEMA}\",\"version\":\"2.1.0\",\"runs\":[{{\"results\":["
    )?)
}

pub(super) fn end(out: &mut impl Write, scan: &Scan, summary: &ScanSummary) -> Result<()> {
    out.write_all(b"\n],\"tool\":")?;
    write_json(out, &tool(scan))?;
    out.write_all(b",\"invocations\":")?;
    write_json(out, &json!([invocation(summary)]))?;
    out.write_all(b",\"properties\":")?;
    write_json(
        out,
        &json!({ "scan": summary.scope, "packs": summary.packs, "seconds": summary.seconds }),
    )?;
    Ok(out.write_all(b"}]}\n")?)
}

/// Converts one finding to a SARIF result.
pub(super) fn result(rule: &Rule, finding: &Finding) -> Value {
    let record = finding.record(rule);
    let mut result = json!({
        "ruleId": rule.id,
        "ruleIndex": finding.rule,
        "level": rule.severity.name(),
        "message": { "text": plain_text(&record.message) },
        "partialFingerprints": { "gristmill/v1": fingerprint(rule, finding) },
        "properties": { "norm": rule.norm, "evidence": record.evidence },
    });
    if let (Some(address), Some(members)) = (&finding.address, result.as_object_mut()) {
        let location = json!({
            "physicalLocation": { "artifactLocation": { "uri": format!("grains/{address}") } },
            "logicalLocations": [{ "name": address, "kind": "resource" }],
        });
        members.insert("locations".to_owned(), json!([location]));
    }
    result
}

/// Returns `text` as a message of SARIF, in which brackets are links and braces are placeholders
/// (SARIF 2.1.0, 3.11.5 and 3.11.6): what a grain contains is neither.
fn plain_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '[' | ']' | '\\' => out.extend(['\\', letter]),
            '{' | '}' => out.extend([letter, letter]),
            other => out.push(other),
        }
    }
    out
}

/// Returns the fingerprint of a finding, which is the same in every scan.
fn fingerprint(rule: &Rule, finding: &Finding) -> String {
    let mut hash = Sha256::new();
    let address = finding.address.as_deref().unwrap_or_default();
    let evidence = finding
        .evidence
        .iter()
        .flat_map(|(name, value)| [name.as_str(), value.as_str()]);
    for part in [rule.id.as_str(), address].into_iter().chain(evidence) {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize()
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn tool(scan: &Scan) -> Value {
    let packs = scan.packs().iter();
    let rules: Vec<Value> = packs
        .flat_map(|pack| pack.rules.iter().map(|rule| descriptor(pack, rule)))
        .collect();
    json!({
        "driver": {
            "name": "gristmill",
            "version": env!("CARGO_PKG_VERSION"),
            "informationUri": env!("CARGO_PKG_REPOSITORY"),
            "rules": rules,
        }
    })
}

fn descriptor(pack: &Pack, rule: &Rule) -> Value {
    let help = match rule.remediation.is_empty() {
        true => &rule.title,
        false => &rule.remediation,
    };
    json!({
        "id": rule.id,
        "shortDescription": { "text": plain_text(&rule.title) },
        "fullDescription": {
            "text": plain_text(&format!("{}, {}: {}", pack.regulation, rule.norm, rule.title)),
        },
        "help": { "text": plain_text(help) },
        "defaultConfiguration": { "level": rule.severity.name() },
        "properties": {
            "pack": pack.id,
            "packVersion": pack.version,
            "regulation": pack.regulation,
            "norm": rule.norm,
        },
    })
}

fn invocation(summary: &ScanSummary) -> Value {
    let failed = summary.rules.iter().filter_map(|(id, count)| {
        let first = count.first_failure.as_ref()?;
        let text = format!(
            "the policy failed on {} views; first: {first}",
            count.failures
        );
        Some(json!({
            "level": "error",
            "associatedRule": { "id": id },
            "message": { "text": plain_text(&text) },
        }))
    });
    json!({
        "executionSuccessful": summary.failures == 0,
        "toolExecutionNotifications": failed.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_grain_is_no_link_and_no_placeholder() {
        for (text, expected) in [
            ("a card number in content", "a card number in content"),
            ("[here](https://x.example)", r"\[here\](https://x.example)"),
            (r"\[here](1)", r"\\\[here\](1)"),
            ("a {0} b", "a {{0}} b"),
        ] {
            assert_eq!(plain_text(text), expected);
        }
    }
}

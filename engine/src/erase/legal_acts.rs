//! Texts of legal acts that name a person and stay: names of holds, in `state` and in the audit
//! log, the reasons of exports that a rule barred, and who requested earlier erasures of others.
//! They prove that an act was ordered, a hold is known by its name, and neither the chain of the
//! audit log nor a signed certificate admits a change. The certificate states which rows have such
//! texts.

use std::collections::BTreeSet;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use gristmill_schemas::columns::{LifecycleEvent, STATE};
use gristmill_schemas::sign::{DidKeyResolver, SignatureStatus, SignedBlob};
use memchr::memmem;
use object_store::path::Path;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::pattern_search::PatternSearch;
use crate::error::{Context, Result};
use crate::lake::{AUDIT, ERASURES, Lake, LakeFile, text_at, texts};
use crate::segment::SegmentId;

/// The rows of one file with texts of legal acts that contain identifiers of the people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetainedTexts {
    /// The file, relative to the lake's root.
    pub file: String,
    /// What the texts are: `hold_name`, `override_reason`, and `reference`, `legal_ground` or
    /// `operator` of a certificate.
    pub kinds: BTreeSet<String>,
    /// Number of rows; 1 for a certificate.
    pub rows: u64,
    /// Numbers of the rows in the audit log (`sequence`), if the file is one of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<i64>,
}

/// The name of a hold.
const HOLD_NAME: &str = "hold_name";

/// The entries of the audit log with a text of a legal act: the action, the text's key in the
/// details, and its kind.
const AUDITED: [(&str, &str, &str); 3] = [
    ("hold place", "hold", HOLD_NAME),
    ("hold lift", "hold", HOLD_NAME),
    ("export", "override_reason", "override_reason"),
];

/// Returns the texts of legal acts in the file `path` that contain what `patterns` finds. `None` if
/// it is no certificate and no data file of `state` or of the audit log, or if `patterns` finds
/// anything in any other text of it, or an address.
///
/// # Errors
/// Errors of reading the file.
pub(super) async fn accounting_for(
    lake: &Lake,
    path: &Path,
    patterns: &PatternSearch,
) -> Result<Option<RetainedTexts>> {
    if is_certificate(path) {
        let bytes = lake.location().read(path).await?;
        return Ok(of_certificate(path, &bytes, patterns));
    }
    let has_acts = |table: &str| path.prefix_matches(&Path::from(table));
    let is_data = path.filename().and_then(SegmentId::of_file).is_some();
    if !is_data || ![AUDIT, STATE].into_iter().any(has_acts) {
        return Ok(None);
    }
    let file = LakeFile::open(lake, path).await?;
    let mut found = RetainedTexts {
        file: path.to_string(),
        ..RetainedTexts::default()
    };
    let mut scratch = Vec::new();
    let mut count = |text: &str| patterns.count(text.as_bytes(), &mut scratch);
    for batch in file.stored_rows(None)? {
        let batch = file.decrypt(&batch.file("can't read", path)?, None)?;
        for row in 0..batch.num_rows() {
            let RowTexts { acts, others } = RowTexts::of(&batch, row);
            if others.iter().any(|text| count(text) != (0, 0)) {
                return Ok(None);
            }
            let mut kinds = Vec::new();
            for (kind, text) in &acts {
                match count(text) {
                    (0, 0) => {}
                    (0, _) => kinds.push((*kind).to_owned()),
                    _ => return Ok(None),
                }
            }
            found.add(kinds, &batch, row);
        }
    }
    Ok((found.rows > 0).then_some(found))
}

/// Returns true for the path of a certificate.
fn is_certificate(path: &Path) -> bool {
    let folder = path.parts().next();
    let is_in_folder = folder.is_some_and(|folder| folder.as_ref() == ERASURES);
    is_in_folder && path.parts().count() == 2 && path.extension() == Some("cose")
}

/// Returns the texts of the certificate `path` with these `bytes` that its operator wrote and that
/// contain what `patterns` finds; `None` if any other part of it does, or an address, or if it
/// isn't what was signed.
fn of_certificate(path: &Path, bytes: &[u8], patterns: &PatternSearch) -> Option<RetainedTexts> {
    let envelope = SignedBlob::parse(bytes).ok()?;
    if !matches!(envelope.verify(&DidKeyResolver), SignatureStatus::Valid) {
        return None;
    }
    let mut rest: Value = serde_json::from_slice(envelope.blob()).ok()?;
    let mut origin = rest.get_mut("request").and_then(Value::as_object_mut);
    let mut take = |kind: &'static str| Some((kind, origin.as_mut()?.remove(kind)?));
    let texts: Vec<_> = ["reference", "legal_ground", "operator"]
        .into_iter()
        .filter_map(&mut take)
        .collect();
    let mut scratch = Vec::new();
    let mut count = |text: &[u8]| patterns.count(text, &mut scratch);
    let start = memmem::find(bytes, envelope.blob())?;
    let end = start + envelope.blob().len();
    let rest = rest.to_string();
    let others = [rest.as_bytes(), bytes.get(..start)?, bytes.get(end..)?];
    if others.into_iter().any(|bytes| count(bytes) != (0, 0)) {
        return None;
    }
    let mut found = RetainedTexts {
        file: path.to_string(),
        rows: 1,
        ..RetainedTexts::default()
    };
    for (kind, text) in texts {
        match count(text.as_str().unwrap_or_default().as_bytes()) {
            (0, 0) => {}
            (0, _) => drop(found.kinds.insert(kind.to_owned())),
            _ => return None,
        }
    }
    (!found.kinds.is_empty()).then_some(found)
}

impl RetainedTexts {
    /// Adds a row of `batch` with texts of these `kinds`, if it has any.
    fn add(&mut self, kinds: Vec<String>, batch: &RecordBatch, row: usize) {
        if kinds.is_empty() {
            return;
        }
        self.rows += 1;
        self.kinds.extend(kinds);
        let numbers = batch.column_by_name("sequence");
        let numbers = numbers.and_then(|column| column.as_primitive_opt::<Int64Type>());
        self.entries
            .extend(numbers.map(|numbers| numbers.value(row)));
    }
}

/// The texts of one row.
#[derive(Debug, Default, PartialEq, Eq)]
struct RowTexts {
    /// Those of legal acts, after their kinds.
    acts: Vec<(&'static str, String)>,
    others: Vec<String>,
}

impl RowTexts {
    fn of(batch: &RecordBatch, row: usize) -> RowTexts {
        let mut found = RowTexts::default();
        let schema = batch.schema();
        for field in schema.fields() {
            let Some(text) = text_at(texts(batch, field.name()), row) else {
                continue;
            };
            match field.name().as_str() {
                "details" => found.add_details(text, text_at(texts(batch, "action"), row)),
                "value" if is_about_hold(batch, row) => {
                    let (name, until) = text.split_once(' ').unwrap_or((text, ""));
                    found.acts.push((HOLD_NAME, name.to_owned()));
                    found.others.push(until.to_owned());
                }
                _ => found.others.push(text.to_owned()),
            }
        }
        found
    }

    /// Adds the texts in the details of an entry of `action`.
    fn add_details(&mut self, details: &str, action: Option<&str>) {
        let Ok(mut rest) = serde_json::from_str::<Map<String, Value>>(details) else {
            return self.others.push(details.to_owned());
        };
        for (of_action, key, kind) in AUDITED {
            if action == Some(of_action)
                && let Some(Value::String(text)) = rest.remove(key)
            {
                self.acts.push((kind, text));
            }
        }
        self.others.push(Value::Object(rest).to_string());
    }
}

/// Returns true for an event of `state` that places or lifts a hold.
fn is_about_hold(batch: &RecordBatch, row: usize) -> bool {
    let event = text_at(texts(batch, "event"), row).and_then(LifecycleEvent::from_name);
    matches!(event, Some(LifecycleEvent::Held | LifecycleEvent::Released))
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::columns::{AuditRow, StateRow, audit_batch, state_batch};

    use super::*;

    fn entry(action: &str, details: &str) -> RowTexts {
        let row = AuditRow {
            sequence: 3,
            at: 0,
            action: action.to_owned(),
            actor: None,
            details: details.to_owned(),
            previous: "0".to_owned(),
            hash: "1".to_owned(),
        };
        RowTexts::of(&audit_batch(&[row]).unwrap(), 0)
    }

    #[test]
    fn only_names_of_holds_and_reasons_of_exports_are_texts_of_legal_acts() {
        let export = entry(
            "export",
            r#"{"format": "Ada", "override_reason": "Ada agreed"}"#,
        );
        let reason = ("override_reason", "Ada agreed".to_owned());
        assert_eq!(export.acts, [reason]);
        assert!(export.others.contains(&r#"{"format":"Ada"}"#.to_owned()));
        let hold = entry("hold lift", r#"{"hold": "case-Ada"}"#);
        assert_eq!(hold.acts, [(HOLD_NAME, "case-Ada".to_owned())]);
        for (action, details) in [
            ("compact", r#"{"hold":"Ada"}"#),
            ("export", r#"{"hold":"Ada"}"#),
            ("export", "Ada"),
        ] {
            let other = entry(action, details);
            assert!(other.acts.is_empty());
            assert!(other.others.contains(&details.to_owned()), "{other:?}");
        }
    }

    #[test]
    fn the_value_of_an_event_is_the_name_of_a_hold_and_its_end() {
        let texts = |event| {
            let row = StateRow {
                content_address: "a".to_owned(),
                event,
                value: Some("case-Ada 2030-01-01T00:00:00Z".to_owned()),
                at: 0,
                actor: Some("Ben".to_owned()),
                reason: None,
                source_id: None,
            };
            RowTexts::of(&state_batch(&[row]).unwrap(), 0)
        };
        let held = texts(LifecycleEvent::Held);
        assert_eq!(held.acts, [(HOLD_NAME, "case-Ada".to_owned())]);
        assert!(held.others.contains(&"Ben".to_owned()));
        assert!(texts(LifecycleEvent::Superseded).acts.is_empty());
    }
}

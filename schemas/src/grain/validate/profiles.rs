//! Checks the fields of domain profiles in the grains that declare them by a tag (Appendix A).
//!
//! A field may be in the grain or in its `context`, which some writers fill with texts only, so a
//! number, a boolean or a structure may be a text. Nothing is refused: what deviates is marked.

use crate::grain::{Grain, Mark, RawValue};

/// What a profile requires of a field's value.
#[derive(Debug, Clone, Copy)]
enum ValueForm {
    /// One of these texts.
    OneOf(&'static [&'static str]),
    Text,
    /// A list of texts.
    Texts,
    Integer,
    Number,
    /// A number from the first to the second.
    Between(f64, f64),
    Boolean,
    Map,
}

use ValueForm::{Between, Boolean, Integer, Map, Number, OneOf, Text, Texts};

/// A profile: its tag, and its fields.
type Profile = (&'static str, &'static [(&'static str, ValueForm)]);

/// The profiles of Appendix A.
const PROFILES: [Profile; 7] = [
    ("profile:healthcare", HEALTHCARE),
    ("profile:legal", LEGAL),
    ("profile:finance", FINANCE),
    ("profile:robotics", ROBOTICS),
    ("profile:science", SCIENCE),
    ("profile:consumer", CONSUMER),
    ("profile:integration", INTEGRATION),
];

/// The prefix of the tags that declare a profile.
const PROFILE: &str = "profile:";

/// A.1.
const HEALTHCARE: &[(&str, ValueForm)] = &[
    ("hc:patient_id", Text),
    ("hc:encounter_id", Text),
    ("hc:practitioner_did", Text),
    ("hc:icd10", Texts),
    ("hc:cpt", Texts),
    ("hc:loinc", Text),
    ("hc:snomed", Text),
    ("hc:fhir_resource", Text),
    ("hc:fhir_id", Text),
    ("hc:consent_ref", Text),
    (
        "hc:deidentification",
        OneOf(&["safe_harbor", "expert_determination"]),
    ),
];

/// A.2.
const LEGAL: &[(&str, ValueForm)] = &[
    ("legal:jurisdiction", Text),
    ("legal:matter_id", Text),
    (
        "legal:document_type",
        OneOf(&[
            "contract",
            "opinion",
            "filing",
            "statute",
            "regulation",
            "order",
            "brief",
        ]),
    ),
    ("legal:parties", Texts),
    ("legal:effective_date", Integer),
    ("legal:expiry_date", Integer),
    ("legal:citation", Text),
    (
        "legal:privilege",
        OneOf(&["attorney_client", "work_product", "none"]),
    ),
    ("legal:hold_ref", Text),
    ("legal:redaction_level", OneOf(&["none", "partial", "full"])),
];

/// A.3.
const FINANCE: &[(&str, ValueForm)] = &[
    ("fin:account_id", Text),
    ("fin:instrument_id", Text),
    ("fin:ticker", Text),
    ("fin:amount", Number),
    ("fin:currency", Text),
    (
        "fin:transaction_type",
        OneOf(&["debit", "credit", "transfer", "fee", "trade", "settlement"]),
    ),
    ("fin:market_timestamp", Integer),
    ("fin:venue", Text),
    ("fin:strategy_id", Text),
    ("fin:risk_score", Between(0.0, 1.0)),
    ("fin:sox_control_id", Text),
    ("fin:retention_years", Integer),
];

/// A.4.
const ROBOTICS: &[(&str, ValueForm)] = &[
    ("rob:robot_id", Text),
    ("rob:pose", Map),
    ("rob:velocity", Map),
    ("rob:map_id", Text),
    ("rob:mission_id", Text),
    ("rob:battery_pct", Between(0.0, 100.0)),
    (
        "rob:safety_state",
        OneOf(&["normal", "warning", "emergency_stop", "recovery"]),
    ),
    ("rob:hardware_rev", Text),
    ("rob:firmware_ver", Text),
    ("rob:contact_forces", Map),
    ("rob:coordinate_frame", Text),
];

/// A.5.
const SCIENCE: &[(&str, ValueForm)] = &[
    ("sci:doi", Text),
    ("sci:arxiv_id", Text),
    ("sci:pmid", Text),
    ("sci:dataset_id", Text),
    ("sci:experiment_id", Text),
    ("sci:protocol_id", Text),
    ("sci:hypothesis", Text),
    (
        "sci:result_status",
        OneOf(&[
            "positive",
            "negative",
            "inconclusive",
            "replicated",
            "failed_replication",
        ]),
    ),
    ("sci:p_value", Between(0.0, 1.0)),
    ("sci:effect_size", Number),
    ("sci:sample_size", Integer),
    ("sci:preregistered", Boolean),
    ("sci:open_access", Boolean),
];

/// A.6.
const CONSUMER: &[(&str, ValueForm)] = &[
    (
        "con:device_type",
        OneOf(&[
            "mobile",
            "desktop",
            "smart_speaker",
            "wearable",
            "tv",
            "kiosk",
        ]),
    ),
    ("con:app_id", Text),
    ("con:app_version", Text),
    ("con:locale", Text),
    ("con:preference_category", Text),
    (
        "con:interaction_type",
        OneOf(&[
            "explicit_feedback",
            "implicit_signal",
            "purchase",
            "skip",
            "save",
            "share",
        ]),
    ),
    ("con:sentiment", Between(-1.0, 1.0)),
    ("con:engagement_duration_ms", Integer),
    ("con:recommendation_rank", Integer),
    ("con:ab_variant", Text),
    ("con:ccpa_opted_out", Boolean),
];

/// A.7. `int:auth_type` is an open enumeration.
const INTEGRATION: &[(&str, ValueForm)] = &[
    ("int:base_url", Text),
    (
        "int:http_method",
        OneOf(&["GET", "POST", "PUT", "PATCH", "DELETE"]),
    ),
    ("int:http_path", Text),
    ("int:path_params", Texts),
    ("int:query_params", Texts),
    ("int:body_params", Texts),
    ("int:response_mapping", Text),
    ("int:auth_type", Text),
    ("int:auth_scopes", Texts),
    ("int:read_only", Boolean),
    ("int:connector", Text),
    ("int:docs_url", Text),
    ("int:rate_limit", Integer),
    ("int:category", Text),
    ("int:sunset_date", Text),
    ("int:content_type", Text),
    ("int:poll_interval_secs", Integer),
    ("int:cursor_field", Text),
    ("int:cursor_type", OneOf(&["timestamp", "id", "etag"])),
    ("int:webhook_path", Text),
    ("int:webhook_secret_header", Text),
    ("int:cron_expression", Text),
    ("int:timezone", Text),
    ("int:config_schema", Map),
    ("int:event_schema", Map),
];

/// Marks a grain that has a field of a profile that it declares with a value of another form.
pub(super) fn check(grain: &mut Grain<'_>) {
    let deviates = grain
        .tags()
        .filter(|tag| tag.starts_with(PROFILE))
        .filter_map(|tag| PROFILES.iter().find(|(known, _)| *known == tag))
        .flat_map(|(_, fields)| fields.iter())
        .any(|(name, form)| {
            let value = grain.domain_field(name);
            value.is_some_and(|value| !form.fits(&value))
        });
    grain.marks_mut().insert_if(Mark::ProfileFields, deviates);
}

impl ValueForm {
    fn fits(self, value: &RawValue<'_>) -> bool {
        let text = value.as_text();
        match self {
            OneOf(values) => text.is_some_and(|text| values.contains(&text)),
            Text => text.is_some(),
            Texts => text.is_some() || is_list_of_texts(value),
            Integer => number_of(value).is_some_and(|number| number.fract() == 0.0),
            Number => number_of(value).is_some(),
            Between(least, most) => {
                number_of(value).is_some_and(|number| (least..=most).contains(&number))
            }
            Boolean => value.as_bool().is_some() || matches!(text, Some("true" | "false")),
            Map => value.as_map().is_some() || text.is_some(),
        }
    }
}

fn is_list_of_texts(value: &RawValue<'_>) -> bool {
    let is_text = |item: RawValue<'_>| item.as_text().is_some();
    value.as_array().is_some_and(|mut items| items.all(is_text))
}

/// Returns a finite number, which may be a text.
fn number_of(value: &RawValue<'_>) -> Option<f64> {
    let parsed = || value.as_text()?.parse::<f64>().ok();
    value
        .as_number()
        .or_else(parsed)
        .filter(|number| number.is_finite())
}

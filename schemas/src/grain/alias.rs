//! Nonstandard keys that other writers use for known fields. They are only read, never written; in
//! a grain that has the field itself, such a key is a custom key of its author.
//!
//! Each alias applies to one grain type, so that a custom field of the same name in another type is
//! left alone.

use super::fields::Field;
use super::types::GrainType;

/// `(type, key, field)` of every alias found in files of other writers and in earlier versions of
/// the specification.
const ALIASES: &[(GrainType, &str, Field)] = &[
    (GrainType::Action, "stdout", Field::Stdout),
    (GrainType::Action, "stderr", Field::Stderr),
    (GrainType::Action, "xcode", Field::ExitCode),
    (GrainType::Action, "ischema", Field::InputSchema),
    (GrainType::Action, "arguments", Field::Input),
    (GrainType::Action, "result", Field::Content),
    (GrainType::Consensus, "thr", Field::Threshold),
    (GrainType::Consensus, "agrc", Field::AgreementCount),
    (GrainType::Consensus, "disc", Field::DissentCount),
    (GrainType::Consensus, "dgrains", Field::DissentGrains),
    (GrainType::Consensus, "acnt", Field::AgreedContent),
    (GrainType::Observation, "sensor_id", Field::ObserverId),
    (GrainType::Observation, "sensor_type", Field::ObserverType),
];

/// Keys of the integration profile inside `context` (§A.7): full name, short key, and the short key
/// before version 1.3 where it differed. Writers never shorten these keys; readers that look for
/// the full name may find a short one.
const INTEGRATION: &[(&str, &str, Option<&str>)] = &[
    ("int:base_url", "ib", None),
    ("int:http_method", "ihm", Some("im")),
    ("int:http_path", "ihp", Some("ip")),
    ("int:path_params", "ipp", None),
    ("int:query_params", "iqp", None),
    ("int:body_params", "ibp", None),
    ("int:response_mapping", "irm", None),
    ("int:auth_type", "iat", None),
    ("int:auth_scopes", "ias", None),
    ("int:read_only", "iro", None),
    ("int:connector", "ic", None),
    ("int:docs_url", "idu", None),
    ("int:rate_limit", "irl", None),
    ("int:category", "icat", None),
    ("int:sunset_date", "isd", None),
    ("int:content_type", "ict", None),
    ("int:poll_interval_secs", "ipis", None),
    ("int:cursor_field", "icf", None),
    ("int:cursor_type", "icft", Some("ict2")),
    ("int:webhook_path", "iwp", None),
    ("int:webhook_secret_header", "iwsh", None),
    ("int:cron_expression", "icron", None),
    ("int:timezone", "itz", None),
    ("int:config_schema", "icfg", Some("icfgs")),
    ("int:event_schema", "ievt", Some("ievs")),
];

/// Returns the field that `key` is an alias of in a grain of type `of`.
pub(super) fn field_of_alias(of: Option<GrainType>, key: &str) -> Option<Field> {
    let of = of?;
    ALIASES
        .iter()
        .find(|(kind, alias, _)| *kind == of && *alias == key)
        .map(|(_, _, field)| *field)
}

/// Returns the keys under which `context` may hold the value of an integration profile field, in
/// the order of preference; only `name` itself for a name that the profile does not define.
pub fn integration_keys(name: &str) -> impl Iterator<Item = &str> {
    let known = INTEGRATION.iter().find(|(full, _, _)| *full == name);
    let shorter = known
        .into_iter()
        .flat_map(|(_, short, older)| [Some(*short), *older])
        .flatten();
    std::iter::once(name).chain(shorter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_applies_to_one_type_only() {
        assert_eq!(
            field_of_alias(Some(GrainType::Action), "xcode"),
            Some(Field::ExitCode)
        );
        assert_eq!(field_of_alias(Some(GrainType::Belief), "xcode"), None);
        assert_eq!(field_of_alias(None, "xcode"), None);
    }

    #[test]
    fn no_alias_equals_a_short_key() {
        for (_, alias, _) in ALIASES {
            assert_eq!(Field::from_short_key(alias), None, "{alias}");
        }
    }

    #[test]
    fn integration_names_are_found_under_their_older_keys() {
        let keys: Vec<_> = integration_keys("int:http_method").collect();
        assert_eq!(keys, ["int:http_method", "ihm", "im"]);
        assert_eq!(integration_keys("int:other").count(), 1);
    }
}

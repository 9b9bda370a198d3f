//! The answers of DESCRIBE that don't depend on a store (CAL 1.0, section 8.6).

use gristmill_schemas::json::{Json, Object};

use super::fields::{FieldSpec, Operator, available};
use super::grain_type::{GrainType, SINGULARS};

/// The answer of DESCRIBE grammar.
pub const GRAMMAR: &str = include_str!("grammar.txt");

/// The conformance level in capabilities.
pub const CONFORMANCE: &str = "full";
/// The version of CAL in capabilities and responses.
pub const VERSION: &str = "1.0";

/// Returns the grain types by name.
pub fn grain_types() -> Json<'static> {
    Json::Array(SINGULARS.iter().copied().map(Json::from).collect())
}

/// Returns the fields that a query over grains of `grain_type` may use.
pub fn fields(grain_type: Option<GrainType>) -> Json<'static> {
    Json::Array(
        available(grain_type)
            .map(|spec| Json::Object(field(spec)))
            .collect(),
    )
}

fn field(spec: &FieldSpec) -> Object<'static> {
    let names =
        |names: &mut dyn Iterator<Item = &'static str>| names.map(Json::from).collect::<Vec<_>>();
    let mut object = Object::new();
    object.insert("name", spec.name);
    object.insert("type", spec.kind.name());
    object.insert(
        "operators",
        names(&mut spec.operators.iter().map(Operator::name)),
    );
    for (key, flag) in [
        ("sortable", spec.sortable),
        ("projectable", spec.projectable),
        ("groupable", spec.groupable),
    ] {
        object.insert(key, flag);
    }
    if let Some(owner) = spec.owner {
        object.insert("grain_type", owner.name());
    }
    if !spec.values.is_empty() {
        object.insert("values", names(&mut spec.values.iter().copied()));
    }
    object.insert("description", spec.about);
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cal::keywords::{EXCLUDED_WORDS, Keyword};

    #[test]
    fn the_grammar_has_every_keyword_and_no_excluded_word() {
        let words: Vec<&str> = GRAMMAR
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .collect();
        for keyword in Keyword::ALL {
            let unproduced = matches!(keyword, Keyword::Or | Keyword::Not | Keyword::Null);
            assert_eq!(words.contains(&keyword.name()), !unproduced, "{keyword:?}");
        }
        for word in EXCLUDED_WORDS {
            assert!(!words.contains(word), "{word}");
        }
    }

    #[test]
    fn fields_are_described_with_types_operators_and_values() {
        let goals = fields(Some(GrainType::Goal));
        assert_eq!(goals.as_array().unwrap().len(), 22);
        let state = goals
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one.get("name").unwrap().as_str() == Some("goal_state"))
            .unwrap();
        assert_eq!(state.get("operators").unwrap().to_string(), r#"["=","!="]"#);
        assert_eq!(state.get("grain_type").unwrap().as_str(), Some("goal"));
        assert_eq!(grain_types().as_array().unwrap().len(), 10);
    }
}

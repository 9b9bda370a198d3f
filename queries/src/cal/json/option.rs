//! Reads the options of WITH from JSON.

use gristmill_schemas::json::Json;

use super::members::{
    NO_SPAN, array, members, number, optional, positive, required, string, text, word, wrong_shape,
};
use super::read::JsonReader;
use super::value::query_value;
use crate::cal::ast::*;
use crate::cal::check;
use crate::cal::error::{CalError, Code, Result, WarningCode};
use crate::cal::grain_type::GrainType;
use crate::cal::keywords::is_identifier;
use crate::cal::vocabulary::{DisclosureLevel, OptionName};

impl JsonReader {
    /// Reads an option.
    pub(super) fn option(
        &mut self,
        json: &Json,
        grain_type: Option<GrainType>,
    ) -> Result<WithOption> {
        let object = json
            .as_object()
            .ok_or_else(|| wrong_shape("an object", json))?;
        let name = required(object, "name", |name| {
            string(name).map(str::to_ascii_lowercase)
        })?;
        if name.starts_with("x_") && is_identifier(&name) && name.len() > 2 {
            return self.extension(json, name);
        }
        let option = OptionName::from_name(&name).ok_or_else(|| unknown_option(&name))?;
        match without_arguments(option) {
            Some(option) => {
                members(json, &["name"])?;
                Ok(option)
            }
            None => self.option_with_arguments(option, json, grain_type),
        }
    }

    fn option_with_arguments(
        &mut self,
        option: OptionName,
        json: &Json,
        grain_type: Option<GrainType>,
    ) -> Result<WithOption> {
        let argument = |key: &'static str| members(json, &["name", key]);
        Ok(match option {
            OptionName::Diversity => WithOption::Diversity(diversity(json)?),
            OptionName::Consistency => WithOption::Consistency(consistency(json)?),
            OptionName::Dedup => {
                WithOption::Dedup(required(argument("field")?, "field", |field| {
                    self.field(field, grain_type)
                })?)
            }
            OptionName::Locale => {
                WithOption::Locale(required(argument("locale")?, "locale", text)?)
            }
            OptionName::Cache => WithOption::Cache(required(argument("ttl")?, "ttl", positive)?),
            _ => WithOption::ProgressiveDisclosure(optional(argument("level")?, "level", level)?),
        })
    }

    fn extension(&mut self, json: &Json, name: String) -> Result<WithOption> {
        // `args` is another spelling of `values`.
        let object = members(json, &["name", "values", "args"])?;
        let key = if object.contains_key("values") {
            "values"
        } else {
            "args"
        };
        let values = optional(object, key, |list| {
            array(list, |value| query_value(&mut self.checker, value))
        })?;
        check::name(&name, NO_SPAN)?;
        self.checker.warn(
            WarningCode::W004,
            format!("The option \"{name}\" is unknown here and ignored."),
            NO_SPAN,
        );
        Ok(WithOption::Extension(name, values.unwrap_or_default()))
    }
}

/// Returns the option of a name that takes no arguments.
fn without_arguments(name: OptionName) -> Option<WithOption> {
    Some(match name {
        OptionName::Superseded => WithOption::Superseded,
        OptionName::ScoreBreakdown => WithOption::ScoreBreakdown,
        OptionName::Explanation => WithOption::Explanation,
        OptionName::Provenance => WithOption::Provenance,
        OptionName::ContradictionDetection => WithOption::ContradictionDetection,
        OptionName::Summarize => WithOption::Summarize,
        OptionName::IsoTimestamps => WithOption::IsoTimestamps,
        OptionName::ProgressiveDisclosure
        | OptionName::Diversity
        | OptionName::Consistency
        | OptionName::Dedup
        | OptionName::Locale
        | OptionName::Cache => return None,
    })
}

fn unknown_option(name: &str) -> CalError {
    let shown: String = name.chars().take(64).collect();
    CalError::new(Code::E002, format!("Unknown option \"{shown}\"."))
        .valid_values(OptionName::NAMES.iter().copied())
        .in_member("name")
}

fn level(json: &Json) -> Result<DisclosureLevel> {
    word(json, DisclosureLevel::NAMES, DisclosureLevel::from_name)
}

fn diversity(json: &Json) -> Result<Diversity> {
    let object = members(json, &["name", "mode", "lambda", "value"])?;
    let lambda = optional(object, "lambda", number)?;
    let least = optional(object, "value", number)?;
    let is_mmr = required(object, "mode", |mode| {
        word(mode, &["mmr", "threshold"], |mode| match mode {
            "mmr" => Some(true),
            "threshold" => Some(false),
            _ => None,
        })
    })?;
    match (is_mmr, lambda, least) {
        (true, lambda, None) => Ok(Diversity::Mmr(lambda)),
        (false, None, Some(least)) => Ok(Diversity::Threshold(least)),
        _ => Err(CalError::new(
            Code::E120,
            "diversity takes \"lambda\" with mmr and \"value\" with threshold.",
        )),
    }
}

fn consistency(json: &Json) -> Result<Consistency> {
    let object = members(json, &["name", "level", "value"])?;
    let bound = optional(object, "value", number)?;
    let level = required(object, "level", |level| string(level).map(str::to_owned))?;
    match (level.as_str(), bound) {
        ("eventual", None) => Ok(Consistency::Eventual),
        ("linearizable", None) => Ok(Consistency::Linearizable),
        ("bounded", Some(bound)) => Ok(Consistency::Bounded(bound)),
        _ => Err(CalError::new(
            Code::E120,
            "consistency is eventual, linearizable, or bounded with a \"value\".",
        )),
    }
}

//! Statements about the format: closed sets of names, properties shown by other cases, and points
//! on which implementations disagree.

use std::fs;

use gristmill_schemas::cmf::{
    Capability, Channel, CmfRole, CmfStopReason, ContentType, MessageHook, MutabilityTier,
    ResourceType, SourceType, SubjectType, ViewAction, ViewDirection,
};
use gristmill_schemas::json::Json;

use super::super::{CaseFile, Outcome, without_mark};
use super::Checked;

/// A tier of the specification that the reference implementation lacks.
const TIER_OF_SPECIFICATION: &str = "guarded";

/// Compares the names of a closed set. A set called `Capability(…)` is the registry of one
/// implementation, whose names must all be known here; other sets must be equal, except that
/// mutability tiers may lack [`TIER_OF_SPECIFICATION`].
pub(super) fn enumeration(input: &Json, target: &Json) -> Checked {
    let title = input.get("enum").and_then(Json::as_str).unwrap_or_default();
    let (title, is_registry) = match title.split_once('(') {
        Some((title, _)) => (title, true),
        None => (title, false),
    };
    let names = names(title).ok_or_else(|| format!("unknown enumeration {title}"))?;
    let expected: Vec<&str> = target
        .get("values")
        .and_then(Json::as_array)
        .unwrap_or_default()
        .iter()
        .filter_map(Json::as_str)
        .collect();
    let count = target
        .get("count")
        .and_then(Json::as_u64)
        .unwrap_or(expected.len() as u64);
    let missing: Vec<&&str> = expected
        .iter()
        .filter(|name| !names.contains(name))
        .collect();
    let is_optional = |name: &str| title == "MutabilityTier" && name == TIER_OF_SPECIFICATION;
    let has_others = names
        .iter()
        .any(|name| !expected.contains(name) && !is_optional(name));
    if !missing.is_empty() || expected.len() as u64 != count || (!is_registry && has_others) {
        return Err(format!("expected {expected:?}, found {names:?}"));
    }
    Ok(())
}

fn names(title: &str) -> Option<&'static [&'static str]> {
    Some(match title {
        "Role" => CmfRole::NAMES,
        "Channel" => Channel::NAMES,
        "ContentType" | "ViewKind" => ContentType::NAMES,
        "ResourceType" => ResourceType::NAMES,
        "SourceType" => SourceType::NAMES,
        "SubjectType" => SubjectType::NAMES,
        "StopReason" => CmfStopReason::NAMES,
        "ViewAction" => ViewAction::NAMES,
        "Capability" => Capability::NAMES,
        "MutabilityTier" => MutabilityTier::NAMES,
        "MessageHookType" => MessageHook::NAMES,
        _ => return None,
    })
}

/// Runs a statement in prose.
pub(super) fn outcome(case: &Json, file: &CaseFile) -> Outcome {
    match case
        .get("input")
        .and_then(|input| input.get("what"))
        .and_then(Json::as_str)
    {
        Some(what) => divergence(what, case),
        None => property(case, file),
    }
}

/// A point of disagreement: those about action and direction of a kind under a role are checked,
/// the others are prose.
fn divergence(what: &str, case: &Json) -> Outcome {
    let recommended = case
        .get("expect")
        .and_then(|expect| expect.get("recommended"))
        .and_then(Json::as_str);
    let Some((question, recommended)) = Question::parse(what).zip(recommended) else {
        return Outcome::OutOfScope(format!(
            "a decision in prose ({what}), told in the documentation of the format"
        ));
    };
    match question
        .answers()
        .into_iter()
        .find(|answer| *answer != recommended)
    {
        None => Outcome::Passed,
        Some(answer) => Outcome::Failed(format!("{what}: expected {recommended}, found {answer}")),
    }
}

/// `action of text under assistant`, `direction of a tool_call with no hook`.
struct Question {
    is_action: bool,
    kind: ContentType,
    roles: Vec<CmfRole>,
}

impl Question {
    fn parse(what: &str) -> Option<Question> {
        let (attribute, rest) = what.split_once(" of ")?;
        let rest = rest.strip_suffix(" with no hook").unwrap_or(rest);
        let (kind, roles) = match rest.split_once(" under ") {
            Some((kind, roles)) => (
                kind,
                roles
                    .split('/')
                    .map(CmfRole::from_name)
                    .collect::<Option<Vec<_>>>()?,
            ),
            None => (rest, CmfRole::ALL.to_vec()),
        };
        let is_action = match attribute {
            "action" => true,
            "direction" => false,
            _ => return None,
        };
        Some(Question {
            is_action,
            kind: ContentType::from_name(kind.strip_prefix("a ").unwrap_or(kind))?,
            roles,
        })
    }

    fn answers(&self) -> Vec<&'static str> {
        let answer = |role: &CmfRole| match (self.is_action, ViewDirection::of(self.kind, *role)) {
            (true, _) => ViewAction::of(self.kind, *role).as_str(),
            (false, ViewDirection::Pre) => "pre",
            (false, ViewDirection::Post) => "post",
        };
        self.roles.iter().map(answer).collect()
    }
}

/// A property holds if the cases that it names pass; they are in the same folder.
fn property(case: &Json, file: &CaseFile) -> Outcome {
    let named: Vec<Reference> = case
        .get("cases")
        .and_then(Json::as_array)
        .unwrap_or_default()
        .iter()
        .filter_map(Reference::parse)
        .collect();
    let mut seen = 0;
    for reference in &named {
        match reference.run(file) {
            Ok(count) => seen += count,
            Err(why) => return Outcome::Failed(why),
        }
    }
    match seen {
        0 => Outcome::OutOfScope("a property in prose; no case that it names is here".to_owned()),
        _ => Outcome::Passed,
    }
}

/// Cases that a property names: `views/all-12-*`, or `uri_glob: every case with finding=1`.
struct Reference<'a> {
    group: &'a str,
    chosen: Chosen<'a>,
}

enum Chosen<'a> {
    Id(&'a str),
    Finding(u64),
}

impl<'a> Reference<'a> {
    fn parse(json: &'a Json) -> Option<Self> {
        let text = json.as_str()?;
        if let Some((group, rest)) = text.split_once(": ") {
            let finding = rest.rsplit_once('=')?.1.parse().ok()?;
            return Some(Reference {
                group,
                chosen: Chosen::Finding(finding),
            });
        }
        let (group, id) = text.split_once('/')?;
        Some(Reference {
            group,
            chosen: Chosen::Id(id),
        })
    }

    /// Runs the cases and returns their number.
    fn run(&self, file: &CaseFile) -> Result<usize, String> {
        let bytes =
            fs::read(file.folder.join(self.group).with_extension("json")).unwrap_or_default();
        let Ok(json) = Json::parse(without_mark(&bytes)) else {
            return Ok(0);
        };
        let named = CaseFile {
            json: &json,
            folder: file.folder,
        };
        let cases = json
            .get("cases")
            .and_then(Json::as_array)
            .unwrap_or_default();
        let chosen: Vec<&Json> = cases.iter().filter(|case| self.names(case)).collect();
        for case in &chosen {
            if let Outcome::Failed(why) = super::outcome(case, &named) {
                return Err(format!(
                    "{}/{}: {why}",
                    self.group,
                    case.get("id").unwrap_or(&Json::Null)
                ));
            }
        }
        Ok(chosen.len())
    }

    fn names(&self, case: &Json) -> bool {
        match self.chosen {
            Chosen::Finding(finding) => case.get("finding").and_then(Json::as_u64) == Some(finding),
            Chosen::Id(pattern) => {
                let id = case.get("id").and_then(Json::as_str).unwrap_or_default();
                gristmill_schemas::cmf::UriPattern::new(pattern)
                    .is_ok_and(|pattern| pattern.matches(id))
            }
        }
    }
}

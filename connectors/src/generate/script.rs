//! Scripts: the scenes, sentences and lists of words of one language, from a text file.
//!
//! A line is a keyword and its parts, separated by ` | `; a line that begins with two spaces
//! continues the one before. Lines before the first `[department]` are of all departments.
//!
//! | line | meaning |
//! |---|---|
//! | `list NAME \| …` | the values of the slot `{NAME}`, the most frequent first |
//! | `more TEXT` | a sentence that answers of the department may add (`{more}`) |
//! | `aside TEXT` | a sentence that people may add to a message |
//! | `belief RELATION \| OBJECT \| TAG` | a fact about a person |
//! | `correction TEXT`, `withdraw TEXT` | what people write when a fact changes from `{old}` to `{new}`, and when they withdraw a consent |
//! | `goal …`, `workflow …`, `claim …`, `persona …` | texts of goals with criteria, of workflows with steps, of consensus and of agents |
//! | `hold RELATION \| OBJECT` | a fact under a legal hold |
//! | `slip TEXT \| TYPE` | a passing error of a tool |
//! | `scene` | begins a scene; the lines below follow |
//! | `user TEXT`, `agent TEXT` | messages |
//! | `call TOOL \| NAME=TEXT; …`, `done TEXT`, `fail TYPE \| TEXT` | a call of a tool, its result or its error |
//! | `think TEXT \| CONCLUSION` | reasoning |
//! | `fact …`, `then …` | a belief, and one that supersedes it |
//!
//! Lines of a scene that begin with `?` are left out together in half of the conversations.
//! [`text`](super::text) describes the slots.

use std::sync::LazyLock;

/// The departments of the cooperative.
pub(super) const DEPARTMENTS: [&str; 5] = ["support", "engineering", "clinic", "home", "bank"];

/// A language of conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Language {
    English,
    German,
    French,
    Spanish,
}

/// The texts of a language.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// Names and values of slots.
    pub(super) lists: Vec<(&'static str, Vec<&'static str>)>,
    /// Texts of all departments.
    pub(super) common: Department,
    /// Texts of each of the [`DEPARTMENTS`].
    pub(super) departments: [Department; DEPARTMENTS.len()],
}

/// The texts of a department.
#[derive(Debug, Default)]
pub(super) struct Department {
    pub(super) more: Vec<&'static str>,
    pub(super) asides: Vec<&'static str>,
    pub(super) beliefs: Vec<FactTemplate>,
    pub(super) corrections: Vec<&'static str>,
    pub(super) withdrawals: Vec<&'static str>,
    pub(super) goals: Vec<Parts>,
    pub(super) workflows: Vec<Parts>,
    pub(super) claims: Vec<&'static str>,
    pub(super) personas: Vec<&'static str>,
    pub(super) holds: Vec<FactTemplate>,
    /// Texts and types of errors.
    pub(super) slips: Vec<(&'static str, &'static str)>,
    pub(super) scenes: Vec<Vec<SceneLine>>,
}

/// The first part of a line and the others.
pub(super) type Parts = (&'static str, Vec<&'static str>);

/// A fact about a person.
#[derive(Debug, Clone, Copy)]
pub(super) struct FactTemplate {
    pub(super) relation: &'static str,
    pub(super) object: &'static str,
    /// A structural tag.
    pub(super) tag: Option<&'static str>,
}

/// A line of a scene.
#[derive(Debug)]
pub(super) struct SceneLine {
    /// True if it is left out in half of the conversations.
    pub(super) optional: bool,
    pub(super) step: SceneStep,
}

/// What happens in a line of a scene.
#[derive(Debug)]
pub(super) enum SceneStep {
    User(&'static str),
    Agent(&'static str),
    Call {
        tool: &'static str,
        input: Vec<(&'static str, &'static str)>,
    },
    Done(&'static str),
    Fail {
        kind: &'static str,
        text: &'static str,
    },
    Think {
        text: &'static str,
        conclusion: &'static str,
    },
    Fact(FactTemplate),
    Then(FactTemplate),
}

/// Returns the script of a language.
pub(super) fn script(language: Language) -> &'static Script {
    static SCRIPTS: LazyLock<[Script; 4]> = LazyLock::new(|| {
        [
            include_str!("scripts/en.txt"),
            include_str!("scripts/de.txt"),
            include_str!("scripts/fr.txt"),
            include_str!("scripts/es.txt"),
        ]
        .map(|text| parse(text).0)
    });
    &SCRIPTS[language as usize]
}

/// Parses a script. Returns the lines that aren't understood too; the scripts have none.
fn parse(text: &'static str) -> (Script, Vec<&'static str>) {
    let (mut script, mut wrong) = (Script::default(), Vec::new());
    let mut current: Option<usize> = None;
    for line in logical_lines(text) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            current = DEPARTMENTS
                .iter()
                .position(|department| *department == name);
            wrong.extend(current.is_none().then_some(line));
            continue;
        }
        if let Some(list) = line.strip_prefix("list ") {
            let (name, values) = parts(list);
            script.lists.push((name, values));
            continue;
        }
        let department = match current {
            Some(at) => &mut script.departments[at],
            None => &mut script.common,
        };
        wrong.extend(department.read(line).is_none().then_some(line));
    }
    (script, wrong)
}

/// Splits a text into lines; lines that begin with two spaces belong to the one before.
fn logical_lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut end = rest.find('\n')?;
        while rest
            .get(end + 1..)
            .is_some_and(|next| next.starts_with("  "))
        {
            end += 1 + rest.get(end + 1..)?.find('\n')?;
        }
        let line = rest.get(..end)?;
        rest = rest.get(end + 1..)?;
        Some(line)
    })
}

/// Splits a line into its first part and the others.
fn parts(line: &'static str) -> Parts {
    let mut parts = line.split(" | ");
    (parts.next().unwrap_or_default(), parts.collect())
}

/// Splits a line into two parts.
fn two(line: &'static str) -> Option<(&'static str, &'static str)> {
    line.split_once(" | ")
}

fn fact(line: &'static str) -> Option<FactTemplate> {
    let (relation, rest) = parts(line);
    Some(FactTemplate {
        relation,
        object: rest.first().copied()?,
        tag: rest.get(1).copied(),
    })
}

impl Department {
    /// Adds a line. Returns `None` if it isn't understood.
    fn read(&mut self, line: &'static str) -> Option<()> {
        let (keyword, rest) = line.split_once(' ').unwrap_or((line, ""));
        match keyword {
            "more" => self.more.push(rest),
            "aside" => self.asides.push(rest),
            "belief" => self.beliefs.push(fact(rest)?),
            "correction" => self.corrections.push(rest),
            "withdraw" => self.withdrawals.push(rest),
            "goal" => self.goals.push(parts(rest)),
            "workflow" => self.workflows.push(parts(rest)),
            "claim" => self.claims.push(rest),
            "persona" => self.personas.push(rest),
            "hold" => self.holds.push(fact(rest)?),
            "slip" => self.slips.push(two(rest)?),
            "scene" => self.scenes.push(Vec::new()),
            _ => self.scenes.last_mut()?.push(scene_line(keyword, rest)?),
        }
        Some(())
    }
}

/// Returns a line of a scene.
fn scene_line(keyword: &str, rest: &'static str) -> Option<SceneLine> {
    let (optional, keyword) = match keyword.strip_prefix('?') {
        Some(keyword) => (true, keyword),
        None => (false, keyword),
    };
    let step = step(keyword, rest)?;
    Some(SceneLine { optional, step })
}

/// Returns the step of a line of a scene.
fn step(keyword: &str, rest: &'static str) -> Option<SceneStep> {
    Some(match keyword {
        "user" => SceneStep::User(rest),
        "agent" => SceneStep::Agent(rest),
        "done" => SceneStep::Done(rest),
        "fact" => SceneStep::Fact(fact(rest)?),
        "then" => SceneStep::Then(fact(rest)?),
        "call" => {
            let (tool, input) = two(rest)?;
            let input = input.split("; ").map(|pair| pair.split_once('='));
            SceneStep::Call {
                tool,
                input: input.collect::<Option<_>>()?,
            }
        }
        "fail" => {
            let (kind, text) = two(rest)?;
            SceneStep::Fail { kind, text }
        }
        "think" => {
            let (text, conclusion) = two(rest)?;
            SceneStep::Think { text, conclusion }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const TEXTS: [&str; 4] = [
        include_str!("scripts/en.txt"),
        include_str!("scripts/de.txt"),
        include_str!("scripts/fr.txt"),
        include_str!("scripts/es.txt"),
    ];

    #[test]
    fn every_line_of_the_scripts_is_understood() {
        for text in TEXTS {
            let wrong = parse(text).1;
            assert!(wrong.is_empty(), "{wrong:?}");
        }
    }

    #[test]
    fn every_department_has_all_texts() {
        for text in TEXTS {
            let script = parse(text).0;
            let common = &script.common;
            assert!(!common.corrections.is_empty() && !common.withdrawals.is_empty());
            assert!(!common.personas.is_empty() && !common.slips.is_empty());
            for department in &script.departments {
                assert!(department.more.len() > 4 && department.asides.len() > 3);
                assert!(department.beliefs.len() > 2);
                assert!(!department.goals.is_empty() && !department.workflows.is_empty());
                assert!(!department.claims.is_empty() && department.scenes.len() > 1);
            }
        }
    }

    #[test]
    fn a_result_follows_a_call_and_a_change_follows_a_fact() {
        for scene in TEXTS.map(|text| parse(text).0).iter().flat_map(|script| {
            script
                .departments
                .iter()
                .flat_map(|department| &department.scenes)
        }) {
            let (mut is_called, mut is_known) = (false, false);
            for SceneLine { step, .. } in scene {
                match step {
                    SceneStep::Call { .. } => is_called = true,
                    SceneStep::Done(_) | SceneStep::Fail { .. } => {
                        assert!(std::mem::take(&mut is_called), "{scene:?}");
                    }
                    SceneStep::Fact(_) => is_known = true,
                    SceneStep::Then(_) => assert!(is_known, "{scene:?}"),
                    _ => {}
                }
            }
        }
    }
}

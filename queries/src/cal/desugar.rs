//! Expands the shortcuts of a RECALL (CAL 1.0, section 9; digest, section 5).
//!
//! The syntax tree keeps shortcuts as they are written. Planning expands them with [`desugar`], a
//! pure function from one RECALL to an equivalent one without shortcuts.

use super::ast::*;
use super::error::{CalError, Code, Result};
use super::fields::KnownField;
use super::span::Span;
use super::vocabulary::Direction;

/// A RECALL without shortcuts, and the parts that have no equivalent in the language.
#[derive(Debug, Clone, PartialEq)]
pub struct Desugared {
    /// The query: no MY, ABOUT, LIKE, SINCE, BETWEEN, THREAD, RECENT, CONTRADICTIONS. RECENT and
    /// THREAD are stages before its own, so there can be more than the language allows.
    pub recall: Recall,
    /// The query to run if `recall` finds nothing: ABOUT as a search.
    pub fallback: Option<Recall>,
    /// THREAD FROM: a message of the conversation. The conversation is its session or, without one,
    /// the messages linked with it as parents and children.
    pub thread_from: Option<Address>,
    /// True for THREAD: of messages with the same time, the ids tell the order of the conversation.
    pub is_thread: bool,
}

/// Expands the shortcuts. MY refers to `user_id`, the user of the session.
///
/// # Errors
/// E008 for MY in a session without a user.
pub fn desugar(recall: &Recall, user_id: Option<&str>) -> Result<Desugared> {
    let mut plain = Recall {
        grain_type: recall.grain_type,
        namespace: recall.namespace.clone(),
        options: recall.options.clone(),
        format: recall.format,
        span: recall.span,
        ..Recall::default()
    };
    plain.conditions = shortcut_conditions(recall, user_id)?;
    plain.conditions.extend(recall.conditions.iter().cloned());
    plain.stages = shortcut_stages(recall);
    plain.stages.extend(recall.stages.iter().cloned());
    if recall.contradictions && !plain.options.contains(&WithOption::ContradictionDetection) {
        plain.options.push(WithOption::ContradictionDetection);
    }
    let thread_from = match &recall.thread {
        Some(Thread::From(address)) => Some(address.clone()),
        _ => None,
    };
    let fallback = recall
        .about
        .as_deref()
        .map(|text| search_about(&plain, text));
    Ok(Desugared {
        recall: plain,
        fallback,
        thread_from,
        is_thread: recall.thread.is_some(),
    })
}

/// Replaces the condition of ABOUT, which is the first one, by a search.
fn search_about(plain: &Recall, text: &str) -> Recall {
    let mut fallback = plain.clone();
    if let Some(about) = fallback.conditions.first_mut() {
        *about = equals(KnownField::Query, Value::text(text), plain.span);
    }
    fallback
}

fn equals(field: KnownField, value: Value, span: Span) -> Condition {
    Condition {
        field: field.into(),
        test: Test::Compare(Comparison::Equal, value),
        span,
    }
}

/// Returns the conditions of the shortcuts, ABOUT first.
fn shortcut_conditions(recall: &Recall, user_id: Option<&str>) -> Result<Vec<Condition>> {
    let mut conditions = Vec::new();
    let mut equal =
        |field, text: &str| conditions.push(equals(field, Value::text(text), recall.span));
    if let Some(about) = &recall.about {
        equal(KnownField::Subject, about);
    }
    if let Some(like) = &recall.like {
        equal(KnownField::Query, like);
    }
    if let Some(since) = &recall.since {
        equal(KnownField::Time, since);
    }
    if let Some(Thread::Session(session)) = &recall.thread {
        equal(KnownField::SessionId, session);
    }
    if recall.my {
        equal(
            KnownField::UserId,
            user_id.ok_or_else(|| no_user(recall.span))?,
        );
    }
    if let Some((low, high)) = &recall.between {
        conditions.push(Condition {
            field: KnownField::Time.into(),
            test: Test::Between(low.clone(), high.clone()),
            span: recall.span,
        });
    }
    if recall.contradictions {
        let is_true = Value::Boolean(true);
        conditions.push(equals(KnownField::Contradicted, is_true, recall.span));
    }
    Ok(conditions)
}

fn no_user(span: Span) -> CalError {
    CalError::new(Code::E008, "MY needs a session with a user.")
        .at(span)
        .suggest("Name the user: WHERE user_id = \"…\".")
}

/// Returns the stages of the shortcuts.
fn shortcut_stages(recall: &Recall) -> Vec<Stage> {
    let by_time = |direction| StageKind::OrderBy(KnownField::Time.into(), direction);
    let mut kinds = Vec::new();
    if recall.thread.is_some() {
        kinds.push(by_time(Direction::Ascending));
    }
    if let Some(count) = recall.recent {
        kinds.extend([by_time(Direction::Descending), StageKind::Limit(count)]);
    }
    kinds
        .into_iter()
        .map(|kind| Stage {
            kind,
            span: recall.span,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cal::{Options, Statement, parse};

    fn plain(text: &str) -> Desugared {
        let Statement::Recall(recall) = parse(text, Options::default()).unwrap().query.statement
        else {
            panic!("{text}")
        };
        desugar(&recall, Some("alice")).unwrap()
    }

    #[test]
    fn shortcuts_expand_as_specified() {
        for (text, meaning) in [
            (
                r#"RECALL beliefs ABOUT "x""#,
                r#"RECALL beliefs WHERE subject = "x""#,
            ),
            (r#"RECALL LIKE "x""#, r#"RECALL WHERE query = "x""#),
            (
                r#"RECALL events SINCE "last week""#,
                r#"RECALL events WHERE time = "last week""#,
            ),
            (
                "RECALL events BETWEEN 1 AND 2",
                "RECALL events WHERE time BETWEEN 1 AND 2",
            ),
            (
                "RECALL MY beliefs",
                r#"RECALL beliefs WHERE user_id = "alice""#,
            ),
            (
                "RECALL events RECENT 5",
                "RECALL events | ORDER BY time DESC | LIMIT 5",
            ),
            (
                "RECALL beliefs CONTRADICTIONS WITH explanation | COUNT",
                "RECALL beliefs WHERE contradicted = TRUE WITH explanation, \
                 contradiction_detection | COUNT",
            ),
            (
                "RECALL beliefs CONTRADICTIONS WITH contradiction_detection",
                "RECALL beliefs WHERE contradicted = TRUE WITH contradiction_detection",
            ),
            (
                r#"RECALL events THREAD "s" WHERE role = "user" | LIMIT 5"#,
                r#"RECALL events WHERE session_id = "s" AND role = "user" | ORDER BY time ASC | LIMIT 5"#,
            ),
            (
                r#"RECALL IN "n" WHERE object = "o" AS sml"#,
                r#"RECALL IN "n" WHERE object = "o" AS sml"#,
            ),
        ] {
            assert_eq!(plain(text).recall.to_string(), meaning, "{text}");
        }
    }

    #[test]
    fn about_falls_back_to_a_search() {
        let desugared = plain(r#"RECALL MY events ABOUT "x" WHERE role = "user" RECENT 3"#);
        assert_eq!(
            desugared.fallback.unwrap().to_string(),
            r#"RECALL events WHERE query = "x" AND user_id = "alice" AND role = "user" | ORDER BY time DESC | LIMIT 3"#
        );
        assert_eq!(plain("RECALL").fallback, None);
    }

    #[test]
    fn a_thread_from_a_message_keeps_its_address() {
        let desugared = plain("RECALL events THREAD FROM sha256:a1b2c3d4");
        assert_eq!(desugared.thread_from, Address::from_digits("a1b2c3d4"));
        assert_eq!(
            desugared.recall.to_string(),
            "RECALL events | ORDER BY time ASC"
        );
    }

    #[test]
    fn my_without_a_user_is_an_error() {
        let Statement::Recall(recall) = parse("RECALL MY", Options::default())
            .unwrap()
            .query
            .statement
        else {
            panic!()
        };
        assert_eq!(desugar(&recall, None).unwrap_err().code(), Code::E008);
    }
}

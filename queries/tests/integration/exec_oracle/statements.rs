//! Random statements as text.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::words::{person, thing, word};

fn condition(grain_type: &'static str) -> BoxedStrategy<String> {
    let common = prop_oneof![
        (word(&["=", "!="]), person()).prop_map(|(operator, who)| format!("subject {operator} \
            {who:?}")),
        vec(person(), 1..3).prop_map(|people| format!("subject IN ({})", quoted_list(&people))),
        thing().prop_map(|thing| format!("object = {thing:?}")),
        thing().prop_map(|thing| format!("object != {thing:?}")),
        word(&["PREFERENCE", "KNOWLEDGE"]).prop_map(|category| format!("relation IS {category}")),
        (word(&["=", "!=", ">=", "<=", ">", "<"]), number())
            .prop_map(|(operator, n)| format!("confidence {operator} {n}")),
        (word(&[">=", "<"]), number()).prop_map(|(operator, n)| format!("importance {operator} \
            {n}")),
        vec(word(&["\"ui\"", "\"preference\"", "\"none\""]), 0..3)
            .prop_map(|tags| format!("tags INCLUDE [{}]", tags.join(", "))),
        vec(word(&["\"ui\"", "\"preference\""]), 1..3).prop_map(|tags| format!("tags EXCLUDE \
            [{}]", tags.join("\
            , "))),
        word(&["true", "false"]).prop_map(|truth| format!("contradicted = {truth}")),
        word(&["verified", "unverified", "retracted"]).prop_map(|status| format!("verification_status \
            = {status:?}")),
        word(&["\"last week\"", "\"yesterday\"", "\"2025-12-01\"", "1766000000"])
            .prop_map(|time| format!("time = {time}")),
        Just("time BETWEEN \"2025-12-20\" AND \"2026-01-10\"".to_owned()),
        word(&["belief", "goal"]).prop_map(|name| format!("type = {name:?}")),
        word(&["alice", "bob"]).prop_map(|user| format!("user_id != {user:?}")),
        (word(&["=", "!=", ">=", "<"]), word(&["\"a\"", "\"b\"", "1", "2.5", "true"]))
            .prop_map(|(operator, value)| format!("hc:unit {operator} {value}")),
        word(&["0.5", "1", "1.5"]).prop_map(|score| format!("score >= {score}")),
        Just("subject IN (RECALL beliefs WHERE relation IS PREFERENCE | SUBJECTS)".to_owned()),
        Just(
            "object IN (RECALL beliefs WHERE confidence > 0.3 | ORDER BY confidence DESC | LIMIT 2 \
             | OBJECTS)"
                .to_owned()
        ),
        Just("namespace = \"other\"".to_owned()),
    ];
    let own = match grain_type {
        "events" => prop_oneof![
            Just("role != \"user\"".to_owned()),
            Just("session_id = \"s1\"".to_owned()),
            Just("content = \"tea\"".to_owned())
        ]
        .boxed(),
        "goals" => prop_oneof![
            word(&["active", "completed", "failed"])
                .prop_map(|state| format!("goal_state = {state:?}")),
            Just("goal_state != \"completed\"".to_owned()),
            word(&["aa", "sha256:bb", "zz"]).prop_map(|goal| format!("depends_on = {goal:?}")),
            Just("depends_on IN (\"aa\", \"cc\")".to_owned()),
            Just(
                "deadline BETWEEN \"2026-01-15T13:00:00Z\" AND \"2026-01-15T15:00:00Z\"".to_owned()
            ),
        ]
        .boxed(),
        "actions" => prop_oneof![
            Just("tool_name IN (\"search\", \"x\")".to_owned()),
            Just("is_error = true".to_owned()),
            Just("action_phase = \"complete\"".to_owned())
        ]
        .boxed(),
        "consensuses" => prop_oneof![
            (
                word(&["=", ">=", "<=", ">", "<"]),
                word(&["1", "2.5", "2", "-1"])
            )
                .prop_map(|(operator, n)| format!("threshold {operator} {n}")),
            Just("participating_observers INCLUDE [\"did:a\", \"did:b\"]".to_owned()),
        ]
        .boxed(),
        _ => Just("confidence <= 1".to_owned()).boxed(),
    };
    prop_oneof![3 => common, 1 => own].boxed()
}

fn number() -> impl Strategy<Value = String> {
    word(&[
        "0",
        "0.1",
        "0.3",
        "0.30000000000000001",
        "0.2999999999999999999",
        "0.5",
        "0.95",
        "1",
        "1.0",
        "2",
        "-1",
    ])
}

fn quoted_list(items: &[String]) -> String {
    items
        .iter()
        .map(|item| format!("{item:?}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn stage() -> impl Strategy<Value = String> {
    prop_oneof![
        (
            word(&[
                "subject",
                "object",
                "confidence",
                "importance",
                "time",
                "verification_status",
                "score"
            ]),
            word(&["ASC", "DESC"])
        )
            .prop_map(|(field, direction)| format!("ORDER BY {field} {direction}")),
        (1..8u32).prop_map(|count| format!("LIMIT {count}")),
        (0..4u32).prop_map(|count| format!("OFFSET {count}")),
        Just("SELECT subject, object, time".to_owned()),
        Just("SELECT object, subject".to_owned()),
    ]
}

fn stages(grain_type: &'static str) -> BoxedStrategy<String> {
    let last = match grain_type {
        "beliefs" | "" => word(&[
            "",
            "",
            "COUNT",
            "FIRST",
            "SUBJECTS",
            "OBJECTS",
            "HASHES",
            "GROUP BY subject",
            "GROUP BY object",
        ])
        .boxed(),
        _ => word(&[
            "",
            "",
            "COUNT",
            "FIRST",
            "HASHES",
            "GROUP BY subject",
            "GROUP BY verification_status",
        ])
        .boxed(),
    };
    let after = word(&["", "LIMIT 2", "OFFSET 1", "COUNT", "FIRST"]);
    (vec(stage(), 0..3), last, after)
        .prop_map(|(mut stages, last, after)| {
            let of_values = matches!(last.as_str(), "SUBJECTS" | "OBJECTS" | "HASHES");
            stages.extend([last].into_iter().filter(|last| !last.is_empty()));
            if of_values && !after.is_empty() {
                stages.push(after);
            }
            stages.iter().map(|stage| format!(" | {stage}")).collect()
        })
        .boxed()
}

fn recall() -> impl Strategy<Value = String> {
    let types = vec![
        "",
        "beliefs",
        "beliefs",
        "events",
        "goals",
        "actions",
        "consensuses",
        "observations",
    ];
    select(types).prop_flat_map(|grain_type| {
        let about = prop_oneof![
            6 => Just(String::new()),
            1 => person().prop_map(|who| format!(" ABOUT {who:?}")),
            1 => word(&["tea", "dark", "nothing"]).prop_map(|what| format!(" ABOUT {what:?}")),
            1 => word(&["tea", "dark mode", "dark tea", ""]).prop_map(|what| format!(" LIKE \
                {what:?}")),
        ];
        let head = (
            word(&["", "", " MY"]),
            about,
            word(&["", " CONTRADICTIONS", ""]),
            word(&[
                "",
                "",
                " \
                WITH superseded",
            ]),
        );
        (
            head,
            vec(condition(grain_type), 0..3),
            stages(grain_type),
            word(&["", "", " RECENT 3"]),
        )
            .prop_map(
                move |((my, about, contradictions, with), conditions, stages, recent)| {
                    let mut conditions = conditions;
                    if my == " MY" {
                        conditions.retain(|condition| !condition.starts_with("user_id"));
                    }
                    let filter = if conditions.is_empty() {
                        String::new()
                    } else {
                        format!(
                            " WHERE {}",
                            conditions.join(
                                " \
                        AND "
                            )
                        )
                    };
                    let recent = if stages.contains("ORDER") || stages.contains("LIMIT") {
                        String::new()
                    } else {
                        recent
                    };
                    format!(
                        "RECALL{my} \
                         {grain_type}{about}{filter}{with}{stages}{recent}{contradictions}"
                    )
                },
            )
    })
}

/// A RECALL whose result is grains.
fn operand() -> impl Strategy<Value = String> {
    (
        word(&["beliefs", "goals", ""]),
        vec(condition("beliefs"), 0..2),
    )
        .prop_map(|(grain_type, conditions)| {
            let filter = if conditions.is_empty() {
                String::new()
            } else {
                format!(" WHERE {}", conditions.join(" AND "))
            };
            format!("RECALL {grain_type}{filter}")
        })
}

pub(super) fn statement() -> impl Strategy<Value = String> {
    let operator = || word(&["UNION", "INTERSECT", "EXCEPT"]);
    prop_oneof![
        8 => recall(),
        1 => (operand(), operator(), operand()).prop_map(|(left, operator, right)| format!("({left}) \
            {operator} ({right})")),
        1 => (operand(), operator(), operand(), operator(), operand())
            .prop_map(|(a, first, b, second, c)| format!("(({a}) {first} ({b})) {second} ({c})")),
        1 => (recall(), recall()).prop_map(|(left, right)| format!("COALESCE({left}, {right})")),
        1 => operand().prop_map(|operand| format!("LET $l = {operand} | SUBJECTS; RECALL beliefs \
                                                   WHERE subject IN ($l, \"bob\")")),
        1 => (person(), word(&["prefers", "lives_in"]), word(&["", " AS OF \"2026-01-01\""]))
            .prop_map(|(who, what, when)| format!("HISTORY WHERE subject = {who:?} AND relation = \
                                                   {what:?}{when}")),
        1 => (operand(), operand(), word(&["5 grains", "60 tokens", "4000 tokens"]), word(&["sml", "text", "markdown", "toon", "json"]), word(&["", " \
            WITH dedup(subject)"]))
            .prop_map(|(a, b, budget, format, dedup)| {
                format!("ASSEMBLE c FROM a: ({a} | ORDER BY time DESC), b: ({b}) BUDGET {budget} \
                         PRIORITY b > a FORMAT {format}{dedup}")
            }),
    ]
}

//! The queries of a night: ten SQL questions, twenty CAL look-ups and some searches. The SQL runs
//! in DuckDB as well, over the tables `grains` and `current`.

/// Name and text of a question.
pub type Question = (&'static str, &'static str);

/// The SQL questions. Each has one answer, whatever the order of rows.
pub const SQL: [Question; 10] = [
    (
        "types",
        "SELECT type, count(*) AS n FROM grains GROUP BY type ORDER BY type",
    ),
    (
        "current types",
        "SELECT type, count(*) AS n FROM current GROUP BY type ORDER BY type",
    ),
    (
        "top people",
        "SELECT user_id, count(*) AS n FROM grains WHERE user_id IS NOT NULL GROUP BY user_id \
         ORDER BY n DESC, user_id LIMIT 20",
    ),
    ("people", "SELECT count(DISTINCT user_id) AS n FROM grains"),
    (
        "namespaces",
        "SELECT namespace, count(*) AS n, min(created_at) AS since FROM grains GROUP BY namespace \
         ORDER BY n DESC, namespace LIMIT 20",
    ),
    (
        "confidence",
        "SELECT relation, count(*) AS n, round(avg(confidence), 4) AS mean FROM grains \
         WHERE type = 'belief' GROUP BY relation ORDER BY n DESC, relation LIMIT 20",
    ),
    (
        "sessions",
        "SELECT session_id, count(*) AS n FROM grains WHERE type = 'event' AND session_id IS NOT \
         NULL GROUP BY session_id ORDER BY n DESC, session_id LIMIT 20",
    ),
    (
        "a word",
        "SELECT count(*) AS n FROM grains WHERE content LIKE '%appointment%'",
    ),
    (
        "latest",
        "SELECT content_address FROM grains WHERE type = 'event' ORDER BY created_at DESC, \
         content_address LIMIT 50",
    ),
    (
        "replies",
        "SELECT count(*) AS n FROM grains a JOIN grains b \
         ON a.parent_message_id = b.content_address",
    ),
];

/// Number of CAL look-ups.
pub const LOOKUPS: usize = 20;

/// Returns the CAL look-ups: half by subject, the others by person, type and word.
pub fn lookups(subjects: &[String], users: &[String]) -> Vec<String> {
    let name = |names: &[String], at: usize| {
        let name = names.get(at % names.len().max(1));
        name.cloned().unwrap_or_default().replace('"', "\\\"")
    };
    let one = |at: usize| match at % 4 {
        0 | 2 => format!(
            "RECALL beliefs WHERE subject = \"{}\" LIMIT 5",
            name(subjects, at)
        ),
        1 => format!(
            "RECALL events WHERE user_id = \"{}\" LIMIT 5",
            name(users, at)
        ),
        _ if at % 8 == 3 => "RECALL events LIMIT 5".to_owned(),
        _ => "RECALL events LIKE \"appointment insurance\" LIMIT 5".to_owned(),
    };
    (0..LOOKUPS).map(one).collect()
}

/// Texts that are searched for.
pub const SEARCHES: [&str; 5] = [
    "appointment insurance",
    "refund late queue",
    "hotel booking",
    "deadline",
    "Erstattung Karte",
];

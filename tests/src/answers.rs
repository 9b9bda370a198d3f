//! Sixty answers of a lake, by SQL, CAL, search, scan, lifecycle and the plan of an erasure. Damage
//! that changes none of them is harmless.

use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt;
use gristmill_engine::describe::describe;
use gristmill_engine::erase::{SubjectRequest, plan};
use gristmill_engine::lake::Lake;
use gristmill_queries::cal::{Bindings, Options};
use gristmill_queries::exec::Executor;
use gristmill_queries::packs::{NAMES, Scan, ScanOptions, Since, shipped};
use gristmill_queries::sql::{SessionContext, SqlOptions, execute, lake_context, statements};

use crate::damage::SampleLake;
use crate::lake::patient_session;

/// An answer as text, or the error message.
pub type Answer = Result<String, String>;

/// Number of answers.
pub const ANSWERS: usize = 60;

/// Columns of `grains` that are queried one by one.
const COLUMNS: [&str; 20] = [
    "type",
    "type_byte",
    "namespace",
    "user_id",
    "subject",
    "relation",
    "object",
    "confidence",
    "importance",
    "created_at",
    "flags",
    "sensitivity",
    "encoding",
    "blob",
    "blob_size",
    "signature",
    "signer_did",
    "source_id",
    "ingested_at",
    "marks",
];

/// SQL statements.
const SQL: [&str; 22] = [
    "SELECT count(*) FROM grains",
    "SELECT subject, count(*), avg(confidence) FROM grains GROUP BY 1 ORDER BY 1",
    "SELECT content_address FROM current ORDER BY 1",
    "SELECT count(*) FROM current WHERE subject = 'subject 3'",
    "SELECT content_address, superseded_by FROM lifecycle ORDER BY 1, 2",
    "SELECT * FROM state ORDER BY content_address, event, at",
    "SELECT * FROM rejects ORDER BY source, ordinal, error_code",
    "SELECT * FROM audit ORDER BY sequence",
    "SELECT subject, relation, object FROM triples ORDER BY 1, 2, 3",
    "SELECT count(*) FROM beliefs WHERE object LIKE '%kim-4004%'",
    "SELECT content_address, object FROM beliefs WHERE subject = 'subject 5' ORDER BY 1",
    "SELECT count(*) FROM grains WHERE user_id = 'kim-4004'",
    "SELECT content_address FROM grains WHERE user_id = 'zoe-5005' ORDER BY 1",
    "SELECT min(created_at), max(created_at) FROM grains",
    "SELECT content_address FROM as_of('2026-01-01T00:00:05Z') ORDER BY 1",
    "SELECT content_address FROM search('tea', 100) ORDER BY 1",
    "SELECT content_address FROM search('number 7', 5) ORDER BY 1",
    "SELECT object FROM pattern('subject 3', NULL, NULL) ORDER BY 1",
    "SELECT count(*) FROM pattern(NULL, 'prefers', NULL)",
    "SELECT depth, type, link FROM provenance('$superseded', 9) ORDER BY depth, type",
    "SELECT step, content_address, superseded_by FROM history('$superseded') ORDER BY step",
    "SELECT * FROM grains WHERE content_address = '$superseded'",
];

/// CAL statements.
const CAL: [&str; 10] = [
    "RECALL beliefs LIMIT 100",
    "RECALL WHERE subject = \"subject 3\"",
    "RECALL WHERE subject = \"subject 3\" AND user_id = \"kim-4004\"",
    "RECALL beliefs | COUNT",
    "RECALL WHERE query = \"tea number\"",
    "RECALL beliefs WHERE object = \"tea number 4 of eve-3003\"",
    "RECALL WHERE relation = \"prefers\" | COUNT",
    "HISTORY sha256:$superseded",
    "EXISTS sha256:$superseded",
    "EXISTS sha256:$erased",
];

/// People for whom erasures are planned.
const PEOPLE: [&str; 5] = ["kim-4004", "eve-3003", "zoe-5005", "mallory", "ada-1001"];

/// Returns the current answers of the lake of `sample`: always [`ANSWERS`], in the same order.
pub async fn answers(sample: &SampleLake) -> Vec<Answer> {
    let mut lake = match sample.open().await {
        Ok(lake) => lake,
        Err(error) => return vec![Err(error.to_string()); ANSWERS],
    };
    let context = match lake_context(
        &lake,
        &SqlOptions {
            threads: 1,
            ..SqlOptions::default()
        },
    )
    .await
    {
        Ok(context) => context,
        Err(error) => return vec![Err(error.to_string()); ANSWERS],
    };
    let filled = |text: &str| {
        text.replace("$superseded", &sample.superseded().to_string())
            .replace("$erased", &sample.erased().to_string())
    };
    let mut answers = Vec::with_capacity(ANSWERS);
    for column in COLUMNS {
        answers.push(
            sql(
                &context,
                &format!("SELECT content_address, {column} FROM grains ORDER BY 1"),
            )
            .await,
        );
    }
    for statement in SQL {
        answers.push(sql(&context, &filled(statement)).await);
    }
    let executor = Executor::new(context, patient_session(1_800_000_000_000));
    for statement in CAL {
        let response = executor
            .run_text(
                filled(statement).as_bytes(),
                &Bindings::new(),
                Options::default(),
            )
            .await;
        answers.push(
            response
                .map_err(|error| error.to_string())
                .and_then(|response| {
                    let mut response: serde_json::Value =
                        serde_json::from_str(&response.to_json().to_string())
                            .map_err(|error| error.to_string())?;
                    // Members with the duration and the amount read.
                    response
                        .as_object_mut()
                        .map(|response| response.remove("_cal"));
                    Ok(response.to_string())
                }),
        );
    }
    answers.push(lifecycle(&lake).await);
    answers.push(described(&lake).await);
    answers.push(scan(&lake).await);
    for person in PEOPLE {
        answers.push(erasure(&mut lake, person).await);
    }
    answers
}

async fn sql(context: &SessionContext, statement: &str) -> Answer {
    let mut out = String::new();
    for statement in statements(statement).map_err(|error| error.to_string())? {
        let stream = execute(context, statement)
            .await
            .map_err(|error| error.to_string())?;
        let batches: Vec<_> = stream
            .try_collect()
            .await
            .map_err(|error: _| format!("{error}"))?;
        let options = FormatOptions::default().with_null("NULL");
        for batch in &batches {
            for column in batch.columns() {
                let cells =
                    ArrayFormatter::try_new(column, &options).map_err(|error| error.to_string())?;
                (0..batch.num_rows())
                    .for_each(|row| out.push_str(&format!("{}\u{1f}", cells.value(row))));
            }
        }
    }
    Ok(out)
}

async fn lifecycle(lake: &Lake) -> Answer {
    let states = lake
        .portable_states(|_| true)
        .await
        .map_err(|error| error.to_string())?;
    Ok(format!("{states:?}"))
}

async fn described(lake: &Lake) -> Answer {
    let description = describe(lake).await.map_err(|error| error.to_string())?;
    let mut description = serde_json::to_value(description).map_err(|error| error.to_string())?;
    // The condition of sidecars is excluded: missing or damaged ones change no answer about grains.
    if let Some(description) = description.as_object_mut() {
        description.retain(|key, _| !["indexes", "sidecars", "seconds"].contains(&key.as_str()));
    }
    Ok(description.to_string())
}

async fn scan(lake: &Lake) -> Answer {
    let packs = NAMES
        .iter()
        .filter_map(|name| shipped(name).ok())
        .take(2)
        .collect();
    let options = ScanOptions {
        sql: SqlOptions {
            threads: 1,
            ..SqlOptions::default()
        },
        since: Since::Beginning,
    };
    let scan = Scan::prepare(lake, packs, &options)
        .await
        .map_err(|error| error.to_string())?;
    let mut found = std::collections::BTreeMap::<String, u64>::new();
    let take = |rule: &gristmill_queries::packs::Rule, _: &gristmill_queries::packs::Finding| {
        *found.entry(rule.id.clone()).or_default() += 1;
        Ok(())
    };
    scan.run(take).await.map_err(|error| error.to_string())?;
    Ok(format!("{found:?}"))
}

async fn erasure(lake: &mut Lake, person: &str) -> Answer {
    let request = SubjectRequest::of_person([person]);
    let (plan, _) = plan(lake, &request, 1)
        .await
        .map_err(|error| error.to_string())?;
    let mut plan = serde_json::to_value(plan).map_err(|error| error.to_string())?;
    // The amount read depends on the sidecars, the selection doesn't.
    if let Some(plan) = plan.as_object_mut() {
        plan.retain(|key, _| {
            !key.starts_with("segments_") && !["grains_read", "bytes_read"].contains(&key.as_str())
        });
    }
    Ok(plan.to_string())
}

//! What the rules of the shipped packs bar from being exported, how that is overridden, and what
//! the audit log records of an export.

use std::fs;

use serde_json::Value;

use crate::lake_folder::LakeFolder;

const ADVICE: &str = r#"{"grain": {"type": "event", "content": "advice", "created_at": 1,
"structural_tags": ["profile:legal"], "context": {"legal:privilege": "attorney_client"}}}"#;

const OPTED_OUT: &str = r#"{"grain": {"type": "event", "content": "no thanks", "created_at": 2,
"structural_tags": ["profile:consumer"], "con:ccpa_opted_out": true}}"#;

const NO_BASIS: &str = r#"{"grain": {"type": "event", "content": "likes jazz", "created_at": 3,
"user_id": "ada-1", "structural_tags": ["profile:consumer"]}}"#;

/// A lake of `grains`, each on one line.
fn lake_of(grains: &[&str]) -> LakeFolder {
    let place = LakeFolder::new();
    let lines: Vec<String> = grains
        .iter()
        .map(|grain| grain.replace('\n', " "))
        .collect();
    fs::write(place.path("in.jsonl"), lines.join("\n")).unwrap();
    place.ok(&["ingest", &place.text("in.jsonl")]);
    place
}

/// The audit entries of `action`, with their details parsed.
fn entries(place: &LakeFolder, action: &str) -> Vec<Value> {
    let query = format!("SELECT details FROM audit WHERE action = '{action}' ORDER BY sequence");
    let rows = place.ok(&["sql", &query]);
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| serde_json::from_str(row["details"].as_str().unwrap()).unwrap())
        .collect()
}

#[test]
fn privileged_material_that_is_not_on_hold_bars_the_export_until_a_reason_is_given() {
    let place = lake_of(&[ADVICE, NO_BASIS]);
    let out = place.text("all.mg");
    let (code, refusal) = place.run(&["export", &out]);
    let refusal = refusal.as_str().unwrap();
    assert_eq!(code, 3, "{refusal}");
    assert!(
        refusal.contains("legal/privilege-hold") && refusal.contains("1 grains"),
        "{refusal}"
    );
    assert!(!place.path("all.mg").exists());
    assert!(entries(&place, "export").is_empty());
    // The other grain can be exported.
    let rest = place.text("rest.jsonl");
    let report = place.ok(&["export", &rest, "--where", "user_id IS NOT NULL -- Ada"]);
    assert_eq!(report["grains"], 1);
    let report = place.ok(&["export", &out, "--override-reason", "court order 12"]);
    assert_eq!(report["grains"], 2);
    let started = entries(&place, "export");
    assert_eq!(started.len(), 2);
    assert_eq!(started[0]["overridden"], serde_json::json!({}));
    assert_eq!(started[0]["all_grains"], false);
    assert_eq!(started[1]["overridden"]["legal/privilege-hold"], 1);
    assert_eq!(started[1]["override_reason"], "court order 12");
    let finished = entries(&place, "export-finished");
    assert_eq!(
        (&finished[0]["grains"], &finished[1]["grains"]),
        (&1.into(), &2.into())
    );
    place.ok(&["audit", "verify"]);
}

#[test]
fn a_transfer_and_a_sale_are_subject_to_further_rules_than_a_copy() {
    let place = lake_of(&[OPTED_OUT, NO_BASIS]);
    let export = |name: &str, options: &[&str]| {
        let out = place.text(name);
        place.run(&[&["export", &out][..], options].concat())
    };
    assert_eq!(export("copy.mg", &[]).0, 0);
    let (code, refusal) = export("transfer.mg", &["--purpose", "transfer"]);
    let refusal = refusal.as_str().unwrap();
    assert_eq!(code, 3);
    assert!(
        refusal.contains("consumer/basis") && !refusal.contains("opted-out"),
        "{refusal}"
    );
    let (code, refusal) = export("sale.mg", &["--purpose", "sale"]);
    assert_eq!(code, 3);
    assert!(
        refusal
            .as_str()
            .unwrap()
            .contains("consumer/opted-out-sale"),
        "{refusal}"
    );
}

#[test]
fn a_reason_that_is_blank_or_names_a_person_is_refused() {
    let place = lake_of(&[ADVICE]);
    let out = place.text("all.mg");
    for reason in ["  ", "asked by ada.okafor@example.com"] {
        let (code, message) = place.run(&["export", &out, "--override-reason", reason]);
        assert_eq!(code, 1, "{message}");
        assert!(
            message.as_str().unwrap().contains("--override-reason"),
            "{message}"
        );
    }
    assert!(!place.path("all.mg").exists());
}

/// Number of people with planted identifiers.
const PEOPLE: usize = 1_000;

/// Identifiers of person `number`, in the order of the columns of [`SUBJECTS`].
fn identifiers(number: usize) -> [String; 4] {
    let letter = |place: usize| char::from(b'a' + (number / 26_usize.pow(place as u32) % 26) as u8);
    let name: String = (0..3).map(letter).collect();
    [
        format!("user-{:05}", number + 10_000),
        format!("Zo{name} Quaran{name}"),
        format!("zo{name}.quaran@example.org"),
        format!("+49 151 {:03} {:05}", number % 1_000, 10_007 + number * 89),
    ]
}

const SUBJECTS: &str = "user,name,email,phone";

/// Grains of a person: fields, free text, two blocks, JSON in a string, hexadecimal digits.
fn grains_of(number: usize) -> Vec<Value> {
    let [user, name, email, phone] = identifiers(number);
    let (first, last) = name.split_once(' ').unwrap();
    let encoded = hex::encode(format!("signed by {name} herself"));
    let grains = [
        serde_json::json!({"type": "event", "user_id": user, "session_id": format!("s-{user}"),
            "content": format!("Dear {name}, we wrote to {email} and called {phone}.")}),
        serde_json::json!({"type": "event", "user_id": user, "content": "in two blocks",
            "content_blocks": [{"type": "text", "text": format!("this is {first}")},
                {"type": "text", "text": format!("{last} speaking")}]}),
        serde_json::json!({"type": "belief", "subject": user, "relation": "knows",
            "object": identifiers((number + 1) % PEOPLE)[0], "confidence": 0.9}),
        serde_json::json!({"type": "event", "content": format!("see {encoded}"),
            "context": {name.clone(): {"mail": format!("{{\"to\": \"{email}\"}}")}}}),
    ];
    let stamped = grains.into_iter().map(|mut grain| {
        grain["created_at"] = (1_767_225_600_000_u64 + number as u64).into();
        serde_json::json!({ "grain": grain })
    });
    stamped.collect()
}

/// The number of rows for each value of `field`, ascending, without the values.
fn sizes(lines: &[Value], field: &str) -> Vec<usize> {
    let mut sizes = std::collections::BTreeMap::<&str, usize>::new();
    let values = lines
        .iter()
        .filter_map(|line| line["grain"][field].as_str());
    values.for_each(|value| *sizes.entry(value).or_default() += 1);
    let mut sizes: Vec<usize> = sizes.into_values().collect();
    sizes.sort_unstable();
    sizes
}

/// The number of pairs of a belief's object and the subject of another one.
fn joined(lines: &[Value]) -> usize {
    let of = |field: &str| -> Vec<String> {
        let values = lines
            .iter()
            .filter_map(|line| line["grain"][field].as_str());
        values.map(str::to_owned).collect()
    };
    let subjects: std::collections::HashSet<String> = of("subject").into_iter().collect();
    of("object")
        .iter()
        .filter(|object| subjects.contains(*object))
        .count()
}

#[test]
fn a_pseudonymised_export_names_none_of_a_thousand_people_and_joins_as_before() {
    let place = LakeFolder::new();
    let planted: Vec<Value> = (0..PEOPLE).flat_map(grains_of).collect();
    let text: Vec<String> = planted.iter().map(Value::to_string).collect();
    fs::write(place.path("in.jsonl"), text.join("\n")).unwrap();
    let people: Vec<String> = (0..PEOPLE)
        .map(|number| identifiers(number).join(","))
        .collect();
    let people = format!("{SUBJECTS}\n{}\n", people.join("\n"));
    fs::write(place.path("people.csv"), &people).unwrap();
    place.ok(&["ingest", &place.text("in.jsonl")]);
    let (key, subjects) = (place.text("key"), place.text("people.csv"));
    let export = |name: &str, key: &str| {
        let options = [
            "--pseudonymize",
            "--pseudonym-key",
            key,
            "--subjects",
            &subjects,
        ];
        let report = place.ok(&[&["export", &place.text(name)][..], &options].concat());
        assert_eq!(
            (&report["grains"], &report["not_written"]),
            (&4_000.into(), &0.into())
        );
        fs::read_to_string(place.path(name)).unwrap()
    };
    let out = export("out.jsonl", &key);
    let mut request = gristmill_engine::erase::SubjectRequest::default();
    request.add_people(&people).unwrap();
    let search = gristmill_engine::erase::IdentifierSearch::new(&request, |_| false, []).unwrap();
    assert!(search.count(text.join("\n").as_bytes()) >= 8 * PEOPLE as u64);
    assert_eq!(search.count(out.as_bytes()), 0);
    let lines: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for field in ["user_id", "session_id", "subject", "object"] {
        assert_eq!(sizes(&lines, field), sizes(&planted, field), "{field}");
    }
    assert_eq!((joined(&lines), joined(&planted)), (PEOPLE, PEOPLE));
    // Text around the names stays readable.
    assert_eq!(out.matches("we wrote to tok_").count(), PEOPLE);
    // The same key has the same tokens, another key others.
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(&export("again.jsonl", &key)), sorted(&out));
    assert_ne!(
        sorted(&export("other.jsonl", &place.text("key2"))),
        sorted(&out)
    );
    // Containers would reveal the original bytes.
    let options = ["--pseudonymize", "--pseudonym-key", &key];
    let (code, _) = place.run(&[&["export", &place.text("no.mg")][..], &options].concat());
    assert_eq!(code, 1);
}

//! Retention by policy at the command line: plan, run, floors, holds, and a kill.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::Instant;

use gristmill_tests::grains::frames;
use gristmill_tests::kill::{copy_folder, kill_after, kills, share};
use gristmill_tests::sandbox::Sandbox;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

const RULES: &str = r#"
[[policy]]
name = "chat"
period = "90 days"
types = ["event"]
namespaces = ["shop", "shop:*"]

[[policy]]
name = "everything"
period = "10 years"

[[floor]]
name = "tax"
period = "6 years"
regulation = "§ 147 AO"
tags = ["fin:invoice"]
"#;

const DAY: i64 = 86_400_000;

/// An event of the namespace `shop` that was created so many days ago.
fn event(number: usize, days: i64, more: &Value) -> Value {
    let created = chrono::Utc::now().timestamp_millis() - days * DAY;
    let mut grain = json!({
        "type": "event", "content": format!("message {number}"), "namespace": "shop",
        "user_id": format!("user-{}", number % 7), "created_at": created,
    });
    let more = more.as_object().cloned().unwrap_or_default();
    grain.as_object_mut().unwrap().extend(more);
    grain
}

/// A sandbox with a keyring, the rules, and a lake of these grains. Returns their addresses.
fn lake_of(grains: &[Value]) -> (Sandbox, Vec<String>) {
    let sandbox = Sandbox::new();
    let puts = grains
        .iter()
        .map(|grain| json!({"op": "put", "grain": grain}));
    std::fs::write(sandbox.path("retention.toml"), RULES).unwrap();
    let answers = sandbox.apply(0, &puts.collect::<Vec<_>>());
    sandbox.run("lake", 0, &["keys", "generate", "erasure"]);
    let address = |answer: &Value| answer["content_address"].as_str().unwrap().to_owned();
    let addresses = answers.iter().map(address).collect();
    (sandbox, addresses)
}

fn retention(sandbox: &Sandbox, code: i32, arguments: &[&str]) -> Value {
    let arguments = [&["retention"], arguments].concat();
    sandbox.run("lake", code, &arguments)
}

fn hold(sandbox: &Sandbox, addresses: &[String]) {
    std::fs::write(sandbox.path("held.txt"), addresses.join("\n")).unwrap();
    let flags = [
        "--addresses",
        "held.txt",
        "--authority",
        "court",
        "--reason",
        "case",
    ];
    sandbox.run(
        "lake",
        0,
        &[&["hold", "place", "case-12"][..], &flags].concat(),
    );
}

#[test]
fn what_no_policy_can_cover_counts_once_in_a_plan_of_several_rounds() {
    let grains = [100, 110, 120].map(|days| event(days, days as i64, &json!({})));
    let (sandbox, _) = lake_of(&grains);
    // Bytes that are compressed and can't be opened.
    let opaque = [&[0x28, 0xb5, 0x2f, 0xfd][..], &[7; 20]].concat();
    std::fs::write(sandbox.path("opaque.frames"), frames(&[opaque])).unwrap();
    sandbox.run("lake", 2, &["ingest", "opaque.frames"]);
    let plan = retention(&sandbox, 0, &["plan", "--round-rows", "1"]);
    assert_eq!(plan["rounds"], 3, "{plan:#}");
    assert_eq!(plan["unsearchable"], 1, "{plan:#}");
}

#[test]
fn what_has_expired_is_erased_unless_a_floor_a_hold_or_its_own_terms_keep_it() {
    let grains = [
        event(0, 100, &json!({})),
        event(1, 80, &json!({})),
        event(2, 100, &json!({"namespace": "shop:returns"})),
        event(3, 100, &json!({"namespace": "shopping"})),
        event(4, 100, &json!({"structural_tags": ["fin:invoice"]})),
        event(
            5,
            100,
            &json!({"retention_policy": {"minimum_retention_years": 7}}),
        ),
        event(6, 100, &json!({"invalidation_policy": {"mode": "hold"}})),
        event(7, 100, &json!({})),
        event(8, 7 * 366, &json!({"structural_tags": ["fin:invoice"]})),
        event(9, 11 * 366, &json!({"namespace": "other"})),
    ];
    let (sandbox, addresses) = lake_of(&grains);
    hold(&sandbox, &addresses[7..8]);
    let plan = retention(&sandbox, 0, &["plan"]);
    assert_eq!(
        (&plan["expired"], &plan["rounds"]),
        (&json!(4), &json!(1)),
        "{plan:#}"
    );
    assert_eq!(plan["kept"], json!({"floor": 1, "hold": 2, "retention": 1}));
    let expired: Vec<_> = plan["policies"].as_array().unwrap().iter().collect();
    assert_eq!(
        (&expired[0]["policy"], &expired[0]["expired"]),
        (&json!("chat"), &json!(3))
    );
    assert_eq!(
        (&expired[1]["expired"], &expired[1]["kept"]),
        (&json!(1), &json!({}))
    );
    let floor = plan["kept_grains"].as_array().unwrap().iter();
    let floor: Vec<_> = floor.filter(|grain| grain["reason"] == "floor").collect();
    assert_eq!(
        (&floor[0]["floor"], &floor[0]["regulation"]),
        (&json!("tax"), &json!("§ 147 AO"))
    );
    assert_eq!(
        sandbox.addresses("lake", "true").len(),
        10,
        "a plan changes nothing"
    );

    let report = retention(&sandbox, 0, &["run", "--exclusive"]);
    assert_eq!(
        (&report["erased"], &report["proven"]),
        (&json!(4), &json!(true)),
        "{report:#}"
    );
    let left: BTreeSet<String> = [1, 3, 4, 5, 6, 7].map(|at| addresses[at].clone()).into();
    assert_eq!(sandbox.addresses("lake", "true"), left);
    let path = format!(
        "lake/{}",
        report["erasures"][0]["certificate"].as_str().unwrap()
    );
    let shown = sandbox.run("lake", 0, &["certificate", "verify", &path]);
    let certificate = &shown["certificate"];
    assert_eq!(
        certificate["request"]["legal_ground"],
        "retention: chat, everything"
    );
    assert_eq!(
        certificate["exceptions"],
        json!({"floor": 1, "hold": 2, "retention": 1})
    );
    let again = retention(&sandbox, 0, &["run", "--exclusive"]);
    assert_eq!(
        (&again["erased"], &again["erasures"]),
        (&json!(0), &json!([]))
    );
    sandbox.run("lake", 0, &["verify"]);
    sandbox.run("lake", 0, &["audit", "verify"]);
}

#[test]
fn rules_with_a_mistake_are_refused_before_anything_is_read() {
    let (sandbox, addresses) = lake_of(&[event(0, 4_000, &json!({}))]);
    let all = "[[policy]]\nname = \"all\"\nperiod = \"1 day\"\n";
    for (rules, expected) in [
        (String::new(), "no policy"),
        (
            format!("{all}namespace = \"shop\"\n"),
            "unknown field `namespace`",
        ),
        (format!("{all}types = [\"letter\"]\n"), "no type"),
        (all.replace("1 day", "1 moon"), "isn't a period"),
        (format!("{all}{all}"), "used twice"),
        (format!("{all}[[rule]]\n"), "unknown field `rule`"),
    ] {
        std::fs::write(sandbox.path("retention.toml"), &rules).unwrap();
        let output = sandbox.output("lake", &["retention", "run", "--exclusive"]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(expected), "{rules}: {message}");
    }
    assert_eq!(
        sandbox.addresses("lake", "true"),
        addresses.into_iter().collect()
    );
}

/// A grain of a random lake: its creation in days before now, and what concerns its retention.
struct RandomGrain {
    days: i64,
    is_chat: bool,
    is_invoice: bool,
    is_held: bool,
}

impl RandomGrain {
    fn of(random: &mut StdRng) -> RandomGrain {
        let mut chance = |one_in: u32| random.random_range(0..one_in) == 0;
        RandomGrain {
            is_chat: !chance(3),
            is_invoice: chance(4),
            is_held: chance(8),
            // Never within a day of an end, which the clock may pass during the test.
            days: random.random_range(0..400) * 11 + 5,
        }
    }

    fn event(&self, number: usize) -> Value {
        let namespace = if self.is_chat { "shop" } else { "other" };
        let tags = if self.is_invoice {
            json!(["fin:invoice"])
        } else {
            json!(["topic:x"])
        };
        event(
            number,
            self.days,
            &json!({"namespace": namespace, "structural_tags": tags}),
        )
    }

    /// Whether it stays, by a naive reading of the rules.
    fn stays(&self) -> bool {
        let period = if self.is_chat { 90 } else { 3_653 };
        self.days < period || self.is_invoice && self.days < 2_192 || self.is_held
    }
}

#[test]
fn a_run_in_many_rounds_leaves_what_a_naive_reading_of_the_rules_leaves() {
    let mut random = StdRng::seed_from_u64(7);
    let grains: Vec<RandomGrain> = (0..300).map(|_| RandomGrain::of(&mut random)).collect();
    let events: Vec<Value> = grains
        .iter()
        .enumerate()
        .map(|(number, grain)| grain.event(number))
        .collect();
    let (sandbox, addresses) = lake_of(&events);
    let grains: BTreeMap<&String, &RandomGrain> = addresses.iter().zip(&grains).collect();
    let held = grains.iter().filter(|(_, grain)| grain.is_held);
    hold(
        &sandbox,
        &held
            .map(|(address, _)| (*address).clone())
            .collect::<Vec<_>>(),
    );
    let stay = grains.iter().filter(|(_, grain)| grain.stays());
    let stay: BTreeSet<String> = stay.map(|(address, _)| (*address).clone()).collect();
    let plan = retention(&sandbox, 0, &["plan", "--round-rows", "100"]);
    assert_eq!(
        plan["expired"],
        json!(grains.len() - stay.len()),
        "{plan:#}"
    );
    let report = retention(&sandbox, 0, &["run", "--exclusive", "--round-rows", "100"]);
    assert!(
        report["erasures"].as_array().unwrap().len() > 1,
        "{report:#}"
    );
    assert_eq!(report["proven"], true);
    assert_eq!(sandbox.addresses("lake", "true"), stay);
}

#[test]
fn a_killed_run_is_completed_by_the_next_one() {
    let events: Vec<Value> = (0..400)
        .map(|number| event(number, 60 + number as i64 % 80, &json!({})))
        .collect();
    let (sandbox, addresses) = lake_of(&events);
    let young = (0..400).filter(|number| number % 80 < 30);
    let stay: BTreeSet<String> = young.map(|number| addresses[number].clone()).collect();
    let arguments = [
        "retention",
        "run",
        "--exclusive",
        "--round-rows",
        "120",
        "--quiet",
    ];
    let pristine = sandbox.path("pristine");
    copy_folder(&sandbox.path("lake"), &pristine).unwrap();
    let started = Instant::now();
    sandbox.run("lake", 0, &arguments);
    let whole = started.elapsed();
    assert_eq!(sandbox.addresses("lake", "true"), stay);
    for kill in 0..kills().min(8) {
        std::fs::remove_dir_all(sandbox.path("lake")).unwrap();
        copy_folder(&pristine, &sandbox.path("lake")).unwrap();
        let child = sandbox
            .command("lake", &arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        kill_after(child, whole.mul_f64(share(kill))).unwrap();
        let report = sandbox.run("lake", 0, &arguments);
        assert_eq!(report["proven"], true, "kill {kill}: {report:#}");
        assert_eq!(sandbox.addresses("lake", "true"), stay, "kill {kill}");
        assert_eq!(certified(&sandbox), 400 - stay.len() as u64, "kill {kill}");
        assert!(!sandbox.path("lake/erasures/retention.round").exists());
        sandbox.run("lake", 0, &["audit", "verify"]);
    }
}

/// Returns the number of grains in all certificates of the lake.
fn certified(sandbox: &Sandbox) -> u64 {
    let files = std::fs::read_dir(sandbox.path("lake/erasures")).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let certificates = paths.filter(|path| path.extension().is_some_and(|it| it == "cose"));
    certificates
        .map(|path| {
            let path = path.display().to_string();
            let flags = ["certificate", "verify", &path];
            sandbox.run("lake", 0, &flags)["certificate"]["scope"]["grains"]
                .as_u64()
                .unwrap()
        })
        .sum()
}

//! Erasure by executors: it removes and proves what an erasure by one process does, also if an
//! executor is killed meanwhile.

use std::process::Output;
use std::time::Instant;

use gristmill_tests::kill::copy_folder;
use gristmill_tests::sandbox::Sandbox;
use serde_json::{Value, json};

use super::killed_executors::{kills, random};
use super::processes::{Cluster, ended, started, text};
use super::questions::Asked;
use super::segment_work::add_segment;

/// What is left in a lake, by query.
const LEFT: [&str; 4] = [
    "SELECT content_address, type, ingested_at, length(blob) FROM grains ORDER BY 1",
    "SELECT content_address, event, value FROM state ORDER BY 1, 2, 3",
    "SELECT source, ordinal, error_code, length(bytes) FROM rejects ORDER BY 1, 2",
    "SELECT content_address FROM current ORDER BY 1",
];

/// Makes a lake of three segments and a signing key. Returns the user with the most grains, too.
fn lake_with_user() -> (Asked, String) {
    let asked = Asked::nothing();
    add_segment(&asked.sandbox);
    let made = asked
        .sandbox
        .output("lake", &["keys", "generate", "erasure"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let busiest = "SELECT user_id FROM grains WHERE user_id IS NOT NULL GROUP BY user_id \
                   ORDER BY count(*) DESC, user_id LIMIT 1";
    let rows = asked.sandbox.sql("lake", busiest);
    let user = rows[0]["user_id"].as_str().unwrap().to_owned();
    (asked, user)
}

/// Returns the words that erase `user`, or plan it.
fn words<'w>(user: &'w str, on: &[&'w str]) -> Vec<&'w str> {
    let words = ["erase", "--user", user, "--text-mentions", "--derived"];
    [&words[..], &["--format", "json"], on].concat()
}

/// Returns the words that carry the erasure out.
fn executed<'w>(user: &'w str, on: &[&'w str]) -> Vec<&'w str> {
    let execute = ["--execute", "--exclusive", "--certificate", "proof.cose"];
    [&words(user, on)[..], &execute].concat()
}

fn report_of(output: &Output) -> Value {
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"))
}

/// Runs a command over `lake` that must succeed, and returns its report.
fn run(sandbox: &Sandbox, lake: &str, words: &[&str]) -> Value {
    report_of(&ended(started(sandbox.command(lake, words))))
}

/// Returns what a report states that doesn't depend on names, instants and the bytes of new files.
fn figures(report: &Value) -> Value {
    let search = &report["proofs"]["byte_search"];
    json!([
        report["plan"],
        report["scope"]["grains"],
        report["proven"],
        report["proofs"]["survey"],
        report["proofs"]["lookup"],
        search["files"],
        search["addresses"],
        search["identifiers"],
        search["remnants"],
    ])
}

fn left(sandbox: &Sandbox, lake: &str) -> Vec<Value> {
    LEFT.map(|query| sandbox.sql(lake, query)).into()
}

/// Checks that the last certificate is valid, and the lake intact.
fn check(sandbox: &Sandbox, lake: &str) {
    for words in [&["certificate", "verify", "proof.cose"][..], &["verify"]] {
        let checked = sandbox.output(lake, words);
        assert!(checked.status.success(), "{}", text(&checked.stdout));
    }
}

#[test]
fn two_executors_erase_and_prove_what_one_process_does() {
    let (asked, user) = lake_with_user();
    let sandbox = &asked.sandbox;
    copy_folder(&sandbox.path("lake"), &sandbox.path("other")).unwrap();
    let cluster = Cluster::start();
    let on = ["--cluster", &cluster.address];
    let plan = run(sandbox, "lake", &words(&user, &[]));
    assert!(plan["selected"]["grains"].as_u64() > Some(0), "{plan}");
    assert_eq!(run(sandbox, "lake", &words(&user, &on)), plan);

    let local = run(sandbox, "other", &executed(&user, &[]));
    let erased = run(sandbox, "lake", &executed(&user, &on));
    assert_eq!(erased["proven"], true, "{erased}");
    assert_eq!(figures(&erased), figures(&local));
    assert_eq!(left(sandbox, "lake"), left(sandbox, "other"));
    check(sandbox, "lake");
}

#[test]
fn an_encrypted_lake_is_refused() {
    let (sandbox, cluster) = (Sandbox::new(), Cluster::start());
    let corpus = ["generate", "corpus", "--grains", "500"];
    let ingest = ["ingest", "corpus", "--encrypt"];
    for words in [&["keys", "generate", "erasure"][..], &corpus, &ingest] {
        let made = sandbox.output("lake", words);
        assert!(made.status.success(), "{}", text(&made.stderr));
    }
    for words in [
        words("nobody", &["--cluster", &cluster.address]),
        executed("nobody", &["--cluster", &cluster.address]),
    ] {
        let refused = sandbox.output("lake", &words);
        let message = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{message}");
        assert!(message.contains("by one machine"), "{message}");
    }
}

#[test]
fn after_the_kill_of_an_executor_an_erasure_is_exact_and_proven() {
    let (asked, user) = lake_with_user();
    let sandbox = &asked.sandbox;
    let copy_as = |lake: &str| copy_folder(&sandbox.path("lake"), &sandbox.path(lake)).unwrap();
    copy_as("local");
    copy_as("undisturbed");
    run(sandbox, "local", &executed(&user, &[]));
    let mut cluster = Cluster::start();
    let address = cluster.address.clone();
    let words = executed(&user, &["--cluster", &address]);
    let began = Instant::now();
    run(sandbox, "undisturbed", &words);
    let time = began.elapsed();

    for kill in 0..kills() {
        let lake = format!("killed-{kill}");
        copy_as(&lake);
        let moment = time.mul_f64(random());
        let running = started(sandbox.command(&lake, &words));
        std::thread::sleep(moment);
        cluster.kill_executor();
        let mut output = ended(running);
        println!("after {moment:?}: {}", output.status);
        cluster.add_executor();
        if output.status.code() != Some(0) {
            let message = text(&output.stderr);
            let names_cause = message.contains("cluster") || message.contains("executor");
            assert!(names_cause, "{message}");
            output = ended(started(sandbox.command(&lake, &words)));
        }
        assert_eq!(report_of(&output)["proven"], true);
        assert_eq!(left(sandbox, &lake), left(sandbox, "local"));
        check(sandbox, &lake);
    }
}

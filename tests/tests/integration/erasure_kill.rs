//! Erasure at the command line, and after a kill.

use std::process::{Command, Stdio};
use std::time::Instant;

use gristmill_engine::lake::Lake;
use gristmill_schemas::address::ContentAddress;
use gristmill_tests::grains::{belief, frames};
use gristmill_tests::kill::{copy_folder, kill_after, kills, share};
use gristmill_tests::paths::workspace;
use gristmill_tests::sandbox::Sandbox;
use serde_json::Value;

/// A sandbox with a keyring and a lake of a generated corpus.
fn sandbox_with_lake(grains: u32) -> Sandbox {
    let sandbox = Sandbox::new();
    let grains = grains.to_string();
    for arguments in [
        &["keys", "generate", "erasure"][..],
        &["generate", "corpus", "--grains", &grains, "--people", "50"],
    ] {
        assert_eq!(run(&sandbox, arguments).0, 0);
    }
    assert_eq!(ingest(&sandbox), 0);
    sandbox
}

/// Returns the exit code of a command over the lake, and its result as JSON if there is one.
fn run(sandbox: &Sandbox, arguments: &[&str]) -> (i32, Value) {
    let output = sandbox.output("lake", arguments);
    let code = output.status.code().unwrap_or(-1);
    if code == 1 {
        panic!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    (
        code,
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
    )
}

fn ingest(sandbox: &Sandbox) -> i32 {
    run(sandbox, &["ingest", "corpus", "--format", "json"]).0
}

/// Returns the user with the most grains.
fn busiest_user(sandbox: &Sandbox) -> String {
    let rows = sandbox.sql(
        "lake",
        "SELECT user_id FROM grains WHERE user_id IS NOT NULL GROUP BY user_id ORDER BY \
         count(*) DESC, user_id LIMIT 1",
    );
    rows[0]["user_id"].as_str().unwrap().to_owned()
}

#[test]
fn erasure_commands_return_results_and_exit_codes() {
    let sandbox = sandbox_with_lake(3_000);
    let user = busiest_user(&sandbox);
    let (code, plan) = run(&sandbox, &["erase", "--user", &user, "--format", "json"]);
    assert_eq!(code, 0);
    let selected = plan["selected"]["grains"].as_u64().unwrap();
    assert!(selected > 0);
    let (code, report) = run(
        &sandbox,
        &[
            "report-subject",
            "--user",
            &user,
            "--out",
            "held.jsonl",
            "--format",
            "json",
        ],
    );
    assert_eq!(
        (code, report["selected"]["grains"].as_u64()),
        (0, Some(selected))
    );
    let lines = std::fs::read_to_string(sandbox.path("held.jsonl")).unwrap();
    assert_eq!(
        lines.lines().count() as u64,
        report["disclosed"].as_u64().unwrap()
    );
    let all = sandbox.addresses("lake", "true");
    let (code, erased) = run(
        &sandbox,
        &[
            "erase",
            "--user",
            &user,
            "--execute",
            "--certificate",
            "proof.cose",
            "--format",
            "json",
        ],
    );
    assert_eq!(
        (code, erased["proven"].as_bool()),
        (0, Some(true)),
        "{:#}",
        erased["proofs"]
    );
    assert_eq!(erased["scope"]["grains"].as_u64(), Some(selected));
    // Grains under retention, such as consents, stay.
    assert!(
        sandbox
            .addresses(
                "lake",
                &format!("user_id = '{user}' AND type NOT IN ('consent')")
            )
            .len()
            <= plan["exclusions"].as_array().unwrap().len()
    );
    let (code, again) = run(&sandbox, &["erase", "--user", &user, "--format", "json"]);
    assert_eq!((code, again["selected"]["grains"].as_u64()), (0, Some(0)));
    let (code, verified) = run(
        &sandbox,
        &["certificate", "verify", "proof.cose", "--format", "json"],
    );
    assert_eq!((code, verified["valid"].as_bool()), (0, Some(true)));
    let (code, _) = run(
        &sandbox,
        &[
            "certificate",
            "verify",
            "proof.cose",
            "--signer",
            "did:key:z6MkNobody",
        ],
    );
    assert_eq!(code, 2);
    let (code, audit) = run(&sandbox, &["audit", "verify", "--format", "json"]);
    assert_eq!(
        (code, audit["bad"].as_u64(), audit["entries"].as_u64()),
        (0, Some(0), Some(3))
    );
    // A finished erasure that is run again finds only consent records, which stay, and succeeds.
    let (code, repeated) = run(
        &sandbox,
        &["erase", "--user", &user, "--execute", "--format", "json"],
    );
    assert_eq!((code, repeated["scope"]["grains"].as_u64()), (0, Some(0)));
    let left = sandbox.addresses("lake", "true");
    let gone = all.iter().find(|address| !left.contains(*address)).unwrap();
    check_with_another_implementation(&sandbox, gone, &erased);
}

/// A Python script accepts valid certificates and refuses tampered ones.
fn check_with_another_implementation(sandbox: &Sandbox, address: &str, erased: &Value) {
    let script = workspace().join("tests/tools/check_certificate.py");
    let leaves = sandbox
        .path("lake")
        .join(erased["certificate"].as_str().unwrap())
        .with_extension("leaves");
    let proof = sandbox
        .command(
            "lake",
            &[
                "certificate",
                "prove",
                leaves.to_str().unwrap(),
                address,
                "--format",
                "json",
            ],
        )
        .output();
    std::fs::write(sandbox.path("proof.json"), proof.unwrap().stdout).unwrap();
    let python = |certificate: &str, proof: &str| {
        let mut command = Command::new("python3");
        command
            .arg(&script)
            .arg(certificate)
            .arg("--leaves")
            .arg(&leaves)
            .args(["--proof", proof]);
        command
            .current_dir(sandbox.folder())
            .output()
            .map(|output| output.status.code())
    };
    let Ok(code) = python("proof.cose", "proof.json") else {
        eprintln!("skipped: there is no python3 to check the certificate with");
        return;
    };
    assert_eq!(code, Some(0));
    let signed = std::fs::read(sandbox.path("proof.cose")).unwrap();
    // The signature covers everything except the time in the unprotected header.
    let unprotected = signed
        .windows(3)
        .position(|window| window == b"iat")
        .unwrap();
    let covered = |at: &usize| !(unprotected..unprotected + 8).contains(at);
    for at in (0..signed.len()).step_by(signed.len() / 12).filter(covered) {
        let mut tampered = signed.clone();
        tampered[at] ^= 1;
        std::fs::write(sandbox.path("tampered.cose"), tampered).unwrap();
        assert_eq!(
            python("tampered.cose", "proof.json").unwrap(),
            Some(2),
            "byte {at}"
        );
    }
    let text = std::fs::read_to_string(sandbox.path("proof.json")).unwrap();
    let mut other: Value = serde_json::from_str(&text).unwrap();
    other["index"] = (other["index"].as_u64().unwrap() ^ 1).into();
    std::fs::write(sandbox.path("other.json"), other.to_string()).unwrap();
    assert_eq!(python("proof.cose", "other.json").unwrap(), Some(2));
}

#[test]
fn a_killed_erasure_is_completed_by_the_next_run_without_losing_others() {
    let sandbox = sandbox_with_lake(4_000);
    let user = busiest_user(&sandbox);
    let arguments = [
        "erase",
        "--user",
        &user,
        "--execute",
        "--exclusive",
        "--quiet",
        "--format",
        "json",
    ];
    let (_, plan) = run(&sandbox, &["erase", "--user", &user, "--format", "json"]);
    let selected = plan["selected"]["grains"].as_u64().unwrap();
    let all = sandbox.addresses("lake", "true");
    let pristine = sandbox.path("pristine");
    copy_folder(&sandbox.path("lake"), &pristine).unwrap();
    let started = Instant::now();
    assert_eq!(run(&sandbox, &arguments).0, 0);
    let whole = started.elapsed();
    let kept = sandbox.addresses("lake", "true");
    assert_eq!(all.len() - kept.len(), selected as usize);
    for kill in 0..kills() {
        std::fs::remove_dir_all(sandbox.path("lake")).unwrap();
        copy_folder(&pristine, &sandbox.path("lake")).unwrap();
        let child = sandbox
            .command("lake", &arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        kill_after(child, whole.mul_f64(share(kill))).unwrap();
        let left = sandbox.addresses("lake", "true");
        assert!(
            left == all || left == kept,
            "kill {kill}: all or nothing, {} are left",
            left.len()
        );
        let (code, erased) = run(&sandbox, &arguments);
        // A run that ended before the kill leaves nothing to erase.
        let done = (code, erased["proven"].as_bool());
        assert!(
            matches!(done, (0, Some(true)) | (3, None)),
            "kill {kill}: {done:?} {:#}",
            erased["proofs"]
        );
        assert_eq!(sandbox.addresses("lake", "true"), kept, "kill {kill}");
        let covered = certified(&sandbox);
        assert_eq!(
            covered, selected,
            "kill {kill}: the certificates cover all that was erased"
        );
        let (code, audit) = run(&sandbox, &["audit", "verify", "--format", "json"]);
        assert_eq!((code, audit["bad"].as_u64()), (0, Some(0)), "kill {kill}");
        assert_eq!(ingest(&sandbox), 0);
        assert_eq!(
            sandbox.addresses("lake", "true"),
            kept,
            "kill {kill}: nobody comes back"
        );
    }
}

/// Returns the greatest number of grains that one certificate covers.
fn certified(sandbox: &Sandbox) -> u64 {
    let folder = sandbox.path("lake/erasures");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let signed = files.filter(|path| path.extension().is_some_and(|ending| ending == "cose"));
    let covered = signed.map(|path| {
        let (code, found) = run(
            sandbox,
            &[
                "certificate",
                "verify",
                path.to_str().unwrap(),
                "--format",
                "json",
            ],
        );
        assert_eq!(code, 0, "{found:#}");
        found["certificate"]["scope"]["grains"].as_u64().unwrap()
    });
    covered.max().unwrap_or_default()
}

/// Runs a command to its end and returns its result, with the last journal of an erasure that it
/// had meanwhile, and the journal's name.
fn run_and_keep_journal(sandbox: &Sandbox, arguments: &[&str]) -> (Value, String, Vec<u8>) {
    let mut command = sandbox.command("lake", arguments);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut journal = None;
    while child.try_wait().unwrap().is_none() {
        let files = std::fs::read_dir(sandbox.path("lake/erasures"));
        for file in files.into_iter().flatten().flatten() {
            let name = file.file_name().into_string().unwrap();
            if name.ends_with(".journal")
                && let Ok(bytes) = std::fs::read(file.path())
            {
                journal = Some((name, bytes));
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let (name, bytes) = journal.expect("an erasure in progress has a journal");
    (serde_json::from_slice(&output.stdout).unwrap(), name, bytes)
}

#[test]
fn an_erasure_whose_journal_was_not_removed_is_not_certified_again() {
    let sandbox = sandbox_with_lake(2_000);
    let user = busiest_user(&sandbox);
    let erase = [
        "erase",
        "--user",
        &user,
        "--execute",
        "--exclusive",
        "--format",
        "json",
    ];
    let (first, name, journal) = run_and_keep_journal(&sandbox, &erase);
    // As if the process had been killed after its entry in the audit log.
    std::fs::write(sandbox.path("lake/erasures").join(&name), &journal).unwrap();
    let output = sandbox.output("lake", &erase);
    let second: Value = serde_json::from_slice(&output.stdout).unwrap();
    let hints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{hints}");
    assert!(!hints.contains("nothing about these people"), "{hints}");
    assert_eq!(second["resumed"], true, "{second:#}");
    for key in ["id", "scope", "certificate", "signer"] {
        assert_eq!(second[key], first[key], "{key}");
    }
    assert_eq!(first["scope"]["grains"], certified(&sandbox));
    assert!(!sandbox.path("lake/erasures").join(&name).exists());
    assert_eq!(run(&sandbox, &["verify"]).0, 0);

    // What was added since is erased with a certificate of its own.
    std::fs::write(sandbox.path("lake/erasures").join(&name), &journal).unwrap();
    let add = "ADD belief SET subject = \"a\" SET relation = \"mg:knows\" SET object = \"b\" \
               REASON \"r\"";
    let (code, added) = run(&sandbox, &["cal", add, "--allow-writes", "--user", &user]);
    assert_eq!(code, 0, "{added:#}");
    let (code, third) = run(&sandbox, &erase);
    assert_eq!(
        (code, &third["scope"]["grains"]),
        (0, &1.into()),
        "{third:#}"
    );
    assert_ne!(third["id"], first["id"]);
    assert_eq!(run(&sandbox, &["verify"]).0, 0);
}

/// An export hands nothing out of it, and answers of queries state it.
#[test]
fn rows_of_an_unfinished_erasure_arent_exported() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("one.mgs"), frames(&[belief(1), belief(2)])).unwrap();
    sandbox.run("lake", 0, &["ingest", "one.mgs"]);
    let export = |code: i32, more: &[&str]| {
        let mut command = sandbox.command("lake", &["export", "all.jsonl", "--force"]);
        let output = command.args(more).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{errors}");
        errors
    };
    let query = |arguments: &[&str]| {
        let output = sandbox.output("lake", arguments);
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8_lossy(&output.stderr).contains("isn't finished")
    };
    export(0, &[]);
    assert!(!query(&["sql", "SELECT 1"]));
    // As an erasure does that is killed before it removes the rows.
    let folder = sandbox.path("lake");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut lake = Lake::open(&folder.display().to_string()).await.unwrap();
        let address = ContentAddress::of(&belief(1));
        let added = lake.add_tombstones(&[address], "an erasure", 0).await;
        assert_eq!(added.unwrap(), 1);
    });
    std::fs::create_dir_all(folder.join("erasures")).unwrap();
    std::fs::write(folder.join("erasures/00.journal"), "sealed").unwrap();
    let errors = export(3, &[]);
    assert!(
        errors.contains("would be exported (1)") && errors.contains("gristmill erase"),
        "{errors}"
    );
    export(3, &["--since", "0"]);
    assert!(query(&["sql", "SELECT 1"]) && query(&["cal", "RECALL beliefs LIMIT 1"]));
    assert!(!query(&["sql", "SELECT 1", "--quiet"]));
    export(0, &["--override-reason", "court order 12"]);
}

//! Erasure at the command line, and what is left when it is killed.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use gristmill_tests::binary;
use gristmill_tests::kill::{copy_folder, kill_after, kills, share};
use gristmill_tests::paths::workspace;
use serde_json::Value;

const PASSPHRASE: &str = "a passphrase for tests";

struct Lab {
    folder: tempfile::TempDir,
}

impl Lab {
    /// A keyring, and a lake of a generated corpus.
    fn new(grains: u32) -> Lab {
        let lab = Lab {
            folder: tempfile::tempdir().unwrap(),
        };
        let (code, _) = lab.run(&["keys", "generate", "erasure"]);
        assert_eq!(code, 0);
        let corpus = lab.path("corpus");
        let grains = grains.to_string();
        let (code, _) = lab.run(&[
            "generate",
            corpus.to_str().unwrap(),
            "--grains",
            &grains,
            "--people",
            "50",
        ]);
        assert_eq!(code, 0);
        assert_eq!(lab.ingest("lake"), 0);
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary::path());
        command
            .args(arguments)
            .env("GRISTMILL_KEYRING", self.path("keyring.json"))
            .env("GRISTMILL_PASSPHRASE", PASSPHRASE)
            .env("GRISTMILL_LAKE", self.path("lake"))
            .current_dir(self.folder.path());
        command
    }

    /// The exit code, and the result as JSON if there is one.
    fn run(&self, arguments: &[&str]) -> (i32, Value) {
        let output = self.command(arguments).output().unwrap();
        let code = output.status.code().unwrap_or(-1);
        if code == 1 {
            panic!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        (
            code,
            serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
        )
    }

    fn ingest(&self, lake: &str) -> i32 {
        let lake = self.path(lake);
        self.run(&[
            "--lake",
            lake.to_str().unwrap(),
            "ingest",
            "corpus",
            "--format",
            "json",
        ])
        .0
    }

    fn sql(&self, query: &str) -> Value {
        let (code, rows) = self.run(&["sql", query, "--format", "json"]);
        assert_eq!(code, 0);
        rows
    }

    /// The user with the most grains.
    fn somebody(&self) -> String {
        let rows = self.sql(
            "SELECT user_id FROM grains WHERE user_id IS NOT NULL GROUP BY user_id ORDER BY \
             count(*) DESC, user_id LIMIT 1",
        );
        rows[0]["user_id"].as_str().unwrap().to_owned()
    }

    /// The addresses of the grains for which `condition` holds.
    fn addresses(&self, condition: &str) -> Vec<String> {
        let query = format!("SELECT content_address AS a FROM grains WHERE {condition} ORDER BY 1");
        self.sql(&query)
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["a"].as_str().unwrap().to_owned())
            .collect()
    }
}

#[test]
fn the_commands_answer_with_results_and_exit_codes() {
    let lab = Lab::new(3_000);
    let user = lab.somebody();
    let (code, plan) = lab.run(&["erase", "--user", &user, "--format", "json"]);
    assert_eq!(code, 0);
    let selected = plan["selected"]["grains"].as_u64().unwrap();
    assert!(selected > 0);
    let (code, report) = lab.run(&[
        "report-subject",
        "--user",
        &user,
        "--out",
        "held.jsonl",
        "--format",
        "json",
    ]);
    assert_eq!(
        (code, report["selected"]["grains"].as_u64()),
        (0, Some(selected))
    );
    let lines = std::fs::read_to_string(lab.path("held.jsonl")).unwrap();
    assert_eq!(
        lines.lines().count() as u64,
        report["disclosed"].as_u64().unwrap()
    );
    let all = lab.addresses("true");
    let (code, erased) = lab.run(&[
        "erase",
        "--user",
        &user,
        "--execute",
        "--certificate",
        "proof.cose",
        "--format",
        "json",
    ]);
    assert_eq!(
        (code, erased["proven"].as_bool()),
        (0, Some(true)),
        "{:#}",
        erased["proofs"]
    );
    assert_eq!(erased["scope"]["grains"].as_u64(), Some(selected));
    // What the law keeps, such as consents, stays.
    assert!(
        lab.addresses(&format!("user_id = '{user}' AND type NOT IN ('consent')"))
            .len()
            <= plan["exclusions"].as_array().unwrap().len()
    );
    let (code, again) = lab.run(&["erase", "--user", &user, "--format", "json"]);
    assert_eq!((code, again["selected"]["grains"].as_u64()), (0, Some(0)));
    let (code, verified) = lab.run(&["certificate", "verify", "proof.cose", "--format", "json"]);
    assert_eq!((code, verified["valid"].as_bool()), (0, Some(true)));
    let (code, _) = lab.run(&[
        "certificate",
        "verify",
        "proof.cose",
        "--signer",
        "did:key:z6MkNobody",
    ]);
    assert_eq!(code, 2);
    let (code, audit) = lab.run(&["audit", "verify", "--format", "json"]);
    assert_eq!(
        (code, audit["bad"].as_u64(), audit["entries"].as_u64()),
        (0, Some(0), Some(3))
    );
    let left = lab.addresses("true");
    let gone = all.iter().find(|address| !left.contains(address)).unwrap();
    check_with_another_implementation(&lab, gone, &erased);
}

/// The short script in another language accepts what is good and refuses what was tampered with.
fn check_with_another_implementation(lab: &Lab, address: &str, erased: &Value) {
    let script = workspace().join("tests/tools/check_certificate.py");
    let leaves = lab
        .path("lake")
        .join(erased["certificate"].as_str().unwrap())
        .with_extension("leaves");
    let proof = lab
        .command(&[
            "certificate",
            "prove",
            leaves.to_str().unwrap(),
            address,
            "--format",
            "json",
        ])
        .output();
    std::fs::write(lab.path("proof.json"), proof.unwrap().stdout).unwrap();
    let python = |certificate: &str, proof: &str| {
        let mut command = Command::new("python3");
        command
            .arg(&script)
            .arg(certificate)
            .arg("--leaves")
            .arg(&leaves)
            .args(["--proof", proof]);
        command
            .current_dir(lab.folder.path())
            .output()
            .map(|output| output.status.code())
    };
    let Ok(code) = python("proof.cose", "proof.json") else {
        eprintln!("skipped: there is no python3 to check the certificate with");
        return;
    };
    assert_eq!(code, Some(0));
    let signed = std::fs::read(lab.path("proof.cose")).unwrap();
    // The time in the unprotected header is the one thing that the signature doesn't cover.
    let unprotected = signed
        .windows(3)
        .position(|window| window == b"iat")
        .unwrap();
    let covered = |at: &usize| !(unprotected..unprotected + 8).contains(at);
    for at in (0..signed.len()).step_by(signed.len() / 12).filter(covered) {
        let mut tampered = signed.clone();
        tampered[at] ^= 1;
        std::fs::write(lab.path("tampered.cose"), tampered).unwrap();
        assert_eq!(
            python("tampered.cose", "proof.json").unwrap(),
            Some(2),
            "byte {at}"
        );
    }
    let text = std::fs::read_to_string(lab.path("proof.json")).unwrap();
    let mut other: Value = serde_json::from_str(&text).unwrap();
    other["index"] = (other["index"].as_u64().unwrap() ^ 1).into();
    std::fs::write(lab.path("other.json"), other.to_string()).unwrap();
    assert_eq!(python("proof.cose", "other.json").unwrap(), Some(2));
}

#[test]
fn a_killed_erasure_is_finished_by_the_next_run_and_nobody_else_is_lost() {
    let lab = Lab::new(4_000);
    let user = lab.somebody();
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
    let (_, plan) = lab.run(&["erase", "--user", &user, "--format", "json"]);
    let selected = plan["selected"]["grains"].as_u64().unwrap();
    let all = lab.addresses("true");
    let pristine = lab.path("pristine");
    copy_folder(&lab.path("lake"), &pristine).unwrap();
    let started = Instant::now();
    assert_eq!(lab.run(&arguments).0, 0);
    let whole = started.elapsed();
    let kept = lab.addresses("true");
    assert_eq!(all.len() - kept.len(), selected as usize);
    for kill in 0..kills() {
        std::fs::remove_dir_all(lab.path("lake")).unwrap();
        copy_folder(&pristine, &lab.path("lake")).unwrap();
        let child = lab
            .command(&arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        kill_after(child, whole.mul_f64(share(kill))).unwrap();
        let left = lab.addresses("true");
        assert!(
            left == all || left == kept,
            "kill {kill}: all or nothing, {} are left",
            left.len()
        );
        let (code, erased) = lab.run(&arguments);
        // A run that ended before it was killed leaves nothing that may go.
        let done = (code, erased["proven"].as_bool());
        assert!(
            matches!(done, (0, Some(true)) | (3, None)),
            "kill {kill}: {done:?} {:#}",
            erased["proofs"]
        );
        assert_eq!(lab.addresses("true"), kept, "kill {kill}");
        let covered = certified(&lab);
        assert_eq!(
            covered, selected,
            "kill {kill}: the certificates cover all that was erased"
        );
        let (code, audit) = lab.run(&["audit", "verify", "--format", "json"]);
        assert_eq!((code, audit["bad"].as_u64()), (0, Some(0)), "kill {kill}");
        assert_eq!(lab.ingest("lake"), 0);
        assert_eq!(
            lab.addresses("true"),
            kept,
            "kill {kill}: nobody comes back"
        );
    }
}

/// The most that one certificate in the lake covers.
fn certified(lab: &Lab) -> u64 {
    let folder = lab.path("lake/erasures");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let signed = files.filter(|path| path.extension().is_some_and(|ending| ending == "cose"));
    let covered = signed.map(|path| {
        let (code, found) = lab.run(&[
            "certificate",
            "verify",
            path.to_str().unwrap(),
            "--format",
            "json",
        ]);
        assert_eq!(code, 0, "{found:#}");
        found["certificate"]["scope"]["grains"].as_u64().unwrap()
    });
    covered.max().unwrap_or_default()
}

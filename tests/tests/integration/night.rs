//! The nightly run of the packages (`packaging/night`): which steps run, and what it prints about
//! findings and about damage. What the scripts of the package do when it is installed and removed.

use std::fs;
use std::process::Command;

use gristmill_tests::binary;
use gristmill_tests::damage::{Damage, files_below};
use gristmill_tests::grains::{frames, grain};
use gristmill_tests::kill::copy_folder;
use gristmill_tests::paths::workspace;
use gristmill_tests::sandbox::Sandbox;

/// A rule of the severity `warning` that [`inbox`] breaks.
const WARNING: &str = "eu-ai-act/logged-model";

/// Returns a folder with an inbox of one grain.
fn inbox() -> Sandbox {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("inbox")).unwrap();
    let event =
        grain(r#"{"type":"event","role":"assistant","content":"it is noon","created_at":1}"#);
    fs::write(sandbox.path("inbox/a.frames"), frames(&[event.blob])).unwrap();
    sandbox
}

/// Runs a night over the lake `lake` with further settings. Returns its exit code, output and
/// messages.
fn night(sandbox: &Sandbox, settings: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut night = Command::new("bash");
    binary::without_settings(&mut night);
    night
        .arg(workspace().join("packaging/night"))
        .current_dir(sandbox.folder())
        .env("GRISTMILL", binary::path())
        .env("GRISTMILL_LAKE", "lake")
        .env("GRISTMILL_INBOX", "inbox")
        .env("GRISTMILL_VERIFY_SUBSET", "100%")
        .envs(settings.iter().copied());
    let ended = night.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        ended.status.code(),
        text(&ended.stdout),
        text(&ended.stderr),
    )
}

#[test]
fn a_night_with_refused_input_runs_to_its_end_and_names_the_query_and_the_lake() {
    let sandbox = inbox();
    fs::write(
        sandbox.path("inbox/b.jsonl"),
        "{\"grain\":{\"type\":\"event\"}}\n",
    )
    .unwrap();
    let (code, out, err) = night(&sandbox, &[]);
    assert_eq!(code, Some(2), "{out}{err}");
    assert!(out.contains("== gc: "), "{out}");
    for part in [
        "ingest found something to look at",
        " --lake lake sql ",
        "FROM rejects",
        "the lake is complete",
    ] {
        assert!(err.contains(part), "{err}");
    }
    assert!(!err.contains("damaged"), "{err}");
}

#[cfg(unix)]
#[test]
fn a_night_whose_inbox_has_an_unreadable_file_names_the_query_and_the_lake() {
    let sandbox = inbox();
    std::os::unix::fs::symlink("nowhere", sandbox.path("inbox/b.jsonl")).unwrap();
    let (code, out, err) = night(&sandbox, &[]);
    assert_eq!(code, Some(1), "{out}{err}");
    for part in [
        "The sources that couldn't be read: ",
        " --lake lake sql ",
        "FROM sources",
        "ingest failed with exit code 1",
    ] {
        assert!(err.contains(part), "{part}: {err}");
    }
}

#[test]
fn commands_over_an_encrypted_lake_name_its_keyring_and_not_its_passphrase() {
    let sandbox = inbox();
    let keyring = sandbox.path("keyring.json").display().to_string();
    let settings = [
        ("GRISTMILL_KEYRING", keyring.as_str()),
        ("GRISTMILL_PASSPHRASE", "correct horse"),
    ];
    let words = ["--lake", "lake", "ingest", "inbox", "--encrypt"];
    let mut ingest = binary::program();
    let ended = ingest
        .current_dir(sandbox.folder())
        .args(words)
        .envs(settings);
    assert!(ended.output().unwrap().status.success());
    fs::write(
        sandbox.path("inbox/b.jsonl"),
        "{\"grain\":{\"type\":\"event\"}}\n",
    )
    .unwrap();
    let (code, out, err) = night(&sandbox, &settings);
    assert_eq!(code, Some(2), "{out}{err}");
    for part in [
        "sudo --preserve-env=GRISTMILL_PASSPHRASE -u ",
        &format!(" --lake lake --keyring {keyring} sql "),
        "export GRISTMILL_PASSPHRASE first",
    ] {
        assert!(err.contains(part), "{part}: {err}");
    }
    assert!(!err.contains("correct horse"), "{err}");
}

#[test]
fn a_night_over_a_damaged_lake_ends_before_compact_and_gc_with_one_remedy() {
    let sandbox = inbox();
    let (code, out, err) = night(&sandbox, &[]);
    assert_eq!(code, Some(0), "{out}{err}");
    let files = files_below(&sandbox.path("lake").join("grains"));
    let is_segment = |name: &str| name.starts_with("part-") && name.ends_with(".parquet");
    let segment = files.into_iter().find(|file| {
        let name = file.file_name().and_then(|name| name.to_str());
        name.is_some_and(is_segment)
    });
    let segment = segment.unwrap();
    let middle = fs::metadata(&segment).unwrap().len() / 2;
    for damage in [
        Damage::Truncate { length: middle },
        Damage::Delete,
        Damage::Flip {
            byte: middle,
            bit: 3,
        },
    ] {
        let undo = damage.inflict(&segment);
        let (code, out, err) = night(&sandbox, &[]);
        assert_eq!(code, Some(2), "{damage:?}: {out}{err}");
        assert_eq!(err.matches("Next: ").count(), 1, "{damage:?}: {err}");
        for part in ["Don't run gc", " --lake lake verify"] {
            assert!(err.contains(part), "{damage:?}: {err}");
        }
        for step in ["== compact: ", "== gc: "] {
            assert!(!out.contains(step), "{damage:?}: {out}");
        }
        assert!(!err.contains("is complete"), "{damage:?}: {err}");
        undo.undo();
    }
    assert_eq!(night(&sandbox, &[]).0, Some(0));
}

#[test]
fn a_night_over_a_lake_that_was_set_back_ends_before_compact() {
    let sandbox = inbox();
    let settings = [("GRISTMILL_AUDIT_HEADS", "heads")];
    assert_eq!(night(&sandbox, &settings).0, Some(0));
    copy_folder(&sandbox.path("lake"), &sandbox.path("backup")).unwrap();
    let later = grain(r#"{"type":"event","role":"assistant","content":"late","created_at":2}"#);
    fs::write(sandbox.path("inbox/b.frames"), frames(&[later.blob])).unwrap();
    assert_eq!(night(&sandbox, &settings).0, Some(0));
    fs::remove_dir_all(sandbox.path("lake")).unwrap();
    fs::rename(sandbox.path("backup"), sandbox.path("lake")).unwrap();
    fs::remove_file(sandbox.path("inbox/b.frames")).unwrap();
    let (code, out, err) = night(&sandbox, &settings);
    assert_eq!(code, Some(2), "{out}{err}");
    assert!(!out.contains("== compact: "), "{out}");
    assert!(err.contains("lake audit verify --heads heads"), "{err}");
}

#[test]
fn the_options_of_the_scan_decide_which_findings_count() {
    let settings = fs::read_to_string(workspace().join("packaging/night.env")).unwrap();
    let shipped = settings
        .lines()
        .find_map(|line| line.strip_prefix("GRISTMILL_SCAN_OPTIONS="))
        .unwrap()
        .trim_matches('"');
    let sandbox = inbox();
    let rule = format!("--rule {WARNING}");
    let with_shipped = format!("{rule} {shipped}");
    for (options, expected) in [(&rule, 2), (&with_shipped, 0)] {
        let settings = [
            ("GRISTMILL_REPORT", "scan.html"),
            ("GRISTMILL_SCAN_OPTIONS", options.as_str()),
        ];
        let (code, out, err) = night(&sandbox, &settings);
        assert_eq!(code, Some(expected), "{options}: {out}{err}");
        let page = fs::read_to_string(sandbox.path("scan.html")).unwrap();
        assert!(page.contains("logged-model"), "{options}");
    }
}

/// Runs a script of the package in a system of its own, and returns its exit code with the commands
/// that it ran.
#[cfg(target_os = "linux")]
fn maintained(system: &Sandbox, script: &str, action: &str) -> (Option<i32>, String) {
    use std::os::unix::fs::PermissionsExt;
    let (commands, log) = (system.path("commands"), system.path("log"));
    fs::create_dir_all(&commands).unwrap();
    fs::create_dir_all(system.path("run/systemd/system")).unwrap();
    fs::write(&log, "").unwrap();
    // The file belongs to the user of the test, for whom `stat` is replaced.
    for (name, output) in [
        ("systemctl", ""),
        ("systemd-sysusers", ""),
        ("chgrp", ""),
        ("stat", "echo 0"),
    ] {
        let text = format!(
            "#!/bin/sh\necho {name} \"$@\" >>'{}'\n{output}\n",
            log.display()
        );
        fs::write(commands.join(name), text).unwrap();
        fs::set_permissions(commands.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", commands.display());
    let status = Command::new("sh")
        .arg(workspace().join("packaging").join(script))
        .arg(action)
        .env("DPKG_ROOT", system.folder())
        .env("PATH", path)
        .status();
    (status.unwrap().code(), fs::read_to_string(log).unwrap())
}

#[cfg(target_os = "linux")]
#[test]
fn a_package_is_configured_without_its_settings_and_ends_its_timer_when_it_is_removed() {
    let system = Sandbox::new();
    // An administrator may have removed the file; an upgrade doesn't bring it back.
    let (code, ran) = maintained(&system, "postinst", "configure");
    assert_eq!(code, Some(0), "{ran}");
    assert!(
        ran.contains("systemd-sysusers") && !ran.contains("chgrp"),
        "{ran}"
    );
    fs::create_dir_all(system.path("etc/gristmill")).unwrap();
    fs::write(system.path("etc/gristmill/night.env"), "").unwrap();
    let (code, ran) = maintained(&system, "postinst", "configure");
    assert_eq!(code, Some(0), "{ran}");
    assert!(ran.contains("chgrp gristmill "), "{ran}");
    let (code, ran) = maintained(&system, "prerm", "remove");
    assert_eq!(code, Some(0), "{ran}");
    assert!(ran.contains("disable --now gristmill-night.timer"), "{ran}");
    let (code, ran) = maintained(&system, "postrm", "remove");
    assert_eq!((code, &*ran), (Some(0), "systemctl daemon-reload\n"));
    for script in ["prerm", "postrm"] {
        assert_eq!(
            maintained(&system, script, "upgrade"),
            (Some(0), String::new())
        );
    }
}

/// The exposure of a service up to which `systemd-analyze` calls it protected, in tenths.
#[cfg(target_os = "linux")]
const EXPOSURE: &str = "45";

#[cfg(target_os = "linux")]
#[test]
fn the_nightly_service_can_do_no_more_than_a_night_needs() {
    let analyzed = Command::new("systemd-analyze")
        .args([
            "security",
            "--offline=true",
            "--no-pager",
            "--threshold",
            EXPOSURE,
        ])
        .arg(workspace().join("packaging/gristmill-night.service"))
        .output();
    let shown = analyzed.map(|it| (it.status, String::from_utf8_lossy(&it.stdout).into_owned()));
    match shown {
        Ok((status, shown)) if shown.contains("Overall exposure level") => {
            assert!(status.success(), "{shown}");
        }
        other => eprintln!("skipped: no systemd-analyze that reads files: {other:?}"),
    }
}

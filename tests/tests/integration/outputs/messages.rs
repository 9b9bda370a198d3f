//! Messages of commands about people, certificates, and input that they refuse or can't read.

use std::fs;
use std::path::PathBuf;

use gristmill_tests::grains::{belief, frames, grain, plain};

use super::OutputFolder;

#[test]
fn a_report_of_a_person_states_what_its_numbers_leave_open() {
    let folder = OutputFolder::with_events(20);
    let (code, out, err) = folder.run(&["report-subject", "--email", "nobody@example.org"]);
    assert_eq!((code, &*out), (0, ""), "{err}");
    assert!(err.contains("nothing about these people"), "{err}");
    for (person, is_empty) in [("nobody", true), ("u-1", false)] {
        let words = ["report-subject", "--user", person, "--format", "json"];
        let (code, out, err) = folder.run(&words);
        let found: Vec<serde_json::Value> = serde_json::from_str(&out).expect(&err);
        assert_eq!((code, found.is_empty()), (0, is_empty), "{person}: {out}");
    }
    for flag in ["--user", "--subject"] {
        let (_, found, err) = folder.run(&["report-subject", flag, "u-1"]);
        assert!(!found.is_empty(), "{flag}: {err}");
        assert!(!err.contains("nothing about"), "{flag}: {err}");
    }
}

#[test]
fn a_report_by_name_gives_the_user_id_and_why_mentions_stay() {
    let folder = OutputFolder::empty();
    let grains = [
        r#"{"type":"belief","subject":"Ada Brennan","relation":"likes","object":"tea",
            "user_id":"ada","source_type":"user_explicit","confidence":0.5,"created_at":1}"#,
        r#"{"type":"event","role":"user","content":"Ada Brennan called","user_id":"theo",
            "created_at":2}"#,
    ];
    let blobs: Vec<_> = grains.iter().map(|text| grain(text).blob).collect();
    fs::write(folder.at("in.frames"), frames(&blobs)).unwrap();
    assert_eq!(folder.run(&["ingest", "in.frames"]).0, 0);
    let (code, _, err) = folder.run(&["report-subject", "--subject", "Ada Brennan"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("more if they are theirs: --user 'ada'\n"),
        "{err}"
    );
    assert!(
        err.contains("the others stay: 1 (not selected: they mention"),
        "{err}"
    );
}

#[test]
fn a_plan_that_erases_nothing_states_what_stays() {
    let folder = OutputFolder::empty();
    let mention = r#"{"type":"event","role":"user","content":"Ada Brennan called","user_id":"theo",
                      "created_at":2}"#;
    fs::write(folder.at("in.frames"), frames(&[grain(mention).blob])).unwrap();
    assert_eq!(folder.run(&["ingest", "in.frames"]).0, 0);
    let note = "nothing is to be erased; what was found stays: 1 (not_selected)";
    let plan = ["erase", "--subject", "Ada Brennan", "--plan"];
    let (code, _, err) = folder.run(&plan);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains(note), "{err}");
    let (_, _, err) = folder.run(&[&plan[..], &["--text-mentions"]].concat());
    assert!(!err.contains("nothing is to be erased"), "{err}");
}

#[test]
fn who_has_no_keyring_is_not_asked_for_its_passphrase() {
    let folder = OutputFolder::with_events(1);
    let mut erase = gristmill_tests::binary::gristmill();
    erase
        .current_dir(folder.folder.path())
        .env_remove("GRISTMILL_PASSPHRASE")
        .args([
            "erase",
            "--user",
            "u-1",
            "--execute",
            "--keyring",
            "none.json",
        ]);
    let (code, _, err) = gristmill_tests::binary::ended(&mut erase);
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains("there is no keyring") && err.contains("keys generate"),
        "{err}"
    );
}

#[test]
fn a_certificate_of_any_signer_comes_with_a_note() {
    let folder = OutputFolder::with_events(20);
    let ring = ["--keyring", "ring.json"];
    let run = |words: &[&str]| {
        let (code, out, err) = folder.run(words);
        assert_eq!(code, 0, "{words:?}: {err}");
        (out, err)
    };
    run(&[&["keys"][..], &ring, &["generate", "erasure"]].concat());
    let certified = ["--execute", "--exclusive", "--certificate", "c.cose"];
    run(&[&["erase", "--user", "u-1"][..], &ring, &certified].concat());
    let (out, err) = run(&["certificate", "verify", "c.cose", "--format", "json"]);
    assert!(err.contains("--signer"), "{err}");
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    let signer = found["signer"].as_str().unwrap();
    let (_, err) = run(&["certificate", "verify", "c.cose", "--signer", signer]);
    assert!(!err.contains("--signer"), "{err}");
}

#[test]
fn a_certificate_about_nobody_states_that_it_proves_nothing_about_other_spellings() {
    let folder = OutputFolder::with_events(20);
    let ring = ["--keyring", "ring.json"];
    let run = |words: &[&str]| {
        let (code, out, err) = folder.run(words);
        assert_eq!(code, 0, "{words:?}: {err}");
        (out, err)
    };
    run(&[&["keys"][..], &ring, &["generate", "erasure"]].concat());
    for (person, is_nobody) in [("adda", true), ("u-1", false)] {
        let certified = ["--execute", "--exclusive", "--certificate", "c.cose"];
        let (_, err) = run(&[&["erase", "--user", person][..], &ring, &certified].concat());
        // `u-1` has too few letters and digits.
        let is_short = err.contains("texts were searched for 0 of 1 identifiers; 1 too short");
        assert_eq!(is_short, person == "u-1", "{err}");
        run(&["certificate", "show", "c.cose", "--html", "c.html"]);
        let page = fs::read_to_string(folder.at("c.html")).unwrap();
        let states = page.contains("Nobody was found by these identifiers");
        assert_eq!(states, is_nobody, "{person}");
        for words in ["show", "verify"] {
            let (_, err) = run(&["certificate", words, "c.cose"]);
            let notes = err.contains("proves nothing about a person who is spelled otherwise");
            assert_eq!(notes, is_nobody, "{words} {person}: {err}");
        }
    }
}

#[test]
fn an_empty_identifier_is_refused() {
    let folder = OutputFolder::with_events(20);
    assert_eq!(
        folder
            .run(&["keys", "--keyring", "ring.json", "generate", "erasure"])
            .0,
        0
    );
    for option in [
        "--user",
        "--subject",
        "--email",
        "--phone",
        "--did",
        "--session",
    ] {
        for nobody in ["", " ", "\u{a0}\t", "\u{200b}"] {
            for words in [
                &["erase", "--keyring", "ring.json", "--execute"][..],
                &["erase"],
                &["report-subject"],
            ] {
                let (code, _, err) =
                    folder.run(&[words, &[option, nobody, "--user", "u-2"]].concat());
                assert!(
                    code == 1 && err.contains(&format!("{option} is empty")),
                    "{option} {words:?}: {err}"
                );
            }
        }
    }
    for people in ["\"\"\n\" \"\n", "user,name\n,\n\"\",\" \"\n", "\n\n"] {
        fs::write(folder.at("people.csv"), people).unwrap();
        let (code, _, err) = folder.run(&[
            "erase",
            "--keyring",
            "ring.json",
            "--execute",
            "--subjects",
            "people.csv",
        ]);
        assert!(
            code == 1 && err.contains("names nobody") && err.contains("--email"),
            "{people:?}: {code} {err}"
        );
    }
    assert!(!folder.at("lake/erasures").exists());
    fs::write(folder.at("people.csv"), "\"\"\nu-2\n").unwrap();
    let (code, out, err) = folder.run(&[
        "report-subject",
        "--subjects",
        "people.csv",
        "--out",
        "held.jsonl",
    ]);
    assert!(code == 0 && out.contains("\"disclosed\":0"), "{out}{err}");
}

#[test]
fn errors_name_the_file_that_cannot_be_read_or_written() {
    let folder = OutputFolder::with_events(20);
    fs::write(folder.at("a-file"), "").unwrap();
    let (code, _, err) = folder.run(&["man", "a-file/pages"]);
    assert!(code == 1 && err.contains("a-file/pages"), "{err}");
    let (code, _, err) = folder.run(&["grain", "check", "lake"]);
    assert!(code == 1 && err.contains("can't read `lake`"), "{err}");
    let (code, _, err) = folder.run(&["export", "lake", "--format", "jsonl", "--force"]);
    assert!(
        code == 1 && err.contains("can't write `lake`") && err.contains("directory"),
        "{err}"
    );
}

#[test]
fn an_error_of_a_new_file_names_its_folder_and_no_temporary_file() {
    let folder = OutputFolder::with_events(20);
    for words in [
        &["report", "missing/page.html"][..],
        &["scan", "--output", "missing/page.html"],
        &["export", "missing/page.jsonl"],
    ] {
        let (code, _, err) = folder.run(words);
        assert!(
            code == 1 && err.contains("`missing/page.") && err.contains("its folder doesn't exist"),
            "{words:?}: {err}"
        );
    }
}

#[test]
fn a_transcript_is_not_inspected_as_a_damaged_grain() {
    let folder = OutputFolder::empty();
    let line = r#"{"grain":{"type":"event","role":"user","content":"hi","created_at":1}}"#;
    fs::write(folder.at("grains.jsonl"), line).unwrap();
    let (code, out, err) = folder.run(&["inspect", "grains.jsonl"]);
    assert!(code == 1 && out.is_empty(), "{out}");
    assert!(
        err.contains("of the kind `grains`: `gristmill convert`"),
        "{err}"
    );
}

#[test]
fn a_command_that_a_message_suggests_is_about_the_same_lake() {
    let folder = OutputFolder::with_events(20);
    fs::write(folder.at("empty.mg"), "").unwrap();
    for (words, prefix) in [
        (
            &["--lake", "my lake"][..],
            "`gristmill --lake 'my lake' sql",
        ),
        (&[], "`gristmill sql"),
    ] {
        let (code, _, err) = folder.run(&[words, &["ingest", "empty.mg"]].concat());
        assert!(code == 2 && err.contains(prefix), "{words:?}: {err}");
    }
}

#[test]
fn a_lake_whose_uri_lacks_slashes_is_not_created_as_a_folder() {
    let folder = OutputFolder::with_events(20);
    for uri in ["s3:/bucket/lake", "gs:bucket", "file:/lake"] {
        let (code, _, err) = folder.run(&["--lake", uri, "ingest", "in.frames"]);
        assert!(code == 1 && err.contains("lacks slashes"), "{uri}: {err}");
    }
    assert!(!folder.at("s3:").exists());
}

#[test]
fn a_folder_that_the_reader_of_logs_takes_for_another_one_is_refused() {
    let folder = OutputFolder::with_events(20);
    assert_eq!(
        folder.run(&["--lake", "my lake", "ingest", "in.frames"]).0,
        0
    );
    for lake in ["my%20lake", "file://my%20lake", "back\\slash"] {
        let (code, out, err) = folder.run(&["--lake", lake, "ingest", "in.frames"]);
        assert_eq!((code, &*out), (1, ""), "{lake}: {err}");
        assert!(err.contains("can't hold a lake"), "{lake}: {err}");
    }
    assert!(!folder.at("my%20lake").exists() && !folder.at("back\\slash").exists());
    // A file of this name is read.
    fs::rename(folder.at("in.frames"), folder.at("in%20.frames")).unwrap();
    assert_eq!(
        folder.run(&["--lake", "other", "ingest", "in%20.frames"]).0,
        0
    );
}

#[test]
fn a_file_of_people_has_a_note_of_what_is_not_searched_for() {
    let folder = OutputFolder::with_events(20);
    let people = "Kundennummer;user;Ort\n4711;u-1;Kiel\n4712;;Ulm\n;;\n";
    fs::write(folder.at("people.csv"), people).unwrap();
    for command in ["erase", "report-subject"] {
        let (code, _, err) = folder.run(&[command, "--subjects", "people.csv"]);
        assert_eq!(code, 0, "{err}");
        let columns = "`people.csv`: not searched for: the columns `Kundennummer`, `Ort`.";
        assert!(err.contains(columns), "{command}: {err}");
        assert!(
            err.contains("lines that identify nobody: 1, such as line 3\n"),
            "{command}: {err}"
        );
        let words = [command, "--quiet", "--subjects", "people.csv"];
        assert_eq!(folder.run(&words).2, "", "{command}");
    }
}

#[test]
fn an_empty_list_of_holds_has_a_note() {
    let folder = OutputFolder::with_events(1);
    for (words, note) in [
        (
            &["case-21", "--grains"][..],
            "the lake has no hold `case-21` in force; --ended",
        ),
        (&["case-21", "--ended"], "the lake has no hold `case-21`\n"),
        (&[], "the lake has no hold in force; --ended"),
    ] {
        let list = [&["hold", "list", "--format", "json"], words].concat();
        let (code, out, err) = folder.run(&list);
        assert_eq!((code, &*out), (0, "[]\n"), "{err}");
        assert!(err.starts_with(note), "{words:?}: {err}");
        assert_eq!(folder.run(&[&list[..], &["--quiet"]].concat()).2, "");
    }
    let place = "hold place case-12 --user u-1 --authority court --reason r";
    assert_eq!(folder.run(&place.split(' ').collect::<Vec<_>>()).0, 0);
    assert_eq!(folder.run(&["hold", "list", "case-12"]).2, "");
}

#[test]
fn a_search_without_results_says_whether_conditions_may_be_why() {
    let folder = OutputFolder::with_events(20);
    let said = |words: &[&str]| {
        let all = [&["search", "--format", "table"], words].concat();
        folder.run(&all).2
    };
    assert!(said(&["zzz"]).contains("no grain has these words;"));
    let filtered = said(&["zzz", "--user", "u-2"]);
    assert!(
        filtered.contains("no grain that --type, --user"),
        "{filtered}"
    );
    assert!(said(&["..."]).contains("no words to search for"));
}

#[test]
fn a_truncated_container_is_reported_as_cut_off() {
    let folder = OutputFolder::empty();
    let without_manifest = plain(&(0..20).map(belief).collect::<Vec<_>>());
    assert_eq!(
        folder
            .run(&["generate", ".", "--grains", "300", "--people", "5"])
            .0,
        0
    );
    let with_manifest = fs::read(folder.at("corpus-00000.mg")).unwrap();
    for file in [without_manifest, with_manifest] {
        fs::write(folder.at("cut.mg"), &file[..file.len() / 2]).unwrap();
        let query = ["sql", "SELECT count(*) FROM mg_file('cut.mg')"];
        let ingest = ["ingest", "cut.mg", "--on-error", "fail"];
        for words in [
            &["verify", "cut.mg"][..],
            &["inspect", "cut.mg"],
            &ingest,
            &query,
        ] {
            let (code, out, err) = folder.run(words);
            let printed = format!("{out}{err}");
            assert!(
                code == 2 && printed.contains("truncated"),
                "{words:?}: {code} {printed}"
            );
            // Only `ingest` has rejects.
            assert_eq!(
                printed.contains("--on-error quarantine"),
                words[0] == "ingest",
                "{words:?}: {printed}"
            );
        }
    }
}

#[test]
fn a_failing_query_ends_with_1_and_a_damaged_log_with_2_without_a_backtrace() {
    let folder = OutputFolder::empty();
    let mut wrong = belief(3);
    wrong[0] = 7;
    fs::write(folder.at("wrong.mg"), plain(&[belief(3), wrong])).unwrap();
    assert_eq!(folder.run(&["ingest", "wrong.mg"]).0, 2);
    let (code, _, err) = folder.run(&["sql", "SELECT CAST(bytes AS TEXT) FROM rejects"]);
    assert_eq!(code, 1, "{err}");
    let log = folder.at("lake/grains/_delta_log");
    let entries = fs::read_dir(&log)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    for entry in
        entries.filter(|path: &PathBuf| path.extension().is_some_and(|ending| ending == "json"))
    {
        fs::write(entry, "{\"add\": {").unwrap();
    }
    let (code, _, err) = folder.shell("RUST_BACKTRACE=1 gristmill describe");
    assert!(
        code == 2 && !err.contains("   0:") && err.lines().count() < 5,
        "{err}"
    );
    assert!(err.contains("00000000000000000000.json"), "{err}");
}

#[test]
fn columns_of_one_name_are_refused_where_a_reader_would_lose_one() {
    let folder = OutputFolder::with_events(1);
    let query = "SELECT a.x, b.x FROM (SELECT 1 AS x) AS a, (SELECT 2 AS x) AS b";
    for format in ["json", "jsonl"] {
        let (code, out, err) = folder.run(&["sql", query, "--format", format]);
        assert_eq!((code, &*out), (1, ""), "{err}");
        assert!(err.contains("several columns are named `x`"), "{err}");
    }
    let (code, out, err) = folder.run(&["sql", query, "--format", "csv"]);
    assert_eq!((code, &*out), (0, "x,x\n1,2\n"), "{err}");
}

#[test]
fn verify_reports_what_it_could_not_check() {
    let folder = OutputFolder::with_events(3);
    assert_eq!(folder.run(&["export", "lines.jsonl"]).0, 0);
    let (code, out, err) = folder.run(&["verify", "in.frames", "lines.jsonl"]);
    let report: serde_json::Value = serde_json::from_str(&out).expect(&err);
    assert_eq!(
        (code, &report["ok"], &report["skipped_files"]),
        (2, &3.into(), &1.into())
    );
    assert!(err.contains("what was skipped wasn't checked"), "{err}");
    // A file that can't be decompressed doesn't hide the others.
    fs::write(folder.at("cut.gz"), [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1]).unwrap();
    let (code, out, err) = folder.run(&["verify", "cut.gz", "in.frames"]);
    let report: serde_json::Value = serde_json::from_str(&out).expect(&err);
    assert_eq!(
        (code, &report["ok"], &report["unreadable_files"]),
        (1, &3.into(), &1.into())
    );
    assert!(err.contains("can't decompress `cut.gz`"), "{err}");
    assert!(err.contains("some files couldn't be read: 1."), "{err}");
}

#[test]
fn people_of_whom_everything_must_stay_are_found() {
    let folder = OutputFolder::with_events(3);
    let hold = "hold place case-7 --user u-1 --authority court --reason x";
    let (code, _, err) = folder.run(&hold.split(' ').collect::<Vec<_>>());
    assert_eq!(code, 0, "{err}");
    for (person, found) in [("u-1", 1), ("u-2", 0)] {
        let (_, out, err) = folder.run(&["erase", "--user", person, "--plan"]);
        let plan: serde_json::Value = serde_json::from_str(&out).expect(&err);
        assert_eq!(plan["people_found"], found, "{person}: {out}");
        assert_eq!(plan["selected"]["grains"], 0, "{person}: {out}");
    }
}

#[test]
fn the_audit_log_has_the_user_where_no_variable_has_the_name() {
    let folder = OutputFolder::with_events(1);
    let query = "SELECT count(*) n FROM audit WHERE actor IS NULL";
    let line = format!(
        "unset USER LOGNAME USERNAME GRISTMILL_OPERATOR; rm -r lake; gristmill ingest -q \
         in.frames >/dev/null; gristmill sql \"{query}\""
    );
    let (code, out, err) = folder.shell(&line);
    assert_eq!((code, &*out), (0, "{\"n\":0}\n"), "{err}");
}

//! The pages of `demo`, `report`, `scan` and `certificate show`: hostile text is escaped, and in a
//! real browser nothing overflows, nothing is logged and all text has enough contrast.

use std::path::Path;
use std::process::{Command, Output};

use gristmill_tests::binary;
use gristmill_tests::grains::{frames, grain};

fn gristmill(folder: &Path, words: &[&str]) -> Output {
    binary::gristmill()
        .current_dir(folder)
        .args(words)
        .output()
        .unwrap()
}

fn page(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn hostile_text_is_escaped_on_pages_and_personal_data_is_masked() {
    let here = tempfile::tempdir().unwrap();
    let hostile = grain(
        r#"{"type": "event", "role": "user", "user_id": "<img src=x>", "session_id": "s\u202e1",
            "content": "<script>alert(1)</script> \u202etxt ada@example.com",
            "namespace": "<b>\u2066n",
            "created_at": 1735689600000}"#,
    );
    std::fs::write(here.path().join("in.frames"), frames(&[hostile.blob])).unwrap();
    assert!(
        gristmill(here.path(), &["ingest", "in.frames"])
            .status
            .success()
    );
    assert!(
        gristmill(here.path(), &["report", "lake.html"])
            .status
            .success()
    );
    let scanned = gristmill(here.path(), &["scan", "--output", "scan.html"]);
    assert_eq!(scanned.status.code(), Some(2), "{scanned:?}");
    for name in ["lake.html", "scan.html"] {
        let page = page(here.path(), name);
        for forbidden in [
            "<script",
            "<img",
            "<b>\u{2066}",
            "\u{202e}",
            "\u{2066}",
            "ada@",
        ] {
            assert!(!page.contains(forbidden), "{name} has {forbidden:?}");
        }
    }
    let page = page(here.path(), "scan.html");
    assert!(page.contains("&lt;script&gt;alert"), "the excerpt is shown");
    assert!(page.contains("[email]"), "the address is masked");
    assert!(page.contains("in.frames"), "the source is named");
}

#[test]
fn the_command_of_a_finding_takes_the_name_of_the_lake_as_it_is() {
    let here = tempfile::tempdir().unwrap();
    let event = grain(
        r#"{"type": "event", "role": "user", "user_id": "u-1", "content": "ada@example.com",
            "created_at": 1735689600000}"#,
    );
    std::fs::write(here.path().join("in.frames"), frames(&[event.blob])).unwrap();
    let lake = ["--lake", "it's $(id)"];
    let ingested = gristmill(here.path(), &[&lake[..], &["ingest", "in.frames"]].concat());
    assert!(ingested.status.success(), "{ingested:?}");
    gristmill(
        here.path(),
        &[&lake[..], &["scan", "--output", "scan.html"]].concat(),
    );
    let page = page(here.path(), "scan.html");
    let command = r"it&#x27;\&#x27;&#x27;s $(id)&#x27; sql --records";
    assert!(page.contains(command), "{page}");
}

/// Measures a page inside a frame: overflow, the lowest contrast of a text with its background, how
/// many parts can't be reached by keyboard (scrollable ones without a tab stop, and tab stops out
/// of the order of the page), how many headings of tables are broken within a word, and how many
/// lists of tiles end with one alone in its row.
const PROBE: &str = r#"<!doctype html><meta charset="utf-8"><pre id="result">none</pre>
<iframe id="frame" style="border:0;width:WIDTHpx;height:900px" srcdoc="PAGE"></iframe>
<script>
const parts = (text) => text.match(/[\d.]+/g).map(Number);
const light = (rgb) => {
  const [r, g, b] = rgb.slice(0, 3).map((v) => v / 255).map((v) =>
    v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
onload = () => {
  const inner = document.getElementById("frame").contentDocument;
  const view = inner.defaultView;
  const background = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parts(view.getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  let lowest = 21, where = "";
  for (const node of inner.body.querySelectorAll("*")) {
    const own = [...node.childNodes].some((it) => it.nodeType === 3 && it.data.trim());
    if (!own || node.closest("svg")) continue;
    const [a, b] = [light(parts(view.getComputedStyle(node).color)), light(background(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < lowest) { lowest = ratio; where = node.outerHTML.slice(0, 80); }
  }
  const all = [...inner.body.querySelectorAll("*")];
  const scrolls = (node) => ["auto", "scroll"].includes(view.getComputedStyle(node).overflowX)
    && node.scrollWidth > node.clientWidth + 1;
  const unreachable = all.filter((node) => scrolls(node) && node.tabIndex < 0);
  const disordered = all.filter((node) => node.tabIndex > 0);
  const broken = [...inner.body.querySelectorAll("th")].filter((node) => {
    const range = inner.createRange();
    range.selectNodeContents(node);
    const lines = new Set([...range.getClientRects()].map((it) => Math.round(it.top)));
    return lines.size > node.textContent.trim().split(/[\s-]+/).length;
  });
  const alone = [...inner.body.querySelectorAll(".tiles")].filter((list) => {
    const boxes = [...list.children].map((it) => it.getBoundingClientRect());
    const row = boxes.filter((it) => Math.round(it.top) === Math.round(boxes.at(-1).top));
    const narrow = row[0].width < list.clientWidth - 1;
    return row.length === 1 && boxes.length > 1 && narrow;
  });
  const root = inner.documentElement;
  document.getElementById("result").textContent =
    `result overflow=${root.scrollWidth - root.clientWidth} ` +
    `unreachable=${unreachable.length + disordered.length} broken=${broken.length} ` +
    `alone=${alone.length} ` +
    `contrast=${lowest.toFixed(2)} ${where}`;
};
</script>"#;

/// Returns the browser, if there is one.
fn browser() -> Option<&'static str> {
    let runs = |name: &&str| {
        let version = Command::new(name).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    };
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(runs)
}

#[test]
fn the_demo_works_anywhere_and_its_pages_are_readable_in_a_browser() {
    let here = tempfile::tempdir().unwrap();
    let demo = gristmill(here.path(), &["demo", "--keep", "kept", "--format", "json"]);
    assert_eq!(demo.status.code(), Some(0), "{demo:?}");
    let asked = |query: &str| {
        let words = ["--lake", "kept/lake", "sql", query, "--format", "jsonl"];
        String::from_utf8(gristmill(here.path(), &words).stdout).unwrap()
    };
    let unpriced = "SELECT model, sum(unpriced_tokens) AS tokens FROM usage WHERE cost_usd IS NULL \
                    GROUP BY model";
    assert_eq!(
        asked(unpriced).trim(),
        r#"{"model":"alder-7b","tokens":8146}"#
    );
    let twice = "SELECT count(*) AS n FROM (SELECT 1 FROM actions GROUP BY session_id, tool_call_id, \
                 action_phase HAVING count(*) > 1)";
    assert_eq!(
        asked(twice).trim(),
        r#"{"n":0}"#,
        "each call and result is one grain"
    );
    let failed = asked("SELECT content FROM messages WHERE status = 'error'");
    assert!(failed.contains("`gpt-5-pico` does not exist"), "{failed}");
    let words = [
        "--lake",
        "kept/lake",
        "search",
        "--mode",
        "hybrid",
        "which day do we deploy",
    ];
    let found = String::from_utf8(gristmill(here.path(), &words).stdout).unwrap();
    assert!(
        found.contains("Tuesdays"),
        "what the demo says to try next finds nothing: {found}"
    );
    let about_ada = page(here.path(), "kept/out/ada.html");
    assert!(
        about_ada.contains("Galway") && about_ada.contains("found by"),
        "{about_ada}"
    );
    let Some(browser) = browser() else {
        eprintln!("skipped: no Chromium to open the pages with");
        return;
    };
    for name in ["lake.html", "scan.html", "ada.html", "erasure.html"] {
        let text = page(here.path(), &format!("kept/out/{name}"));
        let quoted = text.replace('&', "&amp;").replace('"', "&quot;");
        for width in ["390", "1280"] {
            for scheme in ["0", "1"] {
                let probe = PROBE.replace("WIDTH", width).replace("PAGE", &quoted);
                let path = here.path().join("probe.html");
                std::fs::write(&path, probe).unwrap();
                check(
                    browser,
                    here.path(),
                    &path,
                    scheme,
                    &format!("{name} at {width}"),
                );
            }
        }
        print_to_pdf(browser, here.path(), &format!("kept/out/{name}"));
    }
}

/// Prints the page `name` below `folder` to a PDF, and checks that it has pages.
fn print_to_pdf(browser: &str, folder: &Path, name: &str) {
    let pdf = folder.join("page.pdf");
    let output = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
        .arg(format!(
            "--user-data-dir={}",
            folder.join("profile").display()
        ))
        .arg("--no-pdf-header-footer")
        .arg(format!("--print-to-pdf={}", pdf.display()))
        .arg(format!("file://{}", folder.join(name).display()))
        .output()
        .unwrap();
    let bytes = std::fs::read(&pdf).unwrap_or_else(|error| panic!("{name}: {error}: {output:?}"));
    assert!(bytes.starts_with(b"%PDF-"), "{name}");
    let pages = String::from_utf8_lossy(&bytes)
        .matches("/Type /Page\n")
        .count();
    assert!(pages > 0, "{name} has no pages");
    std::fs::remove_file(&pdf).unwrap();
}

/// Opens a probe with a colour scheme (0 is dark, 1 is light) and checks what it measured.
fn check(browser: &str, profile: &Path, probe: &Path, scheme: &str, what: &str) {
    let output = Command::new(browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--dump-dom",
        ])
        .args(["--enable-logging=stderr", "--window-size=1400,1000"])
        .arg(format!(
            "--user-data-dir={}",
            profile.join("profile").display()
        ))
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("file://{}", probe.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    let log = String::from_utf8_lossy(&output.stderr);
    let result = dom.split("result overflow=").nth(1);
    let result = result.unwrap_or_else(|| panic!("{what}: nothing was measured: {log}"));
    assert!(
        result.starts_with("0 unreachable=0 broken=0 alone=0 "),
        "{what} overflows, can't all be reached by keyboard, breaks headings within words, or has a \
         tile alone in a row: {}",
        &result[..50]
    );
    let contrast = result.split("contrast=").nth(1).unwrap();
    let ratio: f64 = contrast.split(' ').next().unwrap().parse().unwrap();
    assert!(
        ratio >= 4.5,
        "{what}, scheme {scheme}: contrast {}",
        &contrast[..80]
    );
    assert!(!log.contains("CONSOLE"), "{what}: {log}");
}

/// Personal data in the demo's memory: the text of a message, the kind, the value.
const LABELS: &str = include_str!("../../cases/company-labels.jsonl");

#[test]
fn all_labelled_personal_data_of_the_demo_is_found() {
    let here = tempfile::tempdir().unwrap();
    let data = "../cli/src/commands/demo/company.jsonl";
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join(data);
    let ingested = gristmill(here.path(), &["ingest", &data.display().to_string()]);
    assert_eq!(ingested.status.code(), Some(0), "{ingested:?}");
    let query = "SELECT content, personal_data(content) AS kinds, mask_personal_data(content) AS \
                 masked FROM grains WHERE session_id = 'import-forms'";
    let rows = gristmill(here.path(), &["sql", query, "--format", "jsonl"]);
    let rows: Vec<serde_json::Value> = String::from_utf8(rows.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let labels: Vec<serde_json::Value> = LABELS
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (labels.len(), rows.len()),
        (20, 20),
        "one message for each kind"
    );
    for label in labels {
        let row = rows.iter().find(|row| row["content"] == label["content"]);
        let row = row.unwrap_or_else(|| panic!("the lake lacks {label}"));
        let kinds = row["kinds"].as_array().unwrap();
        assert!(kinds.contains(&label["kind"]), "{label}: {kinds:?}");
        let masked = row["masked"].as_str().unwrap();
        assert!(
            !masked.contains(label["value"].as_str().unwrap()),
            "{masked}"
        );
    }
}

//! The commands over an S3-compatible server: `moto` from PyPI, in the Python that
//! `GRISTMILL_PYTHON` names (`.ci/run` makes one). Without it the test says so and skips.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use gristmill_tests::binary::{ended, gristmill};
use gristmill_tests::grains::{belief, frames};
use serde_json::Value;

/// Starts a server with a bucket on a free port, and prints the port. It ends with its input.
const SERVER: &str = r#"
import sys
try:
    import boto3
    from moto.server import ThreadedMotoServer
except ImportError:
    sys.exit("skipped: the Python lacks moto[server] (GRISTMILL_PYTHON names another)")
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1", **keys)
client.create_bucket(Bucket="lakes")
client.create_bucket(Bucket="versioned")
client.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
print(port, flush=True)
sys.stdin.read()
"#;

struct Server {
    process: Child,
    port: u16,
}

impl Server {
    /// Starts the server, or returns `None` after printing the reason.
    fn start() -> Option<Server> {
        let python = std::env::var("GRISTMILL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let started = Command::new(&python)
            .args(["-c", SERVER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut process = match started {
            Ok(process) => process,
            Err(error) => {
                eprintln!("skipped: `{python}` can't be run: {error}");
                return None;
            }
        };
        let mut line = String::new();
        let output = process.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let port = line.trim().parse().ok();
        if port.is_none() {
            process.wait().unwrap();
        }
        port.map(|port| Server { process, port })
    }

    /// Returns a command on the lake in the bucket.
    fn command(&self, arguments: &[&str]) -> assert_cmd::Command {
        let mut command = gristmill();
        command
            .env("AWS_ENDPOINT", format!("http://127.0.0.1:{}", self.port))
            .env("AWS_ALLOW_HTTP", "true")
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("AWS_REGION", "us-east-1")
            .env("GRISTMILL_LAKE", "s3://lakes/one")
            .args(arguments);
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the requests in a report, or in the last line of standard error.
fn requests(text: &str) -> Value {
    let last = text.trim().lines().last().unwrap_or_default();
    let report: Value = serde_json::from_str(last).unwrap_or_else(|error| {
        panic!("no report at the end of {text}: {error}");
    });
    report["requests"].clone()
}

fn night(folder: &Path, numbers: std::ops::Range<usize>) -> String {
    let path = folder.join(format!("{}.mgs", numbers.start));
    let blobs: Vec<_> = numbers.map(belief).collect();
    std::fs::write(&path, frames(&blobs)).unwrap();
    path.display().to_string()
}

#[test]
fn commands_on_a_server_report_their_requests_and_the_cache_spares_some() {
    let Some(server) = Server::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for first in [1, 21, 41] {
        let night = night(folder.path(), first..first + 20);
        let ingest = server.command(&["--format", "jsonl", "ingest", &night]);
        let (code, out, err) = ended(&mut { ingest });
        assert_eq!(code, 0, "{err}");
        let counts = requests(&out);
        assert!(counts["put"].as_u64() > Some(0), "{out}");
        assert!(counts["bytes_written"].as_u64() > Some(1_000), "{out}");
    }
    let sql = [
        "sql",
        "--format",
        "jsonl",
        "SELECT count(*) AS n FROM grains",
    ];
    let (_, out, err) = ended(&mut server.command(&sql));
    assert_eq!(out, "{\"n\":60}\n");
    assert!(requests(&err)["get"].as_u64() > Some(0), "{err}");
    // Without the format, rows are all that is printed.
    let (_, out, err) = ended(&mut server.command(&["sql", "SELECT count(*) AS n FROM grains"]));
    assert_eq!((&*out, &*err), ("{\"n\":60}\n", ""));

    let cache = folder.path().join("cache").display().to_string();
    let statement = "RECALL beliefs WHERE subject = \"subject 33\"";
    let recall = ["cal", "--format", "jsonl", "--cache", &cache, statement];
    let gets = || {
        let (code, out, err) = ended(&mut server.command(&recall));
        assert!(code == 0 && out.contains("subject 33"), "{out}{err}");
        requests(&err)["get"].as_u64().unwrap()
    };
    let (cold, warm) = (gets(), gets());
    assert!(warm < cold, "{warm} with the cache, {cold} without");

    let (code, out, err) = ended(&mut server.command(&["--format", "json", "compact"]));
    assert_eq!(code, 0, "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert!(report["requests"]["list"].as_u64() > Some(0), "{out}");
    let (code, out, err) = ended(&mut server.command(&["verify"]));
    assert_eq!(code, 0, "{out}{err}");
    // A local lake makes no requests.
    let local = folder.path().join("lake").display().to_string();
    let night = night(folder.path(), 1..3);
    let (_, out, _) =
        ended(gristmill().args(["--lake", &local, "--format", "json", "ingest", &night]));
    assert!(
        out.contains("grains_written") && !out.contains("requests"),
        "{out}"
    );
}

#[test]
fn the_certificate_states_whether_earlier_versions_were_removed() {
    let Some(server) = Server::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let night = night(folder.path(), 1..5);
    let keyring = folder.path().join("keyring.json").display().to_string();
    let reminder = |lake: &str, more: &[&str]| {
        let certificate = folder.path().join("certificate").display().to_string();
        let erase = [
            "erase",
            "--subject",
            "subject 3",
            "--execute",
            "--exclusive",
            "--signing-key",
            "erasure",
            "--certificate",
            &certificate,
        ];
        let erase = [&erase[..], more].concat();
        for arguments in [["ingest", &night].as_slice(), &erase] {
            let mut command = server.command(&["--lake", lake, "--keyring", &keyring]);
            command.env("GRISTMILL_PASSPHRASE", "a passphrase for tests");
            let (code, out, err) = ended(command.args(arguments));
            assert_eq!(code, 0, "{out}{err}");
        }
        let show = ["--format", "json", "certificate", "show", &certificate];
        let (_, out, err) = ended(gristmill().args(show));
        let shown: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        shown["reminder"].as_str().unwrap().to_owned()
    };
    let mut generate = gristmill();
    generate.env("GRISTMILL_PASSPHRASE", "a passphrase for tests");
    let (code, _, err) =
        ended(generate.args(["--keyring", &keyring, "keys", "generate", "erasure"]));
    assert_eq!(code, 0, "{err}");
    let not_searched = "could not be searched";
    assert!(reminder("s3://versioned/one", &[]).contains(not_searched));
    assert!(!reminder("s3://lakes/one", &[]).contains("earlier versions"));
    let text = reminder("s3://versioned/two", &["--purge-versions"]);
    let removed = text.split("removed from the object store: ").nth(1);
    let removed = removed.and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    assert!(removed > Some(0) && !text.contains(not_searched), "{text}");
    // Nothing is left for another command but the version of the empty file by which `gc` itself
    // reads the store's clock, and the lake is whole.
    let gc = |lake: &str| {
        let mut command = server.command(&["--lake", lake, "--format", "json", "gc"]);
        let (code, out, err) = ended(command.arg("--purge-versions"));
        let report: Value = serde_json::from_str(&out).unwrap_or_default();
        (code, report["removed_versions"]["versions"].as_u64(), err)
    };
    assert_eq!(gc("s3://versioned/two").1, Some(1));
    assert!(gc("s3://versioned/one").1 > Some(0));
    for lake in ["s3://versioned/one", "s3://versioned/two"] {
        let (code, out, err) = ended(&mut server.command(&["--lake", lake, "verify"]));
        assert_eq!(code, 0, "{lake}: {out}{err}");
    }
    let local = folder.path().join("local").display().to_string();
    let (code, _, err) = ended(gristmill().args(["--lake", &local, "ingest", &night]));
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = gc(&local);
    assert!(
        code == 1 && err.contains("buckets of S3 only"),
        "{code}: {err}"
    );
}

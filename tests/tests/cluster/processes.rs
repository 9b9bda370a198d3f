//! Real processes on loopback: one scheduler and two executors of the built binary.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use gristmill_cluster::Scheduler;
use gristmill_cluster::query::run_on_cluster;
use gristmill_tests::binary;
use gristmill_tests::damage::{Damage, files_below};
use gristmill_tests::sandbox::Sandbox;
use serde_json::Value;

use super::questions::{Asked, QUESTIONS, rows};

/// How long a process may take to listen, and a command to end, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// Time after which a client has submitted a question, and executors work on it.
const UNDER_WAY: Duration = Duration::from_secs(2);

/// A question that takes seconds: it compares some grains with all others.
const SLOW: &str = "SELECT count(*) FROM grains a JOIN grains b
                    ON a.content_address < b.content_address
                    WHERE a.type IN ('belief', 'observation')";

/// A scheduler and its executors, which end with the test.
pub struct Cluster {
    pub address: String,
    /// The key of all its processes, and of clients.
    key: Option<PathBuf>,
    scheduler: Child,
    executors: Vec<Child>,
    _folders: Vec<tempfile::TempDir>,
}

impl Cluster {
    pub fn start() -> Cluster {
        Cluster::start_with(None)
    }

    fn start_with(key: Option<PathBuf>) -> Cluster {
        let mut cluster = Cluster::without_executors(key);
        cluster.add_executor();
        cluster.add_executor();
        cluster
    }

    fn without_executors(key: Option<PathBuf>) -> Cluster {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let listen = ["cluster", "scheduler", "--listen", &address];
        let scheduler = spawn(&listen, key.as_deref());
        let cluster = Cluster {
            address: address.clone(),
            key,
            scheduler,
            executors: Vec::new(),
            _folders: Vec::new(),
        };
        let started = Instant::now();
        while TcpStream::connect(&address).is_err() {
            assert!(started.elapsed() < PATIENCE, "the scheduler doesn't listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        cluster
    }

    /// Starts another executor.
    pub fn add_executor(&mut self) {
        let folder = tempfile::tempdir().unwrap();
        let work_dir = folder.path().display().to_string();
        let arguments = [
            "cluster",
            "executor",
            "--scheduler",
            &self.address,
            "--work-dir",
        ];
        let mut arguments = arguments.to_vec();
        arguments.extend([&work_dir, "--slots", "2", "--memory", "512M"]);
        self.executors.push(spawn(&arguments, self.key.as_deref()));
        self._folders.push(folder);
    }

    /// Kills the executor that was started first.
    pub fn kill_executor(&mut self) {
        let mut killed = self.executors.remove(0);
        killed.kill().unwrap();
        killed.wait().unwrap();
    }

    /// Pauses the executor that was started first. Its connections stay open.
    #[cfg(unix)]
    fn pause_executor(&self) {
        let pause = ["-STOP", &self.executors[0].id().to_string()];
        let sent = Command::new("kill").args(pause).status();
        assert!(sent.is_ok_and(|status| status.success()));
    }

    /// Returns the command that asks `question` of the lake of `sandbox`.
    fn command(&self, sandbox: &Sandbox, question: &str) -> Command {
        let asked = [
            "sql",
            "--format",
            "csv",
            "--cluster",
            &self.address,
            question,
        ];
        let mut command = sandbox.command("lake", &asked);
        with_key(&mut command, self.key.as_deref());
        command
    }
}

/// Gives a process the key of a cluster.
fn with_key(command: &mut Command, key: Option<&Path>) {
    if let Some(key) = key {
        command.arg("--cluster-key").arg(key);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for process in self.executors.iter_mut().chain([&mut self.scheduler]) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn spawn(arguments: &[&str], key: Option<&Path>) -> Child {
    let mut command = binary::program();
    command.args(arguments).stdout(Stdio::null());
    with_key(&mut command, key);
    if std::env::var_os("CLUSTER_TEST_OUTPUT").is_none() {
        command.stderr(Stdio::null());
    }
    command.spawn().expect("a process of the cluster")
}

/// Asks locally.
fn local(sandbox: &Sandbox, question: &str) -> Output {
    let asked = ["sql", "--format", "csv", question];
    sandbox.command("lake", &asked).output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits for a command, which must not hang, and reads what it writes meanwhile.
pub fn ended(child: Child) -> Output {
    let id = child.id().to_string();
    let (sender, output) = channel();
    std::thread::spawn(move || {
        let _ = sender.send(child.wait_with_output());
    });
    match output.recv_timeout(PATIENCE) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            let _ = Command::new("kill").args(["-9", &id]).status();
            panic!("a command hangs: {:?}", output.recv());
        }
    }
}

pub fn started(mut command: Command) -> Child {
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    piped.spawn().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answers_of_two_executors_are_the_local_ones() {
    let asked = Asked::new().await;
    let cluster = Cluster::start();
    let context = asked.session().await;
    let scheduler = Scheduler::at(&cluster.address, None).unwrap();
    run_on_cluster(&context, &scheduler, &asked.location(), 4).unwrap();
    let began = Instant::now();
    for joins in ["false", "true"] {
        let set = format!("SET datafusion.optimizer.prefer_hash_join = {joins}");
        rows(&context, &set).await.unwrap();
        for question in QUESTIONS {
            let answer = rows(&context, question).await;
            let answer = answer.unwrap_or_else(|error| panic!("{question}: {error}"));
            assert_eq!(answer, asked.answers[question], "{joins}: {question}");
        }
    }
    println!("{} questions: {:?}", QUESTIONS.len(), began.elapsed());
}

#[test]
fn a_scan_by_two_executors_finds_what_the_local_one_finds() {
    let asked = Asked::nothing();
    let cluster = Cluster::start();
    let scan = ["scan", "--format", "jsonl"];
    let local = asked.sandbox.command("lake", &scan).output().unwrap();
    let on_cluster = ["scan", "--format", "jsonl", "--cluster", &cluster.address];
    let on_cluster = asked.sandbox.command("lake", &on_cluster).output().unwrap();
    let lines = |output: &Output| {
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        let mut lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let found = lines(&local);
    assert!(found.len() > 1000, "{}", found.len());
    assert_eq!(lines(&on_cluster), found);
}

/// Returns the exit code and the report of `verify` with these words, without what was measured.
fn verified(sandbox: &Sandbox, words: &[&str]) -> (Option<i32>, Value) {
    let words = [&["verify", "--format", "json"], words].concat();
    let output = ended(started(sandbox.command("lake", &words)));
    let mut report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    let members = report.as_object_mut().unwrap();
    members.remove("seconds");
    members.remove("gigabytes_per_second");
    (output.status.code(), report)
}

#[test]
fn a_check_by_two_executors_reports_what_the_local_one_reports() {
    let asked = Asked::nothing();
    let cluster = Cluster::start();
    let on_cluster = ["--cluster", &cluster.address];
    for part in [&[][..], &["--subset", "2/3"]] {
        let local = verified(&asked.sandbox, part);
        assert_eq!(local.0, Some(0), "{}", local.1);
        let words = [&on_cluster[..], part].concat();
        assert_eq!(verified(&asked.sandbox, &words), local);
    }
    let segments = files_below(&asked.sandbox.path("lake/grains"));
    let segments = segments
        .iter()
        .filter(|file| file.extension() == Some("parquet".as_ref()));
    for segment in segments {
        let byte = std::fs::metadata(segment).unwrap().len() / 2;
        let _ = Damage::Flip { byte, bit: 3 }.inflict(segment);
    }
    let local = verified(&asked.sandbox, &[]);
    assert_eq!(local.0, Some(2), "{}", local.1);
    assert_eq!(verified(&asked.sandbox, &on_cluster), local);
    let refused = [&["verify", "--max-duration", "1h"], &on_cluster[..]].concat();
    let refused = ended(started(asked.sandbox.command("lake", &refused)));
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("--subset 3/7"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_scheduler_and_an_interrupt_end_with_an_exact_answer_or_a_clear_error() {
    let asked = Asked::nothing();
    let sandbox = &asked.sandbox;
    let mut cluster = Cluster::start();
    let exact = text(&local(sandbox, SLOW).stdout);
    assert!(exact.lines().count() == 2, "{exact}");
    let undisturbed = ended(started(cluster.command(sandbox, SLOW)));
    assert_eq!(
        text(&undisturbed.stdout),
        exact,
        "{}",
        text(&undisturbed.stderr)
    );

    the_client_is_interrupted(&cluster, sandbox, &exact);
    let after = ended(started(cluster.command(sandbox, SLOW)));
    assert_eq!(text(&after.stdout), exact, "{}", text(&after.stderr));
    the_scheduler_is_killed(&mut cluster, sandbox);
}

/// After the loss of an executor, Ballista 55.0 runs its tasks again, and may read what another
/// executor has of the same stage twice: such results are refused.
#[test]
fn a_killed_executor_leaves_an_exact_answer_or_a_clear_error() {
    let asked = Asked::nothing();
    let mut cluster = Cluster::start();
    let exact = text(&local(&asked.sandbox, SLOW).stdout);
    an_executor_is_killed(&mut cluster, &asked.sandbox, &exact);
}

fn an_executor_is_killed(cluster: &mut Cluster, sandbox: &Sandbox, exact: &str) {
    let asking = started(cluster.command(sandbox, SLOW));
    std::thread::sleep(UNDER_WAY);
    cluster.kill_executor();
    let began = Instant::now();
    let answer = ended(asking);
    let message = text(&answer.stderr);
    println!(
        "executor killed: {:?} later: {:?} {message}",
        began.elapsed(),
        answer.status
    );
    match answer.status.success() {
        true => assert_eq!(text(&answer.stdout), exact),
        false => assert!(
            message.contains("cluster") || message.contains("executor"),
            "{message}"
        ),
    }
}

/// The scheduler notices the loss of an executor that doesn't answer while the tasks of others wait
/// for its rows. Each of them has a slot, which must be free when the query is sent again.
#[cfg(unix)]
#[test]
fn a_query_is_answered_by_the_others_if_an_executor_stops_answering() {
    let asked = Asked::nothing();
    let cluster = Cluster::start();
    let exact = text(&local(&asked.sandbox, SLOW).stdout);
    let asking = started(cluster.command(&asked.sandbox, SLOW));
    std::thread::sleep(UNDER_WAY);
    cluster.pause_executor();
    let answer = ended(asking);
    // A fast machine may have the answer, but not a part of it.
    let message = text(&answer.stderr);
    match answer.status.success() {
        true => assert_eq!(text(&answer.stdout), exact),
        false => assert!(message.contains("executor at"), "{message}"),
    }
    let after = ended(started(cluster.command(&asked.sandbox, SLOW)));
    assert_eq!(text(&after.stdout), exact, "{}", text(&after.stderr));
}

#[test]
fn without_executors_a_query_ends_with_an_error() {
    let asked = Asked::nothing();
    let cluster = Cluster::without_executors(None);
    let answer = ended(started(cluster.command(&asked.sandbox, SLOW)));
    let message = text(&answer.stderr);
    assert_eq!(answer.status.code(), Some(1), "{message}");
    assert!(message.contains("no executor of the cluster"), "{message}");
}

/// Waits until a process handles SIGINT, which it doesn't before its `main` function has begun.
#[cfg(target_os = "linux")]
fn wait_for_handler(process: &Child) {
    let path = format!("/proc/{}/status", process.id());
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let status = std::fs::read_to_string(&path).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
        let has_ended = status.contains("State:\tZ");
        if has_ended || caught.is_none_or(|bits| bits & 2 != 0) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn the_client_is_interrupted(cluster: &Cluster, sandbox: &Sandbox, exact: &str) {
    let asking = started(cluster.command(sandbox, SLOW));
    std::thread::sleep(UNDER_WAY);
    #[cfg(target_os = "linux")]
    wait_for_handler(&asking);
    let interrupt = ["-INT", &asking.id().to_string()];
    let sent = Command::new("kill").args(interrupt).status();
    assert!(sent.is_ok());
    let answer = ended(asking);
    // A fast machine may have answered.
    match answer.status.success() {
        true => assert_eq!(text(&answer.stdout), exact),
        false => assert_eq!(answer.status.code(), Some(130), "{}", text(&answer.stderr)),
    }
}

fn the_scheduler_is_killed(cluster: &mut Cluster, sandbox: &Sandbox) {
    let asking = started(cluster.command(sandbox, SLOW));
    std::thread::sleep(UNDER_WAY);
    cluster.scheduler.kill().unwrap();
    cluster.scheduler.wait().unwrap();
    let asking = ended(asking);
    let after = ended(started(cluster.command(sandbox, SLOW)));
    assert!(!after.status.success());
    // A fast machine may have answered before.
    for answer in [asking, after].iter().filter(|it| !it.status.success()) {
        let message = text(&answer.stderr);
        assert_eq!(answer.status.code(), Some(1), "{message}");
        assert!(message.contains("doesn't answer"), "{message}");
    }
}

#[test]
fn a_cluster_that_others_could_reach_is_refused() {
    let asked = ["cluster", "scheduler", "--listen", "0.0.0.0:0"];
    let refused = binary::program().args(asked).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("isn't a loopback address"));
}

/// Makes the key of a cluster in `folder`.
fn make_key(folder: &Path, name: &str) -> (PathBuf, Output) {
    let file = folder.join(name);
    let made = binary::program()
        .args(["cluster", "key"])
        .arg(&file)
        .output();
    (file, made.unwrap())
}

#[test]
fn a_cluster_with_a_key_serves_its_members_only() {
    let folder = tempfile::tempdir().unwrap();
    let (key, made) = make_key(folder.path(), "key.pem");
    assert!(made.status.success(), "{}", text(&made.stderr));
    let (_, again) = make_key(folder.path(), "key.pem");
    assert_eq!(again.status.code(), Some(1), "a key was overwritten");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&key).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let asked = Asked::nothing();
    let mut cluster = Cluster::start_with(Some(key));
    let rows = |answer: &Output| {
        let mut rows: Vec<String> = text(&answer.stdout).lines().map(str::to_owned).collect();
        rows.sort();
        rows
    };
    // The last digits of an average depend on the order in which executors end.
    let is_exact = |question: &&&str| !question.contains("avg(");
    for question in QUESTIONS[..6].iter().filter(is_exact) {
        let expected = rows(&local(&asked.sandbox, question));
        let answer = ended(started(cluster.command(&asked.sandbox, question)));
        assert_eq!(rows(&answer), expected, "{}", text(&answer.stderr));
    }
    let other = make_key(folder.path(), "other.pem").0;
    for stranger in [None, Some(other)] {
        cluster.key = stranger;
        let refused = ended(started(cluster.command(&asked.sandbox, SLOW)));
        let message = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{message}");
        assert!(
            message.contains("doesn't answer") && message.contains("--cluster-key"),
            "{message}"
        );
        assert!(refused.stdout.is_empty());
    }
}

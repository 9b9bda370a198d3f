//! A temporary folder in which the `gristmill` binary runs, with a keyring and a folder for
//! temporary files of its own. For tests that need the command line and encryption.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::binary;

/// The passphrase of the keyrings of all sandboxes.
pub const PASSPHRASE: &str = "a passphrase for tests";

/// A temporary folder with lakes, their input, one keyring (`keyring.json`) and temporary files
/// (`tmp`). Removed when it is dropped.
pub struct Sandbox {
    folder: tempfile::TempDir,
}

impl Sandbox {
    /// Creates an empty one.
    ///
    /// # Panics
    /// If the system provides no temporary folder.
    pub fn new() -> Sandbox {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join("tmp")).expect("a folder in the temporary folder");
        Sandbox { folder }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The path of `name` in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The binary with `arguments` over the lake `lake`. Its current folder, keyring, passphrase
    /// and temporary folder are the sandbox's.
    ///
    /// # Panics
    /// If the binary can't be built.
    pub fn command(&self, lake: &str, arguments: &[&str]) -> Command {
        let mut command = binary::program();
        command
            .arg("--lake")
            .arg(self.path(lake))
            .args(binary::patient(arguments))
            .env("GRISTMILL_KEYRING", self.path("keyring.json"))
            .env("GRISTMILL_PASSPHRASE", PASSPHRASE)
            .env("TMPDIR", self.path("tmp"))
            .current_dir(self.folder());
        command
    }

    /// Runs [`Sandbox::command`] to its end.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn output(&self, lake: &str, arguments: &[&str]) -> Output {
        self.command(lake, arguments)
            .output()
            .expect("the binary can be started")
    }

    /// Returns the result of a command as JSON, or null if it printed none.
    ///
    /// # Panics
    /// If it ends with another exit code than `code`.
    pub fn run(&self, lake: &str, code: i32, arguments: &[&str]) -> Value {
        let output = self
            .command(lake, arguments)
            .args(["--format", "json"])
            .output()
            .expect("the binary can be started");
        let errors = String::from_utf8_lossy(&output.stderr);
        let result = String::from_utf8_lossy(&output.stdout);
        let code = Some(code);
        assert_eq!(
            output.status.code(),
            code,
            "{arguments:?}: {errors}{result}"
        );
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }

    /// Returns the answers of `apply` to `operations` over the lake in the folder `lake`.
    ///
    /// # Panics
    /// If it ends with another exit code than `code`.
    pub fn apply(&self, code: i32, operations: &[Value]) -> Vec<Value> {
        let lines: Vec<String> = operations.iter().map(Value::to_string).collect();
        fs::write(self.path("ops.jsonl"), lines.join("\n")).expect("a file in the folder");
        let output = self.output("lake", &["apply", "ops.jsonl"]);
        let answers = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{answers}");
        let answers = answers.lines().map(serde_json::from_str);
        answers.collect::<Result<_, _>>().expect("lines of JSON")
    }

    /// Returns the address of the grain that `operation` brings; it must succeed.
    ///
    /// # Panics
    /// If `apply` refuses it.
    pub fn applied(&self, operation: Value) -> String {
        let answers = self.apply(0, &[operation]);
        let address = answers[0]["content_address"].as_str();
        address.expect("an address").to_owned()
    }

    /// Returns the rows of `query` over the lake `lake` as JSON.
    ///
    /// # Panics
    /// If the query fails.
    pub fn sql(&self, lake: &str, query: &str) -> Value {
        self.run(lake, 0, &["sql", query])
    }

    /// Returns the addresses of the grains of `lake` for which `condition` (SQL) holds.
    ///
    /// # Panics
    /// If the query fails.
    pub fn addresses(&self, lake: &str, condition: &str) -> BTreeSet<String> {
        let query = format!("SELECT content_address AS a FROM grains WHERE {condition}");
        let rows = self.sql(lake, &query);
        let address = |row: &Value| row["a"].as_str().map(str::to_owned);
        rows.as_array()
            .and_then(|rows| rows.iter().map(address).collect())
            .expect("rows with an address each")
    }
}

impl Default for Sandbox {
    fn default() -> Self {
        Sandbox::new()
    }
}

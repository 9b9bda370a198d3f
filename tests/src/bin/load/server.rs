//! A server in a process of its own, and what it holds in memory.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::Failure;

/// Time between two looks at the server's memory.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Where a server listens.
pub struct Addresses {
    /// `http://HOST:PORT`
    pub http: String,
    /// `http://HOST:PORT`, for gRPC.
    pub flight: String,
    /// The same as a connection string of PostgreSQL.
    pub postgres: String,
}

/// A running server.
pub struct ServerProcess {
    child: Child,
    /// Where it listens.
    pub addresses: Addresses,
    ended: Arc<AtomicBool>,
    anonymous_peak: Arc<AtomicU64>,
}

impl ServerProcess {
    /// Starts `program` over a lake, on ports that are free.
    ///
    /// # Errors
    /// If it doesn't start.
    pub fn start(
        program: &Path,
        lake: &str,
        memory: &str,
        limits: &[&str],
    ) -> Result<ServerProcess, Failure> {
        let any = "127.0.0.1:0";
        let mut child = Command::new(program)
            .args(["--lake", lake, "--memory", memory, "serve"])
            .args(limits)
            .args(["--listen", any, "--flight", any, "--postgres", any])
            .stderr(Stdio::piped())
            .spawn()?;
        let errors = child.stderr.take().ok_or("no standard error")?;
        let mut lines = BufReader::new(errors).lines();
        let mut address = |scheme: &str| -> Result<String, Failure> {
            for line in lines.by_ref() {
                let line = line?;
                if let Some((_, address)) = line.split_once(&format!("on {scheme}://")) {
                    return Ok(address.to_owned());
                }
                eprintln!("{line}");
            }
            Err(format!("the server doesn't listen over {scheme}").into())
        };
        let http = format!("http://{}", address("http")?);
        let flight = format!("http://{}", address("grpc")?);
        let postgres = address("postgresql")?;
        let (host, port) = postgres.split_once(':').ok_or("no port")?;
        let postgres = format!("host={host} port={port} user=load dbname=lake");
        thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .for_each(|line| eprintln!("{line}"))
        });
        let (ended, anonymous_peak) = <(Arc<AtomicBool>, Arc<AtomicU64>)>::default();
        let (stop, peak, status) = (ended.clone(), anonymous_peak.clone(), status_of(&child));
        thread::spawn(move || {
            while !stop.load(Relaxed) {
                peak.fetch_max(kilobytes(&status, "RssAnon:"), Relaxed);
                thread::sleep(LOOK_EVERY);
            }
        });
        Ok(ServerProcess {
            child,
            addresses: Addresses {
                http,
                flight,
                postgres,
            },
            ended,
            anonymous_peak,
        })
    }

    /// Returns a sentence on the memory of the server until now.
    pub fn memory(&self) -> String {
        let status = status_of(&self.child);
        format!(
            "Memory of the server: peak resident {} MB with mapped files, {} MB without.",
            kilobytes(&status, "VmHWM:") / 1_000,
            self.anonymous_peak.load(Relaxed) / 1_000,
        )
    }

    /// Ends the server with SIGTERM.
    ///
    /// # Errors
    /// If it doesn't end with success.
    pub fn stop(mut self) -> io::Result<()> {
        self.ended.store(true, Relaxed);
        let id = self.child.id().to_string();
        Command::new("kill").arg(id).status()?;
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("the server: {status}")))
        }
    }
}

/// Runs a statement by the command line.
///
/// # Errors
/// If the program fails.
pub async fn command(program: &Path, lake: &str, statement: &str) -> Result<(), Failure> {
    let mut command = tokio::process::Command::new(program);
    command.args(["--quiet", "--lake", lake, "cal", statement]);
    let output = command.output().await?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into())
}

fn status_of(child: &Child) -> String {
    format!("/proc/{}/status", child.id())
}

/// Returns a number of `/proc/PID/status` in KiB; 0 if the process has ended.
fn kilobytes(status: &str, name: &str) -> u64 {
    let text = fs::read_to_string(status).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    let number = value.and_then(|value| value.split_whitespace().next());
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}

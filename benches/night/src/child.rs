//! A child process whose costs are measured through `/proc`.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time between two looks at a child. Its costs are read when it has ended and isn't reaped yet;
/// only the peak of its memory can grow unseen after the last look.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Clock ticks per second of `/proc/PID/stat`, which are the same on every Linux.
const TICKS: f64 = 100.0;

/// Costs of one process, or of several that ran one after another.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    /// Wall-clock time in seconds.
    pub wall: f64,
    /// Processor time of all threads in seconds, with a resolution of 10 ms.
    pub cpu: f64,
    /// Largest resident memory in bytes.
    pub peak: u64,
    /// Bytes that read calls returned; pages of mapped files aren't counted.
    pub read: u64,
    /// Bytes that were passed to write calls.
    pub written: u64,
}

impl Cost {
    /// Adds a process that ran after these.
    pub fn then(self, next: Cost) -> Cost {
        Cost {
            wall: self.wall + next.wall,
            cpu: self.cpu + next.cpu,
            peak: self.peak.max(next.peak),
            read: self.read + next.read,
            written: self.written + next.written,
        }
    }
}

/// Runs `command` to its end with its standard output in the file `out`. Exit code 2 (the data has
/// problems) is a success.
///
/// # Errors
/// If it can't be run or fails; the message has its command line and its standard error.
pub fn run(command: &mut Command, out: &Path) -> io::Result<Cost> {
    let errors = out.with_extension("stderr");
    command
        .stdin(Stdio::null())
        .stdout(File::create(out)?)
        .stderr(File::create(&errors)?);
    let started = Instant::now();
    let mut child = command.spawn()?;
    let mut cost = watch(&child);
    cost.wall = started.elapsed().as_secs_f64();
    let status = child.wait()?;
    if is_success(status) {
        return Ok(cost);
    }
    let text = fs::read_to_string(&errors).unwrap_or_default();
    Err(io::Error::other(format!("{command:?}: {status}\n{text}")))
}

fn is_success(status: ExitStatus) -> bool {
    matches!(status.code(), Some(0 | 2))
}

/// Waits until `child` has ended, and returns its costs before it is reaped.
fn watch(child: &Child) -> Cost {
    let folder = Path::new("/proc").join(child.id().to_string());
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let mut cost = Cost::default();
    loop {
        cost.peak = cost.peak.max(peak_of(&read("status")));
        let stat = read("stat");
        let (state, cpu) = state_and_cpu(&stat);
        if state.is_none_or(|state| state == 'Z') {
            let io = read("io");
            cost.cpu = cpu;
            cost.read = member(&io, "rchar:");
            cost.written = member(&io, "wchar:");
            return cost;
        }
        sleep(LOOK_EVERY);
    }
}

/// Returns the peak of the resident memory in bytes; 0 if the process has ended.
fn peak_of(status: &str) -> u64 {
    member(status, "VmHWM:") << 10
}

/// Returns the number that follows `name` at the beginning of a line.
fn member(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value
        .and_then(|value| value.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}

/// Returns the state and the processor time of `/proc/PID/stat`. The program's name, in
/// parentheses, may contain spaces.
fn state_and_cpu(stat: &str) -> (Option<char>, f64) {
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace().collect())
        .unwrap_or_default();
    let ticks = |at: usize| {
        let field: Option<f64> = fields.get(at).and_then(|field| field.parse().ok());
        field.unwrap_or_default()
    };
    let state = fields.first().and_then(|state| state.chars().next());
    (state, (ticks(11) + ticks(12)) / TICKS)
}

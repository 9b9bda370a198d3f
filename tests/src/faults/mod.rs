//! Fault injection for every command that writes: kills, full disks, file size limits, too little
//! memory.
//!
//! Each fault is injected into a copy of a prepared folder (a lake and its keyring). Afterwards the
//! lake must pass `verify` and contain either its previous content or that of an undisturbed run,
//! each grain once; and the same command, run again without a fault, must succeed with the result
//! of an undisturbed run.

mod cases;
mod checks;
mod disk;
mod invocation;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::grains::{frames, grain};
use crate::kill::{kill_after, share};
use cases::{CASES, Case, PERSON};
use checks::Content;
use disk::Disk;

pub use cases::commands;

/// Message of a failed check.
pub type Fault = Box<dyn Error + Send + Sync>;

const NEW_PASSPHRASE: &str = "another passphrase for tests";

/// An injected fault.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// SIGKILL after a fraction of the undisturbed run time.
    Kill,
    /// File size limit in KiB; exceeding it is an error of the file system.
    FileSize,
    /// Free space of the disk in KiB.
    FullDisk,
    /// Address space limit of the process in KiB.
    Memory,
}

/// Number of disturbed commands by kind of fault.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Commands that were killed while they ran.
    pub killed: usize,
    /// Commands that failed because a file could not grow.
    pub file_size: usize,
    /// Commands that failed because a disk was full.
    pub full_disk: usize,
    /// Commands that failed for lack of memory.
    pub memory: usize,
    /// Faults without effect.
    pub undisturbed: usize,
}

impl Tally {
    /// Number of disturbed commands.
    pub fn disturbed(&self) -> usize {
        self.killed + self.file_size + self.full_disk + self.memory
    }
}

/// Prepared folders, and the results of undisturbed runs.
pub struct Faults {
    folder: PathBuf,
    runtime: tokio::runtime::Runtime,
    /// Duration and result of each undisturbed command.
    expected: Vec<(Duration, Content)>,
}

impl Faults {
    /// Prepares everything in `folder`, which must be empty.
    ///
    /// # Errors
    /// If a command fails that must not.
    pub fn prepare(folder: &Path) -> Result<Faults, Fault> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let mut faults = Faults {
            folder: folder.to_owned(),
            runtime,
            expected: Vec::new(),
        };
        faults.create_lakes()?;
        faults.run_undisturbed()?;
        Ok(faults)
    }

    /// Creates the folders `empty`, `plain` and `sealed`, and the input of the commands.
    fn create_lakes(&self) -> Result<(), Fault> {
        let (faults, folder) = (self, &self.folder);
        fs::write(folder.join("new"), NEW_PASSPHRASE)?;
        for place in ["empty", "plain", "sealed"] {
            fs::create_dir_all(folder.join(place))?;
        }
        let corpus = folder.join("corpus").display().to_string();
        faults.must(
            "empty",
            &[
                "generate",
                &corpus,
                "--grains",
                "600",
                "--file-grains",
                "200",
                "--people",
                "12",
            ],
        )?;
        faults.must("plain", &["keys", "generate", "erasure"])?;
        faults.must("sealed", &["keys", "generate", "erasure"])?;
        fs::write(
            folder.join("corpus/person.frames"),
            frames(&(0..20).map(of_the_person).collect::<Vec<_>>()),
        )?;
        for file in [
            "corpus-00000.mg",
            "corpus-00001.mg",
            "corpus-00002.mg",
            "person.frames",
        ] {
            let file = format!("{corpus}/{file}");
            faults.must("plain", &["ingest", &file])?;
            faults.must("sealed", &["ingest", &file, "--encrypt"])?;
        }
        fs::write(folder.join("operations.jsonl"), operations())?;
        Ok(())
    }

    /// Runs every command without a fault, and records its duration and result.
    fn run_undisturbed(&mut self) -> Result<(), Fault> {
        for case in CASES {
            let place = self.copy(case, "undisturbed")?;
            let started = Instant::now();
            let output = self.command(&place, case).output()?;
            let took = started.elapsed();
            if output.status.code() != Some(0) {
                return Err(failed(case, "without a fault", &output));
            }
            let content = self
                .content(&place)?
                .ok_or("no lake after an undisturbed run")?;
            self.expected.push((took, content));
            fs::remove_dir_all(&place)?;
        }
        Ok(())
    }

    /// Injects `count` faults, numbered from `seed`, and checks the result of each. `report` gets a
    /// line for each.
    ///
    /// # Errors
    /// The first check that fails, with the number of the fault, by which it happens again.
    pub fn run(
        &self,
        seed: usize,
        count: usize,
        report: &mut dyn FnMut(&str),
    ) -> Result<Tally, Fault> {
        let mut tally = Tally::default();
        for number in seed..seed + count {
            let kinds = [
                Kind::Kill,
                Kind::Kill,
                Kind::FileSize,
                Kind::FullDisk,
                Kind::Memory,
            ];
            let kind = kinds[number / CASES.len() % kinds.len()];
            let at = number % CASES.len();
            let (case, (took, expected)) = (CASES[at], &self.expected[at]);
            let disturbed = self
                .fault(case, kind, share(number), *took, expected)
                .map_err(|error| format!("fault {number}, {kind:?} of `{}`: {error}", case.name))?;
            let counted = match (disturbed, kind) {
                (false, _) => &mut tally.undisturbed,
                (true, Kind::Kill) => &mut tally.killed,
                (true, Kind::FileSize) => &mut tally.file_size,
                (true, Kind::FullDisk) => &mut tally.full_disk,
                (true, Kind::Memory) => &mut tally.memory,
            };
            *counted += 1;
            report(&format!(
                "{number} {kind:?} {}: {}",
                case.name,
                if disturbed { "disturbed" } else { "too late" }
            ));
        }
        Ok(tally)
    }

    /// Injects one fault; returns true if it disturbed the command.
    fn fault(
        &self,
        case: Case,
        kind: Kind,
        share: f64,
        took: Duration,
        expected: &Content,
    ) -> Result<bool, Fault> {
        let disk = match kind {
            Kind::FullDisk => Disk::mount(&self.folder.join("disk")),
            _ => None,
        };
        let place = match &disk {
            Some(disk) => self.copy_to(case, &disk.folder.join("place"))?,
            None => self.copy(case, "disturbed")?,
        };
        let before = self.content(&place)?;
        let disturbed = self.run_disturbed(&place, case, (kind, disk.as_ref()), share, took)?;
        self.check_left(&place, before.as_ref(), expected)?;
        self.check_rerun(&place, case, expected)?;
        drop(disk);
        let _ = fs::remove_dir_all(&place);
        Ok(disturbed)
    }

    /// Runs the command with a fault; returns true if it was disturbed. `share` sets the moment of
    /// the kill or the strength of the limit.
    fn run_disturbed(
        &self,
        place: &Path,
        case: Case,
        (kind, disk): (Kind, Option<&Disk>),
        share: f64,
        took: Duration,
    ) -> Result<bool, Fault> {
        let fails = |mut command: Command| -> Result<bool, Fault> {
            Ok(command.output()?.status.code() != Some(0))
        };
        match (kind, disk) {
            (Kind::Kill, _) => {
                let mut command = self.command(place, case);
                let child = command
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()?;
                Ok(kill_after(child, took.mul_f64(share * 1.1))?)
            }
            (Kind::FullDisk, Some(disk)) => {
                disk.leave_kib((share * share * 3_000.0) as u64)?;
                let disturbed = fails(self.command(place, case))?;
                disk.grow()?;
                Ok(disturbed)
            }
            // Without permission to mount, a file size limit replaces a full disk.
            (Kind::FullDisk | Kind::FileSize, _) => {
                let kib = 1 + (share * share * 600.0) as u64;
                fails(self.limited(place, case, &format!("trap '' XFSZ; ulimit -f {kib}")))
            }
            (Kind::Memory, _) => {
                let kib = 100_000 + (share * 2_500_000.0) as u64;
                fails(self.limited(place, case, &format!("ulimit -v {kib}")))
            }
        }
    }
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn failed(case: Case, when: &str, output: &Output) -> Fault {
    let (out, errors) = texts(output);
    format!(
        "`{}` {when} ended with {:?}: {errors}{out}",
        case.name,
        output.status.code()
    )
    .into()
}

fn of_the_person(number: usize) -> Vec<u8> {
    grain(&format!(
        r#"{{"type": "belief", "user_id": "{PERSON}", "subject": "s{number}", "relation": "is", "object": "o",
             "confidence": 0.5, "created_at": 1767225600000}}"#
    ))
    .blob
}

/// Writes new grains, the same in every run.
fn operations() -> String {
    let put = |number: usize| {
        format!(
            r#"{{"op": "put", "grain": {{"type": "belief", "subject": "s{number}", "relation": "is", "object": "put",
               "confidence": 1.0, "created_at": 1767225600000}}}}"#
        )
        .replace('\n', " ")
    };
    (0..200).map(put).collect::<Vec<_>>().join("\n")
}

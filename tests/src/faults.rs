//! Fault injection for every command that writes: kills, full disks, file size limits, too little
//! memory.
//!
//! Each fault is injected into a copy of a prepared folder (a lake and its keyring). Afterwards the
//! lake must pass `verify` and contain either its previous content or that of an undisturbed run,
//! each grain once; and the same command, run again without a fault, must succeed with the result
//! of an undisturbed run.
//!
//! Above 500 lines: the commands, the faults and the checks share one prepared set of folders.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use gristmill_engine::keys::{FileKeys, Keyring};
use gristmill_engine::lake::Lake;

use crate::binary;
use crate::grains::{frames, grain};
use crate::kill::{copy_folder, kill_after, share};
use crate::sandbox::PASSPHRASE;

/// Message of a failed check.
pub type Fault = Box<dyn Error + Send + Sync>;

/// User id of the erased person.
const PERSON: &str = "person-of-the-faults";
const NEW_PASSPHRASE: &str = "another passphrase for tests";

/// A command that writes.
#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    /// The prepared folder that it works on.
    place: &'static str,
    arguments: &'static [&'static str],
    /// Accepted exit codes of a rerun after a fault that came too late to disturb.
    already: &'static [i32],
}

/// Every command that writes. `USER` is replaced by a person whose grains may all be erased.
const CASES: [Case; 14] = [
    Case {
        name: "ingest",
        place: "empty",
        arguments: &["ingest", "../corpus"],
        already: &[],
    },
    Case {
        name: "ingest --encrypt",
        place: "empty",
        arguments: &["ingest", "../corpus", "--encrypt"],
        already: &[],
    },
    Case {
        name: "apply",
        place: "plain",
        arguments: &["apply", "../operations.jsonl"],
        already: &[],
    },
    Case {
        name: "compact",
        place: "plain",
        arguments: &["compact"],
        already: &[],
    },
    Case {
        name: "gc",
        place: "plain",
        arguments: &["gc", "--older-than", "0s", "--retention", "0s"],
        already: &[],
    },
    Case {
        name: "reindex",
        place: "plain",
        arguments: &["reindex", "--all"],
        already: &[],
    },
    Case {
        name: "repair",
        place: "plain",
        arguments: &["repair"],
        already: &[],
    },
    Case {
        name: "erase",
        place: "plain",
        arguments: &["erase", "--user", "USER", "--execute", "--exclusive"],
        already: &[3],
    },
    Case {
        name: "erase --destroy-keys",
        place: "sealed",
        arguments: &[
            "erase",
            "--user",
            "USER",
            "--execute",
            "--exclusive",
            "--destroy-keys",
        ],
        already: &[3],
    },
    Case {
        name: "keys generate",
        place: "plain",
        arguments: &["keys", "generate", "another"],
        already: &[1],
    },
    Case {
        name: "keys encrypt",
        place: "plain",
        arguments: &["keys", "encrypt", "--exclusive"],
        already: &[],
    },
    Case {
        name: "keys rotate",
        place: "sealed",
        arguments: &["keys", "rotate", "--exclusive"],
        already: &[],
    },
    Case {
        name: "keys passphrase",
        place: "sealed",
        arguments: &["keys", "passphrase", "--new-passphrase-file", "../new"],
        already: &[1],
    },
    Case {
        name: "export",
        place: "plain",
        arguments: &["export", "out.mg", "--force"],
        already: &[],
    },
];

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

/// Content of a lake: sorted addresses, and row counts of the other tables.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Content {
    addresses: Vec<String>,
    state: u64,
    rejects: u64,
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

    /// Runs the command again without a fault, and checks its result.
    fn check_rerun(&self, place: &Path, case: Case, expected: &Content) -> Result<(), Fault> {
        let output = self.command(place, case).output()?;
        let code = output.status.code();
        if code != Some(0) && !code.is_some_and(|code| case.already.contains(&code)) {
            return Err(failed(case, "again", &output));
        }
        let after = self.content(place)?;
        if after.as_ref() != Some(expected) {
            return Err(format!("it ended with {}", difference(after.as_ref(), expected)).into());
        }
        self.verified(place)?;
        if case.name == "export" {
            let output = self.plain_command(place, &["verify", "out.mg"]).output()?;
            if output.status.code() != Some(0) {
                return Err(failed(case, "and what it wrote", &output));
            }
        }
        if case.name == "keys generate" {
            let listed = self.plain_command(place, &["keys", "list"]).output()?;
            if !String::from_utf8_lossy(&listed.stdout).contains("another") {
                return Err(failed(case, "and the key isn't there", &listed));
            }
        }
        Ok(())
    }

    /// Checks the content after a fault: the previous one, that of the command, or one in between
    /// where the command has several commits; each grain once.
    fn check_left(
        &self,
        place: &Path,
        before: Option<&Content>,
        expected: &Content,
    ) -> Result<(), Fault> {
        let Some(left) = self.content(place)? else {
            return if before.is_none() {
                Ok(())
            } else {
                Err("the lake is gone".into())
            };
        };
        let known = |address: &String| {
            expected.addresses.binary_search(address).is_ok()
                || before.is_some_and(|before| before.addresses.binary_search(address).is_ok())
        };
        if left.addresses.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("a grain is there twice".into());
        }
        if !left.addresses.iter().all(known) {
            return Err("there is a grain that nobody wrote".into());
        }
        let is_kept = |address: &&String| expected.addresses.binary_search(address).is_ok();
        let kept = before
            .into_iter()
            .flat_map(|before| before.addresses.iter().filter(is_kept));
        for address in kept {
            if left.addresses.binary_search(address).is_err() {
                return Err(format!("the grain {address} is lost").into());
            }
        }
        self.verified(place)
    }

    fn verified(&self, place: &Path) -> Result<(), Fault> {
        for arguments in [&["verify"][..], &["audit", "verify"]] {
            let output = self.plain_command(place, arguments).output()?;
            if output.status.code() != Some(0) {
                let (out, errors) = texts(&output);
                return Err(format!(
                    "{arguments:?} ended with {:?}: {errors}{out}",
                    output.status.code()
                )
                .into());
            }
        }
        Ok(())
    }

    /// Returns the content of the lake in `place`, or `None` if there is none yet.
    fn content(&self, place: &Path) -> Result<Option<Content>, Fault> {
        let lake = place.join("lake");
        if !lake
            .join("grains/_delta_log/00000000000000000000.json")
            .exists()
            && !lake.join("audit").exists()
        {
            return Ok(None);
        }
        self.runtime.block_on(async {
            let mut lake = Lake::open(&lake.display().to_string()).await?;
            if lake.is_encrypted() {
                let keyring = place.join("keyring.json");
                let opened = Keyring::open(&keyring, PASSPHRASE);
                let opened = opened.or_else(|_| Keyring::open(&keyring, NEW_PASSPHRASE))?;
                lake.unlock(Box::new(FileKeys::next_to(opened)?))?;
            }
            let mut addresses = Vec::new();
            let mut rows = lake.scan(Some(&["content_address", "blob"]))?;
            while let Some(batch) = rows.try_next().await? {
                let column = arrow::array::AsArray::as_string::<i32>(batch.column(0));
                addresses.extend(column.iter().flatten().map(str::to_owned));
            }
            addresses.sort_unstable();
            let state = lake.state.files()?.iter().map(|file| file.rows).sum();
            let rejects = lake.rejects.files()?.iter().map(|file| file.rows).sum();
            Ok(Some(Content {
                addresses,
                state,
                rejects,
            }))
        })
    }

    fn copy(&self, case: Case, name: &str) -> Result<PathBuf, Fault> {
        self.copy_to(case, &self.folder.join(name))
    }

    fn copy_to(&self, case: Case, place: &Path) -> Result<PathBuf, Fault> {
        let _ = fs::remove_dir_all(place);
        copy_folder(&self.folder.join(case.place), place)?;
        Ok(place.to_owned())
    }

    fn command(&self, place: &Path, case: Case) -> Command {
        self.plain_command(place, &self.arguments(case))
    }

    /// Returns the command of `case` under a shell limit.
    fn limited(&self, place: &Path, case: Case, limit: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{limit}; exec \"$0\" \"$@\"")])
            .arg(binary::path());
        self.in_place(&mut command, place, &self.arguments(case));
        command
    }

    fn arguments(&self, case: Case) -> Vec<String> {
        let own = |argument: &&str| match *argument {
            "USER" => PERSON.to_owned(),
            argument => argument.replace("../", &format!("{}/", self.folder.display())),
        };
        case.arguments.iter().map(own).collect()
    }

    fn plain_command<S: AsRef<std::ffi::OsStr>>(&self, place: &Path, arguments: &[S]) -> Command {
        let mut command = Command::new(binary::path());
        self.in_place(&mut command, place, arguments);
        command
    }

    fn in_place<S: AsRef<std::ffi::OsStr>>(
        &self,
        command: &mut Command,
        place: &Path,
        arguments: &[S],
    ) {
        // After a completed change of the passphrase the new one opens the keyring.
        let has_old = Keyring::open(&place.join("keyring.json"), PASSPHRASE).is_ok();
        let changed = place.join("keyring.json").exists() && !has_old;
        command
            .args([
                "--quiet",
                "--format",
                "json",
                "--memory",
                "128M",
                "--threads",
                "2",
                "--lake",
                "lake",
            ])
            .args(arguments)
            .env("GRISTMILL_KEYRING", place.join("keyring.json"))
            .env(
                "GRISTMILL_PASSPHRASE",
                if changed { NEW_PASSPHRASE } else { PASSPHRASE },
            )
            // Without memory, printing a backtrace waits for ever: see docs/reliability.md.
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .current_dir(place);
    }

    fn must(&self, place: &str, arguments: &[&str]) -> Result<Output, Fault> {
        let output = self
            .plain_command(&self.folder.join(place), arguments)
            .output()?;
        match output.status.code() {
            Some(0) => Ok(output),
            code => Err(format!("{arguments:?} ended with {code:?}: {}", texts(&output).1).into()),
        }
    }
}

/// A mounted file system with limited free space.
struct Disk {
    folder: PathBuf,
}

impl Disk {
    /// Returns `None` without permission to mount.
    fn mount(folder: &Path) -> Option<Disk> {
        fs::create_dir_all(folder).ok()?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1g", "tmpfs"])
            .arg(folder)
            .output();
        mounted
            .is_ok_and(|output| output.status.success())
            .then(|| Disk {
                folder: folder.to_owned(),
            })
    }

    fn leave_kib(&self, free: u64) -> Result<(), Fault> {
        let output = Command::new("df")
            .args(["--output=used", "-k"])
            .arg(&self.folder)
            .output()?;
        let used = String::from_utf8_lossy(&output.stdout)
            .lines()
            .nth(1)
            .and_then(|line| line.trim().parse().ok());
        self.resize(&format!("{}k", used.unwrap_or(0_u64) + free))
    }

    fn grow(&self) -> Result<(), Fault> {
        self.resize("1g")
    }

    fn resize(&self, size: &str) -> Result<(), Fault> {
        let option = format!("remount,size={size}");
        let output = Command::new("mount")
            .args(["-o", &option])
            .arg(&self.folder)
            .output()?;
        if output.status.success() {
            Ok(())
        } else {
            Err(texts(&output).1.into())
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A failed unmount leaks memory; `drop` can't report it.
        let _ = Command::new("umount").arg(&self.folder).output();
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

fn difference(found: Option<&Content>, expected: &Content) -> String {
    match found {
        None => "no lake".to_owned(),
        Some(found) => format!(
            "{} grains, {} events, {} rejects instead of {}, {} and {}",
            found.addresses.len(),
            found.state,
            found.rejects,
            expected.addresses.len(),
            expected.state,
            expected.rejects
        ),
    }
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

/// Returns the names of the commands that [`Faults`] disturbs.
pub fn commands() -> Arc<[&'static str]> {
    CASES.iter().map(|case| case.name).collect()
}

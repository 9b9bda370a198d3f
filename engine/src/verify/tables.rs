//! Verifying the tables of a lake: the ends of their logs, every entry, the lists of files, and the
//! digests of data files.
//!
//! It uses the lake's location instead of an open lake, because damage may prevent the lake from
//! being opened. Logs and small tables come first; the data files of `grains` are checked with
//! their row groups.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::Instant;

use gristmill_schemas::columns::GRAINS;
use gristmill_schemas::error::ErrorCode;
use object_store::ObjectMeta;
use object_store::path::Path;

use super::checkpoints;
use super::job_set::JobSet;
use super::lost_rows::{BeyondHead, LostInLogs, format_set_back};
use super::report::{Findings, Problem, TableCoverage};
use super::unreferenced::UnreferencedFiles;
use crate::erase::journals_in;
use crate::error::{Context, EngineError, Result};
use crate::file_digest::FileDigest;
use crate::lake::{
    ACCEPT, CommitFacts, DataFile, FIRST_WITH_HEADS, HEADS, Heads, LakeLocation, LogFile,
    REMEDY_OF_LOGS, RowsOfLog, StatedVersions, TABLES, Table, TableHead, commit_path, head_damage,
    remedy_of_changed_file, remedy_of_lost_file,
};
use crate::segment::SegmentReader;

/// Bytes that are read at a time to digest a file.
const READ_BYTES: usize = 1 << 20;

/// The remedy for files of another engine that this program reads in another way.
const REWRITE: &str = "have the other engine write the rows that stay to new files, export them \
                       from there, and ingest them";

/// The commits of a log by their versions.
type LogCommits = BTreeMap<u64, (FileDigest, Path)>;

/// The expected digests of commits by their versions, with the name of what contains them.
type ExpectedDigests = BTreeMap<u64, (FileDigest, String)>;

/// A running verification of tables.
pub(super) struct TablesCheck<'l> {
    location: &'l LakeLocation,
    heads: Option<Heads>,
    heads_damaged: bool,
    /// Nothing new is started after this time.
    deadline: Option<Instant>,
    limit: usize,
    running: JobSet<Result<Findings>>,
    /// What can be done about lost or damaged entries of the log that is checked.
    remedy_of_entries: &'static str,
    /// The same of entries that only the heads know. New heads help if the log can be read.
    remedy_of_newest: &'static str,
    /// The findings so far.
    pub(super) findings: Findings,
    /// What was checked so far.
    pub(super) coverage: Vec<TableCoverage>,
    /// What the logs so far have lost.
    pub(super) lost: LostInLogs,
    /// What the logs so far state about each other.
    pub(super) stated: StatedVersions,
    /// The data files so far that no log names.
    pub(super) unreferenced: UnreferencedFiles,
}

impl<'l> TablesCheck<'l> {
    /// Starts a check that lists at most `limit` problems, uses `threads` threads (0: one per
    /// core), and starts nothing new after `deadline`.
    ///
    /// # Errors
    /// Errors of reading `heads.json`, except damage, which is a finding.
    pub(super) async fn begin(
        location: &'l LakeLocation,
        deadline: Option<Instant>,
        limit: usize,
        threads: usize,
    ) -> Result<TablesCheck<'l>> {
        let mut findings = Findings::default();
        let heads = match Heads::load(location).await {
            Err(error) if !error.is_environment() => {
                findings.bad(problem("", HEADS, &error.to_string(), ACCEPT), limit);
                None
            }
            heads => heads?,
        };
        let (running, heads_damaged) = (JobSet::new(threads), findings.bad_count() > 0);
        Ok(TablesCheck {
            location,
            heads,
            heads_damaged,
            deadline,
            limit,
            running,
            remedy_of_entries: REMEDY_OF_LOGS,
            remedy_of_newest: ACCEPT,
            findings,
            coverage: Vec::new(),
            lost: LostInLogs::default(),
            stated: StatedVersions::default(),
            unreferenced: UnreferencedFiles::default(),
        })
    }

    /// Adds a problem.
    pub(super) fn found(&mut self, problem: Problem) {
        self.findings.bad(problem, self.limit);
    }

    /// Checks every table, except the data files of `grains`.
    ///
    /// # Errors
    /// Errors of reading a file that aren't damage.
    pub(super) async fn run(&mut self) -> Result<()> {
        for name in TABLES {
            let mut coverage = TableCoverage {
                table: name.into(),
                ..TableCoverage::default()
            };
            coverage.complete = self.table(name, &mut coverage).await?;
            self.coverage.push(coverage);
        }
        while let Some(findings) = self.running.join_next().await? {
            self.findings.merge(findings?, self.limit);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Checks one table. Returns false if time ran out.
    async fn table(&mut self, name: &'static str, coverage: &mut TableCoverage) -> Result<bool> {
        if self.is_over() {
            return Ok(false);
        }
        let head = self
            .heads
            .as_ref()
            .and_then(|heads| heads.tables.get(name))
            .cloned();
        // Before the log is read: files that are committed in between are named in it then.
        let listed = self.location.list(name).await?;
        let opened = Table::open(self.location, name).await;
        (self.remedy_of_entries, self.remedy_of_newest) = match &opened {
            Err(EngineError::Damaged { remedy, .. }) => (*remedy, *remedy),
            Err(_) => (ACCEPT, ACCEPT),
            Ok(_) => (REMEDY_OF_LOGS, ACCEPT),
        };
        let log = LogFile::among(&listed, name);
        coverage.log_entries = self.log(name, head.as_ref(), &log).await?;
        let Some(table) = self.opened(name, opened, head.is_some())? else {
            return Ok(true);
        };
        self.note_unreferenced(&table, &listed).await?;
        if name == GRAINS
            && self.heads.is_none()
            && !self.heads_damaged
            && table.format_version() >= FIRST_WITH_HEADS
        {
            let cause = "it is missing: nothing states where the logs of the tables end";
            self.found(problem("", HEADS, cause, ACCEPT));
        }
        if let Some(head) = &head {
            self.list_of_files(&table, head).await?;
        }
        for (file, cause) in table.misread_files()? {
            self.found(problem(name, &format!("{name}/{file}"), cause, REWRITE));
        }
        if name == GRAINS {
            return Ok(true);
        }
        for file in table.files()? {
            if self.is_over() {
                return Ok(false);
            }
            coverage.files += u64::from(file.digest.is_some());
            coverage.without_digest += u64::from(file.digest.is_none());
            self.data_file(name, file).await?;
        }
        Ok(true)
    }

    /// Notes those of the files `listed` that no version of `table` has.
    async fn note_unreferenced(&mut self, table: &Table, listed: &[ObjectMeta]) -> Result<()> {
        match self.unreferenced.add(table, listed).await {
            Err(error) if error.is_environment() => Err(error),
            // Damage of the log is a problem of its own.
            _ => Ok(()),
        }
    }

    /// Returns an opened table. Returns `None`, with a problem if it `has_head`, if there is none,
    /// or if it is damaged. A table without a head didn't exist in the lake's version; if it should
    /// exist, that is reported when the lake is opened.
    fn opened(
        &mut self,
        name: &'static str,
        opened: Result<Option<Table>>,
        has_head: bool,
    ) -> Result<Option<Table>> {
        match opened {
            Ok(None) if has_head => {
                self.found(problem(name, name, "the table is missing", ACCEPT));
                Ok(None)
            }
            Err(error) if !error.is_environment() => {
                let log = format!("{name}/_delta_log");
                let remedy = self.remedy_of_entries;
                self.found(problem(name, &log, &error.to_string(), remedy));
                Ok(None)
            }
            opened => opened,
        }
    }

    /// Compares the table's list of files with its head, at the head's version if a longer log
    /// still contains that.
    async fn list_of_files(&mut self, table: &Table, head: &TableHead) -> Result<()> {
        let earlier = match table.version() > head.version {
            true => match table.at_version(head.version).await {
                Err(EngineError::NoVersion { .. }) => return self.cut_log(table, head).await,
                earlier => earlier.ok(),
            },
            false => None,
        };
        if let Some(earlier) = &earlier {
            let lost = BeyondHead::of(table, earlier)?;
            self.lost.beyond_heads.extend(lost);
        }
        if let Some(fault) = head_damage(earlier.as_ref().unwrap_or(table), head)? {
            self.found(problem(
                table.name(),
                &format!("{}/_delta_log", table.name()),
                &fault.cause,
                fault.remedy,
            ));
        }
        Ok(())
    }

    /// Reports a log that no longer contains the version of its head, and goes on after it: nothing
    /// tells which rows were removed since. An erasure also shortens logs, and then writes the
    /// heads.
    async fn cut_log(&mut self, table: &Table, head: &TableHead) -> Result<()> {
        let heads = Heads::load(self.location).await;
        let now = heads.ok().flatten();
        let now = now.and_then(|heads| heads.tables.get(table.name()).map(|head| head.version));
        if now == Some(head.version) && journals_in(self.location).await? == 0 {
            let cause = format!(
                "it no longer has version {}, with which gristmill has written it last: another \
                 engine has cleaned it up, and which rows were removed since can't be told",
                head.version
            );
            let log = format!("{}/_delta_log", table.name());
            self.found(problem(table.name(), &log, &cause, ACCEPT));
        }
        Ok(())
    }

    /// Checks the entries of the log that consists of `files`. Returns the number of commits.
    async fn log(
        &mut self,
        name: &'static str,
        head: Option<&TableHead>,
        files: &[LogFile],
    ) -> Result<u64> {
        let (found, known) = self.entries(name, files).await?;
        for (version, (digest, path)) in &found {
            let in_commit = known.get(version);
            let in_commit = in_commit
                .map(|(expected, witness)| (expected, witness.as_str(), self.remedy_of_entries));
            let in_heads = head.and_then(|head| head.entries.get(version));
            let in_heads = in_heads.map(|expected| (expected, HEADS, self.remedy_of_newest));
            let mut expected = in_commit.into_iter().chain(in_heads);
            if let Some((_, witness, remedy)) = expected.find(|(expected, ..)| *expected != digest)
            {
                let cause = format!("it differs from its digest in {witness}: one was changed");
                self.found(problem(name, path.as_ref(), &cause, remedy));
            }
        }
        if let Some(head) = head.filter(|head| has_lost_newest(head, &found, files)) {
            let missing = commit_path(name, head.version);
            let cause = "it is missing, and the log ends with its checkpoint: nothing else has \
                         what it states of the other tables";
            let remedy = self.remedy_of_newest;
            self.found(problem(name, missing.as_ref(), cause, remedy));
        }
        if let Some(expected) = head.and_then(|head| head.checkpoint.as_ref()) {
            let problems = checkpoints::problems(self.location, name, expected, files).await?;
            problems.into_iter().for_each(|problem| self.found(problem));
        }
        Ok(found.len() as u64)
    }

    /// Reads the commits of a log, and checks that none is missing. Returns their digests, and the
    /// digests of commits that later commits contain, each with the name of the first witness.
    async fn entries(
        &mut self,
        name: &'static str,
        files: &[LogFile],
    ) -> Result<(LogCommits, ExpectedDigests)> {
        let (mut found, mut known) = (LogCommits::new(), ExpectedDigests::new());
        let (mut rows, mut format) = (RowsOfLog::default(), None::<u32>);
        let mut previous: Option<u64> = None;
        for file in files.iter().filter(|file| !file.is_checkpoint) {
            if let Some(previous) = previous.filter(|previous| previous + 1 != file.version) {
                let cause = format!(
                    "the entries between version {previous} and {} are missing",
                    file.version
                );
                let remedy = self.remedy_of_entries;
                let missing = commit_path(name, previous + 1);
                self.found(problem(name, missing.as_ref(), &cause, remedy));
            }
            previous = Some(file.version);
            // It may have been removed since it was listed.
            let Some(bytes) = self.location.read_small(&file.path).await? else {
                continue;
            };
            let digest = FileDigest::of(&bytes);
            found.insert(file.version, (digest, file.path.clone()));
            match CommitFacts::parse(&bytes) {
                Ok(commit) => {
                    self.stated.add(name, file.version, digest, &commit);
                    for (version, digest) in &commit.sealed {
                        let witness = || (*digest, format!("version {}", file.version));
                        known.entry(*version).or_insert_with(witness);
                    }
                    if let Some((before, now)) = format.zip(commit.format)
                        && name == GRAINS
                        && now < before
                    {
                        self.found(format_set_back(before, now));
                    }
                    format = commit.format.or(format);
                    let lost = rows.lost_by(name, file.version, commit);
                    self.lost.by_commits.extend(lost.map(|lost| (name, lost)));
                }
                Err(error) => self.found(problem(
                    name,
                    file.path.as_ref(),
                    &error.to_string(),
                    self.remedy_of_entries,
                )),
            }
        }
        Ok((found, known))
    }

    /// Starts the check of a data file.
    async fn data_file(&mut self, table: &'static str, file: DataFile) -> Result<()> {
        let (location, limit) = (self.location.clone(), self.limit);
        let bytes = match location.local_path(&Path::from(table)) {
            Some(_) => None,
            // An object is fetched here, because jobs must not wait for the network.
            None => Some(
                location
                    .read(&Path::from(format!("{table}/{}", file.name)))
                    .await,
            ),
        };
        let job = move || {
            let mut findings = Findings::default();
            let found = match bytes {
                Some(bytes) => bytes.map(|bytes| (bytes.len() as u64, FileDigest::of(&bytes))),
                None => digest_of_local(&location, table, &file),
            };
            if let Some(problem) = judge(table, &file, found)? {
                findings.bad(problem, limit);
            }
            Ok(findings)
        };
        if let Some(findings) = self.running.spawn(job).await? {
            self.findings.merge(findings?, self.limit);
        }
        Ok(())
    }
}

/// Returns true if the newest commit of a log is missing that consists of `files` and has the
/// commits `found`: its checkpoint is there, and `head` has its digest. Nothing removes such a
/// commit, unlike earlier ones.
fn has_lost_newest(head: &TableHead, found: &LogCommits, files: &[LogFile]) -> bool {
    let is_newest_checkpoint = |file: &LogFile| file.is_checkpoint && file.version == head.version;
    head.entries.contains_key(&head.version)
        && found.range(head.version..).next().is_none()
        && files.iter().any(is_newest_checkpoint)
}

/// Returns a problem of the file `source` of `table`, or of no table if the name is empty.
pub(super) fn problem(
    table: &'static str,
    source: &str,
    cause: &str,
    repair: &'static str,
) -> Problem {
    Problem {
        table: (!table.is_empty()).then_some(table.into()),
        source: source.to_owned(),
        ordinal: -1,
        code: ErrorCode::Integrity.name().into(),
        message: cause.to_owned(),
        repair: Some(repair.into()),
        ..Problem::default()
    }
}

/// Compares the whole data file `file` of `grains`, which `reader` has opened, with its digest. A
/// local file is read piece by piece; an object was fetched as a whole. Returns `None` if it is
/// sound or has no digest.
///
/// # Errors
/// Errors of reading it that aren't damage.
pub(super) fn check_segment_file(
    location: &LakeLocation,
    file: &DataFile,
    reader: &SegmentReader,
) -> Result<Option<Problem>> {
    if file.digest.is_none() {
        return Ok(None);
    }
    let found = match location.is_remote() {
        true => Ok((reader.size(), reader.digest())),
        false => digest_of_local(location, GRAINS, file),
    };
    judge(GRAINS, file, found)
}

/// Compares what was found with the log. Errors that aren't damage stay errors.
fn judge(
    table: &'static str,
    file: &DataFile,
    found: Result<(u64, FileDigest)>,
) -> Result<Option<Problem>> {
    let (cause, remedy) = match found {
        Ok((size, _)) if size != file.size => (
            format!("it has {size} bytes, its log says {}", file.size),
            remedy_of_lost_file(table),
        ),
        Ok((_, digest)) => {
            let Some(expected) = file.digest.filter(|expected| *expected != digest) else {
                return Ok(None);
            };
            (
                format!("its bytes have the digest {digest}, not {expected} as in its log"),
                remedy_of_changed_file(table),
            )
        }
        Err(error) if error.is_environment() => return Err(error),
        Err(error) => (error.to_string(), remedy_of_lost_file(table)),
    };
    let rows = (file.rows > 1).then_some(file.rows);
    Ok(Some(Problem {
        rows,
        ..problem(table, &format!("{table}/{}", file.name), &cause, remedy)
    }))
}

fn digest_of_local(
    location: &LakeLocation,
    table: &str,
    file: &DataFile,
) -> Result<(u64, FileDigest)> {
    let name = format!("{table}/{}", file.name);
    let path = location
        .local_path(&Path::from(name.as_str()))
        .unwrap_or_default();
    let mut source = std::fs::File::open(path).file("can't read", &name)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match source.read(&mut buffer).file("can't read", &name)? {
            0 => return Ok((hasher.count(), hasher.finalize().into())),
            read => hasher.update(buffer.get(..read).unwrap_or_default()),
        };
    }
}

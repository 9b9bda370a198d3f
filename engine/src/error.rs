//! Errors of the engine, by what the caller can do about them.

use arrow::error::ArrowError;
use gristmill_connectors::ConnectorError;

/// An error of the engine. Refused input isn't an error: it goes to `rejects` and into reports.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A source, sink or store can't be used: a problem of the environment.
    #[error(transparent)]
    Connector(#[from] ConnectorError),
    /// There is no lake at the given location.
    #[error(
        "no lake at `{0}`; `gristmill ingest` creates one, `--lake` or GRISTMILL_LAKE names another"
    )]
    NoLake(String),
    /// A new lake was to be created where something else is.
    #[error(
        "`{uri}` isn't a lake and isn't empty (it contains {holds}): name a new or an empty folder \
         with --lake; nothing was created there"
    )]
    NotALake {
        /// The location.
        uri: String,
        /// Some of the names that are there.
        holds: String,
    },
    /// The lake was written by a later version.
    #[error("the lake at `{uri}` has format version {found}; this program reads up to {known}")]
    LakeVersion {
        /// The location of the lake.
        uri: String,
        /// The version of its format.
        found: u32,
        /// The highest version that this program reads.
        known: u32,
    },
    /// A table of the lake is missing.
    #[error(
        "the lake at `{uri}` has lost its table `{table}`: restore the folder from a backup; \
         without it, erased or superseded grains would be ingested again as new"
    )]
    TableLost {
        /// The location of the lake.
        uri: String,
        /// The name of the table.
        table: &'static str,
    },
    /// A requested earlier version of a table can't be read.
    #[error(
        "the log of the table `{table}` has no version {version}: it was never written, or an \
         erasure or a clean-up of the log removed it; the newest version can be read, and a scan \
         without --since reads all of it"
    )]
    NoVersion {
        /// The name of the table.
        table: &'static str,
        /// The version.
        version: u64,
    },
    /// A part of the lake isn't what was written.
    #[error("{what} is damaged: {cause}; {remedy}")]
    Damaged {
        /// The file or table.
        what: String,
        /// What was found and what was expected.
        cause: String,
        /// What the user can do.
        remedy: &'static str,
    },
    /// Another writer made a change with which this one can't be combined.
    #[error(
        "another writer changed the lake at the same time ({0}); nothing was changed by this run \
         since its last commit, run it again"
    )]
    Conflict(String),
    /// The transaction log can't be read or written.
    #[error("{what} of the table `{table}`: {}", without_backtrace(.cause))]
    Delta {
        /// The operation.
        what: &'static str,
        /// The name of the table.
        table: String,
        /// The error of the library.
        #[source]
        cause: Box<deltalake::DeltaTableError>,
    },
    /// A file of the lake can't be read or written, or its content can't be processed.
    #[error("{what} `{path}`: {cause}")]
    File {
        /// The operation.
        what: &'static str,
        /// The file.
        path: String,
        /// The error of the system or library.
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A thread pool can't be started.
    #[error("can't start threads: {0}; `--threads` sets a lower number")]
    Threads(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A task on another thread panicked or was cancelled.
    #[error("can't finish {what}: {cause}")]
    Task {
        /// The work of the task.
        what: String,
        /// Why it ended early.
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Rows of the lake lack a column.
    #[error("{what} has no column `{column}`")]
    MissingColumn {
        /// The rows.
        what: String,
        /// The name of the column.
        column: String,
    },
    /// The vectors of the lake can't be searched.
    #[error(
        "no vectors to search: {0}; `gristmill reindex --embed` computes them, or `--vectors FILE` \
         imports them"
    )]
    Vectors(String),
    /// The lake has sealed segments, which have no vectors.
    #[error(
        "sealed (encrypted) segments have no vectors, so a search by meaning would leave them out; \
         search by words (`--mode text`), which reads them"
    )]
    SealedVectors,
    /// Input was refused, and the caller requested to stop in that case.
    #[error("{source_uri}: {error}")]
    Refused {
        /// The source of the input.
        source_uri: String,
        /// Why it was refused.
        error: gristmill_schemas::error::GrainError,
    },
    /// A line of a transcript was refused, and the caller requested to stop in that case.
    #[error("{source_uri}: {fault}")]
    RefusedLine {
        /// The source of the line.
        source_uri: String,
        /// Which line it is, and why it was refused.
        fault: gristmill_connectors::transcript::line::LineFault,
    },
    /// A request that can't be parsed or is inconsistent.
    #[error("{0}")]
    Request(String),
    /// A policy forbids the request.
    #[error("refused by policy: {0}")]
    Policy(String),
    /// There is no keyring at the given path.
    #[error("there is no keyring `{}`; `gristmill keys generate NAME` makes one, `--keyring` names \
             another", .0.display())]
    NoKeyring(std::path::PathBuf),
    /// A key is missing, wrong, or can't be read.
    #[error("{0}")]
    Key(String),
    /// Data that should have been removed is still present.
    #[error("{0}")]
    NotAbsent(String),
    /// The reader of the output has closed it.
    #[error("the output was closed by its reader")]
    OutputClosed,
    /// The user requested to stop.
    #[error("interrupted; the lake is as it was at the last commit")]
    Interrupted,
}

impl EngineError {
    /// Returns true if a file is missing. In a lake that is damage, while other reasons why a file
    /// can't be read (permissions, memory, a store that doesn't respond) are problems of the
    /// environment.
    pub(crate) fn is_not_found(&self) -> bool {
        let in_store =
            |error: &object_store::Error| matches!(error, object_store::Error::NotFound { .. });
        match self {
            EngineError::Connector(ConnectorError::Io { cause, .. }) => {
                cause.kind() == std::io::ErrorKind::NotFound
            }
            EngineError::Connector(ConnectorError::Store { cause, .. }) => in_store(cause),
            EngineError::File { cause, .. } => match cause.downcast_ref::<std::io::Error>() {
                Some(error) => error.kind() == std::io::ErrorKind::NotFound,
                None => cause.downcast_ref().is_some_and(in_store),
            },
            _ => false,
        }
    }

    /// Returns true if a file of a lake is damaged or lost. Files that a user names count only if
    /// they are damaged Parquet files.
    pub fn is_damage(&self) -> bool {
        // The names that tables give their files.
        let in_lake = |path: &str| path.contains("/part-") && path.ends_with(".parquet");
        let is_damage = match self {
            EngineError::Damaged { .. } | EngineError::TableLost { .. } => true,
            EngineError::File { path, .. } if in_lake(path) && self.is_not_found() => true,
            _ => is_of_damaged_file(self),
        };
        is_damage && !self.is_environment()
    }

    /// Returns true if the system prevented the work (memory, permissions, disks, networks), false
    /// if the lake is damaged. Only for errors of reading a lake.
    pub fn is_environment(&self) -> bool {
        if matches!(
            self,
            EngineError::Damaged { .. } | EngineError::TableLost { .. }
        ) {
            return false;
        }
        // Decompressors report a lack of memory as text only.
        is_of_system(self) || self.to_string().contains("not enough memory")
    }
}

/// Returns true if `error` was caused by the content of a columnar file, false if the system
/// refused to read it, or to write what a query spills.
pub fn is_of_damaged_file(error: &(dyn std::error::Error + 'static)) -> bool {
    is_of_columnar_file(error) && !is_of_system(error)
}

/// Returns true if the system or the store refused the work: permissions, memory, disks, networks.
pub fn is_of_system(error: &(dyn std::error::Error + 'static)) -> bool {
    causes(error).any(is_refused) || states_refusal(&error.to_string())
}

/// Returns true if `message` has the number of an error by which the system refused the work. The
/// readers of Delta's logs and of Parquet pass on no more than the text of some errors.
fn states_refusal(message: &str) -> bool {
    let number = message.rsplit_once("(os error ");
    let number = number.and_then(|(_, rest)| rest.split_once(')')?.0.parse().ok());
    number.is_some_and(|number| is_refusal(&std::io::Error::from_raw_os_error(number)))
}

/// Returns true if reading a columnar file caused `error`: its content, or the system. Scans of
/// such files also evaluate conditions, which can fail on valid content.
pub fn is_of_columnar_file(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_of_condition = |error: &ArrowError| matches!(error, ArrowError::ComputeError(_));
    let is_of_content = |error: &ArrowError| {
        matches!(
            error,
            ArrowError::ParquetError(_)
                | ArrowError::IpcError(_)
                | ArrowError::AvroError(_)
                | ArrowError::CsvError(_)
                | ArrowError::JsonError(_)
                | ArrowError::ExternalError(_)
                | ArrowError::IoError(..)
        )
    };
    let is_of_file = causes(error).any(|cause| {
        cause.is::<parquet::errors::ParquetError>()
            || cause.downcast_ref().is_some_and(is_of_content)
    });
    is_of_file && !causes(error).any(|cause| cause.downcast_ref().is_some_and(is_of_condition))
}

/// Returns `error` and its sources, outermost first.
fn causes<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

/// Returns true if the system or the store refused the work.
fn is_refused(error: &(dyn std::error::Error + 'static)) -> bool {
    match (
        error.downcast_ref::<std::io::Error>(),
        error.downcast_ref::<object_store::Error>(),
    ) {
        (Some(error), _) => is_refusal(error),
        (_, Some(error)) => {
            use object_store::Error::{PermissionDenied, Unauthenticated};
            matches!(error, PermissionDenied { .. } | Unauthenticated { .. })
        }
        _ => false,
    }
}

/// Returns true unless `error` is about the content of a file, or a missing file.
fn is_refusal(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{InvalidData, InvalidInput, NotFound, UnexpectedEof};
    match error.kind() {
        NotFound | UnexpectedEof | InvalidData | InvalidInput => false,
        // Libraries construct such errors without a number, the system with one.
        std::io::ErrorKind::Other => error.raw_os_error().is_some(),
        _ => true,
    }
}

/// How the backtraces begin that libraries append to their messages if `RUST_BACKTRACE` is set.
const BACKTRACES: [&str; 2] = ["\n\nbacktrace:", "\n   0:"];

/// Returns the message of `cause` without a backtrace.
fn without_backtrace(cause: &dyn std::error::Error) -> String {
    let mut message = cause.to_string();
    let end = BACKTRACES
        .iter()
        .filter_map(|begin| message.find(begin))
        .min();
    message.truncate(end.unwrap_or(message.len()));
    message.truncate(message.trim_end().len());
    message
}

/// Adds the operation of the engine to an error of a library.
pub(crate) trait Context<T> {
    /// Converts the error to [`EngineError::File`]: `what` was tried with `path`.
    fn file(self, what: &'static str, path: impl std::fmt::Display) -> Result<T>;

    /// Converts the error to [`EngineError::Task`]: the task that did `what` ended early.
    fn task(self, what: impl std::fmt::Display) -> Result<T>;

    /// Converts the error to [`EngineError::Threads`].
    fn threads(self) -> Result<T>;
}

/// Returns `column` of `rows`, or [`EngineError::MissingColumn`].
pub(crate) fn required<T>(
    found: Option<T>,
    column: &str,
    rows: impl std::fmt::Display,
) -> Result<T> {
    found.ok_or_else(|| EngineError::MissingColumn {
        what: rows.to_string(),
        column: column.to_owned(),
    })
}

impl<T, E: Into<Box<dyn std::error::Error + Send + Sync>>> Context<T>
    for std::result::Result<T, E>
{
    fn file(self, what: &'static str, path: impl std::fmt::Display) -> Result<T> {
        self.map_err(|cause| EngineError::File {
            what,
            path: path.to_string(),
            cause: cause.into(),
        })
    }

    fn task(self, what: impl std::fmt::Display) -> Result<T> {
        self.map_err(|cause| EngineError::Task {
            what: what.to_string(),
            cause: cause.into(),
        })
    }

    fn threads(self) -> Result<T> {
        self.map_err(|cause| EngineError::Threads(cause.into()))
    }
}

/// An error of any library.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The result of the engine's functions.
pub type Result<T, E = EngineError> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn a_damaged_or_lost_file_of_a_lake_is_damage() {
        let parquet = || parquet::errors::ParquetError::EOF("eof decoding byte array".to_owned());
        let damaged = Err::<(), _>(parquet()).file("can't read", "grains/part-1.parquet");
        assert!(damaged.unwrap_err().is_damage());
        let arrow = Err::<(), _>(ArrowError::from(parquet())).file("can't read", "x");
        assert!(arrow.unwrap_err().is_damage());
        let read = |cause: ErrorKind, path| {
            let error = Err::<(), _>(Error::from(cause)).file("can't read", path);
            error.unwrap_err()
        };
        assert!(read(ErrorKind::NotFound, "state/part-1.parquet").is_damage());
        assert!(!read(ErrorKind::NotFound, "retention.toml").is_damage());
        assert!(!read(ErrorKind::PermissionDenied, "grains/part-1.parquet").is_damage());
        let condition = ArrowError::ComputeError("division by zero".to_owned());
        let condition = parquet::errors::ParquetError::External(condition.into());
        assert!(!is_of_damaged_file(&condition) && is_of_damaged_file(&parquet()));
        let memory = parquet::errors::ParquetError::External(
            std::io::Error::from(ErrorKind::OutOfMemory).into(),
        );
        let memory = Err::<(), _>(memory).file("can't read", "grains/part-1.parquet");
        assert!(!memory.unwrap_err().is_damage());
    }

    #[test]
    fn a_full_disk_of_spilled_rows_and_a_forbidden_file_are_no_damage() {
        // What a query spills fails with Arrow's error, a scan with that of Parquet.
        let full = ArrowError::from(Error::new(ErrorKind::StorageFull, "can't spill"));
        assert!(!is_of_damaged_file(&full) && is_of_columnar_file(&full));
        let forbidden = object_store::Error::Generic {
            store: "LocalFileSystem",
            source: Error::from(ErrorKind::PermissionDenied).into(),
        };
        let forbidden = parquet::errors::ParquetError::External(forbidden.into());
        assert!(!is_of_damaged_file(&forbidden) && is_of_system(&forbidden));
        let truncated = ArrowError::from(Error::from(ErrorKind::UnexpectedEof));
        assert!(is_of_damaged_file(&truncated) && !is_of_system(&truncated));
    }

    #[cfg(unix)]
    #[test]
    fn refusals_of_which_a_library_passes_on_the_text_are_no_damage() {
        let text = |number| Error::from_raw_os_error(number).to_string();
        // ENOSPC, when the buffer of a file is written at its end.
        let cause = format!("fail to get inner writer: {:?}", text(28));
        let full = parquet::errors::ParquetError::General(cause);
        assert!(!is_of_damaged_file(&full) && is_of_system(&full));
        let full = Err::<(), _>(full).file("can't write", "state/part-1.parquet");
        assert!(!full.unwrap_err().is_damage());
        // EMFILE and EACCES, and ENOENT.
        for (number, is_refused) in [(24, true), (13, true), (2, false)] {
            let cause = format!("Kernel error: can't open x: {}", text(number));
            let error = EngineError::Delta {
                what: "can't read the log",
                table: "audit".to_owned(),
                cause: Box::new(deltalake::DeltaTableError::Generic(cause)),
            };
            assert_eq!(error.is_environment(), is_refused, "{error}");
        }
    }

    #[test]
    fn refusals_of_the_system_are_no_damage_but_missing_files_are() {
        let file = |cause: Error| Err::<(), _>(cause).file("can't read", "x").unwrap_err();
        for refused in [
            ErrorKind::PermissionDenied,
            ErrorKind::OutOfMemory,
            ErrorKind::StorageFull,
        ] {
            assert!(file(Error::from(refused)).is_environment(), "{refused}");
        }
        // EMFILE and EIO.
        assert!(file(Error::from_raw_os_error(24)).is_environment());
        assert!(file(Error::from_raw_os_error(5)).is_environment());
        for damage in [
            ErrorKind::NotFound,
            ErrorKind::UnexpectedEof,
            ErrorKind::InvalidData,
        ] {
            assert!(!file(Error::from(damage)).is_environment(), "{damage}");
        }
        let zstd = Error::other("Allocation error : not enough memory");
        assert!(file(zstd).is_environment());
        assert!(
            !EngineError::TableLost {
                uri: "x".to_owned(),
                table: "erased"
            }
            .is_environment()
        );
    }
}

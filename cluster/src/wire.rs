//! The messages of our codec. Each begins with the build of the program that wrote it; another
//! build refuses to read it, because it may plan, cut or select differently. A build is the version
//! and a digest of the sources (`build.rs`): versions stay equal between releases.

use std::fmt;

use prost::Message;

use datafusion::common::{Result, exec_datafusion_err, exec_err};
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};

/// The build of the program: processes of another one are refused.
const BUILD: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "+",
    env!("GRISTMILL_SOURCES_DIGEST")
);

/// An operator that DataFusion's protobuf has no message for.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Envelope {
    /// The build that encoded the operator. Earlier ones state their version only.
    #[prost(string, tag = "1")]
    build: String,
    #[prost(oneof = "Operator", tags = "2, 3, 4, 5")]
    pub(crate) operator: Option<Operator>,
}

/// What an [`Envelope`] contains.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Operator {
    /// A scan of a lake.
    #[prost(message, tag = "2")]
    Scan(LakeScan),
    /// An operator of Ballista in the bytes of its own codec, such as the writer at the root of
    /// each stage: so each task has the build.
    #[prost(bytes, tag = "3")]
    Ballista(Vec<u8>),
    /// The rules of a scan for compliance, as [`RulesExec`](gristmill_queries::packs::RulesExec)
    /// encodes them.
    #[prost(bytes, tag = "4")]
    Rules(Vec<u8>),
    /// Jobs on segments of a lake.
    #[prost(message, tag = "5")]
    Segments(SegmentWork),
}

/// Jobs on segments of a lake, whose messages are the rows of the operator's input.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(crate) struct SegmentWork {
    /// Location of the lake.
    #[prost(string, tag = "1")]
    pub(crate) location: String,
    /// The key with which jobs and outcomes are sealed.
    #[prost(bytes, tag = "2")]
    pub(crate) key: Vec<u8>,
}

impl fmt::Debug for SegmentWork {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the key.
        write!(out, "SegmentWork({})", self.location)
    }
}

/// A scan of a lake.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LakeScan {
    /// DataFusion's message of the Parquet scan.
    #[prost(bytes, tag = "1")]
    pub(crate) parquet: Vec<u8>,
    /// The rows that are read of each file, in order of the groups and their files.
    #[prost(message, repeated, tag = "2")]
    pub(crate) rows: Vec<FileRows>,
    /// What EXPLAIN shows of the sidecars that chose them.
    #[prost(string, tag = "3")]
    pub(crate) note: String,
}

/// The rows that are read of one file.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FileRows {
    /// False if all rows are read.
    #[prost(bool, tag = "1")]
    selected: bool,
    /// Lengths of alternating runs of rows, the first of which is skipped and may be empty.
    #[prost(uint64, repeated, tag = "2")]
    runs: Vec<u64>,
}

impl Envelope {
    /// Wraps `operator` for this build.
    pub(crate) fn of(operator: Operator) -> Envelope {
        Envelope {
            build: BUILD.to_owned(),
            operator: Some(operator),
        }
    }

    /// Reads the operator of an envelope of this build.
    ///
    /// # Errors
    /// If the bytes are no envelope, or one of another build.
    pub(crate) fn open(bytes: &[u8]) -> Result<Operator> {
        let envelope = Envelope::decode(bytes)
            .map_err(|error| exec_datafusion_err!("an operator can't be decoded: {error}"))?;
        match envelope.operator {
            Some(operator) if envelope.build == BUILD => Ok(operator),
            _ => exec_err!(
                "a part of the plan is of gristmill {}, this process is {BUILD}: all processes of \
                 a cluster must be of one build; install the same package or program everywhere",
                envelope.build
            ),
        }
    }
}

impl FileRows {
    /// Returns the message for a file of which `selection` is read, or all of it.
    pub(crate) fn of(selection: Option<&RowSelection>) -> FileRows {
        let mut runs = Vec::new();
        for selector in selection.into_iter().flat_map(RowSelection::iter) {
            // Every second run, beginning with the first, is skipped.
            let continues = runs.len() % 2 == usize::from(selector.skip);
            match runs.last_mut().filter(|_| continues) {
                Some(last) => *last += selector.row_count as u64,
                None => {
                    if runs.is_empty() && !selector.skip {
                        runs.push(0);
                    }
                    runs.push(selector.row_count as u64);
                }
            }
        }
        let selected = selection.is_some();
        FileRows { selected, runs }
    }

    /// Returns the selection; `None` for all rows.
    ///
    /// # Errors
    /// If the rows can't be counted.
    pub(crate) fn selection(&self) -> Result<Option<RowSelection>> {
        let mut rows = 0_usize;
        let mut selectors = Vec::with_capacity(self.runs.len());
        for (number, run) in self.runs.iter().enumerate() {
            let run = usize::try_from(*run).ok();
            let Some((run, end)) = run.and_then(|run| Some((run, rows.checked_add(run)?))) else {
                return exec_err!("a row selection has too many rows");
            };
            rows = end;
            selectors.push(match number % 2 {
                0 => RowSelector::skip(run),
                _ => RowSelector::select(run),
            });
        }
        Ok(self.selected.then(|| RowSelection::from(selectors)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_survive_the_wire() {
        let skip = RowSelector::skip;
        let select = RowSelector::select;
        for selectors in [
            vec![],
            vec![skip(3)],
            vec![select(4)],
            vec![select(1), skip(2), select(3)],
            vec![skip(5), select(1), skip(7)],
        ] {
            let selection = RowSelection::from(selectors);
            let bytes = FileRows::of(Some(&selection)).encode_to_vec();
            let read = FileRows::decode(bytes.as_slice()).unwrap();
            assert_eq!(read.selection().unwrap(), Some(selection));
        }
        assert_eq!(FileRows::of(None).selection().unwrap(), None);
    }

    #[test]
    fn an_operator_of_another_build_is_refused_also_with_the_same_version() {
        let mut envelope = Envelope::of(Operator::Ballista(vec![1]));
        let bytes = envelope.encode_to_vec();
        assert_eq!(Envelope::open(&bytes).unwrap(), Operator::Ballista(vec![1]));
        let version = env!("CARGO_PKG_VERSION");
        let of_other_sources = format!("{version}+0000000000000000");
        for other in ["0.0.1", version, &of_other_sources] {
            envelope.build = other.to_owned();
            let refused = Envelope::open(&envelope.encode_to_vec()).unwrap_err();
            let refused = refused.to_string();
            assert!(
                refused.contains(&format!("gristmill {other}, ")),
                "{refused}"
            );
            assert!(refused.contains(BUILD), "{refused}");
        }
        assert!(Envelope::open(b"\xff").is_err());
        assert!(Envelope::open(b"").is_err());
    }

    #[test]
    fn the_key_of_jobs_survives_the_wire_and_is_not_printed() {
        let work = SegmentWork {
            location: "/lake".to_owned(),
            key: vec![77; 32],
        };
        let bytes = Envelope::of(Operator::Segments(work.clone())).encode_to_vec();
        let read = Envelope::open(&bytes).unwrap();
        let printed = format!("{read:?}");
        assert!(printed.contains("/lake"), "{printed}");
        assert!(!printed.contains("77"), "{printed}");
        assert_eq!(read, Operator::Segments(work));
    }

    #[test]
    fn a_selection_beyond_all_counts_is_refused() {
        let rows = FileRows {
            selected: true,
            runs: vec![u64::MAX, u64::MAX],
        };
        assert!(rows.selection().is_err());
    }
}

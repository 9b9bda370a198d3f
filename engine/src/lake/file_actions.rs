//! The actions of Delta's log about a data file, and their tags.

use std::collections::HashMap;

use deltalake::kernel::{Add, LogicalFileView, Remove};
use gristmill_schemas::columns::GRAINS;

use super::column_statistics::statistics_of;
use super::row_versions::RowVersions;
use super::table::{DataFile, Table, delta_error};
use crate::error::Result;
use crate::file_digest::FileDigest;
use crate::segment::{CreationSeconds, SegmentId};

/// The tag of an `add` action with the digest of the data file.
const DIGEST_TAG: &str = "gristmill.blake3";

/// The tag of an `add` action with the creation seconds of a segment's grains.
const SECONDS_TAG: &str = "gristmill.createdSeconds";

/// The tag of an `add` action with the digest of a segment's Parquet footer.
const FOOTER_TAG: &str = "gristmill.footer";

/// The tag of an `add` action with the number of rows of a segment that supersede others.
const SUPERSEDING_TAG: &str = "gristmill.supersedingRows";

/// The tag of an `add` action with the number of rows of a segment that are disclosed copies.
const DISCLOSED_TAG: &str = "gristmill.disclosedRows";

/// The tag of an `add` action with the versions at which the file's rows were added.
const VERSIONS_TAG: &str = "gristmill.rowVersions";

/// The tags of an `add` action about a data file.
#[derive(Default)]
pub(super) struct FileTags {
    pub(super) digest: Option<FileDigest>,
    pub(super) seconds: Option<CreationSeconds>,
    pub(super) footer: Option<FileDigest>,
    pub(super) superseding: Option<u64>,
    pub(super) disclosed: Option<u64>,
    pub(super) versions: Option<RowVersions>,
}

impl FileTags {
    /// Reads the tags of `file`. Unreadable ones count as missing.
    pub(super) fn of(file: &LogicalFileView) -> FileTags {
        // The library has no other access to the tags of a file.
        #[expect(deprecated)]
        let Some(mut tags) = file.add_action().tags else {
            return FileTags::default();
        };
        let mut tag = |name| tags.remove(name).flatten();
        FileTags {
            digest: tag(DIGEST_TAG).and_then(|text| text.parse().ok()),
            seconds: tag(SECONDS_TAG).and_then(|text| text.parse().ok()),
            footer: tag(FOOTER_TAG).and_then(|text| text.parse().ok()),
            superseding: tag(SUPERSEDING_TAG).and_then(|text| text.parse().ok()),
            disclosed: tag(DISCLOSED_TAG).and_then(|text| text.parse().ok()),
            versions: tag(VERSIONS_TAG).and_then(|text| text.parse().ok()),
        }
    }

    /// Returns the tags of `file`, whose rows were added at `versions`, for its `add` action.
    fn written(
        file: &DataFile,
        versions: Option<&RowVersions>,
    ) -> Option<HashMap<String, Option<String>>> {
        let digest = file.digest.map(|digest| digest.to_string());
        let seconds = file.seconds.as_ref().map(CreationSeconds::to_string);
        let footer = file.footer.map(|footer| footer.to_string());
        let superseding = file.superseding.map(|rows| rows.to_string());
        let disclosed = file.disclosed.map(|rows| rows.to_string());
        let versions = versions.map(RowVersions::to_string);
        let all = [
            (DIGEST_TAG, digest),
            (SECONDS_TAG, seconds),
            (FOOTER_TAG, footer),
            (SUPERSEDING_TAG, superseding),
            (DISCLOSED_TAG, disclosed),
            (VERSIONS_TAG, versions),
        ];
        let tags: HashMap<_, _> = all
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), Some(value?))))
            .collect();
        (!tags.is_empty()).then_some(tags)
    }
}

/// Returns the action that adds `file`, whose rows were added at `versions`. `now` is in
/// milliseconds since 1970.
pub(super) fn add_action(
    file: &DataFile,
    versions: Option<&RowVersions>,
    changes_rows: bool,
    now: i64,
) -> Add {
    Add {
        path: file.name.clone(),
        size: file.size as i64,
        modification_time: now,
        data_change: changes_rows,
        stats: Some(statistics_of(file)),
        partition_values: HashMap::new(),
        tags: FileTags::written(file, versions),
        deletion_vector: None,
        base_row_id: None,
        default_row_commit_version: None,
        clustering_provider: None,
    }
}

/// Returns the action that removes `file`. `now` is in milliseconds since 1970.
pub(super) fn remove_action(file: &DataFile, changes_rows: bool, now: i64) -> Remove {
    Remove {
        path: file.name.clone(),
        data_change: changes_rows,
        deletion_timestamp: Some(now),
        extended_file_metadata: Some(true),
        partition_values: Some(HashMap::new()),
        size: Some(file.size as i64),
        ..Default::default()
    }
}

/// Why rows that another engine deleted are still read.
const HAS_DELETED_ROWS: &str = "another engine deleted rows of it by a deletion vector, which this \
                                program doesn't apply: it still reads them";

/// Why rows that another engine added aren't read.
const IS_NO_SEGMENT: &str = "its name isn't that of a segment: other engines read its rows, and \
                             this program doesn't";

impl Table {
    /// Returns the live files of which this program reads other rows than other engines, each with
    /// the reason. Other engines made them.
    ///
    /// # Errors
    /// [`EngineError::Delta`](crate::error::EngineError::Delta).
    pub(crate) fn misread_files(&self) -> Result<Vec<(String, &'static str)>> {
        let fault = delta_error("can't read the log", self.name());
        let misread = |file: LogicalFileView| {
            let name = file.path().into_owned();
            let is_segment = self.name() != GRAINS || SegmentId::of_file(&name).is_some();
            match file.deletion_vector_descriptor() {
                Some(_) => Some((name, HAS_DELETED_ROWS)),
                None => (!is_segment).then_some((name, IS_NO_SEGMENT)),
            }
        };
        let state = self.delta().snapshot().map_err(fault)?;
        Ok(state.log_data().iter().filter_map(misread).collect())
    }
}

//! A bundle with all of a lake whose grains were converted: they have other addresses, which events
//! name, too.

use std::path::PathBuf;

use gristmill_connectors::source::{Source, SourceLocation};
use gristmill_connectors::transcript::changes::CHANGE_BUNDLE;
use gristmill_schemas::address::ContentAddress;

use super::bundle::{BundleHeader, BundleWriter, ChangeLine, EventLine};
use super::events::each_event;
use super::export::{row_event, write_erasures};
use super::position::LakePosition;
use crate::error::{Context, Result};
use crate::export::Target;
use crate::file_digest::FileDigest;
use crate::lake::{Lake, LakeFile, row_supersessions};

/// Writes the bundle.
pub(crate) struct MigratedChanges {
    path: PathBuf,
    bundle: BundleWriter,
}

impl MigratedChanges {
    /// Returns what bundles of the migration `job` of `lake` name as the lake of their origin.
    pub(crate) fn origin(lake: &Lake, job: &str) -> String {
        format!("{}/{}", lake.audit.id(), FileDigest::of(job.as_bytes()))
    }

    /// Begins the bundle of `lake` at `path`. Bundles of the same `job` have the same origin.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(crate) fn begin(lake: &Lake, job: &str, path: PathBuf) -> Result<MigratedChanges> {
        let header = BundleHeader {
            format: CHANGE_BUNDLE.to_owned(),
            lake: MigratedChanges::origin(lake, job),
            from: LakePosition::default(),
            to: LakePosition::of(lake),
        };
        let target = Target::at(path.clone(), true)?;
        Ok(MigratedChanges {
            path,
            bundle: BundleWriter::begin(target.begin()?, header)?,
        })
    }

    /// Adds the grain `address` that is delivered as `bytes`.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(crate) fn add_grain(&mut self, address: &ContentAddress, bytes: &[u8]) -> Result<()> {
        let blob = hex::encode(bytes);
        let line = format!("{{\"content_address\":\"{address}\",\"blob_hex\":\"{blob}\"}}\n");
        self.bundle.push_grain(&line)
    }

    /// Adds all events, supersessions by the column `supersedes`, and tombstones of `lake`.
    /// `new_address` returns the new address of a grain of the lake.
    ///
    /// # Errors
    /// Errors of the lake, and of `new_address`.
    pub(crate) async fn add_state(
        &mut self,
        lake: &Lake,
        new_address: impl Fn(&ContentAddress) -> Result<Option<ContentAddress>>,
    ) -> Result<()> {
        let moved = |text: &str| -> Result<Option<String>> {
            let Ok(old) = text.parse() else {
                return Ok(None);
            };
            Ok(new_address(&old)?.map(|new| new.to_string()))
        };
        let migrated = |mut event: EventLine| -> Result<ChangeLine> {
            if let Some(new) = moved(&event.content_address)? {
                event.content_address = new;
            }
            if let Some(new) = event.value.as_deref().map(&moved).transpose()?.flatten() {
                event.value = Some(new);
            }
            Ok(ChangeLine::Event(event))
        };
        let bundle = &mut self.bundle;
        write_erasures(lake, 0, bundle).await?;
        for file in lake.state.files()? {
            each_event(lake, &file, |event| bundle.push(&migrated(event)?)).await?;
        }
        for segment in lake.segments()? {
            let file = LakeFile::open(lake, &lake.grains.path_of(&segment.file.name)).await?;
            for link in row_supersessions(&file)? {
                bundle.push(&migrated(row_event(link))?)?;
            }
        }
        Ok(())
    }

    /// Completes the bundle. Returns it as a source.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(crate) fn finish(self) -> Result<Source> {
        let (output, end) = self.bundle.finish()?;
        let file = output.finish(end.added)?;
        let uri = self.path.to_str().ok_or("its path isn't Unicode");
        Ok(Source {
            uri: uri.file("can't read", self.path.display())?.to_owned(),
            location: SourceLocation::File(self.path),
            length: Some(file.bytes),
            time: None,
        })
    }
}

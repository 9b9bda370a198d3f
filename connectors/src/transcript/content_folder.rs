//! Embedded images and documents as files: grains refer to content and don't contain it (§7).
//!
//! A file is named by the SHA-256 of its bytes, so that equal content is one file, and writing it
//! again changes nothing. It appears as a whole or not at all.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::grains::ContentReference;
use gristmill_schemas::message::{ContentBlock, ImageSource, Message};

use crate::ConnectorError;

/// A folder to which the embedded content of transcripts is written.
#[derive(Debug)]
pub struct ContentFolder {
    folder: PathBuf,
    /// True if nothing is written.
    dry_run: bool,
    /// The files that are there.
    written: Mutex<HashSet<ContentAddress>>,
    /// The first error since it was taken.
    failure: Mutex<Option<io::Error>>,
}

impl ContentFolder {
    /// Returns the folder at `path`, which is created. A dry run writes nothing.
    ///
    /// # Errors
    /// [`ConnectorError::Io`] if it can't be created.
    pub fn open(path: &Path, dry_run: bool) -> Result<ContentFolder, ConnectorError> {
        if !dry_run {
            std::fs::create_dir_all(path).map_err(ConnectorError::io("can't create", path))?;
        }
        Ok(ContentFolder {
            folder: path.to_owned(),
            dry_run,
            written: Mutex::default(),
            failure: Mutex::default(),
        })
    }

    /// Returns an error if content couldn't be written since the last call; it is still embedded in
    /// its message.
    ///
    /// # Errors
    /// [`ConnectorError::Io`].
    pub(super) fn check(&self) -> Result<(), ConnectorError> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match failure.take() {
            Some(error) => Err(ConnectorError::io("can't write to", &self.folder)(error)),
            None => Ok(()),
        }
    }

    /// Writes the embedded content of `message` to files. Returns the message with references
    /// instead, and the references; `None` if it has no embedded content.
    pub(super) fn extract<'m>(
        &self,
        message: &Message<'m>,
    ) -> Option<(Message<'m>, Vec<ContentReference>)> {
        let raw = message.metadata.provider_raw.iter();
        let is_embedding = message.content.iter().any(embeds)
            || raw
                .flat_map(|raw| raw.iter())
                .any(|(_, json)| embeds_json(json));
        if !is_embedding {
            return None;
        }
        let (mut message, mut references) = (message.clone(), Vec::new());
        for block in &mut message.content {
            self.extract_block(block, &mut references);
        }
        if let Some(raw) = &mut message.metadata.provider_raw {
            raw.iter_mut()
                .for_each(|(_, json)| self.extract_json(json, &mut references));
        }
        let mut seen = HashSet::new();
        references.retain(|reference| seen.insert(reference.address));
        Some((message, references))
    }

    fn extract_block(&self, block: &mut ContentBlock<'_>, references: &mut Vec<ContentReference>) {
        match block {
            ContentBlock::Image(image) => {
                if let ImageSource::Base64(data) = &image.source
                    && let Some(reference) = self.write_base64(data, &image.media_type)
                {
                    image.source = ImageSource::Url(Cow::Owned(reference.uri()));
                    references.push(reference);
                }
            }
            ContentBlock::ToolResult(result) => result
                .content
                .iter_mut()
                .for_each(|block| self.extract_block(block, references)),
            ContentBlock::Unknown(unknown) => self.extract_json(&mut unknown.json, references),
            _ => {}
        }
    }

    /// Replaces the sources of documents and images in a provider's JSON.
    fn extract_json(&self, json: &mut Json<'_>, references: &mut Vec<ContentReference>) {
        match json {
            Json::Array(items) => items
                .iter_mut()
                .for_each(|item| self.extract_json(item, references)),
            Json::Object(object) => {
                let written = embedded_source(object)
                    .and_then(|(data, media_type)| self.write_base64(data, media_type));
                match written {
                    Some(reference) => {
                        object.remove("data");
                        object.insert("type", "url");
                        object.insert("url", reference.uri());
                        references.push(reference);
                    }
                    None => object
                        .iter_mut()
                        .for_each(|(_, member)| self.extract_json(member, references)),
                }
            }
            _ => {}
        }
    }

    /// Writes the content `data`. Returns `None` if that isn't base64, or can't be written.
    fn write_base64(&self, data: &str, media_type: &str) -> Option<ContentReference> {
        let bytes = STANDARD.decode(data).ok()?;
        let address = ContentAddress::of(&bytes);
        if let Err(error) = self.write(&address, &bytes) {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
            return None;
        }
        Some(ContentReference {
            address,
            media_type: media_type.to_owned(),
            size: bytes.len() as u64,
        })
    }

    fn write(&self, address: &ContentAddress, bytes: &[u8]) -> io::Result<()> {
        let known = || self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if self.dry_run || known().contains(address) {
            return Ok(());
        }
        let path = self.folder.join(address.to_string());
        let is_there = std::fs::metadata(&path).is_ok_and(|it| it.len() == bytes.len() as u64);
        if !is_there {
            let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
            file.write_all(bytes)?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)?;
        }
        known().insert(*address);
        Ok(())
    }
}

/// Returns true if `block` may have embedded content.
fn embeds(block: &ContentBlock<'_>) -> bool {
    match block {
        ContentBlock::Image(image) => matches!(image.source, ImageSource::Base64(_)),
        ContentBlock::ToolResult(result) => result.content.iter().any(embeds),
        ContentBlock::Unknown(unknown) => embeds_json(&unknown.json),
        _ => false,
    }
}

/// Returns true if a source in `json` may be embedded.
fn embeds_json(json: &Json<'_>) -> bool {
    match json {
        Json::Array(items) => items.iter().any(embeds_json),
        Json::Object(object) => {
            embedded_source(object).is_some()
                || object.iter().any(|(_, member)| embeds_json(member))
        }
        _ => false,
    }
}

/// Returns data and media type if `object` is an embedded source: `{"type": "base64", "media_type":
/// …, "data": …}`.
fn embedded_source<'o>(object: &'o Object<'_>) -> Option<(&'o str, &'o str)> {
    let text = |name| object.get(name).and_then(Json::as_str);
    let is_base64 = text("type") == Some("base64");
    text("data").zip(text("media_type")).filter(|_| is_base64)
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::message::block::{ImageBlock, Origin, ToolResultBlock, UnknownBlock};
    use gristmill_schemas::message::{Role, Timestamp};

    use super::*;

    /// `%PNG` and `%PDF` in base64.
    const PNG: &str = "JVBORw==";
    const PDF: &str = "JVBERg==";

    fn image(data: &str) -> ContentBlock<'static> {
        ContentBlock::Image(ImageBlock {
            source: ImageSource::Base64(data.to_owned().into()),
            media_type: "image/png".into(),
        })
    }

    fn message(content: Vec<ContentBlock<'static>>) -> Message<'static> {
        Message::new("m", "s", Role::User, content, Timestamp::from_micros(0))
    }

    fn document() -> Json<'static> {
        let text = format!(
            r#"{{"type":"document","source":{{"type":"base64","media_type":"application/pdf","data":"{PDF}"}}}}"#
        );
        Json::parse(text.as_bytes()).unwrap().into_owned()
    }

    #[test]
    fn embedded_content_becomes_files_once_and_references() {
        let folder = tempfile::tempdir().unwrap();
        let content = ContentFolder::open(&folder.path().join("content"), false).unwrap();
        let result = ContentBlock::ToolResult(ToolResultBlock {
            tool_use_id: "t".into(),
            content: vec![image(PNG)],
            is_error: false,
        });
        let unknown = ContentBlock::Unknown(UnknownBlock {
            origin: Origin::Wire("anthropic".into()),
            json: document(),
        });
        let message = message(vec![image(PNG), result, unknown]);
        for _ in 0..2 {
            let (changed, references) = content.extract(&message).unwrap();
            let sizes: Vec<_> = references
                .iter()
                .map(|it| (it.modality(), it.size))
                .collect();
            assert_eq!(sizes, [("image", 4), ("document", 4)]);
            assert!(content.extract(&changed).is_none());
            let ContentBlock::Image(first) = &changed.content[0] else {
                panic!("no image")
            };
            assert_eq!(first.source.data(), references[0].uri());
            for reference in &references {
                let path = folder
                    .path()
                    .join("content")
                    .join(reference.address.to_string());
                let bytes = std::fs::read(path).unwrap();
                assert_eq!(ContentAddress::of(&bytes), reference.address);
            }
        }
        let files = std::fs::read_dir(folder.path().join("content")).unwrap();
        assert_eq!(files.count(), 2);
        content.check().unwrap();
    }

    #[test]
    fn a_damaged_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let address = ContentAddress::of(&STANDARD.decode(PNG).unwrap());
        let path = folder.path().join(address.to_string());
        std::fs::write(&path, b"cut").unwrap();
        let content = ContentFolder::open(folder.path(), false).unwrap();
        content.extract(&message(vec![image(PNG)])).unwrap();
        assert_eq!(ContentAddress::of(&std::fs::read(path).unwrap()), address);
    }

    #[test]
    fn what_is_not_embedded_or_not_base64_stays() {
        let folder = tempfile::tempdir().unwrap();
        let content = ContentFolder::open(folder.path(), false).unwrap();
        assert!(
            content
                .extract(&message(vec![ContentBlock::text("a")]))
                .is_none()
        );
        let odd = message(vec![image("not base64!")]);
        let (same, references) = content.extract(&odd).unwrap();
        assert_eq!((same, references.len()), (odd, 0));
        content.check().unwrap();
    }

    #[test]
    fn a_failure_to_write_is_an_error_and_a_dry_run_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("content");
        let dry = ContentFolder::open(&path, true).unwrap();
        assert!(dry.extract(&message(vec![image(PNG)])).is_some());
        assert!(!path.exists());
        let content = ContentFolder::open(&path, false).unwrap();
        std::fs::remove_dir(&path).unwrap();
        let (_, references) = content.extract(&message(vec![image(PNG)])).unwrap();
        assert!(references.is_empty());
        assert!(content.check().is_err());
        content.check().unwrap();
    }
}

//! References to content that isn't part of a grain (§7.1).

use crate::address::ContentAddress;
use crate::json::Object;

/// A reference to content that is stored under the SHA-256 of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentReference {
    /// The SHA-256.
    pub address: ContentAddress,
    /// The IANA media type.
    pub media_type: String,
    /// The size in bytes.
    pub size: u64,
}

impl ContentReference {
    /// Returns the URI of the content.
    pub fn uri(&self) -> String {
        format!("cas://{}", self.checksum())
    }

    /// Returns the modality of the content by its media type.
    pub fn modality(&self) -> &'static str {
        let (class, subtype) = self
            .media_type
            .split_once('/')
            .unwrap_or((&self.media_type, ""));
        match class {
            "image" => "image",
            "audio" => "audio",
            "video" => "video",
            "text" => "document",
            _ if subtype == "pdf" => "document",
            _ => "binary",
        }
    }

    fn checksum(&self) -> String {
        format!("sha256:{}", self.address)
    }

    /// Returns the entry of `content_refs`.
    pub(super) fn to_json(&self) -> Object<'_> {
        let mut entry = Object::new();
        entry.insert("uri", self.uri());
        entry.insert("modality", self.modality());
        entry.insert("mime_type", &*self.media_type);
        entry.insert("size_bytes", self.size);
        entry.insert("checksum", self.checksum());
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_media_type_decides_the_modality() {
        let modality = |media_type: &str| {
            let reference = ContentReference {
                address: ContentAddress::of(b""),
                media_type: media_type.to_owned(),
                size: 0,
            };
            reference.modality()
        };
        let types = [
            "image/png",
            "audio/wav",
            "application/pdf",
            "text/plain",
            "zip",
            "",
        ];
        let expected = ["image", "audio", "document", "document", "binary", "binary"];
        assert_eq!(types.map(modality), expected);
    }
}

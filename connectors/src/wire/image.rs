//! Images: data URIs, media types by file extension, and image files of a workspace.

use std::fs;
use std::path::{Component, Path, PathBuf};

use gristmill_schemas::json::Json;
use gristmill_schemas::message::block::{ImageBlock, ImageSource};

use super::message_writer::{MessageWriter, Workspace};

/// The largest image file that is sent, in bytes.
pub const IMAGE_LIMIT_BYTES: u64 = 32 << 20;

/// The media type of an image without a known type.
pub const ASSUMED_IMAGE_TYPE: &str = "image/png";

/// Returns the media type by a path's extension; PNG if the extension is unknown.
pub fn media_type_of_path(path: &str) -> &'static str {
    let extension = path
        .rsplit_once('.')
        .map(|(_, extension)| extension.to_ascii_lowercase());
    match extension.as_deref() {
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("gif") => "image/gif",
        Some("webp") => "image/webp",
        _ => ASSUMED_IMAGE_TYPE,
    }
}

/// Returns the media type and the base64 text of a base64 data URI, or `None` for another URI.
pub fn parse_data_uri(uri: &str) -> Option<(&str, &str)> {
    let (head, data) = uri.strip_prefix("data:")?.split_once(',')?;
    Some((head.strip_suffix(";base64")?, data))
}

/// Returns the media type of an image in the file at `path`: the declared one, else by extension.
pub(super) fn media_type_of_file<'m>(image: &'m ImageBlock<'m>, path: &str) -> &'m str {
    if image.media_type.is_empty() {
        media_type_of_path(path)
    } else {
        &image.media_type
    }
}

/// Returns the URL of an image, or a data URI with its bytes; `None` if its file can't be read.
pub(super) fn image_url<'m>(
    image: &'m ImageBlock<'m>,
    writer: &MessageWriter<'_>,
) -> Option<Json<'m>> {
    Some(match &image.source {
        ImageSource::Url(url) => Json::from(&**url),
        ImageSource::Base64(data) => Json::from(format!("data:{};base64,{data}", image.media_type)),
        ImageSource::FileRef(path) => {
            let data = writer.file_base64(path)?;
            let media_type = media_type_of_file(image, path);
            Json::from(format!("data:{media_type};base64,{data}"))
        }
    })
}

/// A workspace that is a local folder.
#[derive(Debug, Clone)]
pub struct FolderWorkspace {
    root: PathBuf,
}

impl FolderWorkspace {
    /// Opens the folder at `root`.
    ///
    /// # Errors
    /// If the folder doesn't exist or can't be resolved.
    pub fn new(root: impl AsRef<Path>) -> std::io::Result<Self> {
        Ok(FolderWorkspace {
            root: fs::canonicalize(root)?,
        })
    }
}

impl Workspace for FolderWorkspace {
    /// Reads a file inside the folder. Paths that leave it (`..`, absolute paths, links) return
    /// `None`.
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        let relative = Path::new(path);
        if !relative
            .components()
            .all(|step| matches!(step, Component::Normal(_) | Component::CurDir))
        {
            return None;
        }
        let file = fs::canonicalize(self.root.join(relative)).ok()?;
        let inside = file.starts_with(&self.root);
        let small = fs::metadata(&file)
            .is_ok_and(|found| found.is_file() && found.len() <= IMAGE_LIMIT_BYTES);
        if inside && small {
            fs::read(file).ok()
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_follow_the_extension() {
        for (path, media_type) in [
            ("foo.PNG", "image/png"),
            ("a/b.jpg", "image/jpeg"),
            ("x.JPEG", "image/jpeg"),
            ("foo", "image/png"),
            ("a.b/c", "image/png"),
        ] {
            assert_eq!(media_type_of_path(path), media_type, "{path}");
        }
        assert_eq!(
            parse_data_uri("data:image/png;base64,QUFB"),
            Some(("image/png", "QUFB"))
        );
        for uri in ["data:image/png,x", "https://x", "data:;base64"] {
            assert_eq!(parse_data_uri(uri), None, "{uri}");
        }
    }

    #[test]
    fn files_outside_the_workspace_are_not_read() {
        let folder =
            std::env::temp_dir().join(format!("gristmill-workspace-{}", std::process::id()));
        fs::create_dir_all(folder.join("root/sub")).unwrap();
        fs::write(folder.join("secret.png"), b"no").unwrap();
        fs::write(folder.join("root/sub/a.png"), b"yes").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(folder.join("secret.png"), folder.join("root/link.png"))
            .unwrap();
        let workspace = FolderWorkspace::new(folder.join("root")).unwrap();
        assert_eq!(workspace.read("sub/./a.png").as_deref(), Some(&b"yes"[..]));
        let absolute = folder.join("secret.png").display().to_string();
        for path in [
            "../secret.png",
            "link.png",
            "none.png",
            "sub",
            absolute.as_str(),
        ] {
            assert_eq!(workspace.read(path), None, "{path}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}

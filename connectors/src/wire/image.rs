//! Images: data URIs, media types by file name, and files of a workspace.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::write::Workspace;

/// The longest image file that is sent, in bytes.
pub const IMAGE_LIMIT_BYTES: u64 = 32 << 20;

/// The media type of an image whose type nobody tells.
pub const ASSUMED_IMAGE_TYPE: &str = "image/png";

/// The media type by a path's extension; PNG if it tells nothing.
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

/// The media type and the base64 text of a data URI in base64.
pub fn parse_data_uri(uri: &str) -> Option<(&str, &str)> {
    let (head, data) = uri.strip_prefix("data:")?.split_once(',')?;
    Some((head.strip_suffix(";base64")?, data))
}

/// A folder whose files messages may refer to.
#[derive(Debug, Clone)]
pub struct FolderWorkspace {
    root: PathBuf,
}

impl FolderWorkspace {
    /// The folder at `root`.
    ///
    /// # Errors
    /// If it can't be found.
    pub fn new(root: impl AsRef<Path>) -> std::io::Result<Self> {
        Ok(FolderWorkspace {
            root: fs::canonicalize(root)?,
        })
    }
}

impl Workspace for FolderWorkspace {
    /// No way out: neither by `..`, nor by an absolute path, nor by a link.
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
    fn nothing_outside_the_workspace_can_be_read() {
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

//! Checks of the name of a lake, before anything is created there.

use std::ffi::OsStr;
use std::path::{Component, Path};

use crate::error::{EngineError, Result};

/// Schemes that are no names of folders.
const SCHEMES: [&str; 9] = [
    "s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "https", "file",
];

/// Refuses a URI that lacks slashes after its scheme: it would be the name of a folder.
pub(super) fn check_slashes(uri: &str) -> Result<()> {
    match uri.split_once(':') {
        Some((scheme, rest)) if SCHEMES.contains(&scheme) && !rest.starts_with("//") => {
            Err(EngineError::Request(format!(
                "`{uri}` lacks slashes: a lake is `{scheme}://` and a path, or a folder such as \
                 `./{uri}`"
            )))
        }
        _ => Ok(()),
    }
}

/// Refuses a folder whose absolute path the reader of Delta's logs takes for another one. It
/// decodes the path of a URL twice, and so would read the logs of another folder, which may be a
/// lake, too, while files are written to this one.
pub(super) fn check_folder(folder: &Path) -> Result<()> {
    let mut names = folder.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    match names.find_map(misread_part) {
        Some(part) => Err(EngineError::Request(format!(
            "`{}` can't hold a lake: the reader of Delta's logs takes `{part}` in a path for \
             something else, and would read another folder. Name a folder without it; in a \
             `file://` URI nothing is encoded",
            folder.display()
        ))),
        None => Ok(()),
    }
}

/// Returns the part of the name of a folder that is misread: a percent sign with two hexadecimal
/// digits, a backslash, a control character, or bytes that aren't Unicode.
fn misread_part(name: &OsStr) -> Option<String> {
    let Some(text) = name.to_str() else {
        return Some(name.to_string_lossy().into_owned());
    };
    let is_encoded = |digits: &str| {
        let mut digits = digits.chars();
        let mut is_digit = || digits.next().is_some_and(|digit| digit.is_ascii_hexdigit());
        is_digit() && is_digit()
    };
    text.char_indices().find_map(|(at, letter)| {
        let rest = text.get(at..).unwrap_or_default();
        match letter {
            '%' if rest.get(1..).is_some_and(is_encoded) => rest.get(..3).map(str::to_owned),
            '\\' => Some(letter.to_string()),
            control if control.is_control() => Some(control.escape_default().to_string()),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn folders_that_are_misread_are_refused_with_the_part_that_is() {
        use std::os::unix::ffi::OsStrExt;
        for (folder, part) in [
            ("/in/my%20lake", "`%20`"),
            ("/a%2Fb/lake", "`%2F`"),
            ("/in/100%25", "`%25`"),
            ("/in/a\\b", "`\\`"),
            ("/in/a\nb", "`\\n`"),
        ] {
            let error = check_folder(Path::new(folder)).unwrap_err().to_string();
            assert!(error.contains(part), "{folder:?}: {error}");
        }
        assert!(check_folder(Path::new(OsStr::from_bytes(b"/M\xf6ller/lake"))).is_err());
        for folder in [
            "/in/100%",
            "/%2/5%x0/%é",
            "/my lake/ü#?*[1]'\"&+=~",
            "/日本/..",
        ] {
            assert!(check_folder(Path::new(folder)).is_ok(), "{folder}");
        }
    }
}

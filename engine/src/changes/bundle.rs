//! The lines of a bundle. The first describes it, the last has counts and a checksum.

use std::io::Write;

use gristmill_connectors::source::SourceBytes;
use gristmill_connectors::transcript::changes::CHANGE_BUNDLE;
use serde::{Deserialize, Serialize};

use super::position::LakePosition;
use crate::error::{Context, EngineError, Result};
use crate::export::Output;
use crate::file_digest::FileDigest;

/// How a line of an added grain begins.
const ADDED: &str = r#"{"change":"added","#;

/// A line, except of an added grain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "lowercase")]
pub(super) enum ChangeLine {
    /// The first line.
    Begin(BundleHeader),
    /// A lifecycle event.
    Event(EventLine),
    /// A tombstone.
    Erased(ErasedLine),
    /// The last line.
    End(BundleEnd),
}

/// What a bundle is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BundleHeader {
    /// The name and version of the format.
    pub(super) format: String,
    /// The id of the lake that it comes from.
    pub(super) lake: String,
    /// The position whose successors it has.
    pub(super) from: LakePosition,
    /// The position up to which it has them.
    pub(super) to: LakePosition,
}

/// A row of `state`, or a supersession by the column `supersedes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EventLine {
    pub(super) content_address: String,
    pub(super) event: String,
    pub(super) value: Option<String>,
    /// Microseconds since 1970.
    pub(super) at: i64,
    pub(super) actor: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) source_id: Option<String>,
}

/// A row of `erased`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ErasedLine {
    pub(super) key: String,
    pub(super) token: String,
    pub(super) erasure_id: String,
    /// Microseconds since 1970.
    pub(super) at: i64,
}

/// Counts of the lines, and the BLAKE3 of the whole bundle with an empty text in its place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BundleEnd {
    pub(super) added: u64,
    pub(super) events: u64,
    pub(super) erased: u64,
    pub(super) blake3: String,
}

/// Writes the lines of a bundle.
pub(super) struct BundleWriter {
    pub(super) out: Output,
    hasher: blake3::Hasher,
    end: BundleEnd,
}

impl BundleWriter {
    /// Begins a bundle at `out`.
    pub(super) fn begin(out: Output, header: BundleHeader) -> Result<BundleWriter> {
        let mut writer = BundleWriter {
            out,
            hasher: blake3::Hasher::new(),
            end: BundleEnd::default(),
        };
        writer.push(&ChangeLine::Begin(header))?;
        Ok(writer)
    }

    /// Writes a line of an event or an erasure.
    pub(super) fn push(&mut self, line: &ChangeLine) -> Result<()> {
        match line {
            ChangeLine::Event(_) => self.end.events += 1,
            ChangeLine::Erased(_) => self.end.erased += 1,
            ChangeLine::Begin(_) | ChangeLine::End(_) => {}
        }
        self.write(text_of(line)?.as_bytes())
    }

    /// Writes the line of an added grain; `line` is an object with a line end, as in an export to
    /// JSON Lines.
    pub(super) fn push_grain(&mut self, line: &str) -> Result<()> {
        self.end.added += 1;
        self.write(ADDED.as_bytes())?;
        self.write(line.strip_prefix('{').unwrap_or(line).as_bytes())
    }

    /// Writes the last line. Returns the output and the counts.
    pub(super) fn finish(mut self) -> Result<(Output, BundleEnd)> {
        let line = text_of(&ChangeLine::End(self.end.clone()))?;
        let digest = self.hasher.update(line.as_bytes()).finalize();
        self.end.blake3 = FileDigest::from(digest).to_string();
        let line = text_of(&ChangeLine::End(self.end.clone()))?;
        self.write(line.as_bytes())?;
        Ok((self.out, self.end))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        let written = self.out.write_all(bytes);
        self.out.target().fault(written)
    }
}

/// Returns the text of a line, with its end.
fn text_of(line: &ChangeLine) -> Result<String> {
    let mut text = serde_json::to_string(line).file("can't write", "a change")?;
    text.push('\n');
    Ok(text)
}

/// A bundle that is complete and undamaged.
pub(super) struct Bundle {
    uri: String,
    bytes: SourceBytes,
    pub(super) header: BundleHeader,
    pub(super) end: BundleEnd,
}

impl Bundle {
    /// Opens the bundle in `bytes`, which were read from `uri`, and compares them with their
    /// checksum.
    ///
    /// # Errors
    /// [`EngineError::Request`] if they aren't a bundle; [`EngineError::Damaged`] if they aren't
    /// what was written, or not all of it.
    pub(super) fn open(uri: &str, bytes: SourceBytes) -> Result<Bundle> {
        let first = bytes.lines().next();
        let header = match first.map(serde_json::from_slice::<ChangeLine>) {
            Some(Ok(ChangeLine::Begin(header))) if header.format == CHANGE_BUNDLE => header,
            Some(Ok(ChangeLine::Begin(header))) => {
                return Err(EngineError::Request(format!(
                    "`{uri}` has the format `{}`; this program reads `{CHANGE_BUNDLE}`",
                    header.format
                )));
            }
            _ => {
                return Err(EngineError::Request(format!(
                    "`{uri}` isn't a bundle of changes: `export --since` writes them; without \
                     --changes other sources are ingested"
                )));
            }
        };
        let end = checked_end(&bytes).map_err(|cause| EngineError::Damaged {
            what: format!("`{uri}`"),
            cause: cause.to_owned(),
            remedy: "copy it again, or export the changes again; nothing of it was applied",
        })?;
        Ok(Bundle {
            uri: uri.to_owned(),
            bytes,
            header,
            end,
        })
    }

    /// Calls `visit` with every event and erasure, in their order.
    ///
    /// # Errors
    /// [`EngineError::File`] if a line isn't of this format; errors of `visit`.
    pub(super) fn each(&self, mut visit: impl FnMut(ChangeLine) -> Result<()>) -> Result<()> {
        for line in self.bytes.lines() {
            if line.is_empty() || line.starts_with(ADDED.as_bytes()) {
                continue;
            }
            visit(serde_json::from_slice(line).file("can't read", &self.uri)?)?;
        }
        Ok(())
    }

    /// Returns its events.
    pub(super) fn events(&self) -> impl Iterator<Item = Result<EventLine>> {
        let is_event = |line: &&[u8]| line.starts_with(br#"{"change":"event""#);
        self.bytes.lines().filter(is_event).map(|line| {
            match serde_json::from_slice(line).file("can't read", &self.uri)? {
                ChangeLine::Event(event) => Ok(event),
                _ => Err("a line isn't an event").file("can't read", &self.uri),
            }
        })
    }
}

/// Returns the last line of a bundle, whose checksum must be that of the bundle.
fn checked_end(bytes: &SourceBytes) -> Result<BundleEnd, &'static str> {
    let truncated = "it has no last line with a checksum: it was cut off";
    let lines = bytes.strip_suffix(b"\n").ok_or(truncated)?;
    let last_break = lines.iter().rposition(|byte| *byte == b'\n');
    let start = last_break.ok_or(truncated)? + 1;
    let last = bytes.get(start..).ok_or(truncated)?;
    let Ok(ChangeLine::End(end)) = serde_json::from_slice(last) else {
        return Err(truncated);
    };
    let blank = BundleEnd {
        blake3: String::new(),
        ..end.clone()
    };
    let text = |end| text_of(&ChangeLine::End(end)).unwrap_or_default();
    let mut hasher = blake3::Hasher::new();
    bytes.for_each_chunk(0..start, |chunk| {
        hasher.update(chunk);
    });
    hasher.update(text(blank).as_bytes());
    let is_sound = FileDigest::from(hasher.finalize()).to_string() == end.blake3
        && text(end.clone()).as_bytes() == last;
    match is_sound {
        true if counted(bytes) == Some([end.added, end.events, end.erased]) => Ok(end),
        true => Err("its last line states other numbers of lines than it has"),
        false => Err("its bytes don't have the checksum in its last line"),
    }
}

/// How lines begin: those that the last line counts, in the order of its members, and the others.
const LINES: [&str; 5] = [
    ADDED,
    r#"{"change":"event","#,
    r#"{"change":"erased","#,
    r#"{"change":"begin","#,
    r#"{"change":"end","#,
];

/// Counts the lines of grains, events and erasures. `None` if a line begins in another way: its
/// readers would pass over it.
fn counted(bytes: &SourceBytes) -> Option<[u64; 3]> {
    let mut counts = [0; 3];
    for line in bytes.lines().filter(|line| !line.is_empty()) {
        let mut forms = LINES.iter();
        let form = forms.position(|form| line.starts_with(form.as_bytes()))?;
        if let Some(count) = counts.get_mut(form) {
            *count += 1;
        }
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle() -> Vec<u8> {
        let end = BundleEnd {
            events: 1,
            ..BundleEnd::default()
        };
        bundle_of(end, |event| event)
    }

    /// Returns a bundle whose last line is `end`, and whose line of an event is `edit`ed.
    fn bundle_of(mut end: BundleEnd, edit: impl Fn(String) -> String) -> Vec<u8> {
        let header = ChangeLine::Begin(BundleHeader {
            format: CHANGE_BUNDLE.to_owned(),
            lake: "a".to_owned(),
            from: LakePosition::default(),
            to: "2.1.0".parse().unwrap(),
        });
        let event = ChangeLine::Event(EventLine {
            content_address: "00".repeat(32),
            event: "expired".to_owned(),
            value: None,
            at: 5,
            actor: Some("a \"quoted\" name".to_owned()),
            reason: None,
            source_id: None,
        });
        let mut text = text_of(&header).unwrap();
        text.push_str(&edit(text_of(&event).unwrap()));
        let blank = text_of(&ChangeLine::End(end.clone())).unwrap();
        end.blake3 = FileDigest::of(format!("{text}{blank}").as_bytes()).to_string();
        text.push_str(&text_of(&ChangeLine::End(end)).unwrap());
        text.into_bytes()
    }

    #[test]
    fn a_bundle_is_read_as_it_was_written() {
        let bundle = Bundle::open("b", bundle().into()).unwrap();
        assert_eq!((bundle.header.to.grains, bundle.end.events), (2, 1));
        let events: Vec<_> = bundle.events().map(Result::unwrap).collect();
        assert_eq!((events.len(), events[0].at), (1, 5));
        let mut lines = 0;
        let count = |_| {
            lines += 1;
            Ok(())
        };
        bundle.each(count).unwrap();
        assert_eq!(lines, 3);
    }

    #[test]
    fn a_bundle_whose_last_line_counts_other_lines_is_refused() {
        let end = |added, events| BundleEnd {
            added,
            events,
            ..BundleEnd::default()
        };
        let spaced = |event: String| event.replacen(':', ": ", 1);
        for bundle in [
            bundle_of(end(0, 0), |event| event),
            bundle_of(end(1, 1), |event| event),
            bundle_of(end(0, 2), |event| event),
            // A line that is valid JSON, and isn't written so.
            bundle_of(end(0, 1), spaced),
        ] {
            let opened = Bundle::open("b", bundle.into()).map(drop);
            let error = opened.unwrap_err().to_string();
            assert!(error.contains("numbers of lines"), "{error}");
        }
    }

    #[test]
    fn a_bundle_that_is_cut_off_or_changed_is_refused() {
        let sound = bundle();
        for length in 0..sound.len() {
            assert!(
                Bundle::open("b", sound[..length].to_vec().into()).is_err(),
                "{length}"
            );
        }
        for at in 0..sound.len() {
            let mut changed = sound.clone();
            changed[at] ^= 1;
            assert!(Bundle::open("b", changed.into()).is_err(), "{at}");
        }
    }
}

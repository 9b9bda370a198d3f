//! Value enums of flags that are backed by enums of other crates, which define the names and
//! descriptions.

use std::sync::LazyLock;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use gristmill_connectors::source::SourceKind;
use gristmill_connectors::transcript::convert::OutputFormat;
use gristmill_connectors::transcript::kind::TranscriptKind;
use gristmill_schemas::grain::DeviceProfile;

/// Name of automatic detection.
const AUTO: &str = "auto";
/// Description of automatic detection.
const ABOUT_AUTO: &str = "Detect from the first bytes";

/// Kind of input; `None` to detect it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceKindArg(pub Option<SourceKind>);

/// Kind of transcript; `None` to detect it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TranscriptKindArg(pub Option<TranscriptKind>);

/// Output format of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TranscriptFormArg(pub OutputFormat);

/// Device profile of grains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceProfileArg(pub DeviceProfile);

impl ValueEnum for DeviceProfileArg {
    fn value_variants<'a>() -> &'a [DeviceProfileArg] {
        const ALL: &[DeviceProfileArg] = &[
            DeviceProfileArg(DeviceProfile::Extended),
            DeviceProfileArg(DeviceProfile::Standard),
            DeviceProfileArg(DeviceProfile::Lightweight),
        ];
        ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let about = match self.0 {
            DeviceProfile::Extended => "Servers: blobs of up to 1 MiB",
            DeviceProfile::Standard => "Mobile devices: blobs of up to 32 KiB",
            DeviceProfile::Lightweight => {
                "Sensors: blobs of up to 512 bytes with required fields only"
            }
        };
        Some(PossibleValue::new(self.0.name()).help(about))
    }
}

impl SourceKindArg {
    /// Automatic detection.
    pub const AUTO: SourceKindArg = SourceKindArg(None);
}

impl TranscriptKindArg {
    /// Automatic detection.
    pub const AUTO: TranscriptKindArg = TranscriptKindArg(None);
}

impl TranscriptFormArg {
    /// Canonical messages.
    pub const DEFAULT: TranscriptFormArg = TranscriptFormArg(OutputFormat::Messages);
}

impl ValueEnum for SourceKindArg {
    fn value_variants<'a>() -> &'a [SourceKindArg] {
        static ALL: LazyLock<Vec<SourceKindArg>> = LazyLock::new(|| {
            std::iter::once(None)
                .chain(SourceKind::all().map(Some))
                .map(SourceKindArg)
                .collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(value(self.0.map(|kind| (kind.name(), kind.description()))))
    }
}

impl ValueEnum for TranscriptKindArg {
    fn value_variants<'a>() -> &'a [TranscriptKindArg] {
        static ALL: LazyLock<Vec<TranscriptKindArg>> = LazyLock::new(|| {
            std::iter::once(None)
                .chain(TranscriptKind::ALL.iter().copied().map(Some))
                .map(TranscriptKindArg)
                .collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(value(self.0.map(|kind| (kind.name(), kind.description()))))
    }
}

impl ValueEnum for TranscriptFormArg {
    fn value_variants<'a>() -> &'a [TranscriptFormArg] {
        static ALL: LazyLock<Vec<TranscriptFormArg>> = LazyLock::new(|| {
            OutputFormat::ALL
                .iter()
                .copied()
                .map(TranscriptFormArg)
                .collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(value(Some((self.0.name(), self.0.description()))))
    }
}

fn value(description: Option<(&'static str, &'static str)>) -> PossibleValue {
    let (name, about) = description.unwrap_or((AUTO, ABOUT_AUTO));
    PossibleValue::new(name).help(about)
}

//! Kinds and forms as values of flags. Their names and what they are is told by those who know
//! them, once.

use std::sync::LazyLock;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use gristmill_connectors::source::SourceKind;
use gristmill_connectors::transcript::convert::Form;
use gristmill_connectors::transcript::kind::TranscriptKind;

/// The name of what is detected.
const AUTO: &str = "auto";
/// What that is.
const ABOUT_AUTO: &str = "Detected from the first bytes";

/// A kind of input; none to detect it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind(pub Option<SourceKind>);

/// A kind of transcript; none to detect it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct From(pub Option<TranscriptKind>);

/// What a conversion writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct To(pub Form);

impl Kind {
    /// Detected.
    pub const AUTO: Kind = Kind(None);
}

impl From {
    /// Detected.
    pub const AUTO: From = From(None);
}

impl To {
    /// Canonical messages.
    pub const DEFAULT: To = To(Form::Messages);
}

impl ValueEnum for Kind {
    fn value_variants<'a>() -> &'a [Kind] {
        static ALL: LazyLock<Vec<Kind>> = LazyLock::new(|| {
            std::iter::once(None)
                .chain(SourceKind::all().map(Some))
                .map(Kind)
                .collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(value(self.0.map(|kind| (kind.name(), kind.description()))))
    }
}

impl ValueEnum for From {
    fn value_variants<'a>() -> &'a [From] {
        static ALL: LazyLock<Vec<From>> = LazyLock::new(|| {
            std::iter::once(None)
                .chain(TranscriptKind::ALL.iter().copied().map(Some))
                .map(From)
                .collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(value(self.0.map(|kind| (kind.name(), kind.about()))))
    }
}

impl ValueEnum for To {
    fn value_variants<'a>() -> &'a [To] {
        static ALL: LazyLock<Vec<To>> =
            LazyLock::new(|| Form::ALL.iter().copied().map(To).collect());
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(value(Some((self.0.name(), self.0.about()))))
    }
}

fn value(told: Option<(&'static str, &'static str)>) -> PossibleValue {
    let (name, about) = told.unwrap_or((AUTO, ABOUT_AUTO));
    PossibleValue::new(name).help(about)
}

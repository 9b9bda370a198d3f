//! The form of a grain: what can differ between grains with the same fields.

use gristmill_schemas::grain::{EncodeOptions, Encoding, Grain, GrainType, Sensitivity};
use serde::{Deserialize, Serialize};

/// The type names of a version of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeNames {
    /// Those of version 1.3: belief, event, state, action.
    Current,
    /// Those of earlier versions: fact, episode, checkpoint, tool.
    Earlier,
}

impl TypeNames {
    /// Returns the name of `kind`.
    pub fn name_of(self, kind: GrainType) -> &'static str {
        match (self, kind) {
            (TypeNames::Earlier, GrainType::Belief) => "fact",
            (TypeNames::Earlier, GrainType::Event) => "episode",
            (TypeNames::Earlier, GrainType::State) => "checkpoint",
            (TypeNames::Earlier, GrainType::Action) => "tool",
            (_, kind) => kind.name(),
        }
    }
}

/// The form that grains get; `None` keeps that of each grain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TargetForm {
    /// The encoding of payloads.
    pub encoding: Option<Encoding>,
    /// The names of types.
    pub names: Option<TypeNames>,
    /// Whether payloads are compressed.
    pub compressed: Option<bool>,
}

/// The form of one grain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GrainForm {
    /// The name of the encoding.
    encoding: String,
    /// The type as the payload names it.
    #[serde(rename = "type")]
    pub(super) type_name: String,
    compressed: bool,
    /// True if the grain is in a signature envelope.
    pub(super) signed: bool,
    sensitivity: u8,
}

impl GrainForm {
    /// Returns the form of `grain`, whose payload names its type `type_name`.
    pub(super) fn of(grain: &Grain<'_>, type_name: &str) -> GrainForm {
        let flags = grain.header().flags;
        GrainForm {
            encoding: grain.encoding().name().to_owned(),
            type_name: type_name.to_owned(),
            compressed: flags.compressed(),
            signed: flags.signed(),
            sensitivity: flags.sensitivity() as u8,
        }
    }

    /// Returns the form that a grain of this form gets by `target`.
    pub(super) fn changed(&self, target: &TargetForm) -> GrainForm {
        let kind = GrainType::from_name(&self.type_name);
        let renamed = target
            .names
            .zip(kind)
            .map(|(names, kind)| names.name_of(kind));
        GrainForm {
            encoding: target.encoding.map_or_else(
                || self.encoding.clone(),
                |encoding| encoding.name().to_owned(),
            ),
            type_name: renamed.unwrap_or(&self.type_name).to_owned(),
            compressed: target.compressed.unwrap_or(self.compressed),
            ..self.clone()
        }
    }

    /// Returns the options of a writer of this form.
    pub(super) fn options(&self) -> EncodeOptions {
        EncodeOptions {
            encoding: match self.encoding == Encoding::Cbor.name() {
                true => Encoding::Cbor,
                false => Encoding::MessagePack,
            },
            sensitivity: Sensitivity::from_bits(self.sensitivity),
            signed: self.signed,
            compressed: self.compressed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_earlier_name_is_read_as_its_type() {
        for kind in GrainType::ALL {
            for names in [TypeNames::Current, TypeNames::Earlier] {
                assert_eq!(GrainType::from_name(names.name_of(kind)), Some(kind));
            }
        }
    }

    #[test]
    fn a_target_changes_what_it_states_and_keeps_the_rest() {
        let form = GrainForm {
            encoding: "msgpack".to_owned(),
            type_name: "tool_call".to_owned(),
            compressed: true,
            signed: false,
            sensitivity: 2,
        };
        assert_eq!(form.changed(&TargetForm::default()), form);
        let changed = form.changed(&TargetForm {
            encoding: Some(Encoding::Cbor),
            names: Some(TypeNames::Current),
            compressed: None,
        });
        assert_eq!((&*changed.type_name, changed.compressed), ("action", true));
        assert_eq!(changed.options().encoding, Encoding::Cbor);
        assert_eq!(changed.options().sensitivity as u8, 2);
    }
}

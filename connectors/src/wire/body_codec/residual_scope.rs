//! The residuals of a body, and the selection of those that are stored.

use gristmill_schemas::json::Json;
use gristmill_schemas::message::ids::MessagePosition;

use super::super::adapter::WireProjection;
use super::super::message_reader::ReadUnit;
use super::super::provider_raw;
use super::super::unit_path::{UnitPath, extract_units};

/// Selects the parts of a body whose residuals are stored.
#[derive(Clone, Copy)]
pub(super) enum ResidualScope<'w> {
    /// All units and the envelope.
    All,
    /// The messages at these positions.
    Messages(&'w dyn Fn(&MessagePosition) -> bool),
    /// The choices at these positions, and the envelope if the first choice is among them.
    Choices(&'w dyn Fn(&MessagePosition) -> bool),
}

impl ResidualScope<'_> {
    /// Returns true if the residual of `unit` is stored. It is stored with the unit's first
    /// message.
    fn contains(self, unit: &ReadUnit, positions: &[MessagePosition]) -> bool {
        match self {
            ResidualScope::All => true,
            ResidualScope::Messages(wanted) | ResidualScope::Choices(wanted) => {
                let first = unit.messages.first();
                first
                    .and_then(|first| positions.get(*first))
                    .is_some_and(wanted)
            }
        }
    }

    /// Computes the residuals of `original` that are in this scope. Calls `project`, which writes
    /// the body again, only if there is any.
    pub(super) fn residuals<'m, 'j>(
        self,
        read_units: &[ReadUnit],
        positions: &[MessagePosition],
        original: &'j Json<'j>,
        project: impl FnOnce() -> WireProjection<'m>,
    ) -> BodyResiduals<'j> {
        let is_wanted = |unit: &ReadUnit| self.contains(unit, positions);
        let with_envelope = match self {
            ResidualScope::All => true,
            ResidualScope::Messages(_) => false,
            // A response without choices consists of its envelope.
            ResidualScope::Choices(_) => read_units.first().is_none_or(is_wanted),
        };
        if !with_envelope && !read_units.iter().any(is_wanted) {
            return BodyResiduals {
                units: Vec::new(),
                envelope: None,
            };
        }
        residuals(project(), original, read_units, &is_wanted, with_envelope)
    }
}

/// The residuals of a body.
pub(super) struct BodyResiduals<'j> {
    pub(super) units: Vec<Option<ResidualMembers<'j>>>,
    pub(super) envelope: Option<ResidualMembers<'j>>,
}

/// The members of `provider_raw` that store a residual: the patch and its guard.
pub(super) type ResidualMembers<'j> = [(&'static str, Json<'j>); 2];

fn paths_of(units: &[ReadUnit]) -> Vec<Option<UnitPath>> {
    units.iter().map(|unit| Some(unit.path.clone())).collect()
}

/// Computes the residuals of the units for which `is_wanted` returns true, and of the envelope if
/// `with_envelope`.
fn residuals<'j>(
    projection: WireProjection,
    original: &'j Json<'j>,
    read_units: &[ReadUnit],
    is_wanted: &dyn Fn(&ReadUnit) -> bool,
    with_envelope: bool,
) -> BodyResiduals<'j> {
    let paths = paths_of(read_units);
    let (projected_envelope, projected) = extract_units(projection.body, &projection.unit_paths);
    let (envelope, originals) = extract_units(original.reborrow(), &paths);
    let pairs = projected.iter().zip(&originals).zip(read_units);
    let units = pairs.map(|((projection, original), unit)| match is_wanted(unit) {
        true => provider_raw::encode_residual(projection, original),
        false => None,
    });
    let units = units.collect();
    let envelope = if with_envelope {
        provider_raw::encode_residual(&projected_envelope, &envelope)
    } else {
        None
    };
    BodyResiduals { units, envelope }
}

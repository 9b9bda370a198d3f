//! The value of a CAL field in a grain (digest of CAL 1.0, section 4, "CAL name → OMS payload").

use std::borrow::Cow;

use gristmill_schemas::grain::{DomainFieldScope, find_domain_field};
use gristmill_schemas::json::{Json, Number};

use super::grain::RenderGrain;
use super::text_format;
use crate::cal::ast::Field;
use crate::cal::fields::{FieldSource, KnownField};

/// Returns the event time of a grain, or else its creation time, in milliseconds since the Unix
/// epoch.
pub fn time_of(grain: &(impl RenderGrain + ?Sized)) -> i64 {
    grain
        .field("timestamp_ms")
        .and_then(Json::as_i64)
        .unwrap_or_else(|| grain.created_at())
}

/// Returns the value that conditions, stages and PROJECT use; `None` if the grain has none.
pub fn value_of<'g>(
    grain: &'g (impl RenderGrain + ?Sized),
    field: &Field,
) -> Option<Cow<'g, Json<'g>>> {
    match field {
        Field::Known(field) => known(grain, *field),
        Field::Domain(domain) => {
            let key = format!("{}:{}", domain.prefix, domain.name);
            let found = find_domain_field(&key, |place, key| match place {
                DomainFieldScope::Grain => grain.field(key),
                DomainFieldScope::Context => grain
                    .field("context")?
                    .get(key)
                    .filter(|value| !value.is_null()),
            });
            found.map(Cow::Borrowed)
        }
    }
}

fn known<'g>(
    grain: &'g (impl RenderGrain + ?Sized),
    field: KnownField,
) -> Option<Cow<'g, Json<'g>>> {
    let text = |text: &str| Some(Cow::Owned(Json::from(text.to_owned())));
    match field {
        KnownField::Type => text(grain.grain_type().name()),
        KnownField::Hash => Some(Cow::Owned(Json::from(format!(
            "sha256:{}",
            grain.address()
        )))),
        KnownField::Score => Some(Cow::Owned(Json::Number(Number::from_f64(grain.score()?)?))),
        KnownField::Time => Some(Cow::Owned(Json::from(time_of(grain)))),
        KnownField::Contradicted => Some(Cow::Owned(Json::from(grain.contradicted()))),
        KnownField::VerificationStatus => text(grain.verification_status().unwrap_or("unverified")),
        KnownField::ActionPhase => stored(grain, field).or_else(|| text("complete")),
        KnownField::ConsentAction => text(if grain.field("is_withdrawal")?.as_bool()? {
            "withdraw"
        } else {
            "grant"
        }),
        KnownField::Context => first_text(grain, field),
        KnownField::Purpose => first_text(grain, field).or_else(|| scope(grain)),
        _ => stored(grain, field),
    }
}

/// Returns the first payload field of the mapping that the grain has.
fn stored<'g>(
    grain: &'g (impl RenderGrain + ?Sized),
    field: KnownField,
) -> Option<Cow<'g, Json<'g>>> {
    candidates(grain, field).next().map(Cow::Borrowed)
}

/// Returns the first payload field of the mapping that is a text.
fn first_text<'g>(
    grain: &'g (impl RenderGrain + ?Sized),
    field: KnownField,
) -> Option<Cow<'g, Json<'g>>> {
    candidates(grain, field)
        .find(|value| value.as_str().is_some())
        .map(Cow::Borrowed)
}

fn candidates<'g>(
    grain: &'g (impl RenderGrain + ?Sized),
    field: KnownField,
) -> impl Iterator<Item = &'g Json<'g>> {
    let names: &[&str] = match field.spec().source {
        FieldSource::Payload(names) => names,
        FieldSource::Index | FieldSource::Engine => &[],
    };
    let found = names.iter().filter_map(|name| match name.split_once('.') {
        Some((map, key)) => grain.field(map)?.get(key),
        None => grain.field(name),
    });
    found.filter(|value| !value.is_null())
}

/// Returns the scopes of a consent as one text.
fn scope<'g>(grain: &'g (impl RenderGrain + ?Sized)) -> Option<Cow<'g, Json<'g>>> {
    let scopes = grain.field("scope")?.as_array()?;
    let scopes: Vec<String> = scopes.iter().map(text_format::text_of).collect();
    (!scopes.is_empty()).then(|| Cow::Owned(Json::from(scopes.join(", "))))
}

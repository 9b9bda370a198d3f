//! What a renderer has to know of a grain.

use gristmill_schemas::json::{Json, Object};

use crate::cal::GrainType;

/// A grain as renderers see it. The executor implements it over whatever it has read.
pub trait RenderGrain {
    /// The type.
    fn grain_type(&self) -> GrainType;

    /// The content address, 64 hexadecimal digits. Never rendered; it tells grains apart.
    fn address(&self) -> &str;

    /// A field of the payload by its full name: `subject`, `structural_tags`, `hc:patient_id`.
    fn field(&self, name: &str) -> Option<&Json<'_>>;

    /// When it was recorded, in milliseconds since the epoch.
    fn created_at(&self) -> i64;

    /// How well it fits the search that found it, if one did.
    fn score(&self) -> Option<f64>;

    /// Whether someone checked it, if the index says so.
    fn verification_status(&self) -> Option<&str>;

    /// True if another grain says otherwise.
    fn contradicted(&self) -> bool;
}

/// A grain that holds its own payload.
#[derive(Debug, Clone, PartialEq)]
pub struct GrainView<'a> {
    /// The type.
    pub grain_type: GrainType,
    /// The content address, 64 hexadecimal digits.
    pub address: String,
    /// The payload with full field names.
    pub payload: Object<'a>,
    /// How well it fits the search that found it, if one did.
    pub score: Option<f64>,
    /// What the index says of its verification.
    pub verification_status: Option<String>,
    /// What the index says of contradictions.
    pub contradicted: bool,
}

impl<'a> GrainView<'a> {
    /// A grain from its JSON with full field names; its type is what the payload says.
    ///
    /// `None` for a type string that names none of the ten types.
    pub fn from_json(address: &str, payload: Object<'a>) -> Option<GrainView<'a>> {
        let name = payload.get("type")?.as_str()?.to_ascii_lowercase();
        Some(GrainView {
            grain_type: GrainType::from_name(&name)?,
            address: address.to_owned(),
            payload,
            score: None,
            verification_status: None,
            contradicted: false,
        })
    }
}

impl RenderGrain for GrainView<'_> {
    fn grain_type(&self) -> GrainType {
        self.grain_type
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn field(&self, name: &str) -> Option<&Json<'_>> {
        self.payload.get(name).filter(|value| !value.is_null())
    }

    fn created_at(&self) -> i64 {
        self.payload
            .get("created_at")
            .and_then(Json::as_i64)
            .unwrap_or_default()
    }

    fn score(&self) -> Option<f64> {
        self.score
    }

    fn verification_status(&self) -> Option<&str> {
        self.verification_status.as_deref()
    }

    fn contradicted(&self) -> bool {
        self.contradicted
    }
}

impl<G: RenderGrain + ?Sized> RenderGrain for &G {
    fn grain_type(&self) -> GrainType {
        (**self).grain_type()
    }

    fn address(&self) -> &str {
        (**self).address()
    }

    fn field(&self, name: &str) -> Option<&Json<'_>> {
        (**self).field(name)
    }

    fn created_at(&self) -> i64 {
        (**self).created_at()
    }

    fn score(&self) -> Option<f64> {
        (**self).score()
    }

    fn verification_status(&self) -> Option<&str> {
        (**self).verification_status()
    }

    fn contradicted(&self) -> bool {
        (**self).contradicted()
    }
}

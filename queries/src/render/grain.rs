//! The properties of a grain that rendering needs.

use gristmill_schemas::json::{Json, Object};

use crate::cal::GrainType;

/// The interface between renderers and grains. The executor implements it for the rows that it has
/// read.
pub trait RenderGrain {
    /// The type.
    fn grain_type(&self) -> GrainType;

    /// Returns the content address, 64 hexadecimal digits. It identifies grains and is never
    /// rendered.
    fn address(&self) -> &str;

    /// Returns a field of the payload by its full name: `subject`, `structural_tags`,
    /// `hc:patient_id`.
    fn field(&self, name: &str) -> Option<&Json<'_>>;

    /// Returns the creation time in milliseconds since the Unix epoch.
    fn created_at(&self) -> i64;

    /// Relevance, if a search found it.
    fn score(&self) -> Option<f64>;

    /// Returns the verification status, if the lifecycle state has one.
    fn verification_status(&self) -> Option<&str>;

    /// Returns true if the grain is contradicted.
    fn contradicted(&self) -> bool;
}

/// A grain with its payload in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct GrainView<'a> {
    /// The type.
    pub grain_type: GrainType,
    /// The content address, 64 hexadecimal digits.
    pub address: String,
    /// The payload with full field names.
    pub payload: Object<'a>,
    /// Relevance, if a search found it.
    pub score: Option<f64>,
    /// Verification status in the lifecycle state.
    pub verification_status: Option<String>,
    /// True if the lifecycle state marks it as contradicted.
    pub contradicted: bool,
}

impl<'a> GrainView<'a> {
    /// Creates a grain from JSON with full field names; the payload states the type.
    ///
    /// Returns `None` if `type` isn't one of the ten types.
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

//! Distances of vectors in half precision, computed by `simsimd`.

use half::f16;
use serde::{Deserialize, Serialize};
use simsimd::SpatialSimilarity;

/// The metric of distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// 1 − cosine. Vectors are normalised when they are stored.
    Cosine,
    /// The square of the Euclidean distance.
    L2,
}

impl Metric {
    /// Parses a grain's `distance_metric`; cosine if there is none. Returns `None` if it is
    /// unknown.
    pub fn named(name: Option<&str>) -> Option<Metric> {
        match name.map(str::to_ascii_lowercase).as_deref() {
            None | Some("cosine" | "cos" | "angular") => Some(Metric::Cosine),
            Some("l2" | "euclidean" | "l2sq") => Some(Metric::L2),
            Some(_) => None,
        }
    }

    /// Converts `vector` to its stored form. Returns `None` if it is zero or isn't finite in half
    /// precision.
    pub fn stored(self, vector: &[f32]) -> Option<Vec<F16>> {
        let scale = match self {
            Metric::Cosine => {
                1.0 / vector
                    .iter()
                    .map(|part| f64::from(*part).powi(2))
                    .sum::<f64>()
                    .sqrt()
            }
            Metric::L2 => 1.0,
        };
        let halves = vector
            .iter()
            .map(|part| f16::from_f64(f64::from(*part) * scale));
        halves
            .map(|half| half.is_finite().then(|| simsimd::f16(half.to_bits())))
            .collect()
    }

    /// Returns the distance of two stored vectors, which isn't negative.
    pub fn distance(self, left: &[F16], right: &[F16]) -> f32 {
        let distance = match self {
            Metric::Cosine => F16::dot(left, right).map(|dot| 1.0 - dot),
            Metric::L2 => F16::l2sq(left, right),
        };
        distance.map_or(f32::MAX, |distance| distance.max(0.0) as f32)
    }

    /// Returns the similarity of two vectors at `distance`: the cosine, where opposite directions
    /// count as unrelated (0); for Euclidean distances 1 if the vectors are equal, decreasing
    /// towards 0.
    pub fn similarity(self, distance: f32) -> f64 {
        match self {
            Metric::Cosine => (1.0 - f64::from(distance)).clamp(0.0, 1.0),
            Metric::L2 => 1.0 / (1.0 + f64::from(distance)),
        }
    }
}

/// A number in half precision.
pub type F16 = simsimd::f16;

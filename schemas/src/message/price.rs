//! Prices and costs (§6.4), computed from a versioned table rather than taken from a provider.
//!
//! All arithmetic is exact decimal. Prices are in US dollars per million tokens. A model that is
//! missing from the table is an error rather than free. Models of a table are found by their exact
//! name; the built-in table is followed by the module `price_catalog`, which contains
//! thousands of models, their aliases, and when prices changed.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rust_decimal::Decimal;
use serde::Deserialize;

use super::price_catalog::{self, CatalogEntry};
use super::request::TokenUsage;
use super::{Timestamp, Usage};

/// One million, the unit of prices.
const MILLION: Decimal = Decimal::from_parts(1_000_000, 0, 0, false, 0);

/// A versioned price table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceTable {
    version: String,
    models: BTreeMap<String, Rates>,
    /// Whether models that aren't listed are looked up in the catalogue.
    has_catalog: bool,
}

/// The prices of a model, which may depend on the time and on the length of the prompt.
#[derive(Debug, Clone, Copy)]
pub enum ModelPrice<'t> {
    /// Listed in the table.
    Listed(Rates),
    /// Found in the catalogue.
    Catalog(CatalogEntry<'t>),
}

impl ModelPrice<'_> {
    /// Returns the exact cost of `tokens` used at `time` in US dollars; `None` if it exceeds the
    /// range of a decimal. Without a time, the catalogue's own date applies.
    pub fn cost(&self, tokens: &TokenUsage, time: Option<Timestamp>) -> Option<Decimal> {
        let rates = match self {
            ModelPrice::Listed(rates) => *rates,
            ModelPrice::Catalog(entry) => entry.rates(tokens, time),
        };
        rates.cost(tokens)
    }
}

/// The prices of a model in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Input tokens that were neither read from nor written to a cache.
    pub input: Decimal,
    /// Output tokens.
    pub output: Decimal,
    /// Input tokens read from a cache.
    pub cached_read: Decimal,
    /// Input tokens written to a cache.
    pub cache_write: Decimal,
}

impl Rates {
    /// No cost.
    pub(super) const ZERO: Rates = Rates {
        input: Decimal::ZERO,
        output: Decimal::ZERO,
        cached_read: Decimal::ZERO,
        cache_write: Decimal::ZERO,
    };

    /// Returns the exact cost without trailing zeros; `None` if it exceeds the range of a decimal.
    fn cost(&self, tokens: &TokenUsage) -> Option<Decimal> {
        let parts = [
            (tokens.input_tokens, self.input),
            (tokens.output_tokens, self.output),
            (tokens.cached_input_tokens, self.cached_read),
            (tokens.cache_creation_input_tokens, self.cache_write),
        ];
        let sum = parts
            .into_iter()
            .try_fold(Decimal::ZERO, |sum, (count, rate)| {
                Decimal::from(count)
                    .checked_mul(rate)
                    .and_then(|part| sum.checked_add(part))
            });
        let cost = sum.and_then(|sum| sum.checked_div(MILLION));
        cost.map(|cost| cost.normalize())
    }
}

/// The reason why there is no price.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    /// The table does not contain the model. Free models must be listed with zeros.
    #[error("price table {version} has no model `{model}`")]
    UnknownModel {
        /// The model.
        model: String,
        /// The table's version.
        version: String,
    },
    /// The cost exceeds the range of a decimal.
    #[error("cost of `{0}` is out of range")]
    OutOfRange(String),
    /// The file is not a price table.
    #[error("not a price table: {0}")]
    Malformed(String),
}

impl PriceTable {
    /// Creates a table.
    pub fn new(
        version: impl Into<String>,
        models: impl IntoIterator<Item = (String, Rates)>,
    ) -> Self {
        PriceTable {
            version: version.into(),
            models: models.into_iter().collect(),
            has_catalog: false,
        }
    }

    /// Parses a YAML (or JSON) file in the form of §6.4. Prices may be numbers or strings and are
    /// parsed from their spelling.
    ///
    /// # Errors
    /// [`PriceError::Malformed`].
    pub fn from_yaml(text: &str) -> Result<Self, PriceError> {
        let file: PriceFile = serde_norway::from_str(text)
            .map_err(|error| PriceError::Malformed(error.to_string()))?;
        let models: Result<Vec<_>, _> = file
            .models
            .into_iter()
            .map(|(model, entry)| entry.rates(&model).map(|rates| (model, rates)))
            .collect();
        Ok(Self::new(file.pricing_version, models?))
    }

    /// Returns the built-in prices: the specification's table and the catalogue. Prices change, so
    /// overlay them with a current table.
    pub fn builtin() -> Self {
        let listed = Self::specification();
        PriceTable {
            version: format!("{}+{}", listed.version, price_catalog::version()),
            has_catalog: true,
            ..listed
        }
    }

    /// Returns the table of the specification, `prices.yaml`.
    pub fn specification() -> Self {
        // A test parses the file. Without it no model has a price, which every use reports.
        Self::from_yaml(include_str!("prices.yaml")).unwrap_or_else(|_| Self::new("none", []))
    }

    /// Returns the version, which is stored in usage records.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the prices of `model`, in the form `provider:model`: those that the table lists,
    /// else those of the catalogue. A search of the catalogue takes some microseconds to a
    /// millisecond, so keep what it found.
    ///
    /// # Errors
    /// [`PriceError::UnknownModel`].
    pub fn model(&self, model: &str) -> Result<ModelPrice<'static>, PriceError> {
        let listed = self.models.get(model).copied().map(ModelPrice::Listed);
        let in_catalog = || {
            let entry = price_catalog::find(model).filter(|_| self.has_catalog)?;
            Some(ModelPrice::Catalog(entry))
        };
        let unknown = || PriceError::UnknownModel {
            model: model.to_owned(),
            version: self.version.clone(),
        };
        listed.or_else(in_catalog).ok_or_else(unknown)
    }

    /// Returns this table with the entries of `overlay` added or replaced, as version
    /// `this+overlay`.
    pub fn overlaid(&self, overlay: &PriceTable) -> PriceTable {
        let mut models = self.models.clone();
        models.extend(
            overlay
                .models
                .iter()
                .map(|(model, rates)| (model.clone(), *rates)),
        );
        PriceTable {
            version: format!("{}+{}", self.version, overlay.version),
            models,
            has_catalog: self.has_catalog || overlay.has_catalog,
        }
    }

    /// Returns the cost of `tokens` on `model` in US dollars: exact, unrounded, without trailing
    /// zeros. `time` is when they were used.
    ///
    /// # Errors
    /// [`PriceError::UnknownModel`], [`PriceError::OutOfRange`].
    pub fn cost(
        &self,
        model: &str,
        tokens: &TokenUsage,
        time: Option<Timestamp>,
    ) -> Result<Decimal, PriceError> {
        let cost = self.model(model)?.cost(tokens, time);
        cost.ok_or_else(|| PriceError::OutOfRange(model.to_owned()))
    }

    /// Returns the usage record of `tokens` on `model`.
    ///
    /// # Errors
    /// Those of [`PriceTable::cost`].
    pub fn usage(
        &self,
        model: &str,
        tokens: &TokenUsage,
        time: Option<Timestamp>,
        latency_ms: u64,
    ) -> Result<Usage<'static>, PriceError> {
        Ok(Usage {
            input_tokens: tokens.input_tokens,
            output_tokens: tokens.output_tokens,
            cached_input_tokens: tokens.cached_input_tokens,
            cache_creation_input_tokens: tokens.cache_creation_input_tokens,
            cost_usd: self.cost(model, tokens, time)?,
            pricing_version: Cow::Owned(self.version.clone()),
            latency_ms,
        })
    }

    /// Computes the cost of `usage` again with the prices of this table.
    ///
    /// # Errors
    /// Those of [`PriceTable::cost`].
    pub fn reprice(
        &self,
        model: &str,
        usage: &Usage,
        time: Option<Timestamp>,
    ) -> Result<Usage<'static>, PriceError> {
        self.usage(model, &TokenUsage::of(usage), time, usage.latency_ms)
    }
}

#[derive(Deserialize)]
struct PriceFile {
    pricing_version: String,
    models: BTreeMap<String, PriceFileEntry>,
}

/// Prices as text, so that `0.30` is parsed exactly instead of through a double.
#[derive(Deserialize)]
struct PriceFileEntry {
    input_per_mtok_usd: String,
    output_per_mtok_usd: String,
    #[serde(default)]
    cached_read_per_mtok_usd: Option<String>,
    #[serde(default)]
    cache_write_per_mtok_usd: Option<String>,
}

impl PriceFileEntry {
    fn rates(&self, model: &str) -> Result<Rates, PriceError> {
        let read = |text: &str| {
            let exact = Decimal::from_str_exact(text).or_else(|_| Decimal::from_scientific(text));
            exact.map_err(|_| {
                PriceError::Malformed(format!("`{text}` is not a price (model `{model}`)"))
            })
        };
        let or_zero = |text: &Option<String>| text.as_deref().map_or(Ok(Decimal::ZERO), read);
        Ok(Rates {
            input: read(&self.input_per_mtok_usd)?,
            output: read(&self.output_per_mtok_usd)?,
            cached_read: or_zero(&self.cached_read_per_mtok_usd)?,
            cache_write: or_zero(&self.cache_write_per_mtok_usd)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "pricing_version: \"2026-05-08\"\nmodels:\n  \
                         anthropic:claude-sonnet-4-6:\n    input_per_mtok_usd: 3.00\n    \
                         output_per_mtok_usd: 15\n    cached_read_per_mtok_usd: \"0.30\"\n    \
                         cache_write_per_mtok_usd: 3.75\n  ollama:llama-3.3-70b: \
                         {input_per_mtok_usd: 0.0, output_per_mtok_usd: 0}\n";

    fn tokens(input: u64, output: u64, read: u64, write: u64) -> TokenUsage {
        TokenUsage {
            input_tokens: input,
            output_tokens: output,
            cached_input_tokens: read,
            cache_creation_input_tokens: write,
        }
    }

    #[test]
    fn costs_are_exact_to_the_last_digit() {
        let table = PriceTable::from_yaml(TABLE).unwrap();
        let cost = |tokens| {
            table
                .cost("anthropic:claude-sonnet-4-6", &tokens, None)
                .unwrap()
                .to_string()
        };
        assert_eq!(cost(tokens(8, 42, 0, 0)), "0.000654");
        assert_eq!(cost(tokens(1_000_000, 0, 1_000_000, 1_000_000)), "7.05");
        assert_eq!(
            cost(tokens(u64::MAX, u64::MAX, 0, 0)),
            "332041393326771.92907"
        );
        assert_eq!(
            table
                .cost("ollama:llama-3.3-70b", &tokens(5, 5, 0, 0), None)
                .unwrap(),
            Decimal::ZERO
        );
    }

    #[test]
    fn an_unlisted_model_is_an_error_until_an_overlay_lists_it() {
        let table = PriceTable::from_yaml(TABLE).unwrap();
        let unknown = table.cost("a:b", &tokens(0, 0, 0, 0), None);
        assert!(matches!(unknown, Err(PriceError::UnknownModel { .. })));
        let rates = Rates {
            input: Decimal::ONE,
            output: Decimal::ONE,
            cached_read: Decimal::ZERO,
            cache_write: Decimal::ZERO,
        };
        let both = table.overlaid(&PriceTable::new("o1", [("a:b".to_owned(), rates)]));
        assert_eq!(both.version(), "2026-05-08+o1");
        let first = both
            .usage("a:b", &tokens(1_000_000, 0, 0, 0), None, 7)
            .unwrap();
        assert_eq!(
            (first.cost_usd, &*first.pricing_version),
            (Decimal::ONE, "2026-05-08+o1")
        );
        let dearer = PriceTable::new(
            "later",
            [(
                "a:b".to_owned(),
                Rates {
                    input: Decimal::TEN,
                    ..rates
                },
            )],
        );
        let again = dearer.reprice("a:b", &first, None).unwrap();
        assert_eq!(
            (again.cost_usd, &*again.pricing_version, again.latency_ms),
            (Decimal::TEN, "later", 7)
        );
    }

    #[test]
    fn the_built_in_table_is_valid() {
        let table = PriceTable::specification();
        assert_eq!((table.version(), table.models.len()), ("2026-05-08", 5));
        assert!(
            PriceTable::builtin()
                .version()
                .starts_with("2026-05-08+genai-prices-")
        );
        let cost = table
            .cost(
                "anthropic:claude-opus-4-7",
                &tokens(1_234, 567, 89, 10),
                None,
            )
            .unwrap();
        assert_eq!(cost.to_string(), "0.061356");
    }

    #[test]
    fn a_malformed_table_is_an_error() {
        for text in [
            "",
            "models: {}",
            "pricing_version: v\nmodels: {a: {input_per_mtok_usd: cheap, output_per_mtok_usd: 1}}",
        ] {
            assert!(
                matches!(PriceTable::from_yaml(text), Err(PriceError::Malformed(_))),
                "{text}"
            );
        }
    }
}

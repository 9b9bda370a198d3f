//! The embedded price catalogue: thousands of models with aliases, periods of validity and prices
//! that depend on the length of the prompt.
//!
//! `price_catalog.json` is derived from the data of the crate `genai-prices` (MIT, its licence is
//! in `price_catalog.LICENSE`) by `tests/tools/derive_prices.py`; prices are exact decimals.

use std::sync::LazyLock;

use chrono::{NaiveDate, NaiveTime};
use rust_decimal::Decimal;
use serde::Deserialize;

use super::Timestamp;
use super::price::Rates;
use super::request::TokenUsage;

/// Microseconds of a day.
const DAY_MICROS: i64 = 86_400_000_000;

/// The parsed file; empty if it is invalid, which a test rules out.
static CATALOG: LazyLock<PriceCatalog> =
    LazyLock::new(|| serde_json::from_str(include_str!("price_catalog.json")).unwrap_or_default());

#[derive(Debug, Default, Deserialize)]
struct PriceCatalog {
    version: String,
    /// The day that applies to tokens without a time.
    as_of: String,
    providers: Vec<PricedProvider>,
}

/// A provider; alternatives of patterns are explained at [`matches_pattern`].
#[derive(Debug, Deserialize)]
struct PricedProvider {
    id: String,
    /// Patterns of other names.
    names: Vec<String>,
    /// Patterns of models that are assumed to be this provider's if none is named.
    models_like: Vec<String>,
    /// Providers whose models this one offers at their prices.
    fallbacks: Vec<String>,
    models: Vec<PricedModel>,
}

#[derive(Debug, Deserialize)]
struct PricedModel {
    #[serde(rename = "match")]
    patterns: Vec<String>,
    periods: Vec<PricePeriod>,
}

/// Prices from a day on, or in some hours of each day (UTC). Times are in microseconds.
#[derive(Debug, Deserialize)]
#[serde(try_from = "PeriodText")]
struct PricePeriod {
    from: Option<i64>,
    hours: Option<(i64, i64)>,
    tiers: Vec<PriceTier>,
}

/// The prices of prompts with more tokens than `above`.
#[derive(Debug)]
struct PriceTier {
    above: Decimal,
    rates: Rates,
}

/// A period as it is in the file.
#[derive(Debug, Deserialize)]
struct PeriodText {
    from: String,
    hours: Vec<String>,
    tiers: Vec<[String; 5]>,
}

impl TryFrom<PeriodText> for PricePeriod {
    type Error = String;

    fn try_from(text: PeriodText) -> Result<Self, String> {
        let from = match &*text.from {
            "" => None,
            day => Some(micros_of_day(day)?),
        };
        let hours = match &*text.hours {
            [start, end] => Some((micros_since_midnight(start)?, micros_since_midnight(end)?)),
            _ => None,
        };
        let tiers = text.tiers.iter().map(tier).collect::<Result<_, _>>()?;
        Ok(PricePeriod { from, hours, tiers })
    }
}

fn tier(row: &[String; 5]) -> Result<PriceTier, String> {
    let exact = |text: &String| Decimal::from_str_exact(text).map_err(|_| text.clone());
    let [above, input, output, cached_read, cache_write] = row;
    Ok(PriceTier {
        above: exact(above)?,
        rates: Rates {
            input: exact(input)?,
            output: exact(output)?,
            cached_read: exact(cached_read)?,
            cache_write: exact(cache_write)?,
        },
    })
}

fn micros_of_day(day: &str) -> Result<i64, String> {
    let day: NaiveDate = day.parse().map_err(|_| day.to_owned())?;
    Ok(day.and_time(NaiveTime::MIN).and_utc().timestamp_micros())
}

fn micros_since_midnight(time: &str) -> Result<i64, String> {
    let parsed: NaiveTime = time.parse().map_err(|_| time.to_owned())?;
    let elapsed = parsed.signed_duration_since(NaiveTime::MIN);
    elapsed.num_microseconds().ok_or_else(|| time.to_owned())
}

/// The prices of a model in the catalogue.
#[derive(Debug, Clone, Copy)]
pub struct CatalogEntry<'c> {
    periods: &'c [PricePeriod],
    /// When tokens without a time are assumed to be used, in microseconds.
    as_of: i64,
}

impl CatalogEntry<'_> {
    /// Returns the prices of a request with these tokens at `time`, or on the catalogue's date.
    pub fn rates(&self, tokens: &TokenUsage, time: Option<Timestamp>) -> Rates {
        let micros = time.map_or(self.as_of, Timestamp::micros);
        let prompt = Decimal::from(tokens.input_tokens)
            + Decimal::from(tokens.cached_input_tokens)
            + Decimal::from(tokens.cache_creation_input_tokens);
        let active = self.periods.iter().rev().find(|it| it.contains(micros));
        let tiers = active
            .or(self.periods.first())
            .map_or(&[][..], |period| &period.tiers);
        let above = tiers.iter().rev().find(|tier| prompt > tier.above);
        above
            .or(tiers.first())
            .map_or(Rates::ZERO, |tier| tier.rates)
    }
}

impl PricePeriod {
    fn contains(&self, micros: i64) -> bool {
        let now = micros.rem_euclid(DAY_MICROS);
        let in_hours = match self.hours {
            Some((start, end)) if end < start => now >= start || now < end,
            Some((start, end)) => (start..end).contains(&now),
            None => true,
        };
        in_hours && self.from.is_none_or(|from| micros >= from)
    }
}

/// Returns the version of the catalogue.
pub(super) fn version() -> &'static str {
    &CATALOG.version
}

/// Returns the number of models in the catalogue.
pub fn model_count() -> usize {
    CATALOG.providers.iter().map(|it| it.models.len()).sum()
}

/// Returns the prices of a model, in the form `provider:model`. Without a provider, or if the text
/// before the colon is none, the provider is inferred from the model's name. Suffixes such as
/// `-20251001` are accepted where the catalogue has the date with dashes.
pub(super) fn find(model: &str) -> Option<CatalogEntry<'static>> {
    let model = model.to_lowercase();
    let dashed = with_dashed_date(&model);
    find_exactly(&model).or_else(|| find_exactly(dashed.as_deref()?))
}

fn find_exactly(model: &str) -> Option<CatalogEntry<'static>> {
    match model.split_once(':') {
        Some((provider, name)) => find_of(provider_named(provider)?, name),
        None => find_of(provider_of_model(model)?, model),
    }
}

fn find_of(provider: &'static PricedProvider, name: &str) -> Option<CatalogEntry<'static>> {
    let fallbacks = provider.fallbacks.iter().filter_map(|id| {
        let providers = &mut CATALOG.providers.iter();
        providers.find(|other| other.id == *id)
    });
    let model = std::iter::once(provider)
        .chain(fallbacks)
        .flat_map(|provider| &provider.models)
        .find(|model| matches_any(&model.patterns, name))?;
    Some(CatalogEntry {
        periods: &model.periods,
        as_of: micros_of_day(&CATALOG.as_of).unwrap_or(i64::MAX),
    })
}

fn provider_named(name: &str) -> Option<&'static PricedProvider> {
    let mut providers = CATALOG.providers.iter();
    let by_id = providers.clone().find(|provider| provider.id == name);
    by_id.or_else(|| providers.find(|provider| matches_any(&provider.names, name)))
}

fn provider_of_model(model: &str) -> Option<&'static PricedProvider> {
    let mut providers = CATALOG.providers.iter();
    providers.find(|provider| matches_any(&provider.models_like, model))
}

fn matches_any(alternatives: &[String], text: &str) -> bool {
    let matches = |pattern: &str| match pattern.strip_prefix('!') {
        Some(pattern) => !matches_pattern(pattern.as_bytes(), text.as_bytes()),
        None => matches_pattern(pattern.as_bytes(), text.as_bytes()),
    };
    let mut alternatives = alternatives.iter();
    alternatives.any(|alternative| alternative.split('&').all(matches))
}

/// Returns true if all of `text` matches: `*` stands for any text, `#` for one digit, and other
/// bytes for themselves. Takes at most the product of both lengths.
fn matches_pattern(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut rest) = (pattern, text);
    // The pattern behind the last star, and the text where it is tried.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        match (at, rest) {
            ([], []) => return true,
            ([b'*', after @ ..], _) => {
                retry = Some((after, rest));
                at = after;
                continue;
            }
            ([wanted, after @ ..], [byte, tail @ ..])
                if wanted == byte || (*wanted == b'#' && byte.is_ascii_digit()) =>
            {
                (at, rest) = (after, tail);
                continue;
            }
            _ => {}
        }
        let Some((after, [_, tail @ ..])) = retry else {
            return false;
        };
        retry = Some((after, tail));
        (at, rest) = (after, tail);
    }
}

/// Returns `model` with a date such as `-20251001` at its end written `-2025-10-01`.
fn with_dashed_date(model: &str) -> Option<String> {
    let (name, date) = model.rsplit_once('-')?;
    let is_date = date.len() == 8 && date.starts_with("20");
    let date = NaiveDate::parse_from_str(date, "%Y%m%d")
        .ok()
        .filter(|_| is_date)?;
    Some(format!("{name}-{date}"))
}

#[cfg(test)]
mod tests {
    use super::super::price::PriceTable;
    use super::*;

    fn tokens(input: u64, output: u64) -> TokenUsage {
        TokenUsage {
            input_tokens: input,
            output_tokens: output,
            ..TokenUsage::default()
        }
    }

    fn cost(model: &str, used: TokenUsage, time: Option<&str>) -> Option<String> {
        let time = time.map(|time| Timestamp::parse(time).unwrap());
        let cost = PriceTable::builtin().cost(model, &used, time).ok()?;
        Some(cost.to_string())
    }

    #[test]
    fn models_are_found_by_alias_dated_name_and_guessed_provider() {
        assert!(model_count() > 2_000, "{}", model_count());
        let haiku = Some("6".to_owned());
        for name in [
            "anthropic:claude-haiku-4-5-20251001",
            "anthropic:claude-haiku-4.5",
            "claude-haiku-4-5@20251001",
            "Anthropic:Claude-Haiku-4-5",
        ] {
            assert_eq!(
                cost(name, tokens(1_000_000, 1_000_000), None),
                haiku,
                "{name}"
            );
        }
        assert_eq!(
            cost("gemini:gemini-2.5-flash", tokens(1_000_000, 0), None),
            cost("google:gemini-2.5-flash", tokens(1_000_000, 0), None),
        );
        assert!(cost("gemini:gemini-2.5-flash", tokens(1, 0), None).is_some());
        for name in [
            "ollama:claude-haiku-4-5",
            "anthropic:m",
            "no-such-model",
            ":",
            "",
        ] {
            assert_eq!(cost(name, tokens(1, 1), None), None, "{name}");
        }
    }

    #[test]
    fn prices_depend_on_the_time_and_on_the_length_of_the_prompt() {
        let short = cost("anthropic:claude-haiku-5-5", tokens(100_000, 0), None);
        let long = cost("anthropic:claude-haiku-5-5", tokens(100_001, 0), None);
        assert_eq!(
            (short.as_deref(), long.as_deref()),
            (Some("0.01"), Some("0.0500005"))
        );
        let period = |from: &str, hours: &[&str], input: i64| PricePeriod {
            from: (!from.is_empty()).then(|| micros_of_day(from).unwrap()),
            hours: (!hours.is_empty()).then(|| {
                let [start, end] = [hours[0], hours[1]].map(micros_since_midnight);
                (start.unwrap(), end.unwrap())
            }),
            tiers: vec![tier(&[0, input, 0, 0, 0].map(|number: i64| number.to_string())).unwrap()],
        };
        let periods = [
            period("", &[], 1),
            period("2026-03-01", &[], 2),
            period("", &["22:00:00", "04:00:00"], 3),
        ];
        let entry = CatalogEntry {
            periods: &periods,
            as_of: micros_of_day("2026-02-01").unwrap(),
        };
        let input = |time: Option<&str>| {
            let time = time.map(|time| Timestamp::parse(time).unwrap());
            entry.rates(&tokens(1, 0), time).input
        };
        assert_eq!(input(Some("2026-02-28T12:00:00Z")), Decimal::ONE);
        assert_eq!(input(Some("2026-03-01T12:00:00Z")), Decimal::TWO);
        assert_eq!(input(Some("2026-03-01T23:00:00Z")), Decimal::from(3));
        assert_eq!(input(None), Decimal::from(3), "midnight");
    }

    #[test]
    fn patterns_match_whole_texts() {
        for (pattern, text, expected) in [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("ab*", "abcd", true),
            ("*bc*", "abcd", true),
            ("*cd", "abcd", true),
            ("*ab", "abaab", true),
            ("a-####", "a-2025", true),
            ("a-####", "a-202x", false),
            ("", "", true),
            ("*", "", true),
        ] {
            let matched = matches_pattern(pattern.as_bytes(), text.as_bytes());
            assert_eq!(matched, expected, "{pattern} {text}");
        }
    }
}

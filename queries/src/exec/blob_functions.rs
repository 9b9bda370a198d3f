//! Functions over blobs that plans of CAL use: what no column holds, and how well a grain fits a
//! search.
//!
//! A blob that can't be read gives NULL, never an error: one bad row must not stop a query.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BinaryArray, BooleanArray, Float64Array, ListBuilder, StringArray,
    StringBuilder, UInt32Builder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field as ArrowField};
use datafusion::common::{Result, ScalarValue, plan_datafusion_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use gristmill_engine::text::{Scorer, Terms, with_grain};
use gristmill_schemas::grain::{Field, Grain};
use gristmill_schemas::json::Json;

use super::domain_field::{self, DomainPredicate};
use crate::cal::fields::KnownField;
use crate::render::GrainView;
use crate::render::field_value::value_of;

/// The text of a field that only the blob has.
pub(super) fn payload_text(field: KnownField) -> ScalarUDF {
    BlobFunction::of(Kind::PayloadText(field))
}

/// Whether the value of a domain field passes a test; NULL if the grain has none.
pub(super) fn domain_test(test: DomainPredicate) -> ScalarUDF {
    BlobFunction::of(Kind::DomainPredicate(test))
}

/// The texts of a domain field, as a list.
pub(super) fn domain_texts(field: crate::cal::ast::Field) -> ScalarUDF {
    BlobFunction::of(Kind::DomainTexts(field))
}

/// Whether all words stand in some fields of a grain.
pub(super) fn has_words(terms: Terms, fields: Vec<Field>) -> ScalarUDF {
    BlobFunction::of(Kind::HasWords(terms, fields))
}

/// How many words a grain has, and how many of each of `terms`, as one list of whole numbers.
pub(super) fn frequencies(terms: Terms) -> ScalarUDF {
    BlobFunction::of(Kind::Frequencies(terms))
}

/// How well a grain fits a search; NULL if it doesn't.
pub(super) fn score(terms: Terms, scorer: Scorer) -> ScalarUDF {
    BlobFunction::of(Kind::Score(terms, Weights(scorer)))
}

/// The words that a filter asks the text of a grain to have, if it is that of a search.
pub(crate) fn search_terms_of(filter: &Expr) -> Option<&Terms> {
    let Expr::IsNotNull(score) = filter else {
        return None;
    };
    let Expr::ScalarFunction(call) = &**score else {
        return None;
    };
    match &call.func.inner().downcast_ref::<BlobFunction>()?.kind {
        Kind::Score(terms, _) => Some(terms),
        _ => None,
    }
}

/// A function of one blob.
#[derive(Debug, PartialEq, Eq, Hash)]
struct BlobFunction {
    kind: Kind,
    signature: Signature,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum Kind {
    PayloadText(KnownField),
    DomainPredicate(DomainPredicate),
    DomainTexts(crate::cal::ast::Field),
    HasWords(Terms, Vec<Field>),
    Frequencies(Terms),
    Score(Terms, Weights),
}

/// Weights of a search; plans compare functions, and these are equal if they were made of equal
/// statistics.
#[derive(Debug, PartialEq)]
struct Weights(Scorer);

impl Eq for Weights {}

impl Hash for Weights {
    /// Equal weights have equal terms, which are hashed beside them.
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl BlobFunction {
    fn of(kind: Kind) -> ScalarUDF {
        let signature = Signature::exact(vec![DataType::Binary], Volatility::Immutable);
        ScalarUDF::new_from_impl(BlobFunction { kind, signature })
    }

    fn evaluate(&self, blobs: &BinaryArray) -> ArrayRef {
        match &self.kind {
            Kind::PayloadText(field) => {
                let field = (*field).into();
                let text =
                    |view: &GrainView<'static>| value_of(view, &field)?.as_str().map(str::to_owned);
                Arc::new(
                    blobs
                        .iter()
                        .map(|blob| with_view(blob?, text))
                        .collect::<StringArray>(),
                )
            }
            Kind::DomainPredicate(test) => Arc::new(
                blobs
                    .iter()
                    .map(|blob| with_view(blob?, |view| test.holds(view)))
                    .collect::<BooleanArray>(),
            ),
            Kind::DomainTexts(field) => {
                let mut lists = ListBuilder::new(StringBuilder::new());
                for blob in blobs {
                    let texts = blob.and_then(|blob| {
                        with_view(blob, |view| {
                            Some(domain_field::texts(&*value_of(view, field)?))
                        })
                    });
                    lists.append_option(texts.map(|texts| texts.into_iter().map(Some)));
                }
                Arc::new(lists.finish())
            }
            Kind::HasWords(terms, fields) => {
                let holds = |grain: &Grain<'_>| Some(terms.count_in(grain, fields).is_match());
                Arc::new(
                    blobs
                        .iter()
                        .map(|blob| with_grain(blob?, holds))
                        .collect::<BooleanArray>(),
                )
            }
            Kind::Frequencies(terms) => {
                let mut lists = ListBuilder::new(UInt32Builder::new());
                for blob in blobs {
                    let found =
                        blob.and_then(|blob| with_grain(blob, |grain| Some(terms.count(grain))));
                    lists.append_option(
                        found.map(|found| {
                            std::iter::once(found.length).chain(found.counts).map(Some)
                        }),
                    );
                }
                Arc::new(lists.finish())
            }
            Kind::Score(terms, Weights(scorer)) => {
                let score = |grain: &Grain<'_>| scorer.score(&terms.count(grain));
                Arc::new(
                    blobs
                        .iter()
                        .map(|blob| with_grain(blob?, score))
                        .collect::<Float64Array>(),
                )
            }
        }
    }
}

impl ScalarUDFImpl for BlobFunction {
    fn name(&self) -> &str {
        match &self.kind {
            Kind::PayloadText(_) => "payload_text",
            Kind::DomainPredicate(_) => "domain_test",
            Kind::DomainTexts(_) => "domain_texts",
            Kind::HasWords(..) => "has_words",
            Kind::Frequencies(_) => "word_frequencies",
            Kind::Score(..) => "search_score",
        }
    }

    /// With what the function was made for, so that plans tell functions apart.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        let of: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let about = match &self.kind {
            Kind::PayloadText(field) => field.name().to_owned(),
            Kind::DomainPredicate(test) => test.to_string(),
            Kind::DomainTexts(field) => field.to_string(),
            Kind::HasWords(terms, fields) => {
                let fields: Vec<&str> = fields.iter().map(|field| field.name()).collect();
                format!("{} in {}", terms.words().join(" "), fields.join(" "))
            }
            Kind::Frequencies(terms) | Kind::Score(terms, _) => terms.words().join(" "),
        };
        Ok(format!("{}[{about}]({})", self.name(), of.join(", ")))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        let list = |item| DataType::List(Arc::new(ArrowField::new_list_field(item, true)));
        Ok(match &self.kind {
            Kind::PayloadText(_) => DataType::Utf8,
            Kind::DomainPredicate(_) | Kind::HasWords(..) => DataType::Boolean,
            Kind::DomainTexts(_) => list(DataType::Utf8),
            Kind::Frequencies(_) => list(DataType::UInt32),
            Kind::Score(..) => DataType::Float64,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let argument = arguments
            .args
            .first()
            .ok_or_else(|| plan_datafusion_err!("the blob is missing"))?;
        let scalar = matches!(argument, ColumnarValue::Scalar(_));
        let array = argument.to_array(if scalar { 1 } else { arguments.number_rows })?;
        let blobs = cast(&array, &DataType::Binary)?;
        let answer = self.evaluate(blobs.as_binary());
        Ok(match scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&answer, 0)?),
            false => ColumnarValue::Array(answer),
        })
    }
}

/// What `read` makes of the payload of a blob; `None` if it can't be read.
fn with_view<T>(blob: &[u8], read: impl FnOnce(&GrainView<'static>) -> Option<T>) -> Option<T> {
    with_grain(blob, |grain| read(&view_of(String::new(), grain)?))
}

/// The grain as renderers and conditions see it; `None` for types beyond the ten of CAL. What the
/// index layer knows is not in the bytes.
pub(super) fn view_of(address: String, grain: &Grain<'_>) -> Option<GrainView<'static>> {
    let Json::Object(payload) = grain.to_json() else {
        return None;
    };
    Some(GrainView {
        grain_type: grain.grain_type()?,
        address,
        payload,
        score: None,
        verification_status: None,
        contradicted: false,
    })
}

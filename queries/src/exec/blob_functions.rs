//! Scalar functions over blobs in plans of CAL: fields without a column, and search scores.
//!
//! An unreadable blob yields NULL, never an error: one damaged row must not stop a query.

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
use gristmill_engine::text::{Scorer, Statistics, Terms, with_grain};
use gristmill_schemas::grain::{Field, Grain};
use gristmill_schemas::json::Json;

use super::domain_field::{self, DomainPredicate};
use crate::cal::ast::Field as CalField;
use crate::cal::fields::KnownField;
use crate::render::GrainView;
use crate::render::field_value::value_of;

/// Returns the text of a field without a column.
pub(super) fn payload_text(field: KnownField) -> ScalarUDF {
    BlobFunction::of(FunctionKind::PayloadText(field))
}

/// Returns whether a domain field passes a test; NULL for grains without the field.
pub(super) fn domain_test(test: DomainPredicate) -> ScalarUDF {
    BlobFunction::of(FunctionKind::DomainPredicate(test))
}

/// Returns the texts of a domain field as a list.
pub(super) fn domain_texts(field: CalField) -> ScalarUDF {
    BlobFunction::of(FunctionKind::DomainTexts(field))
}

/// Returns whether the given fields contain all words.
pub(super) fn has_words(terms: Terms, fields: Vec<Field>) -> ScalarUDF {
    BlobFunction::of(FunctionKind::HasWords(terms, fields))
}

/// Returns a list with the number of words of a grain, followed by the frequency of each term.
pub(super) fn frequencies(terms: Terms) -> ScalarUDF {
    BlobFunction::of(FunctionKind::Frequencies(terms))
}

/// Returns the relevance of a grain to a search among grains with these statistics; NULL if it
/// doesn't match.
pub(super) fn score(terms: Terms, statistics: Statistics) -> ScalarUDF {
    BlobFunction::of(FunctionKind::Score(terms, statistics))
}

/// Returns the terms of a search filter (`search_score(blob) IS NOT NULL`); `None` for other
/// filters.
pub(crate) fn search_terms_of(filter: &Expr) -> Option<&Terms> {
    let Expr::IsNotNull(score) = filter else {
        return None;
    };
    let Expr::ScalarFunction(call) = &**score else {
        return None;
    };
    match &call.func.inner().downcast_ref::<BlobFunction>()?.kind {
        FunctionKind::Score(terms, _) => Some(terms),
        _ => None,
    }
}

/// Returns the domain field without which a call of `function` is NULL; `None` for other functions
/// than tests of domain fields.
pub(crate) fn tested_domain_field(function: &ScalarUDF) -> Option<String> {
    match &function.inner().downcast_ref::<BlobFunction>()?.kind {
        FunctionKind::DomainPredicate(test) => test.domain_field(),
        _ => None,
    }
}

/// A scalar function of one blob.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct BlobFunction {
    pub(super) kind: FunctionKind,
    signature: Signature,
}

/// What a function returns of a blob.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) enum FunctionKind {
    PayloadText(KnownField),
    DomainPredicate(DomainPredicate),
    DomainTexts(CalField),
    HasWords(Terms, Vec<Field>),
    Frequencies(Terms),
    Score(Terms, Statistics),
}

impl BlobFunction {
    pub(super) fn of(kind: FunctionKind) -> ScalarUDF {
        let signature = Signature::exact(vec![DataType::Binary], Volatility::Immutable);
        ScalarUDF::new_from_impl(BlobFunction { kind, signature })
    }

    fn evaluate(&self, blobs: &BinaryArray) -> ArrayRef {
        match &self.kind {
            FunctionKind::PayloadText(field) => payload_texts(blobs, *field),
            FunctionKind::DomainPredicate(test) => Arc::new(
                blobs
                    .iter()
                    .map(|blob| with_view(blob?, |view| test.matches(view)))
                    .collect::<BooleanArray>(),
            ),
            FunctionKind::DomainTexts(field) => domain_text_lists(blobs, field),
            FunctionKind::HasWords(terms, fields) => {
                let holds = |grain: &Grain<'_>| Some(terms.count_in(grain, fields).is_match());
                Arc::new(
                    blobs
                        .iter()
                        .map(|blob| with_grain(blob?, holds))
                        .collect::<BooleanArray>(),
                )
            }
            FunctionKind::Frequencies(terms) => frequency_lists(blobs, terms),
            FunctionKind::Score(terms, statistics) => {
                let scorer = Scorer::new(statistics);
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

    /// Returns the part of the name that distinguishes functions of one kind.
    fn parameters(&self) -> String {
        match &self.kind {
            FunctionKind::PayloadText(field) => field.name().to_owned(),
            FunctionKind::DomainPredicate(test) => test.to_string(),
            FunctionKind::DomainTexts(field) => field.to_string(),
            FunctionKind::HasWords(terms, fields) => {
                let fields: Vec<&str> = fields.iter().map(|field| field.name()).collect();
                format!("{} in {}", terms.words().join(" "), fields.join(" "))
            }
            FunctionKind::Frequencies(terms) | FunctionKind::Score(terms, _) => {
                terms.words().join(" ")
            }
        }
    }
}

fn payload_texts(blobs: &BinaryArray, field: KnownField) -> ArrayRef {
    let field = field.into();
    let text = |view: &GrainView<'static>| value_of(view, &field)?.as_str().map(str::to_owned);
    let texts = blobs.iter().map(|blob| with_view(blob?, text));
    Arc::new(texts.collect::<StringArray>())
}

fn domain_text_lists(blobs: &BinaryArray, field: &CalField) -> ArrayRef {
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

fn frequency_lists(blobs: &BinaryArray, terms: &Terms) -> ArrayRef {
    let mut lists = ListBuilder::new(UInt32Builder::new());
    for blob in blobs {
        let found = blob.and_then(|blob| with_grain(blob, |grain| Some(terms.count(grain))));
        lists.append_option(
            found.map(|found| std::iter::once(found.length).chain(found.counts).map(Some)),
        );
    }
    Arc::new(lists.finish())
}

impl ScalarUDFImpl for BlobFunction {
    fn name(&self) -> &str {
        match &self.kind {
            FunctionKind::PayloadText(_) => "payload_text",
            FunctionKind::DomainPredicate(_) => "domain_test",
            FunctionKind::DomainTexts(_) => "domain_texts",
            FunctionKind::HasWords(..) => "has_words",
            FunctionKind::Frequencies(_) => "word_frequencies",
            FunctionKind::Score(..) => "search_score",
        }
    }

    /// Includes the parameters, so that plans distinguish calls of the same function.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        Ok(format!(
            "{}[{}]({})",
            self.name(),
            self.parameters(),
            arguments.join(", ")
        ))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        let list = |item| DataType::List(Arc::new(ArrowField::new_list_field(item, true)));
        Ok(match &self.kind {
            FunctionKind::PayloadText(_) => DataType::Utf8,
            FunctionKind::DomainPredicate(_) | FunctionKind::HasWords(..) => DataType::Boolean,
            FunctionKind::DomainTexts(_) => list(DataType::Utf8),
            FunctionKind::Frequencies(_) => list(DataType::UInt32),
            FunctionKind::Score(..) => DataType::Float64,
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

/// Applies `read` to the decoded grain; `None` if the blob is unreadable.
fn with_view<T>(blob: &[u8], read: impl FnOnce(&GrainView<'static>) -> Option<T>) -> Option<T> {
    with_grain(blob, |grain| read(&grain_view(String::new(), grain)?))
}

/// Returns the view of a grain for renderers and conditions; `None` for types outside the ten of
/// CAL. Lifecycle state isn't in the blob and keeps its default.
pub(super) fn grain_view(address: String, grain: &Grain<'_>) -> Option<GrainView<'static>> {
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

#[cfg(test)]
mod tests {
    use arrow::array::Array;
    use arrow::datatypes::UInt32Type;
    use datafusion::logical_expr::col;
    use gristmill_schemas::grain::{EncodeOptions, encode_json};

    use super::*;
    use crate::exec::testing::condition;

    /// A belief, a damaged blob and a NULL.
    fn blobs() -> BinaryArray {
        let json = r#"{"type":"belief","subject":"alice","relation":"likes","object":"green green tea",
            "confidence":0.5,"created_at":1700000000000,"hc:x":["a",5,"b"]}"#;
        let json = Json::parse(json.as_bytes()).unwrap();
        let blob = encode_json(&json, EncodeOptions::default()).unwrap().blob;
        BinaryArray::from_opt_vec(vec![Some(&blob), Some(b"damaged"), None])
    }

    fn evaluate(function: &ScalarUDF) -> ArrayRef {
        let function = function.inner().downcast_ref::<BlobFunction>().unwrap();
        function.evaluate(&blobs())
    }

    fn statistics(documents: u64) -> Statistics {
        let mut statistics = Statistics::new(1);
        for _ in 0..documents {
            statistics.add(4, std::iter::once(1));
        }
        statistics
    }

    #[test]
    fn an_unreadable_blob_is_null_for_every_function() {
        let terms = Terms::of("tea");
        let domain = condition("hc:x = 5").field;
        let functions = [
            payload_text(KnownField::Context),
            domain_test(DomainPredicate::new(&condition("hc:x = \"a\""))),
            domain_texts(domain),
            has_words(terms.clone(), vec![Field::Content]),
            frequencies(terms.clone()),
            score(terms, statistics(3)),
        ];
        for function in functions {
            let answer = evaluate(&function);
            assert!(
                answer.is_null(1) && answer.is_null(2),
                "{}",
                function.name()
            );
        }
    }

    #[test]
    fn frequencies_begin_with_the_length() {
        let lists = evaluate(&frequencies(Terms::of("green milk")));
        let first = lists.as_list::<i32>().value(0);
        let numbers = first.as_primitive::<UInt32Type>().values().to_vec();
        assert!(numbers[0] >= 3, "{numbers:?}");
        assert_eq!(numbers[1..], [2, 0]);
    }

    #[test]
    fn texts_of_a_list_leave_out_other_types() {
        let lists = evaluate(&domain_texts(condition("hc:x = 5").field));
        let first = lists.as_list::<i32>().value(0);
        let texts: Vec<_> = first.as_string::<i32>().iter().flatten().collect();
        assert_eq!(texts, ["a", "b"]);
    }

    #[test]
    fn a_grain_without_the_words_has_no_score() {
        assert!(evaluate(&score(Terms::of("tea"), statistics(3))).is_valid(0));
        assert!(evaluate(&score(Terms::of("milk"), statistics(3))).is_null(0));
    }

    #[test]
    fn only_the_filter_of_a_search_has_search_terms() {
        let terms = Terms::of("tea");
        let call = score(terms.clone(), statistics(3)).call(vec![col("blob")]);
        assert_eq!(
            search_terms_of(&call.clone().is_not_null()).map(Terms::words),
            Some(terms.words())
        );
        assert!(search_terms_of(&call).is_none());
        let other = payload_text(KnownField::Context).call(vec![col("blob")]);
        assert!(search_terms_of(&other.is_not_null()).is_none());
    }

    #[test]
    fn a_test_of_a_domain_field_names_it() {
        let test = domain_test(DomainPredicate::new(&condition("hc:icd10 != \"J45\"")));
        assert_eq!(tested_domain_field(&test).as_deref(), Some("hc:icd10"));
        let other = payload_text(KnownField::Context);
        assert_eq!(tested_domain_field(&other), None);
    }

    #[test]
    fn plans_distinguish_calls_by_their_parameters() {
        let name = |text: &str| {
            let function = frequencies(Terms::of(text));
            function.inner().schema_name(&[col("blob")]).unwrap()
        };
        assert_ne!(name("tea"), name("milk"));
        assert_eq!(name("tea"), "word_frequencies[tea](blob)");
    }
}

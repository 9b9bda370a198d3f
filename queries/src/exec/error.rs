//! Errors of query execution and their codes (CAL 1.0, section 22).

use datafusion::error::DataFusionError;
use gristmill_engine::error::EngineError;
use gristmill_schemas::error::GrainError;
use gristmill_schemas::json::{Json, Object};

use crate::cal::{CalError, Code};
use crate::sql::{exhausted_message, is_memory_of_others, without_cause};

/// A failed query.
#[derive(Debug, thiserror::Error)]
pub enum ExecutionError {
    /// An error with a CAL code.
    #[error(transparent)]
    Cal(#[from] CalError),
    /// The tables can't be read.
    #[error("the lake can't be queried: {0}")]
    Store(DataFusionError),
    /// The lake can't be written.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A grain that a statement would write breaks a rule of the grain specification.
    #[error("{code}: {message}", code = .0.code.name(), message = .0.summary())]
    Grain(GrainError),
    /// The lake rejected a grain that a statement would write.
    #[error("{code}: {message}")]
    Refused {
        /// The code of the grain specification.
        code: String,
        /// The reason, without the code.
        message: String,
        /// True if the policy of a grain forbids the write (OMS 1.3, section 23); false if the new
        /// grain is malformed.
        by_policy: bool,
    },
}

impl From<DataFusionError> for ExecutionError {
    fn from(error: DataFusionError) -> Self {
        match error.find_root() {
            // The statement isn't too large: it may succeed later.
            _ if is_memory_of_others(&error) => ExecutionError::Store(error),
            DataFusionError::ResourcesExhausted(why) => CalError::new(
                Code::E030,
                format!("{}.", exhausted_message("The query", why)),
            )
            .into(),
            _ => ExecutionError::Store(error),
        }
    }
}

impl From<arrow::error::ArrowError> for ExecutionError {
    fn from(error: arrow::error::ArrowError) -> Self {
        DataFusionError::from(error).into()
    }
}

impl From<GrainError> for ExecutionError {
    fn from(error: GrainError) -> Self {
        ExecutionError::Grain(error)
    }
}

impl ExecutionError {
    /// Adds line and column, if the error points into the text of the query.
    pub fn located(self, text: &[u8]) -> ExecutionError {
        match self {
            ExecutionError::Cal(error) if error.position().is_none() => {
                ExecutionError::Cal(error.located(text))
            }
            other => other,
        }
    }

    /// Returns the error without the cause of a problem of the environment.
    pub(super) fn without_cause(self) -> ExecutionError {
        match self {
            ExecutionError::Store(cause) => ExecutionError::Store(without_cause(cause)),
            ExecutionError::Engine(cause) if !matches!(cause, EngineError::Conflict(_)) => {
                ExecutionError::Store(without_cause(DataFusionError::External(Box::new(cause))))
            }
            other => other,
        }
    }

    /// Returns the code of CAL or of the grain specification, or `INTERNAL` for problems of the
    /// environment.
    pub fn code(&self) -> &str {
        match self {
            ExecutionError::Cal(error) => error.code().as_str(),
            ExecutionError::Grain(error) => error.code.name(),
            ExecutionError::Refused { code, .. } => code,
            ExecutionError::Store(_) | ExecutionError::Engine(_) => "INTERNAL",
        }
    }

    /// Returns the message without the code.
    pub fn message(&self) -> String {
        match self {
            ExecutionError::Cal(error) => error.message().to_owned(),
            ExecutionError::Grain(error) => error.summary(),
            ExecutionError::Refused { message, .. } => message.clone(),
            ExecutionError::Store(_) | ExecutionError::Engine(_) => self.to_string(),
        }
    }

    /// Returns the error object of a response (CAL 1.0, section 22).
    pub fn to_json(&self) -> Json<'static> {
        if let ExecutionError::Cal(error) = self {
            return error.to_json();
        }
        let mut object = Object::new();
        object.insert("code", self.code().to_owned());
        object.insert("message", self.message());
        object.insert(
            "suggestion",
            match self {
                ExecutionError::Refused {
                    by_policy: true, ..
                } => {
                    "Check what the grain's `invalidation_policy` requires; `gristmill apply` \
                     accepts signed operations."
                }
                ExecutionError::Grain(_) | ExecutionError::Refused { .. } => {
                    "Change the values so that the grain meets the rules of its type."
                }
                ExecutionError::Engine(EngineError::Conflict(_)) => "Run the statement again.",
                _ => "Check the lake with `gristmill verify`, and try again.",
            },
        );
        Json::Object(object)
    }
}

/// Result of a function of query execution.
pub type Result<T> = std::result::Result<T, ExecutionError>;

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_schemas::error::ErrorCode;

    #[test]
    fn a_grain_error_has_its_code_once_and_no_byte_offset() {
        let range = GrainError::new(ErrorCode::Range, "must be in [0.0, 1.0], is 7")
            .field("importance")
            .at(12);
        let error = ExecutionError::from(range);
        assert_eq!(
            error.to_string(),
            "ERR_RANGE: must be in [0.0, 1.0], is 7 (field `importance`)"
        );
        let json = error.to_json();
        assert_eq!(json.get("code").and_then(Json::as_str), Some("ERR_RANGE"));
        let message = json.get("message").and_then(Json::as_str);
        assert_eq!(
            message,
            Some("must be in [0.0, 1.0], is 7 (field `importance`)")
        );
    }

    fn suggestion(error: &ExecutionError) -> String {
        let json = error.to_json();
        json.get("suggestion")
            .and_then(Json::as_str)
            .unwrap_or_default()
            .to_owned()
    }

    fn refused(by_policy: bool) -> ExecutionError {
        ExecutionError::Refused {
            code: "ERR_POLICY".to_owned(),
            message: "protected".to_owned(),
            by_policy,
        }
    }

    #[test]
    fn a_refusal_keeps_its_code_and_suggests_by_its_cause() {
        let error = refused(true);
        assert_eq!(
            (error.code(), error.message().as_str()),
            ("ERR_POLICY", "protected")
        );
        assert!(suggestion(&error).contains("invalidation_policy"));
        assert!(suggestion(&refused(false)).contains("rules of its type"));
    }

    #[test]
    fn exhausted_memory_is_e030_even_when_it_is_wrapped() {
        let exhausted = DataFusionError::ResourcesExhausted("pool".to_owned());
        let wrapped = exhausted.context("while sorting");
        assert_eq!(ExecutionError::from(wrapped).code(), Code::E030.as_str());
    }

    #[test]
    fn other_problems_of_tables_are_internal() {
        let error = ExecutionError::from(DataFusionError::Internal("broken".to_owned()));
        assert_eq!(error.code(), "INTERNAL");
        assert!(suggestion(&error).contains("gristmill verify"));
    }

    #[test]
    fn a_statement_that_another_writer_preceded_is_to_be_run_again() {
        let conflict = EngineError::Conflict("grains".to_owned());
        let suggested = suggestion(&ExecutionError::from(conflict));
        assert_eq!(suggested, "Run the statement again.");
    }

    #[test]
    fn only_errors_without_position_are_located() {
        let span = crate::cal::span::Span::new(2, 3);
        let error = ExecutionError::from(CalError::new(Code::E020, "x").at(span));
        let ExecutionError::Cal(located) = error.located(b"a\nb") else {
            panic!("another kind of error");
        };
        let position = located.position();
        assert_eq!(position.map(|position| position.line), Some(2));
        let again = ExecutionError::Cal(located).located(b"another text");
        let ExecutionError::Cal(again) = again else {
            panic!("another kind of error");
        };
        assert_eq!(again.position(), position);
    }
}

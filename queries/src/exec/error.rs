//! What can go wrong while a query runs.

use datafusion::error::DataFusionError;
use gristmill_engine::error::EngineError;
use gristmill_schemas::error::GrainError;
use gristmill_schemas::json::{Json, Object};

use crate::cal::{CalError, Code};

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ExecutionError {
    /// CAL has a code for it.
    #[error(transparent)]
    Cal(#[from] CalError),
    /// The tables can't be read.
    #[error("the lake can't be queried: {0}")]
    Store(DataFusionError),
    /// The lake can't be written.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A grain that a statement would write breaks a rule of the grain specification.
    #[error("{code}: {message}", code = .0.code.name(), message = .0.told())]
    Grain(GrainError),
    /// The lake takes no such grain.
    #[error("{code}: {message}")]
    Refused {
        /// The code of the grain specification.
        code: String,
        /// Why, without the code.
        message: String,
        /// True if the terms of a grain forbid it (OMS 1.3, section 23), and not its form.
        by_policy: bool,
    },
}

impl From<DataFusionError> for ExecutionError {
    fn from(error: DataFusionError) -> Self {
        match error.find_root() {
            DataFusionError::ResourcesExhausted(why) => CalError::new(
                Code::E030,
                format!("The query needs more memory than it may have ({why})."),
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
    /// The error with line and column, if it points into the text of the query.
    pub fn located(self, text: &[u8]) -> ExecutionError {
        match self {
            ExecutionError::Cal(error) if error.position().is_none() => {
                ExecutionError::Cal(error.located(text))
            }
            other => other,
        }
    }

    /// The code: that of CAL or of the grain specification, `INTERNAL` for problems of the
    /// environment.
    pub fn code(&self) -> &str {
        match self {
            ExecutionError::Cal(error) => error.code().as_str(),
            ExecutionError::Grain(error) => error.code.name(),
            ExecutionError::Refused { code, .. } => code,
            ExecutionError::Store(_) | ExecutionError::Engine(_) => "INTERNAL",
        }
    }

    /// What is wrong, without the code.
    pub fn message(&self) -> String {
        match self {
            ExecutionError::Cal(error) => error.message().to_owned(),
            ExecutionError::Grain(error) => error.told(),
            ExecutionError::Refused { message, .. } => message.clone(),
            ExecutionError::Store(_) | ExecutionError::Engine(_) => self.to_string(),
        }
    }

    /// The error object of a response (CAL 1.0, section 22).
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
                    "See what the grain's `invalidation_policy` asks for; `gristmill apply` takes \
                     signed operations."
                }
                ExecutionError::Grain(_) | ExecutionError::Refused { .. } => {
                    "Change the values so that the grain keeps the rules of its type."
                }
                _ => "Check the lake with `gristmill verify`, and try again.",
            },
        );
        Json::Object(object)
    }
}

/// What the functions of execution answer.
pub type Result<T> = std::result::Result<T, ExecutionError>;

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_schemas::error::ErrorCode;

    #[test]
    fn an_error_of_a_grain_says_its_code_once_and_no_byte() {
        let range = GrainError::new(ErrorCode::Range, "must be in [0.0, 1.0], is 7")
            .field("importance")
            .at(12);
        let error = ExecutionError::from(range);
        assert_eq!(
            error.to_string(),
            "ERR_RANGE: must be in [0.0, 1.0], is 7 (field `importance`)"
        );
        let told = error.to_json();
        assert_eq!(told.get("code").and_then(Json::as_str), Some("ERR_RANGE"));
        let message = told.get("message").and_then(Json::as_str);
        assert_eq!(
            message,
            Some("must be in [0.0, 1.0], is 7 (field `importance`)")
        );
    }
}

//! Errors of the engine as exceptions of `gristmill.errors`, with the code of the specification.

use gristmill_connectors::ConnectorError;
use gristmill_engine::error::{EngineError, is_of_damaged_file};
use gristmill_queries::exec::ExecutionError;
use gristmill_queries::packs::PackError;
use gristmill_queries::sql::{DataFusionError, user_message};
use gristmill_schemas::error::GrainError;
use pyo3::prelude::*;

/// An exception to raise.
#[derive(Debug)]
pub struct PythonError {
    /// Name of the class in `gristmill.errors`.
    class: &'static str,
    /// Code of the specification, if there is one.
    code: Option<String>,
    message: String,
    /// What the user can do.
    suggestion: Option<String>,
}

pub type Result<T> = std::result::Result<T, PythonError>;

/// Wrong arguments, or a problem of the environment.
const USAGE: &str = "UsageError";
/// The data has problems.
const DATA: &str = "DataError";

/// Message of work that has panicked.
pub const PANICKED: &str = "the engine has failed and gave no result; standard error has the \
                            cause, please report it";

impl PythonError {
    fn new(class: &'static str, message: impl Into<String>) -> PythonError {
        PythonError {
            class,
            code: None,
            message: message.into(),
            suggestion: None,
        }
    }

    /// Wrong arguments, or a problem of the environment.
    pub fn usage(message: impl Into<String>) -> PythonError {
        PythonError::new(USAGE, message)
    }

    /// Work that has panicked.
    pub fn panicked() -> PythonError {
        PythonError::new("GristmillError", PANICKED)
    }

    /// Text of a request or report that isn't the expected JSON.
    pub fn json(what: &str, error: &serde_json::Error) -> PythonError {
        PythonError::usage(format!("{what}: {error}"))
    }
}

impl From<EngineError> for PythonError {
    fn from(error: EngineError) -> PythonError {
        PythonError::from(&error)
    }
}

impl From<&EngineError> for PythonError {
    fn from(error: &EngineError) -> PythonError {
        let class = match error {
            EngineError::NoLake(_) => "NoLakeError",
            EngineError::NotAbsent(_) => DATA,
            EngineError::Policy(_) => "PolicyError",
            EngineError::Conflict(_) => "ConflictError",
            EngineError::Refused { error, .. } => {
                return PythonError {
                    code: Some(error.code.name().to_owned()),
                    ..PythonError::new(DATA, error.to_string())
                };
            }
            EngineError::RefusedLine { fault, .. } => {
                return PythonError {
                    code: Some(fault.code.name().to_owned()),
                    ..PythonError::new(DATA, error.to_string())
                };
            }
            damage if damage.is_damage() => DATA,
            _ => USAGE,
        };
        PythonError::new(class, error.to_string())
    }
}

impl From<ConnectorError> for PythonError {
    fn from(error: ConnectorError) -> PythonError {
        PythonError::usage(error.to_string())
    }
}

impl From<GrainError> for PythonError {
    fn from(error: GrainError) -> PythonError {
        PythonError {
            code: Some(error.code.name().to_owned()),
            ..PythonError::new("GrainError", error.to_string())
        }
    }
}

impl From<DataFusionError> for PythonError {
    fn from(error: DataFusionError) -> PythonError {
        let root = error.find_root();
        if let DataFusionError::External(cause) = root
            && let Some(cause) = cause.downcast_ref::<EngineError>()
        {
            return PythonError::from(cause);
        }
        let class = match is_of_damaged_file(root) {
            true => DATA,
            false => "QueryError",
        };
        PythonError::new(class, user_message(root))
    }
}

impl From<PackError> for PythonError {
    fn from(error: PackError) -> PythonError {
        match error {
            PackError::Query(error) => error.into(),
            PackError::Engine(error) => error.into(),
            other => PythonError::usage(other.to_string()),
        }
    }
}

impl From<ExecutionError> for PythonError {
    fn from(error: ExecutionError) -> PythonError {
        let error = match error {
            ExecutionError::Engine(error) => return error.into(),
            ExecutionError::Store(error) => return error.into(),
            other => other,
        };
        let class = match &error {
            ExecutionError::Refused {
                by_policy: true, ..
            } => "PolicyError",
            _ => "QueryError",
        };
        let json = error.to_json();
        let suggestion = json.get("suggestion").and_then(|text| text.as_str());
        PythonError {
            class,
            code: Some(error.code().to_owned()),
            message: error.message(),
            suggestion: suggestion.map(str::to_owned),
        }
    }
}

impl From<PythonError> for PyErr {
    fn from(error: PythonError) -> PyErr {
        let raised = Python::attach(|py| {
            let class = py.import("gristmill.errors")?.getattr(error.class)?;
            let exception = class.call1((error.message, error.code, error.suggestion))?;
            Ok(PyErr::from_value(exception))
        });
        raised.unwrap_or_else(|error: PyErr| error)
    }
}

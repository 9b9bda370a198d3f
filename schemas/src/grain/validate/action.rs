//! Checks the fields of an action against its phase (§27.1).

use super::{check_not_empty, check_present, error, has};
use crate::error::{ErrorCode, GrainError};
use crate::grain::{Field, Grain, Mark};

/// The rules of a phase.
struct Phase {
    required: &'static [Field],
    forbidden: &'static [Field],
    /// Fields that a writer omits; a reader marks them.
    omitted: &'static [Field],
}

const RESULT_FIELDS: &[Field] = &[
    Field::Input,
    Field::Content,
    Field::IsError,
    Field::Stdout,
    Field::Stderr,
    Field::ExitCode,
    Field::DurationMs,
];

const DEFINITION_ONLY: [Field; 4] = [
    Field::ToolDescription,
    Field::InputSchema,
    Field::OutputSchema,
    Field::Strict,
];

const DEFINITION: Phase = Phase {
    required: &[Field::ToolName, Field::ToolDescription, Field::InputSchema],
    forbidden: RESULT_FIELDS,
    omitted: &[Field::ToolCallId, Field::CallBatchId, Field::DerivedFrom],
};

const CALL: Phase = Phase {
    required: &[Field::ToolName, Field::Input],
    // All but `input`.
    forbidden: RESULT_FIELDS.split_at(1).1,
    omitted: &[
        DEFINITION_ONLY[0],
        DEFINITION_ONLY[1],
        DEFINITION_ONLY[2],
        DEFINITION_ONLY[3],
        Field::DerivedFrom,
    ],
};

const RESULT: Phase = Phase {
    required: &[
        Field::ToolCallId,
        Field::Content,
        Field::IsError,
        Field::DerivedFrom,
    ],
    forbidden: &[],
    omitted: &[
        DEFINITION_ONLY[0],
        DEFINITION_ONLY[1],
        DEFINITION_ONLY[2],
        DEFINITION_ONLY[3],
        Field::ToolName,
        Field::ToolType,
        Field::ToolVersion,
        Field::Input,
    ],
};

/// An action without a phase: call and result in one grain.
const COMPLETE: Phase = Phase {
    required: &[
        Field::ToolName,
        Field::Input,
        Field::Content,
        Field::IsError,
    ],
    forbidden: &[],
    omitted: &DEFINITION_ONLY,
};

/// Code execution records code and output streams instead of input and content (§27.1, example 2).
const CODE_EXECUTION: Phase = Phase {
    required: &[Field::Code, Field::IsError],
    forbidden: &[],
    omitted: &DEFINITION_ONLY,
};

fn phase_of(grain: &Grain<'_>) -> Result<Phase, GrainError> {
    match grain.text(Field::ActionPhase) {
        Some("definition") => Ok(DEFINITION),
        Some("call") => Ok(CALL),
        Some("result") => Ok(RESULT),
        Some(other) => {
            let message = format!("must be `definition`, `call` or `result`, is `{other}`");
            Err(error(ErrorCode::Schema, Field::ActionPhase, message))
        }
        // An ordinary tool call may also run code, which is its input then.
        None if grain.text(Field::ExecutionMode) == Some("code_exec")
            && (has(grain, Field::Code) || !has(grain, Field::ToolName)) =>
        {
            Ok(CODE_EXECUTION)
        }
        None => Ok(COMPLETE),
    }
}

/// Returns true if the action's phase requires `field`.
pub(super) fn requires(grain: &Grain<'_>, field: Field) -> bool {
    phase_of(grain).is_ok_and(|phase| phase.required.contains(&field))
}

/// Returns true unless the action's phase forbids `field`.
pub(super) fn permits(grain: &Grain<'_>, field: Field) -> bool {
    !phase_of(grain).is_ok_and(|phase| phase.forbidden.contains(&field))
}

/// Checks the fields of an action; marks those that its phase omits.
pub(super) fn check(grain: &mut Grain<'_>) -> Result<(), GrainError> {
    let phase = phase_of(grain)?;
    for field in phase.required {
        check_present(grain, *field)?;
        // The content of a result may be the empty string; no other required text may.
        if *field != Field::Content {
            check_not_empty(grain, *field)?;
        }
    }
    let is_present = |field: &&Field| grain.get(**field).is_some();
    if let Some(field) = phase.forbidden.iter().find(is_present) {
        return Err(error(
            ErrorCode::Schema,
            *field,
            "must not appear in this phase of an action",
        ));
    }
    let has_omitted = phase.omitted.iter().any(|field| is_present(&field));
    grain.marks_mut().insert_if(Mark::PhaseFields, has_omitted);
    Ok(())
}

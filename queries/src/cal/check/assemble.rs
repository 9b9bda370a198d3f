//! Rules about sources, labels and budgets (CAL 1.0, section 8.2).

use crate::cal::ast::{Assemble, Budget, SetOperation, Source};
use crate::cal::error::{CalError, Code, Result};
use crate::cal::limits;
use crate::cal::span::Span;
use crate::cal::suggest::nearest;
use crate::cal::vocabulary::BudgetUnit;

/// Checks a label against those of the sources before it.
///
/// # Errors
/// E034.
pub(crate) fn label(before: &[Source], label: &str, span: Span) -> Result<()> {
    if before
        .iter()
        .any(|source| source.label.as_deref() == Some(label))
    {
        return Err(
            CalError::new(Code::E034, format!("Two sources are labelled \"{label}\".")).at(span),
        );
    }
    Ok(())
}

/// Checks the number of sources.
///
/// # Errors
/// E032.
pub(crate) fn sources(count: usize, span: Span) -> Result<()> {
    if count > limits::MAX_SOURCES {
        let message = format!("ASSEMBLE takes at most {} sources.", limits::MAX_SOURCES);
        return Err(CalError::new(Code::E032, message).at(span));
    }
    Ok(())
}

/// Checks the size of a budget.
///
/// # Errors
/// E033.
pub(crate) fn budget(amount: u64, unit: BudgetUnit, span: Span) -> Result<Budget> {
    let most = match unit {
        BudgetUnit::Tokens => limits::MAX_BUDGET_TOKENS,
        BudgetUnit::Grains => limits::MAX_BUDGET_GRAINS,
    };
    match u32::try_from(amount).ok().filter(|amount| *amount <= most) {
        Some(amount) => Ok(Budget { amount, unit }),
        None => {
            Err(CalError::new(Code::E033, format!("A budget has at most {most} {unit}.")).at(span))
        }
    }
}

/// Checks the rules about a whole ASSEMBLE.
///
/// # Errors
/// E034 for a label that is twice in PRIORITY, E035 for one that no source has.
pub(crate) fn whole_statement(assemble: &Assemble) -> Result<()> {
    let labels = || {
        assemble
            .sources
            .iter()
            .filter_map(|source| source.label.as_deref())
    };
    for (at, label) in assemble.priority.iter().enumerate() {
        if !labels().any(|known| known == label) {
            let error = CalError::new(
                Code::E035,
                format!("PRIORITY names \"{label}\", and no source is labelled so."),
            )
            .at(assemble.span)
            .valid_values(labels());
            return Err(match nearest(label, labels()) {
                Some(meant) => error.suggest(format!("Did you mean \"{meant}\"?")),
                None => error,
            });
        }
        if assemble.priority[..at].contains(label) {
            return Err(
                CalError::new(Code::E034, format!("PRIORITY names \"{label}\" twice."))
                    .at(assemble.span),
            );
        }
    }
    Ok(())
}

/// Checks the number of RECALLs in a set operation.
///
/// # Errors
/// E013.
pub(crate) fn set_operands(operation: &SetOperation, span: Span) -> Result<()> {
    match operation.leaves() {
        leaves if leaves > limits::MAX_SET_OPERANDS => {
            Err(CalError::new(Code::E013, format!("{leaves} queries are combined.")).at(span))
        }
        _ => Ok(()),
    }
}

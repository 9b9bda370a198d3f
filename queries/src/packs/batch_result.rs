//! What checks find in one batch, and its form as rows.

use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, AsArray, RecordBatch, StringArray, StringBuilder, UInt64Array, UInt64Builder,
};
use arrow::datatypes::{DataType, Field as ArrowField, Schema, SchemaRef, UInt64Type};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};

use super::finding::Finding;

/// Columns: the rule, by its index in the scan; the grain; what the rule reports of it, as a JSON
/// array of names and values; why the rule failed, in which case it found nothing; and a number of
/// views, which no other column identifies.
static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let column = |name: &str, kind| ArrowField::new(name, kind, true);
    Arc::new(Schema::new(vec![
        column("rule", DataType::UInt64),
        column("content_address", DataType::Utf8),
        column("evidence", DataType::Utf8),
        column("failure", DataType::Utf8),
        column("views", DataType::UInt64),
    ]))
});

/// Results of one batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct BatchResult {
    pub(super) findings: Vec<Finding>,
    /// Index and message of policies that failed on a view.
    pub(super) failures: Vec<(usize, String)>,
    /// Number of message views.
    pub(super) views: u64,
}

impl BatchResult {
    /// Returns the schema of the rows.
    pub(super) fn schema() -> SchemaRef {
        Arc::clone(&SCHEMA)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.findings.is_empty() && self.failures.is_empty() && self.views == 0
    }

    /// Returns the results as rows.
    ///
    /// # Errors
    /// If evidence can't be written as JSON.
    pub(super) fn into_rows(self) -> Result<RecordBatch> {
        let (mut rules, mut views) = (UInt64Builder::new(), UInt64Builder::new());
        let mut texts = [(); 3].map(|()| StringBuilder::new());
        let mut append = |rule: Option<usize>, row: [Option<String>; 3], count: Option<u64>| {
            rules.append_option(rule.map(|rule| rule as u64));
            for (column, text) in texts.iter_mut().zip(row) {
                column.append_option(text);
            }
            views.append_option(count);
        };
        for finding in self.findings {
            let evidence = serde_json::to_string(&finding.evidence)
                .map_err(|error| DataFusionError::External(Box::new(error)))?;
            let row = [finding.address, Some(evidence), None];
            append(Some(finding.rule), row, None);
        }
        for (rule, message) in self.failures {
            append(Some(rule), [None, None, Some(message)], None);
        }
        if self.views > 0 {
            append(None, [None, None, None], Some(self.views));
        }
        let [addresses, evidence, failures] = texts.map(|mut text| text.finish());
        Ok(RecordBatch::try_new(
            BatchResult::schema(),
            vec![
                Arc::new(rules.finish()),
                Arc::new(addresses),
                Arc::new(evidence),
                Arc::new(failures),
                Arc::new(views.finish()),
            ],
        )?)
    }

    /// Returns the results whose rows are `batch`.
    ///
    /// # Errors
    /// If these aren't rows of results.
    pub(super) fn of_rows(batch: &RecordBatch) -> Result<BatchResult> {
        let unknown = || exec_datafusion_err!("these aren't rows of findings");
        let [rules, addresses, evidence, failures, views] = batch.columns() else {
            return Err(unknown());
        };
        let numbers = |column| counts(column).ok_or_else(unknown);
        let texts = |column| text(column).ok_or_else(unknown);
        let (rules, views) = (numbers(rules)?, numbers(views)?);
        let (addresses, evidence, failures) =
            (texts(addresses)?, texts(evidence)?, texts(failures)?);
        let mut result = BatchResult::default();
        for row in 0..batch.num_rows() {
            result.views += optional(views, row).unwrap_or_default();
            let Some(rule) = optional(rules, row).and_then(|rule| usize::try_from(rule).ok())
            else {
                continue;
            };
            if failures.is_valid(row) {
                let message = failures.value(row).to_owned();
                result.failures.push((rule, message));
                continue;
            }
            let reported = serde_json::from_str(evidence.value(row));
            result.findings.push(Finding {
                rule,
                address: addresses
                    .is_valid(row)
                    .then(|| addresses.value(row).to_owned()),
                evidence: reported.map_err(|_| unknown())?,
            });
        }
        Ok(result)
    }
}

fn counts(column: &dyn Array) -> Option<&UInt64Array> {
    column.as_primitive_opt::<UInt64Type>()
}

fn text(column: &dyn Array) -> Option<&StringArray> {
    column.as_string_opt::<i32>()
}

fn optional(column: &UInt64Array, row: usize) -> Option<u64> {
    column.is_valid(row).then(|| column.value(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_survive_as_rows() {
        let finding = |address: Option<&str>, value: &str| Finding {
            rule: 3,
            address: address.map(str::to_owned),
            evidence: vec![
                ("ä".to_owned(), value.to_owned()),
                ("b".to_owned(), String::new()),
            ],
        };
        let result = BatchResult {
            findings: vec![finding(Some("ab"), "\"quoted\"\n"), finding(None, "")],
            failures: vec![(0, "too many steps".to_owned())],
            views: 7,
        };
        let rows = result.clone().into_rows().unwrap();
        assert_eq!(rows.num_rows(), 4);
        assert_eq!(BatchResult::of_rows(&rows).unwrap(), result);
        let nothing = BatchResult::default().into_rows().unwrap();
        assert!(BatchResult::of_rows(&nothing).unwrap().is_empty());
        let other = rows.project(&[0, 1]).unwrap();
        assert!(BatchResult::of_rows(&other).is_err());
    }
}

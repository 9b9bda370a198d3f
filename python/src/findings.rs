//! The findings of a scan as an Arrow table.

use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use gristmill_engine::error::EngineError;
use gristmill_queries::packs::{Finding, Rule};

use crate::failure::Result;

/// Findings as columns.
#[derive(Default)]
pub struct FindingTable {
    columns: [Vec<Option<String>>; 6],
}

/// Columns of the findings; `evidence` is a JSON object.
const FINDING_COLUMNS: [&str; 6] = [
    "rule",
    "severity",
    "norm",
    "content_address",
    "message",
    "evidence",
];

impl FindingTable {
    /// Adds a finding.
    pub fn add(&mut self, rule: &Rule, finding: &Finding) {
        let record = finding.record(rule);
        let cells = [
            Some(record.rule.to_owned()),
            Some(record.severity.name().to_owned()),
            Some(record.norm.to_owned()),
            record.content_address.map(str::to_owned),
            Some(record.message),
            Some(serde_json::Value::Object(record.evidence).to_string()),
        ];
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.push(cell);
        }
    }

    /// Returns the table.
    pub fn finish(self) -> Result<RecordBatch> {
        let columns = FINDING_COLUMNS.into_iter().zip(self.columns);
        let columns = columns.map(|(name, cells)| {
            let cells: StringArray = cells.into_iter().collect();
            (name, Arc::new(cells) as _)
        });
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, cells)| (name, cells, true)))
            .map_err(|error| EngineError::Request(error.to_string()).into())
    }
}

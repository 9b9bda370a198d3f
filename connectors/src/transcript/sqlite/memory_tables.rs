//! Tables of memory systems: the history of mem0, the store and the checkpoints of LangGraph.

use gristmill_schemas::json::{Json, Object};
use rusqlite::Row;
use rusqlite::types::ValueRef;

use super::database::{UntrustedDatabase, row_line};
use crate::transcript::line::FaultCode;
use crate::transcript::memory::finish_export;
use crate::transcript::memory::langgraph::{CheckpointRow, LangGraphExport};
use crate::transcript::memory::mem0::Mem0Export;
use crate::transcript::options::ReadOptions;
use crate::transcript::parsed::ParsedPart;

/// Number of rows in one part. A part ends where the next chain of versions begins.
const PART_ROWS: usize = 1 << 12;

/// The columns of `checkpoints` that are read.
pub(super) const CHECKPOINT_COLUMNS: [&str; 6] = [
    "thread_id",
    "checkpoint_ns",
    "checkpoint_id",
    "type",
    "checkpoint",
    "metadata",
];

/// Emits the history of mem0, in parts of whole memories.
pub(super) fn emit_history(
    database: &UntrustedDatabase,
    options: ReadOptions<'_>,
    emit: &mut dyn FnMut(ParsedPart),
) -> Result<(), rusqlite::Error> {
    let (mut export, mut rows, mut memory) = (Mem0Export::default(), 0, None);
    let query = "SELECT rowid AS row, * FROM history ORDER BY memory_id, rowid";
    database.for_each_row(query, &mut |mut json, line| {
        let id = json.get("memory_id").map(Json::to_string);
        rows += 1;
        if rows >= PART_ROWS && memory != id {
            rows = 0;
            emit(finish_export(std::mem::take(&mut export), options));
        }
        memory = id;
        // The id of the row isn't the id of the memory.
        if let Some(row) = json.as_object_mut() {
            row.remove("id");
        }
        export.add_event(json, line);
    })?;
    emit(finish_export(export, options));
    Ok(())
}

/// Emits the store of LangGraph.
pub(super) fn emit_store(
    database: &UntrustedDatabase,
    options: ReadOptions<'_>,
    emit: &mut dyn FnMut(ParsedPart),
) -> Result<(), rusqlite::Error> {
    let (mut export, mut rows) = (LangGraphExport::default(), 0);
    let query = "SELECT rowid AS row, * FROM store ORDER BY prefix, key";
    database.for_each_row(query, &mut |json, line| {
        rows += 1;
        if rows >= PART_ROWS {
            rows = 0;
            emit(finish_export(std::mem::take(&mut export), options));
        }
        export.add_item(store_item(&json), line);
    })?;
    emit(finish_export(export, options));
    Ok(())
}

/// Parses a text as JSON; a text that isn't JSON becomes a string.
fn json_or_text(text: &str) -> Json<'static> {
    let value = Json::parse(text.as_bytes()).map(Json::into_owned);
    value.unwrap_or_else(|_| Json::from(text.to_owned()))
}

/// Returns a row of the store as an item in the form of LangGraph's API. The table joins the parts
/// of a namespace with dots.
fn store_item(row: &Json) -> Json<'static> {
    let text = |key: &str| row.get(key).and_then(Json::as_str).unwrap_or_default();
    let mut item = Object::new();
    let namespace = text("prefix")
        .split('.')
        .map(|part| Json::from(part.to_owned()))
        .collect::<Vec<_>>();
    item.insert("namespace", namespace);
    item.insert("key", text("key").to_owned());
    item.insert("value", json_or_text(text("value")));
    for key in ["created_at", "updated_at"] {
        item.insert(key, row.get(key).cloned().unwrap_or_default().into_owned());
    }
    Json::Object(item)
}

/// Emits the checkpoints of LangGraph, one part per thread.
pub(super) fn emit_checkpoints(
    database: &UntrustedDatabase,
    options: ReadOptions<'_>,
    emit: &mut dyn FnMut(ParsedPart),
) -> Result<(), rusqlite::Error> {
    let query = format!(
        "SELECT rowid, {} FROM checkpoints ORDER BY 2, 3, 4",
        CHECKPOINT_COLUMNS.join(", ")
    );
    let mut statement = database.connection.prepare(&query)?;
    let mut rows = statement.query([])?;
    let (mut thread, mut export, mut faults) =
        (String::new(), LangGraphExport::default(), Vec::new());
    while let Some(row) = rows.next()? {
        let line = row_line(row)?;
        let checkpoint = checkpoint_row(row);
        if checkpoint.thread != thread {
            emit(finish_export(std::mem::take(&mut export), options));
            checkpoint.thread.clone_into(&mut thread);
        }
        if !export.add_checkpoint(&checkpoint, line.clone()) {
            faults.push(line.fault(FaultCode::Shape, "a checkpoint that can't be read"));
        }
    }
    emit(finish_export(export, options));
    emit(ParsedPart {
        faults,
        ..ParsedPart::default()
    });
    Ok(())
}

/// Returns the columns [`CHECKPOINT_COLUMNS`] of a row; a column of another type is empty.
fn checkpoint_row<'r>(row: &'r Row<'_>) -> CheckpointRow<'r> {
    let bytes = |index| match row.get_ref(index) {
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => bytes,
        _ => &[],
    };
    let text = |index| std::str::from_utf8(bytes(index)).unwrap_or_default();
    CheckpointRow {
        thread: text(1),
        namespace: text(2),
        id: text(3),
        encoding: text(4),
        checkpoint: bytes(5),
        metadata: bytes(6),
    }
}

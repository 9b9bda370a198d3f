//! Reading of an untrusted database.

use std::io::Write;
use std::path::Path;

use gristmill_schemas::json::{Json, Number, Object};
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use tempfile::{NamedTempFile, TempPath};

use crate::transcript::line::{LINE_LIMIT_BYTES, Line};

/// Size of a write while a database is copied, in bytes.
const COPY_BYTES: usize = 1 << 20;

/// A database that is open for reading.
pub(super) struct UntrustedDatabase {
    pub(super) connection: Connection,
    /// Deletes the copy on drop, where that isn't possible while it is open.
    _copy: Option<TempPath>,
}

impl UntrustedDatabase {
    /// Copies the bytes of a database to a temporary file and opens it.
    pub(super) fn open(bytes: &[u8]) -> Result<UntrustedDatabase, String> {
        let copy = copy_to_file(bytes).map_err(|error| error.to_string())?;
        let connection = connect(&copy).map_err(|error| error.to_string())?;
        // On Unix an open file needs no name. Without one, nothing is left if the process is
        // killed.
        let copy = (!cfg!(unix)).then_some(copy);
        Ok(UntrustedDatabase {
            connection,
            _copy: copy,
        })
    }

    /// Returns true if `table` is a table, neither a view nor virtual.
    ///
    /// SQLite writes the definition of every plain table in this way; a forged one of a virtual
    /// table may have any spelling.
    fn is_plain_table(&self, table: &str) -> Result<bool, rusqlite::Error> {
        let query = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1 AND sql \
                     LIKE 'CREATE TABLE %'";
        let count: i64 = self
            .connection
            .query_row(query, [table], |row| row.get(0))?;
        Ok(count == 1)
    }

    /// Returns true if `table` is a plain table with these columns and without generated ones.
    pub(super) fn has_table(&self, table: &str, columns: &[&str]) -> Result<bool, rusqlite::Error> {
        if !self.is_plain_table(table)? {
            return Ok(false);
        }
        let mut statement = self
            .connection
            .prepare("SELECT name, hidden FROM pragma_table_xinfo(?1)")?;
        let mut rows = statement.query([table])?;
        let mut names: Vec<String> = Vec::new();
        while let Some(row) = rows.next()? {
            let is_generated = row.get::<_, i64>(1)? != 0;
            if is_generated {
                return Ok(false);
            }
            names.push(row.get(0)?);
        }
        Ok(columns
            .iter()
            .all(|column| names.iter().any(|name| name == column)))
    }

    /// Passes every row of `query` to `visit`; see [`for_each_row`].
    pub(super) fn for_each_row(
        &self,
        query: &str,
        visit: &mut dyn FnMut(Json<'static>, Line),
    ) -> Result<(), rusqlite::Error> {
        for_each_row(&self.connection, query, visit)
    }
}

fn copy_to_file(bytes: &[u8]) -> std::io::Result<TempPath> {
    let mut copy = NamedTempFile::with_prefix("gristmill-sqlite-")?;
    bytes
        .chunks(COPY_BYTES)
        .try_for_each(|chunk| copy.write_all(chunk))?;
    Ok(copy.into_temp_path())
}

fn connect(path: &Path) -> Result<Connection, rusqlite::Error> {
    // `immutable` keeps SQLite from opening a journal, even if the header refers to one.
    let uri = format!(
        "file:{}?mode=ro&immutable=1",
        path.display()
            .to_string()
            .replace('%', "%25")
            .replace('?', "%3f")
            .replace('#', "%23")
    );
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri, flags)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    Ok(connection)
}

/// Passes every row of `query` to `visit`, as an object of its columns. The first column is the
/// number of the row, which becomes its line number.
pub(super) fn for_each_row(
    connection: &Connection,
    query: &str,
    visit: &mut dyn FnMut(Json<'static>, Line),
) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare(query)?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        visit(row_to_json(row, &names)?, row_line(row)?);
    }
    Ok(())
}

/// Returns the line of a row, whose first column is its number.
pub(super) fn row_line(row: &Row<'_>) -> Result<Line, rusqlite::Error> {
    let number = row
        .get_ref(0)?
        .as_i64()
        .ok()
        .and_then(|number| u64::try_from(number).ok())
        .unwrap_or(0);
    Ok(Line {
        number,
        range: 0..0,
    })
}

/// Returns the columns of a row except the first. Text that isn't UTF-8 or is longer than
/// [`LINE_LIMIT_BYTES`] becomes null.
fn row_to_json(row: &Row<'_>, names: &[String]) -> Result<Json<'static>, rusqlite::Error> {
    let mut object = Object::new();
    for (index, name) in names.iter().enumerate().skip(1) {
        object.insert(name.clone(), value_to_json(row.get_ref(index)?));
    }
    Ok(Json::Object(object))
}

fn value_to_json(value: ValueRef<'_>) -> Json<'static> {
    match value {
        ValueRef::Null => Json::Null,
        ValueRef::Integer(number) => Json::from(number),
        ValueRef::Real(number) => Number::from_f64(number).map_or(Json::Null, Json::Number),
        ValueRef::Text(text) | ValueRef::Blob(text) => match std::str::from_utf8(text) {
            Ok(text) if text.len() <= LINE_LIMIT_BYTES => Json::from(text.to_owned()),
            _ => Json::Null,
        },
    }
}

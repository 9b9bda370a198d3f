//! Prepared statements: how a statement is parsed, which parameters and columns it has, and which
//! values may be bound to it.

use std::sync::Arc;

use arrow::datatypes::DataType;
use async_trait::async_trait;
use datafusion::sql::parser::Statement;
use futures::FutureExt;
use gristmill_queries::sql::{self, ParamValues, query_of};
use pgwire::api::portal::Format;
use pgwire::api::results::{FieldFormat, FieldInfo};
use pgwire::api::stmt::QueryParser;
use pgwire::api::{ClientInfo, Type};
use pgwire::error::PgWireResult;
use pgwire::messages::extendedquery::Bind;

use super::failure::{error, query_error};
use super::parameters::{MAX_PARAMETERS, null_of, parameter_types};
use super::session::Session;
use super::statements::{ClientStatement, Declaration, Reply, parsed};
use super::types::{Column, columns};

/// A prepared statement. Its syntax tree, which may be a hundred times as large as its text, isn't
/// held: the text is parsed again when the statement runs.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    /// The text that contains the statement.
    pub(super) text: String,
    /// Number of statements before it in the text.
    position: usize,
    usage: PreparedUse,
    pub(super) parameters: Vec<Type>,
    /// The columns of its rows, and for DECLARE those of the cursor.
    pub(super) columns: Vec<Column>,
}

/// What a prepared statement is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PreparedUse {
    /// It is executed.
    Statement,
    /// It is a DECLARE, whose execution returns no rows.
    Declaration,
    /// It is the cursor of a DECLARE, whose rows are those of its query.
    Cursor,
}

impl Prepared {
    /// Returns what a text without a statement is prepared to.
    pub(super) fn empty() -> Prepared {
        Prepared {
            text: String::new(),
            position: 0,
            usage: PreparedUse::Statement,
            parameters: Vec::new(),
            columns: Vec::new(),
        }
    }

    /// Returns the cursor of a DECLARE.
    pub(super) fn cursor(&self) -> Prepared {
        Prepared {
            usage: PreparedUse::Cursor,
            ..self.clone()
        }
    }

    /// Parses the statement; the query of a cursor.
    ///
    /// # Errors
    /// Those of [`parsed`]. The text had none when it was prepared.
    pub(super) fn statement(&self) -> PgWireResult<ClientStatement> {
        let statement = parsed(&self.text)?.into_iter().nth(self.position);
        Ok(match (statement, self.usage) {
            (Some(ClientStatement::Declare(declaration)), PreparedUse::Cursor) => {
                ClientStatement::Query(declaration.query)
            }
            (Some(statement), _) => statement,
            (None, _) => ClientStatement::Reply(Reply::Empty),
        })
    }

    /// Returns the bytes that it occupies.
    pub(super) fn bytes(&self) -> usize {
        let names = self.columns.iter().map(|column| column.name.len());
        size_of::<Prepared>()
            + self.text.len()
            + size_of_val(self.parameters.as_slice())
            + size_of_val(self.columns.as_slice())
            + names.sum::<usize>()
    }
}

impl Session {
    /// Finds the parameters and columns of a statement, which has `position` statements before it
    /// in the text.
    pub(super) async fn prepared(
        &self,
        text: &str,
        position: usize,
        classified: &ClientStatement,
        declared: &[Option<Type>],
    ) -> PgWireResult<Prepared> {
        let (parameters, columns) = match classified {
            ClientStatement::Query(query) | ClientStatement::Declare(Declaration { query, .. }) => {
                // Boxed like the other uses of `Session::plan`.
                self.described(query, declared).boxed().await?
            }
            ClientStatement::Fetch { cursor, .. } => {
                let cursor = self.cursors.get(cursor)?;
                (Vec::new(), cursor.statement.statement.columns.clone())
            }
            ClientStatement::Reply(Reply::Setting { name, .. }) => {
                (Vec::new(), vec![setting_column(name)])
            }
            ClientStatement::Reply(_) | ClientStatement::Close(_) | ClientStatement::Copy(_) => {
                (Vec::new(), Vec::new())
            }
        };
        let usage = match classified {
            ClientStatement::Declare(_) => PreparedUse::Declaration,
            _ => PreparedUse::Statement,
        };
        Ok(Prepared {
            text: text.to_owned(),
            position,
            usage,
            parameters,
            columns,
        })
    }

    /// Returns the types of a query's parameters, and its columns. Planning takes the slot of a
    /// query: it may occupy a thread of queries as long as one.
    async fn described(
        &self,
        statement: &Statement,
        declared: &[Option<Type>],
    ) -> PgWireResult<(Vec<Type>, Vec<Column>)> {
        let (statement, declared) = (statement.clone(), declared.to_vec());
        let deadline = self.server().admission.deadline();
        let permit = self.slot(deadline).await?;
        self.plan(deadline, async move |context| {
            let _permit = permit;
            let query = query_of(&context, statement).await.map_err(query_error)?;
            let inferred = sql::parameter_types(query.logical_plan()).map_err(query_error)?;
            let types = parameter_types(&declared, &inferred)?;
            let nulls = types
                .iter()
                .map(null_of)
                .collect::<PgWireResult<Vec<_>>>()?;
            let query = query
                .with_param_values(ParamValues::from(nulls))
                .map_err(query_error)?;
            Ok((types, columns(query.schema().as_arrow())))
        })
        .await
    }
}

/// Returns the one column of a setting.
fn setting_column(name: &str) -> Column {
    Column {
        name: name.to_owned(),
        kind: Type::TEXT,
        written: DataType::Utf8,
    }
}

/// Returns the columns with the formats that the client has requested.
pub(super) fn with_formats(
    columns: Vec<Column>,
    formats: &Format,
) -> PgWireResult<Vec<(Column, FieldFormat)>> {
    if matches!(formats, Format::Individual(formats) if formats.len() != columns.len()) {
        return Err(error("08P01", "there is no format for each column"));
    }
    let with_format = |(at, column)| (column, formats.format_for(at));
    Ok(columns.into_iter().enumerate().map(with_format).collect())
}

#[async_trait]
impl QueryParser for Session {
    type Statement = Arc<Prepared>;

    async fn parse_sql<C>(
        &self,
        _client: &C,
        text: &str,
        declared: &[Option<Type>],
    ) -> PgWireResult<Option<Arc<Prepared>>>
    where
        C: ClientInfo + Unpin + Send + Sync,
    {
        if declared.len() > MAX_PARAMETERS {
            let message = format!("a statement has {MAX_PARAMETERS} parameters at most");
            return Err(error("54023", message));
        }
        let mut statements = parsed(text)?;
        let classified = match (statements.pop(), statements.is_empty()) {
            (None, _) => return Ok(None),
            (Some(classified), true) => classified,
            (Some(_), false) => return Err(error("42601", "expected exactly one statement")),
        };
        let prepared = self.prepared(text, 0, &classified, declared).await?;
        Ok(Some(Arc::new(prepared)))
    }

    fn get_parameter_types(&self, prepared: &Arc<Prepared>) -> PgWireResult<Vec<Type>> {
        Ok(prepared.parameters.clone())
    }

    fn get_result_schema(
        &self,
        prepared: &Arc<Prepared>,
        formats: Option<&Format>,
    ) -> PgWireResult<Vec<FieldInfo>> {
        if prepared.usage == PreparedUse::Declaration {
            return Ok(Vec::new());
        }
        let formats = formats.unwrap_or(&Format::UnifiedText);
        let columns = with_formats(prepared.columns.clone(), formats)?;
        Ok(columns
            .iter()
            .map(|(column, format)| column.info(*format))
            .collect())
    }
}

/// Checks that a message binds a value to each parameter and names the formats of all or none.
pub(super) fn check_bind(message: &Bind, prepared: &Prepared) -> PgWireResult<()> {
    let (given, needed) = (message.parameters.len(), prepared.parameters.len());
    if given != needed {
        let text = format!("{given} parameters are bound, the statement has {needed}");
        return Err(error("08P01", text));
    }
    let fits = |codes: &[i16], count: usize| codes.len() <= 1 || codes.len() == count;
    let columns = prepared.columns.len();
    match fits(&message.parameter_format_codes, given)
        && fits(&message.result_column_format_codes, columns)
    {
        true => Ok(()),
        false => Err(error("08P01", "the numbers of formats and values differ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(position: usize) -> Prepared {
        Prepared {
            text: "BEGIN; DECLARE c CURSOR FOR SELECT 7; SELECT 8".to_owned(),
            position,
            ..Prepared::empty()
        }
    }

    fn query(prepared: &Prepared) -> Option<String> {
        match prepared.statement().unwrap() {
            ClientStatement::Query(query) => Some(query.to_string()),
            _ => None,
        }
    }

    #[test]
    fn the_statement_is_parsed_again_from_the_text_that_contains_it() {
        assert!(matches!(
            at(0).statement().unwrap(),
            ClientStatement::Reply(Reply::Begin)
        ));
        assert!(matches!(
            at(1).statement().unwrap(),
            ClientStatement::Declare(_)
        ));
        assert_eq!(query(&at(1).cursor()).as_deref(), Some("SELECT 7"));
        assert_eq!(query(&at(2)).as_deref(), Some("SELECT 8"));
        assert!(matches!(
            Prepared::empty().statement().unwrap(),
            ClientStatement::Reply(Reply::Empty)
        ));
    }

    #[test]
    fn columns_and_parameters_count_among_the_bytes() {
        let wide = Prepared {
            parameters: vec![Type::INT4; 1_000],
            columns: vec![setting_column("0123456789"); 1_000],
            ..Prepared::empty()
        };
        let added = wide.bytes() - Prepared::empty().bytes();
        let expected = size_of::<Type>() + size_of::<Column>() + 10;
        assert_eq!(added, 1_000 * expected);
    }
}

//! Formats rows for people: a table that fits the terminal, or one record per row.
//!
//! Every cell and column name is escaped by [`fn@escape_control`], so that a terminal never
//! interprets data. A table that is wider than the terminal omits columns, first those that are
//! NULL in every row, then those in the middle; its last line states how many.

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent, presets};
use gristmill_queries::render::escape_control;

/// Maximum number of characters shown of a cell.
const CELL_WIDTH: usize = 200;

/// Minimum width of a column in characters, enough to distinguish values.
const NARROWEST: usize = 12;

/// Blanks around a cell.
const PADDING: usize = 2;

/// Header of the placeholder for omitted columns.
const LEFT_OUT: &str = "…";

/// Layout of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TableLayout {
    /// Width of the terminal in characters; `None` outside a terminal, where the width is
    /// unlimited.
    pub width: Option<usize>,
    /// One record per row with one line per value, instead of a table.
    pub records: bool,
    /// Omit the number of rows, because the caller prints it.
    pub uncounted: bool,
}

impl TableLayout {
    /// Returns the layout for standard output.
    pub fn of_terminal(records: bool) -> TableLayout {
        TableLayout {
            width: Table::new().width().map(usize::from),
            records,
            uncounted: false,
        }
    }
}

/// The cells of a result as text.
struct TableCells {
    names: Vec<String>,
    numeric: Vec<bool>,
    /// Rows of cells.
    rows: Vec<Vec<String>>,
    /// For each column, whether any row has a value.
    filled: Vec<bool>,
}

/// Formats rows as text.
///
/// # Errors
/// [`ArrowError`] for a type that can't be shown.
pub fn render(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    layout: TableLayout,
) -> Result<String, ArrowError> {
    let cells = TableCells::of(schema, batches)?;
    Ok(if layout.records {
        cells.records(layout)
    } else {
        cells.table(layout)
    })
}

impl TableCells {
    fn of(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<TableCells, ArrowError> {
        let fields = schema.fields();
        let mut cells = TableCells {
            names: fields
                .iter()
                .map(|field| escape_control(field.name()).into_owned())
                .collect(),
            numeric: fields
                .iter()
                .map(|field| field.data_type().is_numeric())
                .collect(),
            rows: Vec::new(),
            filled: vec![false; fields.len()],
        };
        let options = FormatOptions::default();
        for batch in batches {
            for (filled, column) in cells.filled.iter_mut().zip(batch.columns()) {
                *filled |= column.logical_null_count() < column.len();
            }
            let columns: Vec<_> = batch
                .columns()
                .iter()
                .map(|column| ArrayFormatter::try_new(column, &options))
                .collect::<Result<_, _>>()?;
            cells.rows.extend(
                (0..batch.num_rows())
                    .map(|row| columns.iter().map(|cell| cell_text(cell, row)).collect()),
            );
        }
        Ok(cells)
    }

    fn table(&self, layout: TableLayout) -> String {
        let width = layout.width;
        let shown = self.fitting(width);
        let gap = gap_of(&shown);
        let mut table = new_table();
        // A line below the header, none between rows.
        table
            .remove_style(TableComponent::HorizontalLines)
            .remove_style(TableComponent::MiddleIntersections);
        if let Some(width) = width {
            table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
        }
        table.set_header(with_gap(&shown, gap, |column| self.names.get(column)));
        for (place, column) in shown.iter().enumerate() {
            let place = place + usize::from(gap.is_some_and(|gap| gap <= place));
            if let Some(column) = table
                .column_mut(place)
                .filter(|_| self.numeric.get(*column) == Some(&true))
            {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for row in &self.rows {
            table.add_row(with_gap(&shown, gap, |column| row.get(column)));
        }
        format!("{table}\n{}", self.summary(shown.len(), layout))
    }

    /// Formats one block per row with the names of its non-empty values.
    fn records(&self, layout: TableLayout) -> String {
        let wide = self
            .names
            .iter()
            .map(|name| name.chars().count())
            .max()
            .unwrap_or(0);
        let mut out = String::new();
        for (number, row) in (1_usize..).zip(&self.rows) {
            out.push_str(&format!("── {number} ──\n"));
            for (name, value) in self
                .names
                .iter()
                .zip(row)
                .filter(|(_, value)| !value.is_empty())
            {
                let value = value.replace('\n', &format!("\n{:wide$}  ", ""));
                out.push_str(&format!("{name:wide$}  {value}\n"));
            }
        }
        out.push_str(&self.summary(self.names.len(), layout));
        out
    }

    /// Returns the last line: the number of rows, and of columns if some aren't shown.
    fn summary(&self, shown: usize, layout: TableLayout) -> String {
        let rows = self.rows.len();
        let rows = format!("{rows} {}", if rows == 1 { "row" } else { "rows" });
        match (shown == self.names.len(), layout.uncounted) {
            (true, true) => String::new(),
            (true, false) => format!("{rows}\n"),
            (false, _) => format!(
                "{rows}, {shown} of {} columns; select fewer columns, or use `\\x` in the shell, \
                 --records or --format jsonl to see all\n",
                self.names.len()
            ),
        }
    }

    /// Returns the columns that fit a table of `width` characters, in order.
    fn fitting(&self, width: Option<usize>) -> Vec<usize> {
        let all: Vec<usize> = (0..self.names.len()).collect();
        let Some(width) = width else { return all };
        let needs: Vec<usize> = all
            .iter()
            .map(|column| self.least_width(*column) + PADDING)
            .collect();
        let need = |columns: &[usize]| {
            columns
                .iter()
                .filter_map(|column| needs.get(*column))
                .sum::<usize>()
        };
        if need(&all) <= width {
            return all;
        }
        let filled: Vec<usize> = all
            .iter()
            .copied()
            .filter(|column| self.filled.get(*column) == Some(&true))
            .collect();
        let mut shown = if filled.is_empty() { all } else { filled };
        let room = width.saturating_sub(LEFT_OUT.chars().count() + PADDING);
        // Columns are removed from the middle; the first and last ones are kept.
        while shown.len() > 1 && need(&shown) > room {
            shown.remove(shown.len() / 2);
        }
        shown
    }

    /// Returns the minimum width of a readable column, in characters.
    fn least_width(&self, column: usize) -> usize {
        let name = self
            .names
            .get(column)
            .map_or(0, |name| name.chars().count());
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let longest = cells
            .flat_map(|cell| cell.lines())
            .map(|line| line.chars().count())
            .max()
            .unwrap_or(0);
        longest.max(name).min(NARROWEST)
    }
}

/// Creates an empty table in the common style: horizontal lines, at most as wide as the terminal.
pub fn new_table() -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic);
    table
}

/// Returns the first position in `shown` at which columns are omitted; the placeholder is inserted
/// there.
fn gap_of(shown: &[usize]) -> Option<usize> {
    shown
        .windows(2)
        .position(|pair| matches!(pair, [left, right] if *right > left + 1))
        .map(|place| place + 1)
}

fn with_gap<'c>(
    shown: &[usize],
    gap: Option<usize>,
    text: impl Fn(usize) -> Option<&'c String>,
) -> Vec<String> {
    let mut cells: Vec<String> = shown
        .iter()
        .map(|column| text(*column).cloned().unwrap_or_default())
        .collect();
    if let Some(gap) = gap {
        cells.insert(gap.min(cells.len()), LEFT_OUT.to_owned());
    }
    cells
}

fn cell_text(cell: &ArrayFormatter<'_>, row: usize) -> String {
    let text = cell.value(row).to_string();
    let text = match text.char_indices().nth(CELL_WIDTH) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    };
    // A terminal moves to its next tab stop, which may be in another column.
    escape_control(&text).replace('\t', "    ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    fn batch(columns: &[(&str, ArrayRef)]) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(
            columns
                .iter()
                .map(|(name, column)| (*name, Arc::clone(column), true)),
        )
        .unwrap()
    }

    fn shown(batch: &RecordBatch, layout: TableLayout) -> String {
        render(&batch.schema(), std::slice::from_ref(batch), layout).unwrap()
    }

    fn texts(values: &[Option<&str>]) -> ArrayRef {
        Arc::new(StringArray::from(values.to_vec()))
    }

    #[test]
    fn a_table_that_is_too_wide_omits_columns_and_reports_it() {
        let names: Vec<String> = (0..40)
            .map(|number| format!("column_{number:02}"))
            .collect();
        let word = texts(&[Some("some words of a text")]);
        let nothing = texts(&[None]);
        let columns: Vec<(&str, ArrayRef)> = names
            .iter()
            .enumerate()
            .map(|(place, name)| {
                (
                    name.as_str(),
                    Arc::clone(if place % 2 == 0 { &word } else { &nothing }),
                )
            })
            .collect();
        let wide = batch(&columns);
        let text = shown(
            &wide,
            TableLayout {
                width: Some(80),
                ..TableLayout::default()
            },
        );
        assert!(
            text.lines()
                .all(|line| line.chars().count() <= 80 || line.contains(" of 40 columns")),
            "{text}"
        );
        for (name, is_shown) in [
            ("column_00", true),
            ("column_38", true),
            ("column_01", false),
            ("column_20", false),
        ] {
            assert_eq!(text.contains(name), is_shown, "{name}: {text}");
        }
        assert!(
            text.contains("1 row, 5 of 40 columns") && text.contains(" … "),
            "{text}"
        );
        let whole = shown(&wide, TableLayout::default());
        assert!(
            names.iter().all(|name| whole.contains(name)) && whole.ends_with("1 row\n"),
            "{whole}"
        );
    }

    #[test]
    fn a_table_that_fits_has_all_its_columns() {
        let narrow = batch(&[
            ("a", texts(&[Some("x"), None])),
            ("b", Arc::new(Int64Array::from(vec![1, 20]))),
        ]);
        let text = shown(
            &narrow,
            TableLayout {
                width: Some(40),
                ..TableLayout::default()
            },
        );
        assert!(
            text.contains(" a ") && text.contains("  1 ") && text.ends_with("2 rows\n"),
            "{text}"
        );
    }

    #[test]
    fn a_record_has_a_line_for_each_value() {
        let rows = batch(&[
            ("name", texts(&[Some("x\ny")])),
            ("nothing", texts(&[None])),
            ("n", texts(&[Some("1")])),
        ]);
        let text = shown(
            &rows,
            TableLayout {
                width: Some(20),
                records: true,
                ..TableLayout::default()
            },
        );
        assert_eq!(text, "── 1 ──\nname     x\n         y\nn        1\n1 row\n");
    }

    #[test]
    fn a_tab_moves_no_cell_to_another_column() {
        let rows = batch(&[("a", texts(&[Some("x\ty")])), ("b", texts(&[Some("z")]))]);
        for records in [false, true] {
            let layout = TableLayout {
                records,
                ..TableLayout::default()
            };
            let text = shown(&rows, layout);
            assert!(text.contains("x    y") && !text.contains('\t'), "{text}");
        }
    }

    #[test]
    fn control_characters_in_names_and_cells_are_escaped() {
        let rows = batch(&[(
            "a\u{1b}[2J",
            texts(&[Some("\u{1b}]0;x\u{7}\r\u{9b}1m\u{202e}")]),
        )]);
        for records in [false, true] {
            let text = shown(
                &rows,
                TableLayout {
                    records,
                    ..TableLayout::default()
                },
            );
            assert!(
                text.contains("a\\x1b[2J")
                    && text.contains("\\x1b]0;x\\x07\\x0d\\u{9b}1m\\u{202e}"),
                "{text}"
            );
        }
    }
}

"""Rows of queries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import _html
from .errors import UsageError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ._native import NativeResult

#: Rows and columns that a notebook shows.
_SHOWN_ROWS = 20
_SHOWN_COLUMNS = 12


class Result:
    """The rows of a query.

    The query runs when its rows are read, each time again, on the version of the lake at which it
    was made. Anything that reads the Arrow C stream interface takes a result as it is:
    ``pyarrow.table(result)``, ``polars.DataFrame(result)``, ``duckdb.sql("FROM result")``.

    >>> import gristmill as gm
    >>> lake = gm.Lake(folder / "lake")
    >>> rows = lake.sql("SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, 'y' ORDER BY a")
    >>> rows.columns
    ['a', 'b']
    >>> len(rows)
    2
    >>> rows.to_dicts()
    [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'y'}]
    """

    def __init__(self, native: NativeResult) -> None:
        self._native = native

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return [name for name, _ in self._native.columns()]

    def __len__(self) -> int:
        return self._native.count()

    def to_dicts(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Returns the first ``limit`` rows, or all, as dictionaries of JSON types.

        Needs no other package. Timestamps are texts and binary values hexadecimal; a value that is
        NULL is left out. Columns must have different names.
        """
        if repeated := self._repeated_names():
            listed = ", ".join(repeated)
            raise UsageError(f"several columns are named {listed}; give them names with AS")
        rows: list[dict[str, Any]] = json.loads(self._native.json(limit))
        return rows

    def _repeated_names(self) -> list[str]:
        names = self.columns
        return sorted({name for name in names if names.count(name) > 1})

    def to_arrow(self) -> pyarrow.Table:
        """Returns all rows as a table of pyarrow."""
        import pyarrow

        with self._interruptible():
            return pyarrow.table(self)

    def to_batches(self) -> Iterator[pyarrow.RecordBatch]:
        """Iterates over batches of pyarrow; memory holds a few."""
        import pyarrow

        return self._batches(pyarrow.RecordBatchReader.from_stream(self))

    __iter__ = to_batches

    def _batches(self, reader: pyarrow.RecordBatchReader) -> Iterator[pyarrow.RecordBatch]:
        with self._interruptible():
            yield from reader

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Raises Ctrl-C as such, of which a reader of a stream makes an error of its own."""
        try:
            yield
        except Exception:
            self._native.raise_interrupt()
            raise

    def to_polars(self) -> polars.DataFrame:
        """Returns all rows as a data frame of Polars."""
        import polars

        with self._interruptible():
            return polars.DataFrame(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Returns all rows as a data frame of pandas, which needs pyarrow too."""
        frame: pandas.DataFrame = self.to_arrow().to_pandas()
        return frame

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {kind}" for name, kind in self._native.columns())
        return f"<gristmill.Result {columns}>"

    def _repr_html_(self) -> str:
        if repeated := self._repeated_names():
            note = f"no rows are shown, several columns are named {', '.join(repeated)}"
            return _html.table(self.columns[:_SHOWN_COLUMNS], [], note)
        rows = self.to_dicts(_SHOWN_ROWS + 1)
        columns = self.columns[:_SHOWN_COLUMNS]
        notes = []
        if len(rows) > _SHOWN_ROWS:
            notes.append(f"the first {_SHOWN_ROWS} rows")
        if len(self.columns) > _SHOWN_COLUMNS:
            notes.append(f"{_SHOWN_COLUMNS} of {len(self.columns)} columns")
        cells = ([row.get(name) for name in columns] for row in rows[:_SHOWN_ROWS])
        return _html.table(columns, cells, ", ".join(notes))

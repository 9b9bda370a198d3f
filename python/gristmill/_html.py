"""HTML tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

#: Longest text of a cell, in characters.
_CELL = 200


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return escape(text if len(text) <= _CELL else text[:_CELL] + "…")


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """Returns a table; every text is escaped."""
    head = "".join(f"<th>{_cell(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in rows
    )
    shown = f"<caption>{_cell(caption)}</caption>" if caption else ""
    return f"<table>{shown}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def members(values: Mapping[str, Any], caption: str = "") -> str:
    """Returns a table with a row per member; nested objects are summed up."""

    def shown(value: Any) -> Any:
        if isinstance(value, Mapping):
            return ", ".join(f"{key} {inner}" for key, inner in value.items())
        if isinstance(value, list):
            return f"{len(value)} items" if value else "none"
        return value

    rows = ((name.replace("_", " "), shown(value)) for name, value in values.items())
    return table(["", "value"], rows, caption)

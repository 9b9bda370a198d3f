"""Files without a lake."""

from __future__ import annotations

from os import PathLike, fspath

from . import _native
from .results import Result


def read_mg(path: str | PathLike[str]) -> Result:
    """Returns the grains of a container (``.mg``), with the columns of the table ``grains``.

    >>> import gristmill as gm
    >>> sorted(row["content"] for row in gm.read_mg(folder / "talk.mg").to_dicts())
    ['any tea?', 'good morning', 'hello']
    """
    return _read("mg_file", path)


def read_transcript(path: str | PathLike[str]) -> Result:
    """Returns the grains that a transcript becomes. Its kind is detected from its content.

    >>> import gristmill as gm
    >>> len(gm.read_transcript(folder / "talk.jsonl"))
    3
    """
    return _read("transcript_file", path)


def _read(function: str, path: str | PathLike[str]) -> Result:
    quoted = fspath(path).replace("'", "''")
    return Result(_native.query_files(f"SELECT * FROM {function}('{quoted}')"))

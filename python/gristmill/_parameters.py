"""Parameters of queries as JSON. In that of SQL, what JSON has no form for is an object whose only
member is named by its type."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

from .errors import UsageError

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)

#: Most digits of a number, before and behind the point.
_DIGITS = 38


def sql_parameters(given: Mapping[str, Any] | Sequence[Any]) -> str:
    """Returns the parameters of an SQL query."""
    if isinstance(given, Mapping):
        return json.dumps({name: _sql_value(value) for name, value in given.items()})
    return json.dumps([_sql_value(value) for value in given])


def cal_parameters(given: Mapping[str, Any]) -> str:
    """Returns the parameters of a CAL statement."""
    return _cal_value(given)


def _sql_value(given: Any) -> Any:
    value = _plain(given)
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            return {"timestamp": (value - _EPOCH) // _MICROSECOND}
        return {"timestamptz": (value - _EPOCH.replace(tzinfo=timezone.utc)) // _MICROSECOND}
    if isinstance(value, date):
        return {"date": (value - _EPOCH.date()).days}
    if isinstance(value, Decimal):
        return {"decimal": _decimal(value)}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"binary": bytes(value).hex()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"double": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise _refused(given, "SQL")


def _cal_value(given: Any) -> str:
    value = _plain(given)
    if isinstance(value, datetime):
        if value.utcoffset() is not None:
            value = value.astimezone(timezone.utc).replace(tzinfo=None)
        return json.dumps(f"{value.isoformat(timespec='microseconds')}Z")
    if isinstance(value, date):
        return json.dumps(value.isoformat())
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_cal_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        members = (f"{json.dumps(str(name))}: {_cal_value(item)}" for name, item in value.items())
        return f"{{{', '.join(members)}}}"
    is_number = isinstance(value, bool | int) or isinstance(value, float) and math.isfinite(value)
    if value is None or is_number or isinstance(value, str):
        return json.dumps(value)
    raise _refused(given, "CAL")


def _plain(value: Any) -> Any:
    """Returns scalars of numpy as those of Python, a time that is none (``NaT``) as ``None``, and a
    UUID as its text."""
    dtype = getattr(value, "dtype", None)
    if dtype is not None and getattr(value, "shape", None) == ():
        value = _item(value, getattr(dtype, "kind", ""))
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, date) and value != value:
        return None
    return value


def _item(scalar: Any, kind: str) -> Any:
    item = scalar.item()
    if kind != "M" or not isinstance(item, int):
        return item
    # A time of nanoseconds, or one that Python doesn't have.
    time = scalar.astype("datetime64[us]").item()
    if isinstance(time, int):
        raise UsageError(f"the time {scalar} of a parameter is beyond the years 1 to 9999")
    return time


def _decimal(value: Decimal) -> str:
    if not value.is_finite() or value and abs(value.adjusted()) > _DIGITS:
        raise UsageError(f"the number {value} of a parameter has no decimal with {_DIGITS} digits")
    return f"{value:f}"


def _refused(value: Any, language: str) -> UsageError:
    kind = type(value).__name__
    return UsageError(f"{language} has no form for the parameter {value!r:.60} of the type {kind}")

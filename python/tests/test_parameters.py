"""Parameters of queries: which type of SQL a value of Python has."""

from __future__ import annotations

import uuid
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

import gristmill as gm

#: The instant of the first grain of the samples is 2026-01-01T00:00:00Z; the others follow by one
#: second each.
LATER = "SELECT count(*) AS n FROM grains WHERE created_at > $1"
CET = timezone(timedelta(hours=1))


def bound(lake: gm.Lake, value: object) -> tuple[str, Any]:
    rows = lake.sql("SELECT arrow_typeof($1) AS kind, $1 AS value", [value]).to_dicts()
    return rows[0]["kind"], rows[0].get("value")


@pytest.mark.parametrize(
    ("instant", "expected"),
    [
        (datetime(2026, 1, 1), 2),
        (datetime(2026, 1, 1, 0, 0, 0, 999_999), 2),
        (datetime(2026, 1, 1, 0, 0, 1), 1),
        (datetime(2026, 1, 1, 1, tzinfo=CET), 2),
        (datetime(2026, 1, 1, 0, tzinfo=CET), 3),
        (datetime.min, 3),
        (datetime.max, 0),
        (date(2026, 1, 1), 2),
        (date(2026, 1, 2), 0),
        (None, 0),
    ],
)
def test_times_are_compared_with_those_of_the_lake(
    lake: gm.Lake, instant: date | None, expected: int
) -> None:
    assert lake.sql(LATER, [instant]).to_dicts() == [{"n": expected}]


def test_values_keep_their_type(lake: gm.Lake) -> None:
    day = date(2026, 2, 28)
    assert bound(lake, day) == ("Date32", "2026-02-28")
    time = datetime(2026, 2, 28, 12, 30, 0, 5)
    assert bound(lake, time) == ("Timestamp(µs)", "2026-02-28T12:30:00.000005")
    zoned = ('Timestamp(µs, "UTC")', "2026-02-28T11:30:00.000005Z")
    assert bound(lake, time.replace(tzinfo=CET)) == zoned
    for number in ("12.50", "-0.05", "1E+3", "0", "1E-38", "9" * 38):
        kind, _ = bound(lake, Decimal(number))
        assert kind.startswith("Decimal128"), number
        text = "SELECT CAST($1 AS VARCHAR) AS text"
        found = lake.sql(text, [Decimal(number)]).to_dicts()[0]["text"]
        assert Decimal(found) == Decimal(number)
    assert bound(lake, b"\x00\xff") == ("Binary", "00ff")
    assert bound(lake, memoryview(b"\x01")) == ("Binary", "01")
    unique = uuid.UUID("0123456789abcdef0123456789ABCDEF")
    assert bound(lake, unique) == ("Utf8", "01234567-89ab-cdef-0123-456789abcdef")
    assert bound(lake, True) == ("Boolean", True)
    finite = "SELECT isnan($1) AS not_a_number, $2 > 1e308 AS is_beyond"
    rows = lake.sql(finite, [float("nan"), float("inf")]).to_dicts()
    assert rows == [{"not_a_number": True, "is_beyond": True}]


def test_bytes_find_a_blob(lake: gm.Lake) -> None:
    pytest.importorskip("pyarrow")
    (blob,) = lake.sql("SELECT blob FROM grains LIMIT 1").to_arrow()["blob"].to_pylist()
    assert len(lake.sql("SELECT 1 FROM grains WHERE blob = $blob", blob=blob)) == 1


def test_scalars_of_numpy_and_times_of_pandas_are_taken(lake: gm.Lake) -> None:
    numpy = pytest.importorskip("numpy")
    assert bound(lake, numpy.int64(3)) == ("Int64", 3)
    assert bound(lake, numpy.float32(0.5)) == ("Float64", 0.5)
    assert bound(lake, numpy.bool_(True)) == ("Boolean", True)
    assert bound(lake, numpy.str_("ada")) == ("Utf8", "ada")
    for unit in ("s", "ms", "us", "ns"):
        instant = numpy.datetime64("2026-01-01T00:00:01", unit)
        assert lake.sql(LATER, [instant]).to_dicts() == [{"n": 1}], unit
    assert bound(lake, numpy.datetime64("NaT"))[1] is None
    with pytest.raises(gm.UsageError, match="9999"):
        bound(lake, numpy.datetime64("20000-01-01T00:00:00", "us"))
    pandas = pytest.importorskip("pandas")
    for text in ("2026-01-01T00:00:01", "2026-01-01T01:00:01+01:00"):
        assert lake.sql(LATER, [pandas.Timestamp(text)]).to_dicts() == [{"n": 1}]
    assert bound(lake, pandas.NaT)[1] is None


def test_what_has_no_type_of_sql_is_refused(lake: gm.Lake) -> None:
    for value in ({"date": 1}, [1], {1}, object(), 1j):
        with pytest.raises(gm.UsageError, match=type(value).__name__):
            lake.sql("SELECT $1 AS a", [value])
    for number in (Decimal("NaN"), Decimal("1E+1000000"), Decimal("1E-39"), Decimal("9" * 39)):
        with pytest.raises(gm.UsageError, match="decimal"):
            lake.sql("SELECT $1 AS a", [number])


def test_cal_takes_times_and_numbers(lake: gm.Lake) -> None:
    count = "RECALL WHERE time BETWEEN $from AND $to | COUNT"
    for first, last in [
        (datetime(2026, 1, 1, 0, 0, 1), datetime(2026, 1, 1, 0, 0, 2)),
        (datetime(2026, 1, 1, 1, 0, 1, tzinfo=CET), datetime(2026, 1, 1, 1, 0, 2, tzinfo=CET)),
    ]:
        assert lake.cal(count, {"from": first, "to": last}).value == 2
    sure = "RECALL beliefs WHERE confidence >= $least | COUNT"
    assert lake.cal(sure, least=Decimal("0.90")).value == 1
    for value in (b"x", float("nan"), {1}):
        with pytest.raises(gm.UsageError, match="parameter"):
            lake.cal(sure, least=value)

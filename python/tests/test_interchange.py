"""Rows in other packages: each of them returns the same values as `to_dicts`."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm

#: Texts, numbers, lists, timestamps, binary values, NULLs, structs.
QUERY = """
    SELECT subject, confidence, structural_tags, created_at, blob, user_id,
           CAST(NULL AS INT) AS nothing,
           named_struct('a', 1, 'b', subject) AS pair
    FROM grains ORDER BY created_at
"""


def expected(lake: gm.Lake) -> list[tuple[Any, ...]]:
    query = "SELECT subject, confidence, structural_tags, user_id, content_address FROM grains"
    rows = lake.sql(f"{query} ORDER BY created_at").to_dicts()
    return [
        (row.get("subject"), row.get("confidence"), row.get("structural_tags"), row.get("user_id"),
         row["content_address"])
        for row in rows
    ]  # fmt: skip


def compare(lake: gm.Lake, rows: list[dict[str, Any]]) -> None:
    wanted = expected(lake)
    assert len(rows) == len(wanted) == 3
    for row, (subject, confidence, tags, user, address) in zip(rows, wanted, strict=True):
        assert row["subject"] == subject
        assert row["confidence"] == confidence
        assert (row["structural_tags"] is None) == (tags is None)
        assert row["structural_tags"] is None or list(row["structural_tags"]) == tags
        assert row["user_id"] == user
        assert gm.content_address(bytes(row["blob"])) == address
        assert row["nothing"] is None
        assert row["pair"] == {"a": 1, "b": subject}
        assert row["created_at"].year == 2026


def test_pyarrow_takes_rows(lake: gm.Lake) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    result = lake.sql(QUERY)
    table = result.to_arrow()
    compare(lake, table.to_pylist())
    assert pyarrow.schema(result).names == table.column_names
    assert sum(batch.num_rows for batch in result) == 3
    assert pyarrow.table(result).equals(table)


def test_pyarrow_raises_errors_of_a_running_query(lake: gm.Lake) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(Exception, match="ada|bob"):
        lake.sql("SELECT CAST(subject AS INT) AS n FROM beliefs").to_arrow()


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_while_rows_are_read_is_raised_as_such(lake: gm.Lake) -> None:
    pytest.importorskip("pyarrow")
    slow = "md5(CAST(value AS VARCHAR)) = ''"
    rows = lake.sql(f"SELECT count(*) AS n FROM range(1, 1000000000) WHERE {slow}")
    for read in (rows.to_arrow, lambda: list(rows.to_batches())):
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            read()
    assert lake.sql("SELECT 1 AS a").to_arrow().num_rows == 1


def test_polars_takes_rows(lake: gm.Lake) -> None:
    pytest.importorskip("polars")
    frame = lake.sql(QUERY).to_polars()
    compare(lake, frame.to_dicts())


def test_other_threads_run_while_polars_reads(lake: gm.Lake) -> None:
    pytest.importorskip("polars")
    ticks = 0
    done = threading.Event()

    def count() -> None:
        nonlocal ticks
        while not done.wait(0.001):
            ticks += 1

    counter = threading.Thread(target=count)
    counter.start()
    slow = "md5(CAST(value AS VARCHAR)) <> ''"
    frame = lake.sql(f"SELECT count(*) AS n FROM range(0, 3000000) WHERE {slow}").to_polars()
    done.set()
    counter.join()
    assert frame["n"].to_list() == [3_000_000]
    assert ticks > 5


def test_pandas_takes_rows(lake: gm.Lake) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = lake.sql("SELECT subject, confidence FROM beliefs ORDER BY subject").to_pandas()
    assert frame["subject"].tolist() == ["ada", "bob"]
    assert frame["confidence"].sum() == pytest.approx(1.4)


def test_duckdb_takes_rows(lake: gm.Lake) -> None:
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    rows = lake.sql(QUERY)
    query = "SELECT subject, octet_length(blob) FROM rows WHERE subject IS NOT NULL ORDER BY subject"
    found = duckdb.sql(query).fetchall()
    assert [row[0] for row in found] == ["ada", "bob"] and all(row[1] > 20 for row in found)
    assert rows is not None


def test_a_stream_can_be_left_and_ends_once(lake: gm.Lake) -> None:
    pytest.importorskip("pyarrow")
    rows = lake.sql("SELECT value FROM range(0, 100000)")
    batches = rows.to_batches()
    assert next(batches).num_rows > 0
    del batches
    assert sum(batch.num_rows for batch in rows.to_batches()) == 100_000
    batches = lake.sql("SELECT 1 AS a").to_batches()
    assert [batch.num_rows for batch in batches] == [1]
    assert list(batches) == []


def test_a_large_result_is_streamed(lake: gm.Lake) -> None:
    pytest.importorskip("pyarrow")
    rows = lake.sql("SELECT value, repeat('x', 100) AS text FROM range(0, 300000)")
    batches = 0
    total = 0
    for batch in rows.to_batches():
        batches += 1
        total += batch.num_rows
    assert total == 300_000 and batches > 10


def test_files_are_read_without_a_lake(folder: Path) -> None:
    rows = gm.read_transcript(folder / "talk.jsonl").to_dicts()
    assert [row["content"] for row in rows] == ["hello", "good morning", "any tea?"]
    with pytest.raises(gm.QueryError):
        gm.read_mg(folder / "it's missing.mg").to_dicts()


def test_grains_survive_the_codec() -> None:
    grain = {"type": "event", "role": "user", "content": "ä\u0000", "created_at": 1767225600000}
    blob = gm.encode(grain)
    decoded = gm.decode(blob)
    assert {key: decoded[key] for key in grain} == grain
    assert gm.encode(decoded) == blob
    assert len(gm.content_address(blob)) == 64
    with pytest.raises(gm.GrainError):
        gm.content_address(b"")
    assert json.dumps(decoded)

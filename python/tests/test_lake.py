"""Lakes: ingest, queries, scans, erasure, errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import gristmill as gm
from gristmill import Progress, _native

from tests.samples import GRAINS, write_lines


def test_a_query_with_parameters_returns_rows(lake: gm.Lake) -> None:
    query = "SELECT object FROM beliefs WHERE subject = $who AND confidence > $least"
    assert lake.sql(query, who="ada", least=0.6).to_dicts() == [{"object": "tea"}]
    assert lake.sql(query, {"who": "bob"}, least=0.6).to_dicts() == []
    assert lake.sql("SELECT $1 AS a, $2 AS b", [1, "x"]).to_dicts() == [{"a": 1, "b": "x"}]


def test_whole_numbers_keep_their_value_or_are_refused(lake: gm.Lake) -> None:
    most = 2**64 - 1
    assert lake.sql("SELECT $1 AS a", [most]).to_dicts() == [{"a": most}]
    for number in (2**64, -(2**63) - 1, 10**100):
        with pytest.raises(gm.QueryError, match="more than 64 bits"):
            lake.sql("SELECT $1 AS a", [number])


def test_mappings_and_sequences_of_other_types_are_taken(lake: gm.Lake) -> None:
    grain = MappingProxyType({**GRAINS[0], "object": "milk", "created_at": 1767225604000})
    operation = MappingProxyType({"op": "put", "blob_hex": gm.encode(grain).hex()})
    assert lake.apply([operation])[0]["ok"]
    query = "SELECT $1 AS a, $2 AS b"
    assert lake.sql(query, range(1, 3)).to_dicts() == [{"a": 1, "b": 2}]
    with pytest.raises(gm.UsageError, match="sequence"):
        lake.sql(query, "xy")


def test_columns_of_one_name_are_refused_instead_of_left_out(lake: gm.Lake) -> None:
    both = "FROM beliefs a CROSS JOIN beliefs b WHERE a.subject < b.subject"
    with pytest.raises(gm.UsageError, match="subject; give"):
        lake.sql(f"SELECT a.subject, b.subject {both}").to_dicts()
    rows = lake.sql(f"SELECT a.subject AS one, b.subject AS other {both}").to_dicts()
    assert rows == [{"one": "ada", "other": "bob"}]


def test_parameters_in_order_and_by_name_are_not_mixed(lake: gm.Lake) -> None:
    with pytest.raises(gm.UsageError, match="not both"):
        lake.sql("SELECT $1 AS a", [1], least=0.6)


def test_a_result_can_be_read_again_and_keeps_its_version(lake: gm.Lake, tmp_path: Path) -> None:
    rows = lake.sql("SELECT content_address FROM grains")
    assert len(rows) == 3
    grain = {"type": "event", "role": "user", "content": "more", "created_at": 1767225603000}
    lake.ingest(write_lines(tmp_path / "more.jsonl", [{"grain": grain}]))
    assert len(rows) == 3
    assert len(lake.sql("SELECT content_address FROM grains")) == 4


def test_sql_reads_only(lake: gm.Lake, tmp_path: Path) -> None:
    for statement in (
        "DROP TABLE grains",
        "INSERT INTO grains VALUES (1)",
        f"COPY grains TO '{tmp_path}/out.csv'",
        "SELECT 1; SELECT 2",
        "SET datafusion.execution.batch_size = 1",
        f"SELECT * FROM mg_file('{tmp_path}/x.mg')",
    ):
        with pytest.raises(gm.QueryError):
            lake.sql(statement)


def test_an_error_while_rows_are_read_is_an_exception(lake: gm.Lake) -> None:
    rows = lake.sql("SELECT CAST(subject AS INT) AS n FROM beliefs")
    with pytest.raises(gm.QueryError, match="ada|bob"):
        rows.to_dicts()


def test_cal_answers_with_grains_values_and_texts(lake: gm.Lake) -> None:
    recalled = lake.cal("RECALL beliefs WHERE subject = $who", who="ada")
    assert [grain["object"] for grain in recalled.grains] == ["tea"]
    assert lake.cal("RECALL beliefs | COUNT").value == 2
    context = lake.cal("ASSEMBLE c FROM (RECALL LIKE \"tea\") BUDGET 100 tokens FORMAT text")
    assert "tea" in context.text
    assert lake.cal("RECALL MY beliefs", user="u-2").grains[0]["object"] == "coffee"
    assert lake.cal("RECALL", namespace="elsewhere").grains == []


def test_writes_need_permission_and_are_read_back(lake: gm.Lake) -> None:
    add = 'ADD belief SET subject = $who SET relation = "mg:knows" SET object = "eve" REASON "r"'
    with pytest.raises(gm.QueryError) as caught:
        lake.cal(add, who="ada")
    assert caught.value.code is not None and caught.value.code.startswith("CAL-E")
    assert caught.value.suggestion
    lake.cal(add, who="ada", allow_writes=True)
    assert lake.cal('RECALL WHERE relation = "mg:knows" | COUNT').value == 1
    assert len(lake.sql("SELECT 1 FROM beliefs WHERE relation = 'mg:knows'")) == 1


def test_writes_of_one_lake_share_their_quotas(lake: gm.Lake) -> None:
    add = 'ADD belief SET subject = $who SET relation = "mg:knows" SET object = "eve" REASON "r"'
    # A busy machine may take more than a minute for 20, and may then add another.
    begun: list[float] = []
    with pytest.raises(gm.QueryError) as caught:
        while len(begun) < 40:
            begun.append(time.monotonic())
            lake.cal(add, who=f"u-{len(begun)}", allow_writes=True)
            assert len(begun) <= 20 or time.monotonic() - begun[-21] >= 60
        pytest.skip("the machine is too slow to use up the quota")
    assert len(begun) > 20
    assert caught.value.code == "CAL-E052"


def _keyring(path: Path, passphrase: str) -> Path:
    words = ["-m", "gristmill", "keys", "generate", "--keyring", str(path)]
    environment = {**os.environ, "GRISTMILL_PASSPHRASE": passphrase}
    subprocess.run([sys.executable, *words], env=environment, check=True)
    return path


def test_a_new_lake_with_a_keyring_is_encrypted(lake: gm.Lake, tmp_path: Path) -> None:
    keyring = _keyring(tmp_path / "keyring.json", "correct horse")
    keys: dict[str, Any] = {"keyring": keyring, "passphrase": "correct horse"}
    with pytest.raises(gm.GristmillError):
        gm.Lake(tmp_path / "sealed", keyring=keyring, passphrase="wrong")
    assert not (tmp_path / "sealed").exists()
    sealed = gm.Lake(tmp_path / "sealed", **keys)
    assert (tmp_path / "sealed" / "encryption.json").exists()
    sealed.ingest(tmp_path / "grains.jsonl")
    with pytest.raises(gm.GristmillError):
        gm.Lake(tmp_path / "sealed").sql("SELECT object FROM beliefs").to_dicts()
    again = gm.Lake(tmp_path / "sealed", **keys)
    assert len(again.sql("SELECT 1 FROM grains")) == len(GRAINS)
    with pytest.raises(gm.UsageError, match="isn't encrypted"):
        gm.Lake(tmp_path / "lake", **keys)


def test_search_ranks_by_words(lake: gm.Lake) -> None:
    found = lake.search("tea").to_dicts()
    assert {row["type"] for row in found} == {"belief", "event"}
    with pytest.raises(gm.UsageError, match="mode"):
        lake.search("tea", mode="psychic")


def test_a_scan_has_findings_and_files(lake: gm.Lake, tmp_path: Path) -> None:
    pack = tmp_path / "own.toml"
    pack.write_text(
        """
        id = "own"
        title = "House rules"
        version = "1"
        regulation = "House rules"
        [[rule]]
        id = "no-tea"
        title = "No tea"
        severity = "warning"
        norm = "Rule 1"
        where = "type = 'belief' AND object = 'tea'"
        evidence = ["subject"]
        message = "{subject} drinks tea"
        [[test]]
        rule = "no-tea"
        expect = "fail"
        grains = '[{"type": "belief", "subject": "a", "relation": "mg:likes", "object": "tea"}]'
        [[test]]
        rule = "no-tea"
        expect = "pass"
        grains = '[{"type": "event", "content": "hello"}]'
        """
    )
    report = lake.scan(str(pack))
    assert [row["message"] for row in report.findings.to_dicts()] == ["ada drinks tea"]
    assert report.summary["findings"] == 1
    for packs in (pack, [pack]):
        assert lake.scan(packs).summary["findings"] == 1
    report.html(tmp_path / "report.html")
    report.sarif(tmp_path / "report.sarif")
    assert "ada drinks tea" in (tmp_path / "report.html").read_text()
    assert '"version": "2.1.0"' in (tmp_path / "report.sarif").read_text().replace('":"', '": "')


def test_an_erasure_is_planned_carried_out_and_verified(lake: gm.Lake, tmp_path: Path) -> None:
    keyring = _keyring(tmp_path / "keyring.json", "correct horse")
    plan = lake.erase(user="u-1")
    assert plan.table["selected"]["grains"] == 2
    assert len(lake.sql("SELECT 1 FROM grains")) == 3, "a plan changes nothing"
    erasure = plan.execute(keyring=keyring, passphrase="correct horse", exclusive=True)
    assert erasure.proven
    assert len(lake.sql("SELECT 1 FROM grains")) == 1
    erasure.save(tmp_path / "certificate")
    verdict = gm.verify_certificate(tmp_path / "certificate")
    assert verdict["valid"] and gm.verify_certificate(erasure)["valid"]
    assert not gm.verify_certificate(erasure, signer="did:key:z6Mk")["valid"]
    with pytest.raises(gm.UsageError, match="nobody"):
        lake.erase(user="")
    with pytest.raises(gm.UsageError):
        lake.erase()


def test_operations_are_applied(lake: gm.Lake) -> None:
    blob = gm.encode({**GRAINS[0], "object": "milk", "created_at": 1767225604000})
    outcomes = lake.apply([{"op": "put", "blob_hex": blob.hex()}])
    assert len(outcomes) == 1, outcomes
    assert len(lake.sql("SELECT 1 FROM beliefs WHERE object = 'milk'")) == 1, outcomes


def test_verify_reports_and_calls_the_progress_function(lake: gm.Lake, tmp_path: Path) -> None:
    assert lake.verify(sidecars=True)["bad"] == 0
    seen: list[Progress] = []
    report = lake.ingest(tmp_path / "grains.jsonl", again=True, progress=seen.append)
    assert report["duplicates"] == 3
    assert 0 < seen[-1].bytes <= seen[-1].total_bytes and seen[-1].grains == 3


def test_an_exception_of_the_progress_function_is_raised(lake: gm.Lake, tmp_path: Path) -> None:
    def stop(now: object) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        lake.ingest(tmp_path / "grains.jsonl", again=True, progress=stop)


def test_a_progress_function_cannot_use_the_engine(lake: gm.Lake, tmp_path: Path) -> None:
    def ask(now: object) -> None:
        lake.sql("SELECT 1 AS a").to_dicts()

    with pytest.raises(gm.UsageError, match="progress function"):
        lake.ingest(tmp_path / "grains.jsonl", again=True, progress=ask)
    assert len(lake.sql("SELECT 1 FROM grains")) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked on Unix only")
def test_a_forked_process_is_refused_instead_of_waiting_for_ever(lake: gm.Lake) -> None:
    assert lake.sql("SELECT 1 AS a").to_dicts() == [{"a": 1}]
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(240)
            lake.sql("SELECT count(*) FROM grains").to_dicts()
        except gm.UsageError as error:
            code = 0 if "forked" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert lake.sql("SELECT 1 AS a").to_dicts() == [{"a": 1}]


def test_queries_do_not_wait_for_an_ingest(lake: gm.Lake, tmp_path: Path) -> None:
    lines = [
        {"grain": {"type": "event", "role": "user", "content": f"n {n}", "created_at": n + 1}}
        for n in range(50_000)
    ]
    source = write_lines(tmp_path / "many.jsonl", lines)
    begun, go_on = threading.Event(), threading.Event()
    found: list[int] = []

    def hold(now: object) -> None:
        begun.set()
        go_on.wait(300)

    def query() -> None:
        found.append(len(lake.sql("SELECT 1 FROM grains WHERE type = 'belief'")))

    ingest = threading.Thread(target=lambda: lake.ingest(source, progress=hold))
    ingest.start()
    assert begun.wait(300)
    asking = threading.Thread(target=query)
    asking.start()
    asking.join(120)
    answered_meanwhile = list(found)
    go_on.set()
    ingest.join()
    asking.join()
    assert answered_meanwhile == [2]
    assert len(lake.sql("SELECT 1 FROM grains")) == 50_003


#: Runs a statement of nearly the permitted depth on a thread with a small stack.
DEEP_STATEMENT = """
import sys, threading
import gristmill as gm

lake = gm.Lake(sys.argv[1])

def ask():
    print(lake.sql("SELECT 1" + " + 1" * 900 + " AS n").to_dicts())

threading.stack_size(3 << 20)
thread = threading.Thread(target=ask)
thread.start()
thread.join()
"""


def test_a_deep_statement_needs_no_stack_of_its_caller(tmp_path: Path) -> None:
    words = [sys.executable, "-c", DEEP_STATEMENT, str(tmp_path / "lake")]
    run = subprocess.run(words, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "[{'n': 901}]\n"), run.stderr


def test_other_threads_run_while_the_engine_works(lake: gm.Lake) -> None:
    ticks = 0
    done = threading.Event()

    def count() -> None:
        nonlocal ticks
        while not done.wait(0.001):
            ticks += 1

    counter = threading.Thread(target=count)
    counter.start()
    lake.sql("SELECT count(*) FROM range(1, 3000000) a").to_dicts()
    done.set()
    counter.join()
    assert ticks > 5


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_interrupts_a_query(lake: gm.Lake) -> None:
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        lake.sql(
            "SELECT count(*) FROM range(1, 1000000000) a WHERE md5(CAST(a.value AS VARCHAR)) = ''"
        ).to_dicts()
    assert lake.sql("SELECT 1 AS a").to_dicts() == [{"a": 1}]


def test_refused_input_and_missing_lakes_have_their_exceptions(tmp_path: Path) -> None:
    with pytest.raises(gm.NoLakeError):
        gm.Lake.open(tmp_path / "none")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(gm.UsageError, match="isn't a lake"):
        gm.Lake(tmp_path / "full")
    with pytest.raises(gm.GrainError) as caught:
        gm.encode({"type": "belief", "subject": "ada"})
    assert caught.value.code == "ERR_SCHEMA"
    lake = gm.Lake(tmp_path / "lake")
    with pytest.raises(gm.UsageError, match="kind"):
        lake.ingest(tmp_path / "x", kind="nonsense")


def test_a_query_over_a_damaged_file_raises_a_data_error(lake: gm.Lake, tmp_path: Path) -> None:
    (segment,) = (tmp_path / "lake" / "grains").rglob("part-*.parquet")
    content = segment.read_bytes()
    middle = len(content) // 2
    segment.write_bytes(content[:4] + b"\xff" * (middle - 4) + content[middle:])
    with pytest.raises(gm.DataError):
        gm.Lake.open(tmp_path / "lake").sql("SELECT * FROM grains").to_dicts()


def test_a_lake_follows_other_writers_on_refresh(lake: gm.Lake, tmp_path: Path) -> None:
    other = gm.Lake.open(tmp_path / "lake")
    grain = {"type": "event", "role": "user", "content": "new", "created_at": 1767225605000}
    other.ingest(write_lines(tmp_path / "new.jsonl", [{"grain": grain}]))
    assert len(lake.sql("SELECT 1 FROM grains")) == 3
    lake.refresh()
    assert len(lake.sql("SELECT 1 FROM grains")) == 4


def test_notebooks_show_tables_with_escaped_texts(lake: gm.Lake, tmp_path: Path) -> None:
    grain = {**GRAINS[0], "object": "<script>alert(1)</script>", "created_at": 1767225606000}
    lake.ingest(write_lines(tmp_path / "evil.jsonl", [{"grain": grain}]))
    shown = [
        lake,
        lake.sql("SELECT object FROM beliefs"),
        lake.sql("SELECT * FROM grains"),
        lake.cal("RECALL beliefs"),
        lake.erase(user="u-1"),
        lake.describe(),
        lake.scan("gdpr"),
        lake.sql("SELECT a.type, b.type FROM grains a CROSS JOIN grains b"),
    ]
    for value in shown:
        html = value._repr_html_()  # type: ignore[attr-defined]
        assert html.startswith("<table>") and "<script>" not in html
        assert repr(value)


def test_the_command_line_is_part_of_the_package(lake: gm.Lake, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "gristmill", "--lake", str(tmp_path / "lake"), "sql"]
    run = subprocess.run(
        [*words, "SELECT count(*) AS n FROM grains", "--format", "jsonl"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == '{"n":3}\n'
    wrong = subprocess.run([*words, "SELECT wrong"], capture_output=True, text=True)
    assert wrong.returncode == 1 and "wrong" in wrong.stderr
    assert _native.__version__ == gm.__version__

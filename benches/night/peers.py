"""Peers of the night: DuckDB, delta-rs and tantivy over the same data as gristmill.

usage: peers.py PROGRAM LAKE NEW QUESTIONS SCRATCH

Prints one JSON object. A peer whose Python package is missing is skipped with a message.
"""

import glob
import importlib
import json
import os
import shutil
import subprocess
import sys
import time

PROGRAM, LAKE, NEW, QUESTIONS, SCRATCH = sys.argv[1:6]

# The rules of the view `current`, for a lake without withdrawn contradictions.
CURRENT = """
CREATE VIEW current AS SELECT * FROM grains WHERE content_address NOT IN (
    SELECT content_address FROM state WHERE event IN ('superseded', 'expired')
        OR (event = 'contradicted' AND value = 'true')
        OR (event = 'verification' AND value = 'retracted')
    UNION SELECT unnest(supersedes) FROM grains WHERE supersedes IS NOT NULL)
"""


def module(name):
    """Returns the module `name`; None, with a message, if it isn't installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"peer {name} is skipped: the Python package isn't installed", file=sys.stderr)
        return None


def timed(work):
    """Returns wall and processor seconds of `work`, and its result."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return {
        "wall_seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
    }, result


def gristmill(lake, *words):
    """Runs gristmill and returns its wall seconds, start-up included, and its output."""
    started = time.perf_counter()
    done = subprocess.run(
        [PROGRAM, "--quiet", "--lake", lake, *words], capture_output=True, check=True, text=True
    )
    return time.perf_counter() - started, done.stdout


def files_of(deltalake, lake, table):
    """Returns the live Parquet files of a table of the lake."""
    path = os.path.join(lake, table)
    if not os.path.exists(os.path.join(path, "_delta_log")):
        return []
    uris = deltalake.DeltaTable(path).file_uris()
    return [uri.removeprefix("file://") for uri in uris]


def duckdb_questions(duckdb, deltalake):
    """Runs the SQL questions in both engines and compares the numbers of rows."""
    connection = duckdb.connect()
    grains, state = (files_of(deltalake, LAKE, table) for table in ("grains", "state"))
    read = lambda files: "read_parquet([" + ", ".join(f"'{file}'" for file in files) + "])"
    connection.execute(f"CREATE VIEW grains AS SELECT * FROM {read(grains)}")
    if state:
        connection.execute(f"CREATE VIEW state AS SELECT * FROM {read(state)}")
    else:
        columns = "content_address VARCHAR, event VARCHAR, value VARCHAR"
        connection.execute(f"CREATE TABLE state ({columns})")
    connection.execute(CURRENT)
    results = []
    with open(QUESTIONS) as file:
        questions = json.load(file)
    for question in questions:
        sql = question["sql"]
        cost, rows = timed(lambda: connection.execute(sql).fetchall())
        program = "import duckdb; duckdb.connect().execute('SELECT 1').fetchall()"
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True)
        start_up = time.perf_counter() - started
        own, output = gristmill(LAKE, "sql", "--format", "jsonl", sql)
        own_start, _ = gristmill(LAKE, "sql", "--format", "jsonl", "SELECT 1")
        own_rows = [list(json.loads(line).values()) for line in output.splitlines()]
        results.append({
            "question": question["name"],
            "duckdb": cost,
            "duckdb_start_up_seconds": start_up,
            "gristmill_wall_seconds": own,
            "gristmill_start_up_seconds": own_start,
            "same_answer": same(rows, own_rows),
        })
    return results


def same(rows, own_rows):
    """Compares the numbers of all rows: texts would pass only with equal formats of times."""
    plain = lambda row: [cell for cell in row if isinstance(cell, (int, float))]
    return [plain(row) for row in rows] == [plain(row) for row in own_rows]


def delta_nights(deltalake):
    """Runs a night's ingest and an erasure with delta-rs on a copy of the lake's table `grains`."""
    table_path = os.path.join(SCRATCH, "grains")
    shutil.copytree(os.path.join(LAKE, "grains"), table_path)
    other = os.path.join(SCRATCH, "new-lake")
    gristmill(other, "ingest", NEW, "--no-indexes")
    source = deltalake.DeltaTable(os.path.join(other, "grains")).to_pyarrow_table()
    table = deltalake.DeltaTable(table_path)
    merge = table.merge(
        source=source,
        predicate="t.content_address = s.content_address",
        source_alias="s",
        target_alias="t",
    ).when_not_matched_insert_all()
    merged, _ = timed(merge.execute)
    user = gristmill(
        LAKE, "sql", "--format", "jsonl",
        "SELECT min(user_id) AS user FROM grains WHERE user_id IS NOT NULL",
    )[1]
    user = json.loads(user)["user"].replace("'", "''")

    def erase():
        table.delete(f"user_id = '{user}'")
        return table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    erased, files = timed(erase)
    return {"merge": merged, "delete_and_vacuum": erased, "files_removed": len(files)}


def tantivy_build(tantivy):
    """Builds a full-text index of all texts with tantivy alone."""
    query = "SELECT content FROM grains WHERE content IS NOT NULL"
    output = gristmill(LAKE, "sql", "--format", "jsonl", query)[1]
    texts = [json.loads(line)["content"] for line in output.splitlines()]
    schema = tantivy.SchemaBuilder().add_text_field("content").build()
    folder = os.path.join(SCRATCH, "tantivy")
    os.makedirs(folder)

    def build():
        writer = tantivy.Index(schema, path=folder).writer()
        for text in texts:
            writer.add_document(tantivy.Document(content=text))
        writer.commit()
        writer.wait_merging_threads()

    cost, _ = timed(build)
    size = sum(os.path.getsize(file) for file in glob.glob(folder + "/*"))
    return {"texts": len(texts), "index_bytes": size, "build": cost}


def main():
    """Runs each peer that is installed."""
    os.makedirs(SCRATCH)
    duckdb, deltalake, tantivy = map(module, ("duckdb", "deltalake", "tantivy"))
    results = {}
    if duckdb and deltalake:
        results["duckdb"] = duckdb_questions(duckdb, deltalake)
    if deltalake and module("pyarrow"):
        results["delta-rs"] = delta_nights(deltalake)
    if tantivy:
        results["tantivy"] = tantivy_build(tantivy)
    shutil.rmtree(SCRATCH)
    print(json.dumps(results))


main()

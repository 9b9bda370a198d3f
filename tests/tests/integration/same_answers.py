"""The clients of a server get the answers of `gristmill sql`, and the client of the Model Context
Protocol those of `gristmill cal`. Arguments: the program, the lake, the address of Flight SQL. The
variables of PostgreSQL's clients name its address. What isn't installed is skipped.
"""

import asyncio
import csv
import datetime
import decimal
import importlib
import io
import json
import math
import shutil
import subprocess
import sys

program, lake, flight = sys.argv[1:4]

VALUES = """'a' AS t, '' AS e, 1 AS i, CAST(-7 AS SMALLINT) AS s, 9223372036854775807 AS big,
    1.5 AS f, true AS b, NULL AS n, CAST(NULL AS INT) AS ni, CAST(1.50 AS DECIMAL(5,2)) AS d"""
QUERIES = [
    f"SELECT {VALUES}",
    "SELECT X'00ff' AS x, X'' AS e, CAST(NULL AS BYTEA) AS n",
    """SELECT DATE '2027-01-31' AS d, TIME '12:30:01.5' AS t,
    TIMESTAMP '2027-01-31T12:30:00.25' AS s""",
    """SELECT arrow_cast('2027-01-31T12:30:00.25Z', 'Timestamp(Microsecond, Some("UTC"))')
    AS t""",
    "SELECT ARRAY[1, 2, NULL] AS a, ARRAY['x', 'y z', '', NULL] AS b, CAST(NULL AS INT[]) AS c",
    """SELECT named_struct('a', 1, 'b', 'x', 'c', ARRAY['y']) AS s,
    ARRAY[named_struct('a', 1)] AS l""",
    "SELECT type, count(*) AS n FROM current GROUP BY type ORDER BY type",
    "SELECT content_address, subject, object, confidence FROM beliefs ORDER BY content_address",
    "SELECT content_address, created_at, blob, structural_tags FROM grains ORDER BY 1",
    "SELECT content_address, namespace, user_id, role, content FROM grains ORDER BY 1",
    "SELECT address, subject, relation, object FROM triples ORDER BY address, object",
    "SELECT content_address, superseded_by FROM supersessions ORDER BY content_address",
    "SELECT content_address, contradicted, access_count FROM lifecycle ORDER BY content_address",
    """SELECT subject, array_agg(confidence ORDER BY content_address) AS c FROM beliefs
    GROUP BY 1 ORDER BY 1""",
    "WITH b AS (SELECT DISTINCT subject FROM beliefs) SELECT subject FROM b ORDER BY subject DESC",
    """SELECT subject, row_number() OVER (PARTITION BY subject ORDER BY content_address) AS n
    FROM beliefs ORDER BY subject, n""",
    "SELECT subject AS s FROM beliefs UNION SELECT role FROM events ORDER BY s",
    "SELECT min(created_at) AS a, max(created_at) AS b, avg(confidence) AS c FROM beliefs",
    """SELECT count(*) AS n FROM grains g WHERE EXISTS
    (SELECT 1 FROM current c WHERE c.content_address = g.content_address)""",
    "SELECT content_address FROM grains WHERE false",
]
# With a parameter, by its place in the syntax of each client.
BOUND = """SELECT subject, object, confidence FROM beliefs WHERE subject = {} AND confidence > {}
    ORDER BY object"""
WRONG = "SELECT * FROM graims"
CAL = [
    "RECALL beliefs LIMIT 50",
    'RECALL LIKE "tea" LIMIT 7',
    "RECALL events | COUNT",
    "DESCRIBE grain_types",
]
MARK = "SELECT '~~~~' AS mark"


def run(*arguments):
    """Runs the program and returns what it prints."""
    done = subprocess.run(
        [program, "--quiet", "--lake", lake, *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def answers_of_sql(queries):
    """Returns the rows of each query as `gristmill sql` prints them."""
    text = f"; {MARK}; ".join(queries)
    answers = [[]]
    for line in filter(None, run("sql", "--format", "jsonl", text).splitlines()):
        row = json.loads(line, parse_float=decimal.Decimal)
        if row == {"mark": "~~~~"}:
            answers.append([])
        else:
            answers[-1].append(row)
    return answers


def plain(value):
    """Returns a value of a client in the form of `gristmill sql`."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, datetime.datetime):
        moment = value.astimezone(datetime.timezone.utc) if value.tzinfo else value
        return moment.replace(tzinfo=None)
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, (datetime.time, decimal.Decimal)):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else decimal.Decimal(repr(value))
    if hasattr(value, "tolist") or isinstance(value, (list, tuple)):
        items = value.tolist() if hasattr(value, "tolist") else value
        return [plain(item) for item in items] if isinstance(items, (list, tuple)) else plain(items)
    raise AssertionError(f"{type(value)}: {value!r}")


def is_same(found, wanted):
    """Compares a value of a client with one that `gristmill sql` prints."""
    if isinstance(found, datetime.datetime):
        return (
            datetime.datetime.fromisoformat(wanted.replace("Z", "+00:00")).replace(tzinfo=None)
            == found
        )
    if isinstance(found, datetime.time):
        return datetime.time.fromisoformat(wanted) == found
    if isinstance(found, list):
        return len(found) == len(wanted) and all(map(is_same, found, wanted))
    if isinstance(found, dict):
        return found.keys() == wanted.keys() and all(
            is_same(found[key], wanted[key]) for key in found
        )
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    return found == wanted


def check(client, query, rows, wanted):
    """Compares the rows of a client, as dictionaries."""
    rows = [plain({key: value for key, value in row.items()}) for row in rows]
    assert len(rows) == len(wanted), f"{client}: {query}: {len(rows)} rows, not {len(wanted)}"
    for found, expected in zip(rows, wanted):
        assert is_same(found, expected), f"{client}: {query}: {found} is not {expected}"


def check_client(client, ask, placeholders, error_class):
    """Sends all queries, one with parameters, and one that fails."""
    for query, wanted in zip(QUERIES, EXPECTED):
        check(client, query, ask(query), wanted)
    check(client, BOUND, ask(BOUND.format(*placeholders), ["bob", 0.25]), EXPECTED_BOUND)
    try:
        ask(WRONG)
    except error_class as error:
        assert "grains" in str(error), f"{client}: {error}"
    else:
        raise AssertionError(f"{client}: no error")
    print(client)


def installed(*names):
    """Returns modules, or None if one isn't installed."""
    try:
        return [importlib.import_module(name) for name in names]
    except ImportError as error:
        print(f"skipped: {error}")
        return None


*EXPECTED, EXPECTED_BOUND = answers_of_sql(QUERIES + [BOUND.format("'bob'", "0.25")])
assert len(EXPECTED) == 20 and EXPECTED_BOUND
assert sum(map(bool, EXPECTED)) == 19, [len(rows) for rows in EXPECTED]

if modules := installed("adbc_driver_flightsql.dbapi", "pyarrow"):
    adbc, pyarrow = modules
    with adbc.connect(flight, autocommit=True) as connection:

        def table_of(query, parameters=None):
            with connection.cursor() as cursor:
                cursor.execute(query, parameters)
                return cursor.fetch_arrow_table()

        numbered = ["$1", "$2"]
        check_client("adbc", lambda *asked: table_of(*asked).to_pylist(), numbered, adbc.Error)
        if modules := installed("polars"):
            polars = modules[0]
            read = lambda *asked: polars.from_arrow(table_of(*asked)).to_dicts()
            check_client("polars", read, numbered, adbc.Error)
        if modules := installed("pandas"):
            pandas = modules[0]

            def read(*asked):
                # Integers with NULLs stay integers.
                frame = table_of(*asked).to_pandas(types_mapper=pandas.ArrowDtype)
                rows = frame.astype(object).to_dict("records")
                return [
                    {
                        key: None if value is pandas.NA or value is pandas.NaT else value
                        for key, value in row.items()
                    }
                    for row in rows
                ]

            check_client("pandas", read, numbered, adbc.Error)
        if modules := installed("duckdb"):
            duckdb = modules[0]

            def read(*asked):
                rows = table_of(*asked)
                found = duckdb.sql("SET TimeZone = 'UTC'; FROM rows")
                return [dict(zip(found.columns, row)) for row in found.fetchall()]

            check_client("duckdb", read, numbered, adbc.Error)

if modules := installed("psycopg"):
    psycopg = modules[0]
    with psycopg.connect(autocommit=True) as connection:
        for binary in [False, True]:

            def read(query, parameters=None):
                with connection.cursor(binary=binary, row_factory=psycopg.rows.dict_row) as cursor:
                    return cursor.execute(query, parameters).fetchall()

            name = f"psycopg, {'binary' if binary else 'text'}"
            check_client(name, read, ["%s", "%s"], psycopg.Error)

if modules := installed("sqlalchemy", "psycopg"):
    sqlalchemy = modules[0]
    engine = sqlalchemy.create_engine("postgresql+psycopg://")
    with engine.connect() as connection:

        def read(query, parameters=None):
            try:
                if parameters is None:
                    rows = connection.exec_driver_sql(query)
                else:
                    rows = connection.execute(
                        sqlalchemy.text(query), dict(zip(["one", "two"], parameters))
                    )
                return [dict(row._mapping) for row in rows]
            finally:
                connection.rollback()

        check_client("sqlalchemy", read, [":one", ":two"], sqlalchemy.exc.DBAPIError)

if modules := installed("flightsql"):
    host, port = flight.split("//")[1].split(":")
    client = modules[0].FlightSQLClient(host=host, port=int(port), insecure=True)
    for query, wanted in zip(QUERIES, EXPECTED):
        ticket = client.execute(query).endpoints[0].ticket
        check("flightsql-dbapi", query, client.do_get(ticket).read_all().to_pylist(), wanted)
    print("flightsql-dbapi")


def printed(value):
    """Returns a value of `gristmill sql` as PostgreSQL's clients print it; None for structs."""
    if isinstance(value, list):
        items = [printed(item) for item in value]
        return None if None in items else f"{{{','.join(items)}}}"
    if isinstance(value, dict):
        return None
    if isinstance(value, bool):
        return "t" if value else "f"
    return "NULL" if value is None else str(value)


def is_printed(found, wanted):
    """Compares a value that `psql` prints with one that `gristmill sql` prints."""
    if isinstance(wanted, (dict, list)) and printed(wanted) is None:
        return isinstance(wanted, list) or json.loads(found) == wanted
    if isinstance(wanted, list):
        return found.replace('"', "") == printed(wanted)
    if isinstance(wanted, decimal.Decimal):
        return decimal.Decimal(found) == wanted
    if isinstance(wanted, str) and found != wanted:
        is_time = "T" in wanted and is_same(plain(datetime.datetime.fromisoformat(found)), wanted)
        return (
            is_time
            or found == f"\\x{wanted}"
            or (wanted[:2].isdigit() and found == wanted.rstrip("0"))
        )
    return found == printed(wanted)


if shutil.which("psql"):

    def psql(query):
        command = ["psql", "-X", "--csv", "-v", "ON_ERROR_STOP=1", "-P", "null=~", "-c", query]
        return subprocess.run(command, capture_output=True, text=True)

    for query, wanted in zip(QUERIES, EXPECTED):
        done = psql(query)
        assert done.returncode == 0, done.stderr
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        assert len(rows) == len(wanted), f"psql: {query}: {rows}"
        for row, expected in zip(rows, wanted):
            found = {key: value for key, value in row.items() if value != "~"}
            assert found.keys() == expected.keys(), f"psql: {query}: {found} is not {expected}"
            for key, value in found.items():
                assert is_printed(
                    value, expected[key]
                ), f"psql: {query}: {value} is not {expected[key]}"
    done = psql(WRONG)
    assert done.returncode != 0 and "grains" in done.stderr, done.stderr
    print("psql")
else:
    print("skipped: there is no psql")


async def ask_mcp(mcp, stdio):
    """Sends statements of CAL to the tool `recall`, and compares their grains."""
    server = mcp.StdioServerParameters(
        command=program, args=["--lake", lake, "mcp", "--max-tokens", "100000"]
    )
    async with stdio.stdio_client(server) as (read, write), mcp.ClientSession(
        read, write
    ) as session:
        await session.initialize()
        for statement in CAL:
            wanted = json.loads(run("cal", "--format", "json", statement))
            wanted = wanted[0] if isinstance(wanted, list) else wanted
            answer = await session.call_tool("recall", {"cal": statement})
            found = json.loads(answer.content[0].text)
            addresses = [
                f"sha256:{result['content_address']}" for result in wanted.get("results", [])
            ]
            assert [grain["address"] for grain in found.get("results", [])] == addresses, statement
            assert found.get("total") == wanted.get("total"), statement
            assert found.get("value") == wanted.get("value"), statement
        answer = await session.call_tool("recall", {"cal": "RECALL belief"})
        assert json.loads(answer.content[0].text)["code"] == "CAL-E003"
    print("mcp")


if modules := installed("mcp", "mcp.client.stdio"):
    asyncio.run(ask_mcp(*modules))

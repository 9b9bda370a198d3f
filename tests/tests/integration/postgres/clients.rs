//! The clients `psql`, `psycopg` and SQLAlchemy, and TLS.

use gristmill_server::http::Scope;
use gristmill_server::tls::Tls;
use gristmill_tests::certificate::make_certificate;
use gristmill_tests::test_server::{Protocol, TestServer, limits, own};

use crate::namespaces;

/// Runs a program with the address and token of a server; `None` if there is no such program.
async fn client_program(server: &TestServer, program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = std::process::Command::new(program);
    command
        .args(arguments)
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", server.address.port().to_string())
        .env("PGUSER", "me")
        .env("PGDATABASE", "lake")
        .env("PGPASSWORD", server.token.as_deref().unwrap_or_default());
    let output = tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap();
    let Ok(output) = output else {
        eprintln!("skipped: there is no `{program}`");
        return None;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    Some(format!(
        "{}{errors}",
        String::from_utf8_lossy(&output.stdout)
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_queries_and_lists_tables() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Postgres, &lake, own(), limits()).await;
    for (command, expected) in [
        ("SELECT count(*) FROM grains", "24"),
        ("SELECT version()", "PostgreSQL 16.6"),
        ("\\d", "public|grains|table|gristmill"),
        ("\\dv", "public|beliefs|view|gristmill"),
        ("\\dt gr*", "public|grains|table|gristmill"),
        ("\\d grains", "content_address|text"),
        ("\\d beliefs", "confidence|double precision"),
        ("\\d+ grains", "content_address|text"),
        ("\\d+ beliefs", "confidence|double precision"),
        ("\\dp gr*", "public|grains|table"),
        ("\\l+", "datafusion|gristmill"),
        ("\\db+", "pg_default|gristmill"),
        ("\\dT", ""),
        ("\\dC", ""),
        ("\\ddp", ""),
        ("\\du", "gristmill"),
        ("\\dn", "public|gristmill"),
        ("\\l", "datafusion|gristmill"),
        ("\\conninfo", "lake"),
        (
            "COPY (SELECT 'a' AS a, NULL AS b) TO STDOUT WITH CSV HEADER",
            "a,b",
        ),
    ] {
        let arguments = ["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", command];
        let Some(printed) = client_program(&server, "psql", &arguments).await else {
            return;
        };
        assert!(printed.contains(expected), "{command}: {printed}");
        assert!(!printed.contains("ERROR"), "{command}: {printed}");
        assert!(!printed.contains("audit"), "{command}: {printed}");
    }
    server.end().await;
}

/// Asks with `psycopg`, and with SQLAlchemy if it is installed.
const PYTHON: &str = r#"
import datetime, decimal, os, sys
try:
    import psycopg
except ImportError:
    print("skipped: the Python lacks psycopg (GRISTMILL_PYTHON names another)")
    sys.exit()
with psycopg.connect() as connection:
    count = connection.execute("SELECT count(*) FROM grains WHERE namespace = %s", ["own"])
    assert count.fetchone() == (24,), "parameters"
    row = "SELECT 1 AS a, 1.5 AS b, 'a' AS c, NULL AS d, true AS e, DATE '2027-01-31' AS f, CAST(1.50 AS DECIMAL(5,2)) AS g, ARRAY[1, 2] AS h, named_struct('a', 1) AS i, X'00ff' AS j"
    expected = (1, 1.5, "a", None, True, datetime.date(2027, 1, 31), decimal.Decimal("1.50"), [1, 2], {"a": 1}, b"\x00\xff")
    for binary in [False, True]:
        with connection.cursor(binary=binary) as cursor:
            assert cursor.execute(row).fetchone() == expected, cursor.execute(row).fetchone()
    given = [7, 2.5, "x", datetime.date(2027, 1, 31), decimal.Decimal("-12.50"), True, None]
    query = "SELECT " + ", ".join(["%s"] * len(given))
    for form in ["%s", "%b", "%t"]:
        found = connection.execute(query.replace("%s", form), given).fetchone()
        assert list(found) == given, (form, found)
    for form in ["%s", "%b", "%t"]:
        several = f"SELECT count(*) FROM beliefs WHERE subject = ANY({form})"
        assert connection.execute(several, [["bob"]]).fetchone() == (4,), form
        assert connection.execute(several, [["bob", "x, y", "{", None]]).fetchone() == (4,), form
        numbers = f"SELECT count(*) FROM range(0, 10) WHERE value = ANY({form})"
        assert connection.execute(numbers, [[2, 3, 70000, 5000000000]]).fetchone() == (2,), form
    for binary in [False, True]:
        with connection.transaction(), connection.cursor("several", binary=binary) as cursor:
            cursor.itersize = 3
            cursor.execute("SELECT value, 'x' AS x FROM range(0, 99) WHERE value < %s ORDER BY value", [8])
            assert [column.name for column in cursor.description] == ["value", "x"]
            assert cursor.fetchmany(2) == [(0, "x"), (1, "x")]
            assert [row[0] for row in cursor] == [2, 3, 4, 5, 6, 7]
    with connection.cursor() as cursor, cursor.copy("COPY (SELECT 1 AS a, 'b' AS b) TO STDOUT") as copy:
        assert b"".join(map(bytes, copy)) == b"1\tb\n"
    for _ in range(7):
        connection.execute("SELECT object FROM beliefs WHERE subject = %s", ["bob"]).fetchall()
    try:
        connection.execute("SELECT * FROM graims")
    except psycopg.errors.UndefinedTable as error:
        assert error.diag.message_hint
    connection.rollback()
    assert connection.execute("SELECT 1").fetchone() == (1,)
print("psycopg", psycopg.__version__)
try:
    import sqlalchemy
except ImportError:
    print("skipped: the Python lacks SQLAlchemy")
    sys.exit()
url = sqlalchemy.URL.create("postgresql+psycopg", os.environ["PGUSER"], os.environ["PGPASSWORD"],
    os.environ["PGHOST"], int(os.environ["PGPORT"]), os.environ["PGDATABASE"])
engine = sqlalchemy.create_engine(url)
with engine.connect() as connection:
    text = sqlalchemy.text("SELECT count(*) FROM grains WHERE namespace = :name")
    assert connection.execute(text, {"name": "own"}).scalar() == 24
    text = sqlalchemy.text("SELECT count(*) FROM beliefs WHERE subject = ANY(:names)")
    assert connection.execute(text, {"names": ["bob"]}).scalar() == 4
    streamed = sqlalchemy.text("SELECT object FROM beliefs")
    streamed = streamed.execution_options(stream_results=True, max_row_buffer=3)
    assert len(connection.execute(streamed).fetchall()) == 12
    beliefs = sqlalchemy.table("beliefs", sqlalchemy.column("subject", sqlalchemy.Text))
    count = sqlalchemy.select(sqlalchemy.func.count()).select_from(beliefs)
    assert connection.execute(count.where(beliefs.c.subject.in_(["bob", "x"]))).scalar() == 4
inspector = sqlalchemy.inspect(engine)
assert inspector.get_schema_names() == ["information_schema", "public"], inspector.get_schema_names()
assert "grains" in inspector.get_table_names(), inspector.get_table_names()
assert "beliefs" in inspector.get_view_names(), inspector.get_view_names()
columns = {column["name"]: str(column["type"]) for column in inspector.get_columns("grains")}
assert columns["content_address"] == "TEXT", columns
assert inspector.get_pk_constraint("grains")["constrained_columns"] == []
assert inspector.get_foreign_keys("grains") == []
assert inspector.get_indexes("grains") == []
print("SQLAlchemy", sqlalchemy.__version__)
"#;

#[tokio::test(flavor = "multi_thread")]
async fn psycopg_and_sqlalchemy_query_and_inspect() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Postgres, &lake, own(), limits()).await;
    let python = std::env::var("GRISTMILL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if let Some(printed) = client_program(&server, &python, &["-c", PYTHON]).await {
        eprint!("{printed}");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_encrypted_with_the_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let Some(files) = make_certificate(folder.path()) else {
        return;
    };
    let chain = std::fs::read(&files.certificate).unwrap();
    let key = std::fs::read(&files.key).unwrap();
    assert!(Tls::from_pem(b"", &key).is_err());
    assert!(Tls::from_pem(&chain, b"no key").is_err());
    let tls = Tls::from_pem(&chain, &key).unwrap();
    let lake = namespaces::lake(true).await;
    let server = TestServer::start_with(
        Protocol::Postgres,
        &lake,
        own(),
        &[Scope::Read],
        limits(),
        Some(tls),
    )
    .await;
    let root = format!(
        "sslmode=verify-full sslrootcert={}",
        files.certificate.display()
    );
    for (settings, expected) in [(&*root, "SSL connection"), ("sslmode=disable", "host")] {
        let arguments = ["-X", "-d", settings, "-c", "\\conninfo"];
        let Some(printed) = client_program(&server, "psql", &arguments).await else {
            return;
        };
        assert!(printed.contains(expected), "{settings}: {printed}");
    }
    let rows = [
        "-X",
        "-At",
        "-d",
        &*root,
        "-c",
        "SELECT count(*) FROM grains",
    ];
    let rows = client_program(&server, "psql", &rows).await.unwrap();
    assert_eq!(rows.trim(), "24");
    server.end().await;
}

#[test]
fn addresses_that_other_machines_reach_need_tls_and_tokens() {
    let lake = tempfile::tempdir().unwrap();
    for arguments in [
        &["--postgres", "0.0.0.0:0"][..],
        &["--postgres", "0.0.0.0:0", "--tokens", "none.toml"],
        &["--flight", "0.0.0.0:0"],
        &["--listen", "0.0.0.0:0"],
        &["--flight", "127.0.0.1:0", "--tls-cert", "c.pem"],
    ] {
        let mut command = gristmill_tests::binary::gristmill();
        command
            .arg("--lake")
            .arg(lake.path())
            .arg("serve")
            .args(arguments);
        let output = command.output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("--tls-key"), "{errors}");
    }
}

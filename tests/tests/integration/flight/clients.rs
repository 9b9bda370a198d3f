//! Drivers of ADBC and DB-API in Python, and TLS.

use gristmill_server::http::Scope;
use gristmill_server::tls::Tls;
use gristmill_tests::certificate::make_certificate;

use crate::namespaces;
use gristmill_tests::test_server::{Protocol, TestServer, limits, own};

/// Asks with the drivers that are installed.
const PYTHON: &str = r#"
import os, sys
uri, token, root = os.environ["FLIGHT_URI"], os.environ["FLIGHT_TOKEN"], os.environ.get("FLIGHT_ROOT")
try:
    import adbc_driver_flightsql.dbapi as adbc
    from adbc_driver_flightsql import DatabaseOptions
except ImportError:
    print("skipped: the Python lacks adbc-driver-flightsql (GRISTMILL_PYTHON names another)")
    sys.exit()
authority = {DatabaseOptions.AUTHORIZATION_HEADER.value: "Bearer " + token}
password = {"username": "anyone", "password": token}
if root:
    authority[DatabaseOptions.TLS_ROOT_CERTS.value] = open(root).read()
    password[DatabaseOptions.TLS_ROOT_CERTS.value] = open(root).read()
for options in [authority, password]:
    with adbc.connect(uri, db_kwargs=options, autocommit=True) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT type, count(*) AS n FROM grains GROUP BY type ORDER BY type")
            assert cursor.fetchall() == [("belief", 12), ("event", 12)], "rows"
            cursor.execute("SELECT 1 AS a, 1.5 AS b, 'a' AS c, NULL AS d, true AS e, ARRAY[1, 2] AS f, X'00ff' AS g, named_struct('a', 1) AS h")
            assert cursor.fetchone() == (1, 1.5, "a", None, True, [1, 2], b"\x00\xff", {"a": 1}), "types"
            cursor.execute("SELECT count(*) FROM beliefs WHERE subject = $1 AND confidence > $2", ["bob", 0.0])
            assert cursor.fetchone() == (4,), "parameters"
            cursor.execute("SELECT * FROM grains")
            table = cursor.fetch_arrow_table()
            assert table.num_rows == 24 and "content_address" in table.column_names
            try:
                cursor.execute("SELECT * FROM graims")
                cursor.fetchall()
            except adbc.Error as error:
                assert "grains" in str(error), error
            else:
                raise AssertionError("an unknown table")
        assert "beliefs" in str(connection.adbc_get_objects(depth="tables").read_all().to_pylist())
        assert connection.adbc_get_table_schema("grains").field("content_address")
        assert "TABLE" in connection.adbc_get_table_types()
        assert connection.adbc_get_info()["vendor_name"] == "gristmill"
try:
    adbc.connect(uri, db_kwargs={DatabaseOptions.AUTHORIZATION_HEADER.value: "Bearer gm_"}, autocommit=True).cursor().execute("SELECT 1")
except adbc.Error:
    pass
else:
    raise AssertionError("a wrong token")
print("adbc-driver-flightsql")
try:
    import flightsql
except ImportError:
    print("skipped: the Python lacks flightsql-dbapi")
    sys.exit()
if not root:
    host, port = uri.split("//")[1].split(":")
    client = flightsql.FlightSQLClient(host=host, port=int(port), token=token, insecure=True)
    info = client.execute("SELECT count(*) AS n FROM grains")
    assert client.do_get(info.endpoints[0].ticket).read_all().to_pydict() == {"n": [24]}
    print("flightsql-dbapi")
"#;

async fn run_python(server: &TestServer, scheme: &str, root: Option<&std::path::Path>) {
    let python = std::env::var("GRISTMILL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut command = std::process::Command::new(python);
    command
        .args(["-c", PYTHON])
        .env("FLIGHT_URI", format!("{scheme}://{}", server.address))
        .env("FLIGHT_TOKEN", server.token.as_deref().unwrap_or_default());
    if let Some(root) = root {
        command.env("FLIGHT_ROOT", root);
    }
    let output = tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap();
    let Ok(output) = output else {
        eprintln!("skipped: there is no Python");
        return;
    };
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}{errors}");
    eprint!("{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn python_drivers_query_and_inspect() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Flight, &lake, own(), limits()).await;
    run_python(&server, "grpc", None).await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_encrypted_with_the_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let Some(files) = make_certificate(folder.path()) else {
        return;
    };
    let chain = std::fs::read(&files.certificate).unwrap();
    let tls = Tls::from_pem(&chain, &std::fs::read(&files.key).unwrap()).unwrap();
    let lake = namespaces::lake(true).await;
    let scopes = [Scope::Read];
    let server =
        TestServer::start_with(Protocol::Flight, &lake, own(), &scopes, limits(), Some(tls)).await;
    run_python(&server, "grpc+tls", Some(&files.certificate)).await;
    // A client that doesn't encrypt gets no answer.
    let plain = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address));
    let channel = plain.unwrap().connect().await;
    if let Ok(channel) = channel {
        let mut client = arrow_flight::sql::client::FlightSqlServiceClient::new(channel);
        assert!(client.get_catalogs().await.is_err());
    }
    server.end().await;
}

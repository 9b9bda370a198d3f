//! `serve`: answers SQL, CAL and searches over HTTP and Arrow Flight SQL, and SQL over PostgreSQL's
//! protocol, until it is stopped; makes tokens.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use futures::FutureExt;
use futures::future::OptionFuture;

use gristmill_queries::sql::Confinement;
use gristmill_server::http::{
    self, AuditKey, HttpOptions, QueryLimits, Scope, Server, Tokens, new_token,
};
use gristmill_server::tls::Tls;
use gristmill_server::{NewestLake, flight, postgres};
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{SignalKind, signal};

use super::CommandContext;
use super::keys::keyring_if_given;
use super::sql::options;
use crate::args::serving::{ScopeArg, ServeArgs};
use crate::duration_arg::parse_duration;
use crate::exit::{CommandOutcome, Failure};
use crate::output::write_stdout;

/// Number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Serves until SIGINT or SIGTERM.
pub async fn run(
    context: &CommandContext,
    arguments: ServeArgs,
) -> Result<CommandOutcome, Failure> {
    if let Some(name) = &arguments.new_token {
        print_new_token(name, &arguments)?;
        return Ok(CommandOutcome::Done);
    }
    check_addresses(&arguments)?;
    let tls = tls(&arguments)?;
    let served = http_options(context, &arguments)?;
    let reloaded = reloaded_tokens(arguments.tokens.as_deref().zip(served.tokens.as_ref()))?;
    let lake = context.open_lake().await?;
    let lake = NewestLake::new(lake, options(context)?)
        .await
        .map_err(|error| Failure::environment("can't serve the lake", &error))?;
    let server = Server::new(lake, served)
        .await
        .map_err(|error| Failure::environment("can't serve the lake", &error))?;
    let scheme = |plain, secure| if tls.is_some() { secure } else { plain };
    let over_http = bind(context, scheme("http", "https"), arguments.listen)?;
    let scheme = scheme("grpc", "grpc+tls");
    let bind_optional = |scheme, address: Option<SocketAddr>| {
        let bound = address.map(|address| bind(context, scheme, address));
        bound.transpose()
    };
    let over_flight = bind_optional(scheme, arguments.flight)?;
    let over_postgres = bind_optional("postgresql", arguments.postgres)?;
    let stop = stopped()?.shared();
    let listeners = async {
        let flight = over_flight
            .map(|listener| flight::listen(server.clone(), listener, tls.clone(), stop.clone()));
        let postgres = over_postgres
            .map(|listener| postgres::listen(server.clone(), listener, tls.clone(), stop.clone()));
        tokio::join!(OptionFuture::from(flight), OptionFuture::from(postgres));
    };
    let http = http::listen(server.clone(), over_http, tls.clone(), stop.clone());
    tokio::select! {
        _ = async { tokio::join!(http, listeners) } => {}
        // It never ends.
        () = reloaded => {}
    }
    Ok(CommandOutcome::Done)
}

/// Listens on `address`. The system tests silent connections (TCP keepalive) and ends those whose
/// clients are gone: a session of PostgreSQL may be silent as long as it likes, and would count
/// among the connections forever.
fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit it.
    socket.set_keepalive(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Listens on `address`, and prints it.
fn bind(
    context: &CommandContext,
    scheme: &str,
    address: SocketAddr,
) -> Result<TcpListener, Failure> {
    let listener = listener(address)
        .map_err(|error| Failure::environment(&format!("can't listen on {address}"), &error))?;
    let bound = listener
        .local_addr()
        .map_err(|error| Failure::environment("can't listen", &error))?;
    context.hint(format_args!(
        "serving {} on {scheme}://{bound}",
        context.lake()
    ));
    Ok(listener)
}

/// Refuses addresses that other machines reach, unless they are encrypted and known by tokens.
fn check_addresses(arguments: &ServeArgs) -> Result<(), Failure> {
    if arguments.tls_cert.is_some() && arguments.tokens.is_some() {
        return Ok(());
    }
    let addresses = [
        ("--listen", Some(arguments.listen)),
        ("--flight", arguments.flight),
        ("--postgres", arguments.postgres),
    ];
    for (option, address) in addresses {
        if let Some(address) = address.filter(|address| !address.ip().is_loopback()) {
            return Err(Failure::usage(format!(
                "{option} {address}: other machines need --tls-cert, --tls-key and --tokens; or \
                 let a proxy with TLS pass requests on to 127.0.0.1"
            )));
        }
    }
    Ok(())
}

fn tls(arguments: &ServeArgs) -> Result<Option<Tls>, Failure> {
    let (certificate, key) = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificate), Some(key)) => (certificate, key),
        (None, None) => return Ok(None),
        // A configuration file can set one of them; nothing may be served in the clear then.
        _ => {
            return Err(Failure::usage(
                "--tls-cert and --tls-key need each other: one of them is set, by the command \
                 line or a configuration file",
            ));
        }
    };
    let read = |path: &Path| std::fs::read(path).map_err(|error| Failure::reading(path, &error));
    let tls = Tls::from_pem(&read(certificate)?, &read(key)?);
    tls.map(Some)
        .map_err(|error| Failure::usage(format!("`{}`: {error}", certificate.display())))
}

/// Returns a future that is ready at the first SIGINT or SIGTERM.
fn stopped() -> Result<impl Future<Output = ()>, Failure> {
    let heard =
        |kind| signal(kind).map_err(|error| Failure::environment("can't handle signals", &error));
    let (mut interrupt, mut terminate) = (
        heard(SignalKind::interrupt())?,
        heard(SignalKind::terminate())?,
    );
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

fn http_options(context: &CommandContext, arguments: &ServeArgs) -> Result<HttpOptions, Failure> {
    // A wrong passphrase ends the command.
    let keyring = keyring_if_given(&context.common.keys)?;
    Ok(HttpOptions {
        tokens: arguments.tokens.as_deref().map(tokens).transpose()?,
        allow_writes: arguments.allow_writes,
        limits: QueryLimits {
            time: parse_duration("--max-time", &arguments.max_time)?,
            rows: arguments.max_rows,
            bytes: arguments.max_bytes.0,
            memory: usize::try_from(arguments.query_memory.0).unwrap_or(usize::MAX),
            concurrent: arguments.concurrent,
            queued: arguments.queued,
        },
        audit_rows: arguments.audit_rows,
        audit_key: keyring.as_ref().map(AuditKey::of).transpose()?,
    })
}

/// Returns a future that never ends and reads the file of tokens again at each SIGHUP. Without
/// tokens, this signal ends the process as usual.
fn reloaded_tokens(
    tokens: Option<(&Path, &Tokens)>,
) -> Result<impl Future<Output = ()> + use<>, Failure> {
    let reloading = match tokens {
        None => None,
        Some((path, tokens)) => {
            let hangup = signal(SignalKind::hangup())
                .map_err(|error| Failure::environment("can't handle signals", &error))?;
            Some((path.to_owned(), tokens.clone(), hangup))
        }
    };
    Ok(async move {
        if let Some((path, tokens, mut hangup)) = reloading {
            while hangup.recv().await.is_some() {
                reload_tokens(&path, &tokens);
            }
        }
        std::future::pending().await
    })
}

/// Replaces the tokens by those of the file, or logs why they stay as they were.
fn reload_tokens(path: &Path, tokens: &Tokens) {
    let replaced = std::fs::read_to_string(path)
        .map_err(|error| error.to_string())
        .and_then(|text| tokens.replace(&text).map_err(|error| error.to_string()));
    let path = path.display();
    match replaced {
        Ok(()) => tracing::info!(%path, "the tokens were read again"),
        Err(error) => tracing::error!(%path, %error, "the tokens stay as they were"),
    }
}

fn tokens(path: &Path) -> Result<Tokens, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::reading(path, &error))?;
    Tokens::parse(&text).map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))
}

/// Prints the token on standard error, and its table on standard output, so that the table can be
/// appended to the file.
fn print_new_token(name: &str, arguments: &ServeArgs) -> Result<(), Failure> {
    let scopes = match arguments.scopes.as_slice() {
        [] => [Scope::Read].into(),
        named => named.iter().copied().map(Scope::from).collect(),
    };
    let confinement = Confinement {
        namespace: arguments.namespace.clone(),
        user: arguments.user.clone(),
    };
    let (token, table) = new_token(name, &confinement, scopes)
        .map_err(|error| Failure::environment("can't print the token", &error))?;
    // Unlike a note, it must not be lost.
    writeln!(
        std::io::stderr(),
        "the token, which is stored nowhere: {token}"
    )
    .map_err(|error| Failure::environment("can't print the token", &error))?;
    write_stdout(|out| writeln!(out, "{table}"))
}

impl From<ScopeArg> for Scope {
    fn from(scope: ScopeArg) -> Scope {
        match scope {
            ScopeArg::Read => Scope::Read,
            ScopeArg::Append => Scope::Append,
            ScopeArg::Govern => Scope::Govern,
        }
    }
}

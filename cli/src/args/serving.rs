//! Arguments of the commands that serve a lake to other programs.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::query::SessionArgs;
use super::size::Size;

/// Parses an address and port at which a process listens.
pub(super) fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "an IP address and a port are needed, such as 127.0.0.1:7878 or [::1]:7878".to_owned()
    })
}

#[derive(Debug, Args)]
pub struct McpArgs {
    #[command(flatten)]
    pub session: SessionArgs,
    /// Offer the tool `remember`, and allow ADD, SUPERSEDE and REVERT in CAL statements
    #[arg(long)]
    pub allow_writes: bool,
    /// Largest answer of a tool, in estimated tokens
    #[arg(long, value_name = "N", default_value_t = 4_000)]
    pub max_tokens: usize,
}

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Address and port of HTTP; here and below, addresses that other machines reach need TLS and
    /// tokens
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:7878",
        value_parser = socket_address
    )]
    pub listen: SocketAddr,
    /// Also answer Arrow Flight SQL at this address and port, such as 127.0.0.1:31337
    #[arg(long, value_name = "ADDRESS", value_parser = socket_address)]
    pub flight: Option<SocketAddr>,
    /// Also answer PostgreSQL's protocol at this address and port, such as 127.0.0.1:5432
    #[arg(long, value_name = "ADDRESS", value_parser = socket_address)]
    pub postgres: Option<SocketAddr>,
    /// File with the server's certificate and its chain, in PEM; HTTP and Flight SQL are answered
    /// over TLS only then
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// File with the private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// File of tokens, read again at SIGHUP [default: none; every process of this machine may read
    /// the whole lake]
    #[arg(long, value_name = "FILE")]
    pub tokens: Option<PathBuf>,
    /// Allow ADD, SUPERSEDE and REVERT to tokens with the scope `append`
    #[arg(long)]
    pub allow_writes: bool,
    /// Time limit of a query, such as 30s or 5m
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub max_time: String,
    /// Largest number of rows of an answer
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub max_rows: u64,
    /// Largest size of the rows of an answer
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    pub max_bytes: Size,
    /// Memory limit of a query
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    pub query_memory: Size,
    /// Number of queries that run at the same time
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub concurrent: usize,
    /// Number of queries that wait; others are refused
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub queued: usize,
    /// Record answers with more rows in the audit log
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub audit_rows: u64,
    /// Print a new token and its table for the file of tokens, and end
    #[arg(long, value_name = "NAME")]
    pub new_token: Option<String>,
    /// Namespace to which the new token is confined
    #[arg(long, value_name = "NAMESPACE", requires = "new_token")]
    pub namespace: Option<String>,
    /// User to whom the new token is confined
    #[arg(long, value_name = "ID", requires = "new_token")]
    pub user: Option<String>,
    /// What the new token may do; may be repeated [default: read]
    #[arg(
        long = "scope",
        value_enum,
        value_name = "SCOPE",
        requires = "new_token"
    )]
    pub scopes: Vec<ScopeArg>,
}

/// What a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScopeArg {
    /// Queries
    Read,
    /// ADD, SUPERSEDE and REVERT, with --allow-writes
    Append,
    /// Figures about the server
    Govern,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_to_listen_at_has_an_ip_address_and_a_port() {
        assert!(socket_address("127.0.0.1:0").is_ok() && socket_address("[::1]:80").is_ok());
        for wrong in ["7878", ":7878", "localhost:7878", "127.0.0.1", ""] {
            let error = socket_address(wrong).unwrap_err();
            assert!(error.ends_with("127.0.0.1:7878 or [::1]:7878"), "{wrong}");
        }
    }
}

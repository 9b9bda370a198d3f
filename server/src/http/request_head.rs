//! Checks of the head of a request: its size, and the host that it names.

use std::net::IpAddr;

use hyper::{Request, StatusCode, header};

use super::refusal::{Refusal, Result};

/// Largest head of a request in bytes, without spaces around the values of fields.
const MAX_HEAD: usize = super::BUFFER_BYTES;

/// Refuses a head that is too large or names two hosts. A connection refuses a head that fills its
/// buffer, but one that arrives with the last bytes before that may be larger than the buffer.
///
/// # Errors
/// `HEAD` with the status 431, and `BAD_REQUEST`.
pub(super) fn check_head<B>(request: &Request<B>) -> Result<()> {
    if size_of_head(request) > MAX_HEAD {
        return Err(Refusal::new(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "HEAD",
            format!("the head of the request has more than {MAX_HEAD} bytes"),
            "Send shorter fields; the query and its parameters are in the body.",
        ));
    }
    // RFC 9112, section 3.2: which of them counts would depend on who reads it.
    match request.headers().get_all(header::HOST).iter().count() {
        0 | 1 => Ok(()),
        _ => Err(Refusal::bad_request("the head names more than one Host")),
    }
}

/// Returns the bytes of a head: the request line, the fields and the empty line.
fn size_of_head<B>(request: &Request<B>) -> usize {
    let line = format!("{} {} HTTP/1.1\r\n", request.method(), request.uri());
    let fields = request.headers().iter();
    let fields = fields.map(|(name, value)| name.as_str().len() + ": \r\n".len() + value.len());
    line.len() + fields.sum::<usize>() + "\r\n".len()
}

/// Refuses requests without a token that name another host: a page in a browser on this machine
/// could otherwise read the lake through a name that it points here.
///
/// # Errors
/// `HOST`.
pub(super) fn check_host<B>(request: &Request<B>) -> Result<()> {
    match names_this_machine(request) {
        true => Ok(()),
        false => Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "HOST",
            "without tokens, only requests to this machine by its local name are answered",
            "Ask 127.0.0.1 or localhost, or start the server with --tokens.",
        )),
    }
}

/// Returns true if the host of a request is a local name or address of this machine. In a target
/// with a host, such as `http://localhost/sql`, that one counts and not the field `Host` (RFC 9112,
/// section 3.2.2).
fn names_this_machine<B>(request: &Request<B>) -> bool {
    let of_field = || {
        let host = request.headers().get(header::HOST)?.to_str().ok()?;
        host.parse().ok()
    };
    let Some(authority) = request.uri().authority().cloned().or_else(of_field) else {
        return false;
    };
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let address = address.parse::<IpAddr>();
    name == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(target: &str, hosts: &[&str]) -> Request<()> {
        let request = Request::post(target);
        let request = hosts
            .iter()
            .fold(request, |request, host| request.header(header::HOST, *host));
        request.body(()).unwrap()
    }

    #[test]
    fn a_request_names_this_machine_by_its_target_or_else_by_its_host() {
        for (target, hosts, is_local) in [
            ("/sql", &["localhost"] as &[&str], true),
            ("/sql", &["localhost:7878"], true),
            ("/sql", &["127.0.0.1:7878"], true),
            ("/sql", &["[::1]:7878"], true),
            ("/sql", &[], false),
            ("/sql", &["evil.example"], false),
            ("/sql", &["localhost.evil.example"], false),
            ("/sql", &["localhost@evil.example"], false),
            ("/sql", &["0.0.0.0:7878"], false),
            ("http://evil.example/sql", &["localhost"], false),
            ("http://localhost@evil.example/sql", &["localhost"], false),
            ("http://localhost:7878/sql", &["evil.example"], true),
        ] {
            let checked = check_host(&request(target, hosts));
            assert_eq!(checked.is_ok(), is_local, "{target} {hosts:?}");
        }
    }

    #[test]
    fn a_head_with_two_hosts_is_refused() {
        for hosts in [&["localhost"] as &[&str], &[]] {
            check_head(&request("/sql", hosts)).unwrap();
        }
        let twice = [["localhost", "evil.example"], ["localhost", "localhost"]];
        for hosts in twice {
            let refusal = check_head(&request("/sql", &hosts)).unwrap_err();
            assert_eq!(refusal.status, StatusCode::BAD_REQUEST, "{hosts:?}");
        }
    }

    #[test]
    fn a_head_has_at_most_64_kib() {
        let without = "POST /sql HTTP/1.1\r\nhost: localhost\r\nx-long: \r\n\r\n";
        let of_size = |size: usize| {
            let mut request = request("/sql", &["localhost"]);
            let value = "a".repeat(size - without.len()).parse().unwrap();
            request.headers_mut().insert("x-long", value);
            check_head(&request)
        };
        of_size(64 << 10).unwrap();
        let refusal = of_size((64 << 10) + 1).unwrap_err();
        assert_eq!(refusal.status.as_u16(), 431);
        assert_eq!(refusal.text("code"), "HEAD");
    }
}

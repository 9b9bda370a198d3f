//! The page of an erasure certificate, for an auditor's files.

use gristmill_engine::erase::{Certificate, CertificateCheck};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{now, render_page};

const TEMPLATE: &str = include_str!("certificate_page.html");

/// Variables of the template.
#[derive(Serialize)]
struct CertificateVariables<'c> {
    certificate: &'c Certificate,
    signer: Option<&'c str>,
    problems: &'c [String],
    found_nobody: bool,
    digest: String,
    file: &'c str,
    version: &'static str,
    now: String,
}

/// Returns the page of a certificate: what was requested, found, kept and why, how the rest was
/// searched, and how to check it independently. `bytes` are those of its `file`, and `check` is the
/// result of their verification; without a certificate in it, there is no page.
///
/// # Errors
/// Those of the template engine, which only a wrong template causes.
pub fn certificate_page(
    check: &CertificateCheck,
    bytes: &[u8],
    file: &str,
) -> Result<Option<String>, minijinja::Error> {
    let Some(certificate) = &check.certificate else {
        return Ok(None);
    };
    let page = CertificateVariables {
        certificate,
        signer: check.signer.as_deref(),
        problems: &check.problems,
        found_nobody: certificate.found_nobody(),
        digest: Sha256::digest(bytes)
            .iter()
            .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}")),
        file,
        version: env!("CARGO_PKG_VERSION"),
        now: now(),
    };
    render_page(TEMPLATE, &page).map(Some)
}

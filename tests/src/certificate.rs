//! A certificate of this machine for tests of servers.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Files with a certificate for `127.0.0.1` and `localhost`, and with its private key, in PEM.
pub struct CertificateFiles {
    /// The certificate, which clients trust as root.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Makes a certificate in `folder` with `openssl`; `None`, with a message, if there is no such
/// program.
pub fn make_certificate(folder: &Path) -> Option<CertificateFiles> {
    make(folder, &[])
}

/// As [`make_certificate`]; the certificate isn't one of an authority. Clients that distinguish the
/// two apart accept it only as a server's own.
pub fn make_leaf_certificate(folder: &Path) -> Option<CertificateFiles> {
    make(folder, &["-addext", "basicConstraints=critical,CA:FALSE"])
}

fn make(folder: &Path, extensions: &[&str]) -> Option<CertificateFiles> {
    let (certificate, key) = (folder.join("c.pem"), folder.join("k.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"])
        .args([
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-subj",
            "/CN=localhost",
        ])
        .args(["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"])
        .args(extensions)
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output();
    if made.is_ok_and(|output| output.status.success()) {
        return Some(CertificateFiles { certificate, key });
    }
    eprintln!("skipped: there is no `openssl` to make a certificate");
    None
}

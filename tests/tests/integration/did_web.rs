//! `did:web` over HTTPS, against a host on this machine: what is fetched, and what is refused.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gristmill_connectors::did_web::{DidWebResolver, WebAccess, WebLimits};
use gristmill_engine::keys::{TrustStore, TrustedFirst};
use gristmill_schemas::sign::{DidError, KeyResolver, SigningKey, VerifyingKey, did_from_key};
use gristmill_tests::certificate::make_leaf_certificate;
use gristmill_tests::sandbox::Sandbox;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Size of the document that is too large.
const LARGE: usize = 300 << 10;

fn key(seed: u8) -> VerifyingKey {
    SigningKey::from_seed(&[seed; 32]).verifying_key()
}

/// A host that publishes documents on this machine.
struct DocumentHost {
    port: u16,
    requests: Arc<AtomicUsize>,
    /// The certificate in PEM.
    certificate: Vec<u8>,
}

impl DocumentHost {
    /// Starts one; `None` without `openssl`.
    async fn start() -> Option<DocumentHost> {
        let folder = tempfile::tempdir().unwrap();
        let files = make_leaf_certificate(folder.path())?;
        let certificate = std::fs::read(&files.certificate).unwrap();
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&certificate)
            .map(Result::unwrap)
            .collect();
        let private = PrivateKeyDer::from_pem_file(&files.key).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(AtomicUsize::new(0));
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let counter = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(acceptor.clone(), stream, port));
            }
        });
        Some(DocumentHost {
            port,
            requests,
            certificate,
        })
    }

    /// Returns the DID whose document is in the folder `name` of the host.
    fn did(&self, name: &str) -> String {
        format!("did:web:localhost%3A{}:{name}", self.port)
    }

    /// Returns access to this host, as no command has it.
    fn access(&self) -> WebAccess {
        WebAccess {
            may_ask: |_| true,
            roots: Some(self.certificate.clone()),
            limits: WebLimits {
                time: Duration::from_secs(120),
                ..WebLimits::default()
            },
            ..WebAccess::default()
        }
    }

    fn resolver(&self) -> DidWebResolver {
        DidWebResolver::new(self.access())
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// Checks that `resolver` finds no key of the document `name`, and states why.
    fn check_refused(&self, resolver: &DidWebResolver, name: &str, reason: &str) {
        let did = self.did(name);
        let error = tokio::task::block_in_place(|| resolver.resolve(&did)).unwrap_err();
        assert!(
            matches!(error, DidError::Document { .. }),
            "{name}: {error}"
        );
        assert!(error.to_string().contains(reason), "{name}: {error}");
    }
}

/// Answers one request.
async fn serve(acceptor: TlsAcceptor, stream: TcpStream, port: u16) {
    let Ok(mut stream) = acceptor.accept(stream).await else {
        return;
    };
    let mut request = [0; 4096];
    let length = stream.read(&mut request).await.unwrap_or(0);
    let request = String::from_utf8_lossy(&request[..length]).into_owned();
    let path = request.split(' ').nth(1).unwrap_or_default();
    let name = path.trim_start_matches('/').trim_end_matches("/did.json");
    if name == "slow" {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    let answer = answer(name, port);
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

fn answer(name: &str, port: u16) -> String {
    let local = format!("https://localhost:{port}");
    let redirect = |to: String| format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\n\r\n");
    let document = |name: &str| {
        let did = format!("did:web:localhost%3A{port}:{name}");
        let multibase = did_from_key(&key(1)).replace("did:key:", "");
        let method = json!({"id": format!("{did}#a"), "publicKeyMultibase": multibase});
        let document = json!({"id": did, "verificationMethod": [method]}).to_string();
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{document}")
    };
    match name {
        "moved" => redirect(format!("{local}/elsewhere/did.json")),
        "elsewhere" => document("moved"),
        "plain" => redirect(format!("http://localhost:{port}/good/did.json")),
        "address" => redirect(format!("https://127.0.0.1:{port}/good/did.json")),
        "circle" => redirect(format!("{local}/circle/did.json")),
        "other" => document("somebody-else"),
        "large" => format!("HTTP/1.1 200 OK\r\n\r\n{}", " ".repeat(LARGE)),
        "absent" => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
        name => document(name),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keys_of_a_document_on_the_web_are_requested_once() {
    let Some(host) = DocumentHost::start().await else {
        return;
    };
    let resolver = host.resolver();
    let resolve = |did: &str| tokio::task::block_in_place(|| resolver.resolve(did));
    let did = host.did("good");
    assert_eq!(resolve(&did), Ok(vec![key(1)]));
    assert_eq!(resolve(&format!("{did}#a")), Ok(vec![key(1)]));
    let other = resolve(&format!("{did}#b"));
    assert!(matches!(other, Err(DidError::Unresolved(_))));
    assert_eq!(resolve(&did_from_key(&key(2))), Ok(vec![key(2)]));
    assert_eq!(host.requests(), 1);

    assert_eq!(resolve(&host.did("moved")), Ok(vec![key(1)]));
    let before = host.requests();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| resolver.resolve(&host.did("absent")).unwrap_err());
        }
    });
    assert_eq!(host.requests(), before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_beyond_the_limits_are_refused() {
    let Some(host) = DocumentHost::start().await else {
        return;
    };
    let resolver = host.resolver();
    for (name, reason) in [
        ("plain", "URL scheme is not allowed"),
        ("address", "redirects to an address"),
        ("circle", "more than 3 redirects"),
        ("other", "the document of"),
        ("large", "more than 262144 bytes"),
        ("absent", "404"),
    ] {
        host.check_refused(&resolver, name, reason);
    }
    let limits = WebLimits {
        time: Duration::from_secs(2),
        ..WebLimits::default()
    };
    let hurried = DidWebResolver::new(WebAccess {
        limits,
        ..host.access()
    });
    host.check_refused(&hurried, "slow", "timed out");
    let limits = WebLimits {
        documents: 1,
        ..host.access().limits
    };
    let resolver = DidWebResolver::new(WebAccess {
        limits,
        ..host.access()
    });
    host.check_refused(&resolver, "absent", "404");
    host.check_refused(&resolver, "good", "1 documents were requested already");
}

#[tokio::test(flavor = "multi_thread")]
async fn private_addresses_and_unknown_certificates_are_refused() {
    let Some(host) = DocumentHost::start().await else {
        return;
    };
    // The host's own certificate is trusted here, so only its address can be the reason.
    let public_only = DidWebResolver::new(WebAccess {
        may_ask: WebAccess::default().may_ask,
        ..host.access()
    });
    host.check_refused(&public_only, "good", "private network");
    let misleading = DidWebResolver::new(WebAccess {
        may_ask: WebAccess::default().may_ask,
        lookup: Arc::new(|_| Ok(vec![IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254))])),
        ..host.access()
    });
    let asked = || misleading.resolve("did:web:example.org");
    let error = tokio::task::block_in_place(asked).unwrap_err().to_string();
    assert!(error.contains("private network"), "{error}");
    assert_eq!(host.requests(), 0);

    let system_roots = DidWebResolver::new(WebAccess {
        roots: None,
        ..host.access()
    });
    host.check_refused(&system_roots, "good", "certificate");
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_requested_only_for_identifiers_without_a_trusted_key() {
    let Some(host) = DocumentHost::start().await else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let keyring = folder.path().join("keyring.json");
    let (trusted, unknown) = (host.did("trusted"), host.did("good"));
    TrustStore::trust(&keyring, &trusted, did_from_key(&key(7)).as_bytes()).unwrap();
    let store = TrustStore::next_to(&keyring).unwrap();
    let resolver = TrustedFirst::new(store, host.resolver());
    let resolve = |did: &str| tokio::task::block_in_place(|| resolver.resolve(did));
    assert_eq!(resolve(&trusted), Ok(vec![key(7)]));
    assert_eq!(host.requests(), 0);
    assert_eq!(resolve(&unknown), Ok(vec![key(1)]));
}

#[test]
fn commands_resolve_did_web_only_with_the_option_and_at_no_private_address() {
    let sandbox = Sandbox::new();
    sandbox.run("lake", 0, &["keys", "generate", "acme"]);
    // Nothing listens there, and no request is sent to this machine anyway.
    let did = "did:web:localhost%3A9";
    let belief = json!({"grain": {"type": "belief", "subject": "acme", "relation": "keeps",
        "object": "ledgers", "confidence": 1.0, "created_at": 1767225600000_i64}});
    std::fs::write(sandbox.path("grain.jsonl"), belief.to_string()).unwrap();
    let sign = [
        "grain",
        "encode",
        "--key",
        "acme",
        "--signer",
        did,
        "grain.jsonl",
    ];
    let signed = sandbox.output("lake", &sign);
    assert!(signed.status.success(), "{signed:?}");
    std::fs::write(sandbox.path("signed.jsonl"), signed.stdout).unwrap();
    let check = |more: &[&str]| {
        let output = sandbox.output(
            "lake",
            &[more, &["grain", "check", "signed.jsonl"]].concat(),
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let offline = check(&[]);
    assert!(offline.contains("is unknown"), "{offline}");
    let online = check(&["--resolve-did-web"]);
    assert!(online.contains("private network"), "{online}");
}

//! TLS over real sockets.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use axum::{Router, routing::get};
use orbweaver_http_server::{Limits, Settings, Tls, listen, serve};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

const LIMITS: Limits = Limits {
    connections: 8,
    head_timeout: Duration::from_secs(60),
    head_bytes: 64 << 10,
    lifetime: Duration::from_mins(10),
    grace: Duration::from_secs(5),
};
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Copies a certificate and its key into a directory.
fn install(name: &str, dir: &Path) {
    for file in ["certificate", "key"] {
        std::fs::copy(format!("tests/vectors/{name}.{file}.pem"), dir.join(format!("{file}.pem"))).unwrap();
    }
}

fn read(dir: &Path) -> Result<Arc<Tls>, String> {
    Tls::read(&dir.join("certificate.pem"), &dir.join("key.pem")).map_err(|error| error.to_string())
}

async fn started(dir: &Path) -> (SocketAddr, CancellationToken) {
    let (listener, address) = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let (router, stop) = (Router::new().route("/", get(async || "hello")), CancellationToken::new());
    let settings = Settings { tls: Some(read(dir).unwrap()), ..LIMITS.into() };
    tokio::spawn(serve(listener, router, settings, stop.clone()));
    (address, stop)
}

/// Sends a request over a connection with this certificate alone.
async fn answer(address: SocketAddr, certificate: &str) -> Result<String, String> {
    let file = format!("tests/vectors/{certificate}.certificate.pem");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let connecting = TlsConnector::from(Arc::new(config)).connect("localhost".try_into().unwrap(), stream);
    let mut stream = connecting.await.map_err(|error| error.to_string())?;
    stream.write_all(REQUEST).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.map_err(|error| error.to_string())?;
    Ok(text)
}

#[tokio::test]
async fn requests_are_answered_over_tls_alone() {
    let dir = tempfile::tempdir().unwrap();
    install("first", dir.path());
    let (address, _stop) = started(dir.path()).await;
    assert!(answer(address, "first").await.unwrap().ends_with("hello"));
    assert!(answer(address, "second").await.unwrap_err().contains("certificate"));
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain.write_all(REQUEST).await.unwrap();
    let mut text = vec![];
    let _ = plain.read_to_end(&mut text).await;
    assert!(!String::from_utf8_lossy(&text).contains("HTTP/1.1"), "{text:?}");
}

#[tokio::test]
async fn a_handshake_that_does_not_end_keeps_no_other_connection_and_no_end_waiting() {
    let dir = tempfile::tempdir().unwrap();
    install("first", dir.path());
    let (address, stop) = started(dir.path()).await;
    let mut silent = TcpStream::connect(address).await.unwrap();
    assert!(answer(address, "first").await.unwrap().ends_with("hello"));
    stop.cancel();
    let mut rest = vec![];
    silent.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, []);
}

#[tokio::test]
async fn a_renewed_certificate_applies_after_a_minute_and_a_broken_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    install("first", dir.path());
    let (address, _stop) = started(dir.path()).await;
    tokio::time::pause();
    std::fs::write(dir.path().join("key.pem"), "broken").unwrap();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    assert!(answer(address, "first").await.unwrap().ends_with("hello"));
    install("second", dir.path());
    assert!(answer(address, "first").await.unwrap().ends_with("hello"), "before a minute");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    assert!(answer(address, "second").await.unwrap().ends_with("hello"));
}

#[test]
fn files_that_cannot_be_used_are_named_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let error = || read(dir.path()).unwrap_err();
    assert!(error().contains("certificate.pem: no certificate: "), "{}", error());
    install("first", dir.path());
    std::fs::write(dir.path().join("certificate.pem"), "text").unwrap();
    assert!(error().ends_with("certificate.pem: no certificate: the file has none in PEM"), "{}", error());
    install("first", dir.path());
    std::fs::remove_file(dir.path().join("key.pem")).unwrap();
    assert!(error().contains("key.pem: no key: "), "{}", error());
    install("first", dir.path());
    std::fs::copy("tests/vectors/second.key.pem", dir.path().join("key.pem")).unwrap();
    assert!(error().contains("key.pem: "), "{}", error());
}

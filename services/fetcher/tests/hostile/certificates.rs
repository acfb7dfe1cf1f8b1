//! Servers whose certificates are not, or not yet, or no longer valid.

use std::{net::SocketAddr, sync::Arc};

use orbweaver_fetcher::{Body, FetchError, FetcherConfig};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

use super::client::{Asker, config};

const PAGE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello";
/// The authority that signed all certificates but the self-signed one.
const AUTHORITY: &str = "tests/hostile/vectors/authority.pem";

fn file(name: &str) -> Vec<u8> {
    std::fs::read(format!("tests/hostile/vectors/{name}.der")).unwrap()
}

/// Serves one connection, with a page; its result is the handshake's error, if there is one.
async fn serve(certificate: &str, key: &str) -> (SocketAddr, JoinHandle<Result<(), String>>) {
    let key = PrivateKeyDer::Pkcs8(file(key).into());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let chain = vec![file(&format!("{certificate}.certificate")).into()];
    let acceptor = TlsAcceptor::from(Arc::new(tls.with_no_client_auth().with_single_cert(chain, key).unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connection = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.map_err(|error| error.to_string())?;
        let mut head = vec![];
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.map_err(|error| error.to_string())?);
        }
        stream.write_all(PAGE).await.map_err(|error| error.to_string())
    });
    (address, connection)
}

/// Sends a request to a server with this certificate, by this name.
async fn page(config: &FetcherConfig, (certificate, key): (&str, &str), host: &str) -> Result<Vec<u8>, FetchError> {
    let (address, connection) = serve(certificate, key).await;
    let asked = Asker::new(config).ask(&format!("https://{host}:{}/", address.port())).await;
    let served = connection.await.unwrap();
    match asked.attempt.result {
        Ok(answer) => {
            served.unwrap();
            let Body::Read { bytes, .. } = answer.body else { panic!("{:?}", answer.body) };
            Ok(bytes)
        }
        Err(failure) => {
            let alert = served.unwrap_err();
            assert!(alert.contains("alert"), "the client accepted or ignored the certificate: {alert}");
            Err(failure)
        }
    }
}

fn trusting(file: &str) -> FetcherConfig {
    FetcherConfig { tls_ca: Some(file.to_owned()), ..config() }
}

#[tokio::test]
async fn a_page_with_a_valid_certificate_of_a_configured_authority_is_read() {
    for host in ["127.0.0.1", "localhost"] {
        assert_eq!(page(&trusting(AUTHORITY), ("valid", "signed.key"), host).await, Ok(b"hello".to_vec()), "{host}");
    }
}

#[tokio::test]
async fn a_certificate_that_no_authority_signed_is_a_failure_of_tls() {
    for config in [config(), trusting(AUTHORITY)] {
        assert_eq!(page(&config, ("self_signed", "self_signed.key"), "127.0.0.1").await, Err(FetchError::Tls));
    }
}

#[tokio::test]
async fn the_certificate_of_an_authority_that_is_not_configured_is_a_failure_of_tls() {
    assert_eq!(page(&config(), ("valid", "signed.key"), "127.0.0.1").await, Err(FetchError::Tls));
}

#[tokio::test]
async fn an_expired_certificate_is_a_failure_of_tls_and_so_is_one_that_is_not_yet_valid() {
    for certificate in ["expired", "not_yet_valid"] {
        let page = page(&trusting(AUTHORITY), (certificate, "signed.key"), "127.0.0.1").await;
        assert_eq!(page, Err(FetchError::Tls), "{certificate}");
    }
}

#[tokio::test]
async fn a_certificate_for_another_name_or_address_is_a_failure_of_tls() {
    for host in ["127.0.0.1", "localhost"] {
        let page = page(&trusting(AUTHORITY), ("wrong_name", "signed.key"), host).await;
        assert_eq!(page, Err(FetchError::Tls), "{host}");
    }
}

//! Errors of a real connection, as an export shows them.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use object_store::{RetryConfig, aws::AmazonS3Builder};
use orbweaver_bucket::{RETRIES, connect};

use super::{Bucket, PART_BYTES};
use crate::{
    exit::Failure,
    shards::{
        destination::Destination,
        error::ShardsError,
        manifest::{Manifest, Selection},
        sink::begin,
    },
};

fn builder(endpoint: &str) -> AmazonS3Builder {
    let builder = AmazonS3Builder::new().with_endpoint(endpoint).with_allow_http(true);
    builder.with_access_key_id("key").with_secret_access_key("top-secret")
}

/// Begins an export; returns the message and exit code of the error.
fn failure(builder: AmazonS3Builder) -> (String, u8) {
    failure_until(builder, &AtomicBool::new(false))
}

fn failure_until(builder: AmazonS3Builder, stop: &AtomicBool) -> (String, u8) {
    let retries = RetryConfig { max_retries: 1, ..RETRIES };
    let to = Destination::parse("s3://results/docs".into()).unwrap();
    let selection = Selection {
        what: vec![],
        filter: serde_json::from_str("{\"sites\":[],\"status\":[],\"languages\":[]}").unwrap(),
    };
    let begun = connect(builder, "results", retries).map_err(ShardsError::from).and_then(|store| {
        let bucket = Bucket::on((store, PART_BYTES), &to, stop)?;
        begin(&bucket, &to, selection).map(|_: Manifest| ())
    });
    let failure = Failure::from(begun.unwrap_err());
    (failure.to_string(), failure.code())
}

/// Starts a server that answers each request with this response, until the test ends.
fn serve(status: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let answer = move |stream: TcpStream| -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        while reader.read_line(&mut line)? > 2 {
            line.clear();
        }
        let length = body.len();
        write!(reader.get_mut(), "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
    };
    thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(answer(stream))));
    endpoint
}

#[test]
fn an_error_of_the_store_names_the_object_and_the_reason_and_no_secret() {
    let refused = "<Error><Code>AccessDenied</Code><Message>Access Denied.</Message><Resource>top</Resource></Error>";
    for (status, body, expected) in [
        (
            "403 Forbidden",
            refused,
            "docs/manifest.json: the store answered 403 Forbidden, AccessDenied (Access Denied); check the credentials",
        ),
        ("404 Not Found", "<Error><Code>NoSuchBucket</Code></Error>", "docs: there is no such bucket"),
        ("503 Service Unavailable", "", "docs/manifest.json: the store answered 503 Service Unavailable"),
        ("307 Temporary Redirect", "", "docs/manifest.json: the store redirects elsewhere; check AWS_REGION"),
    ] {
        let (message, code) = failure(builder(&serve(status, body)));
        assert!(message.starts_with(&format!("s3://results/{expected}")), "{message}");
        assert!(!message.contains("top-secret") && !message.contains("127.0.0.1"), "{message}");
        assert_eq!(code, 73);
    }
}

#[test]
fn a_store_that_cannot_be_reached_is_an_unusable_output() {
    // A port that nothing listens on: it was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (message, code) = failure(builder(&format!("http://127.0.0.1:{port}")));
    let expected = "s3://results/docs/manifest.json: the store cannot be reached: connection refused";
    assert!(message.starts_with(expected), "{message}");
    assert_eq!(code, 73);
}

#[test]
fn an_export_that_is_stopped_does_not_wait_for_a_store_that_does_not_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let held = scope.spawn(|| {
            let connection = listener.accept().unwrap();
            stop.store(true, Ordering::Relaxed);
            connection
        });
        let (message, _) = failure_until(builder(&endpoint), &stop);
        assert!(message.ends_with("stopped"), "{message}");
        assert!(held.join().is_ok());
    });
}

#[test]
fn settings_that_are_incomplete_are_wrong_usage() {
    for (builder, expected) in [
        (builder("nonsense"), "AWS_ENDPOINT_URL: expected a URL"),
        (builder("ftp://store.test"), "AWS_ENDPOINT_URL: expected a URL"),
        (builder("http://store.test").with_allow_http(false), "AWS_ENDPOINT_URL: http:// requires AWS_ALLOW_HTTP=true"),
        (AmazonS3Builder::new().with_access_key_id("key"), "AWS_SECRET_ACCESS_KEY is not set"),
    ] {
        let (message, code) = failure(builder);
        assert!(message.starts_with(expected), "{message}");
        assert_eq!(code, 64);
    }
}

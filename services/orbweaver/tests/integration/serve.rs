//! `orbweaver serve` on the results of a real crawl.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Stdio},
    time::Duration,
};

use serde_json::Value;

use super::command_line::program;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, which is killed with its test.
struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(dir: &std::path::Path) -> Self {
        let mut command = program(env!("CARGO_BIN_EXE_orbweaver"));
        command.args(["serve", "demo", "--listen", "127.0.0.1:0"]).current_dir(dir).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.trim().strip_prefix("serving demo at http://").unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, address }
    }

    /// Returns head and body of the answer.
    fn get(&self, target: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = vec![];
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|part| part == b"\r\n\r\n").unwrap();
        (String::from_utf8(answer[..end].to_vec()).unwrap(), answer[end + 4..].to_vec())
    }

    fn json(&self, target: &str) -> Value {
        let (head, body) = self.get(target);
        assert!(head.starts_with("HTTP/1.1 200"), "{target}: {head}");
        serde_json::from_slice(&body).unwrap()
    }
}

#[test]
fn the_results_of_a_crawl_are_served_until_a_signal() {
    let dir = tempfile::tempdir().unwrap();
    let crawl =
        ["crawl", "--demo", "--warc", "--max-pages", "20", "--canonical", "standard,sort-query", "--out", "demo"];
    let crawled = program(env!("CARGO_BIN_EXE_orbweaver")).args(crawl).current_dir(dir.path()).output().unwrap();
    assert!(crawled.status.success(), "{crawled:?}");
    let lines = std::fs::read_to_string(dir.path().join("demo/documents.jsonl")).unwrap();
    let documents: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut server = Server::start(dir.path());
    for document in &documents {
        let url = document["url"].as_str().unwrap().replace('%', "%25").replace('&', "%26").replace('+', "%2B");
        let answer = server.json(&format!("/v1/url?resolve=no&url={url}"));
        assert_eq!(
            (&answer["state"]["status"], &answer["state"]["outcome"]),
            (&200.into(), &"fetched".into()),
            "{answer}"
        );
        assert_eq!(answer["fingerprint"], document["fingerprint"]);
        assert_eq!(server.json(&format!("/v1/history?url={url}"))["events"].as_array().unwrap().len(), 1);
        let links = server.json(&format!("/v1/links?limit=1000&url={url}"));
        assert_eq!(links["total"], document["links"].as_array().map_or(0, Vec::len));
        let (head, body) = server.get(&format!("/v1/content?url={url}"));
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("application/octet-stream"), "{head}");
        assert_eq!(answer["state"]["bytes"], body.len());
    }
    assert!(documents.len() > 5, "{}", documents.len());
    let (head, _) = server.get("/v1/url?url=https://nowhere.example/");
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");

    let resumed =
        program(env!("CARGO_BIN_EXE_orbweaver")).args(["serve", "demo"]).current_dir(dir.path()).output().unwrap();
    let said = String::from_utf8_lossy(&resumed.stderr).into_owned();
    assert_eq!(
        (resumed.status.code(), said.contains("another process is working on this crawl")),
        (Some(73), true),
        "{said}"
    );

    let id = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

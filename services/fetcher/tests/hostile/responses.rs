//! The responses of the tests of llhttp, each sent whole and byte by byte.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::{StreamExt as _, future::join_all, stream};
use serde_json::Value;

use super::{
    client::{Asker, config},
    server::{HOSTILE, Server, Step},
};

const VECTORS: &str = "tests/hostile/vectors/http_responses_llhttp.jsonl";
const OUTCOMES: &str = "tests/hostile/vectors/outcomes.json";

/// Number of responses that are served at a time: with all at once none would be in time.
const AT_ONCE: usize = 16;

/// Returns the numbered names and the bytes of the responses.
fn vectors() -> Vec<(String, Vec<u8>)> {
    let text = std::fs::read_to_string(VECTORS).unwrap();
    let row = |(number, line)| {
        let row: Value = serde_json::from_str(line).unwrap();
        let raw = STANDARD.decode(row["raw_b64"].as_str().unwrap()).unwrap();
        (format!("{number:02} {}", row["name"].as_str().unwrap()), raw)
    };
    (1..).zip(text.lines()).map(row).collect()
}

/// Serves a response and returns its outcome. The next request must get its own answer, on whichever connection.
async fn outcome(asker: &Asker, script: Vec<Step>) -> String {
    let server = Server::start(script).await;
    let outcome = asker.ask_before_next(&server).await.text();
    asker.assert_serves(&server, "/last").await;
    assert_eq!(server.paths(), [HOSTILE, "/next", "/last"]);
    outcome
}

/// Returns the outcome if the connection stays open after the response, and if it is closed. Neither depends on the
/// packets in which the response arrives.
async fn outcomes(asker: &Asker, (name, raw): (String, Vec<u8>)) -> (String, BTreeMap<&'static str, String>) {
    let middle = raw.len() / 2;
    let (start, end) = (raw[..middle].to_vec(), raw[middle..].to_vec());
    let packets = [vec![Step::Send(raw.clone())], vec![Step::Drip(raw)], vec![Step::Send(start), Step::Drip(end)]];
    let mut found = BTreeMap::new();
    for (end, step) in [("closed", Some(Step::Close)), ("open", None)] {
        let scripts = packets.iter().map(|packets| packets.iter().cloned().chain(step.clone()).collect());
        let outcomes = join_all(scripts.map(|script| outcome(asker, script))).await;
        assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{name}, {end}: {outcomes:?}");
        found.insert(end, outcomes[0].clone());
    }
    (name, found)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_response_of_llhttp_has_its_outcome_and_is_never_the_answer_to_the_next_request() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 84);
    let asker = Asker::new(&config());
    let found = stream::iter(vectors.into_iter().map(|vector| outcomes(&asker, vector)));
    let found: BTreeMap<_, _> = found.buffer_unordered(AT_ONCE).collect().await;
    let found = serde_json::to_string_pretty(&found).unwrap() + "\n";
    if std::env::var_os("ORBWEAVER_WRITE_OUTCOMES").is_some() {
        std::fs::write(OUTCOMES, &found).unwrap();
    }
    let expected = std::fs::read_to_string(OUTCOMES).unwrap_or_default();
    assert!(
        found == expected,
        "{OUTCOMES} differs; if the change is intended: ORBWEAVER_WRITE_OUTCOMES=1 cargo test -p orbweaver-fetcher --test \
         hostile\n{found}"
    );
}

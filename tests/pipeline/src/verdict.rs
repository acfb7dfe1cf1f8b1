//! Comparison of a finished crawl with the truth of its web.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use orbweaver_toyweb::{Expected, Fate};

use crate::{Output, Requests};

/// Maximum number of requests for an unavailable robots.txt in one run.
const ROBOTS_ATTEMPTS: u32 = 3;

/// Returns a regular expression that matches the URLs outside a web.
#[must_use]
pub fn outside(truth: &[Expected]) -> String {
    let outside = truth.iter().filter(|expected| expected.fate == Fate::OutOfScope);
    let hosts: BTreeSet<_> = outside.filter_map(|expected| expected.url.split('/').nth(2)).collect();
    format!("^http://({})/", hosts.into_iter().map(regex::escape).collect::<Vec<_>>().join("|"))
}

/// Checks every URL of a web: its document, its line in `urls.jsonl`, and that there are no others.
///
/// # Errors
/// Lists the first URLs that differ from the truth.
pub fn check(truth: &[Expected], output: &Output) -> Result<()> {
    let known: BTreeMap<_, _> = truth.iter().map(|expected| (expected.url.as_str(), expected)).collect();
    let mut wrong = Vec::new();
    for expected in truth {
        let outcome = output.urls.get(&expected.url).and_then(|line| line["outcome"].as_str());
        let document = output.documents.contains_key(&expected.url);
        if !fits(expected.fate, outcome, document) {
            wrong.push(format!("{}: {:?}, but outcome {outcome:?}, document: {document}", expected.url, expected.fate));
        }
    }
    let found = output.documents.keys().chain(output.urls.keys());
    wrong.extend(found.filter(|url| !known.contains_key(url.as_str())).map(|url| format!("{url}: not in the truth")));
    ensure!(wrong.is_empty(), "{} of {} URLs are wrong:\n{}", wrong.len(), truth.len(), first(&wrong));
    Ok(())
}

/// Checks the number of requests for each URL of a web in an undisturbed crawl, and that nothing else was requested.
///
/// # Errors
/// Lists the first URLs that were requested too rarely, too often or without reason.
pub fn check_requests(truth: &[Expected], requests: &Requests) -> Result<()> {
    let mut counts = requests.pages();
    let mut wrong = Vec::new();
    for expected in truth {
        let count = counts.remove(&expected.url).unwrap_or(0);
        let Expected { url, fate, least, most, .. } = expected;
        // A URL that takes several requests starts over if its site demands a back-off in between.
        let most = if *least > 1 { most * 2 } else { *most };
        if !(*least..=most).contains(&count) {
            wrong.push(format!("{url}: requested {count} times, not {least} to {most} ({fate:?})"));
        }
    }
    wrong.extend(counts.keys().map(|url| format!("{url}: requested, but not in the truth")));
    wrong.extend(
        requests
            .robots()
            .iter()
            .filter(|(_, count)| **count > ROBOTS_ATTEMPTS)
            .map(|(url, count)| format!("{url}: requested {count} times, not {ROBOTS_ATTEMPTS} at most")),
    );
    ensure!(wrong.is_empty(), "{} of {} URLs are wrong:\n{}", wrong.len(), truth.len(), first(&wrong));
    Ok(())
}

fn fits(fate: Fate, outcome: Option<&str>, document: bool) -> bool {
    match fate {
        Fate::Fetched => outcome == Some("fetched") && document,
        Fate::Redirected => outcome == Some("redirected") && !document,
        Fate::Circling => matches!(outcome, None | Some("redirected" | "gone")) && !document,
        Fate::RefusedByRobots | Fate::NotHtml => outcome == Some("refused") && !document,
        Fate::Gone => outcome == Some("gone") && !document,
        Fate::Cut => matches!((outcome, document), (Some("fetched"), true) | (Some("gone"), false)),
        Fate::BehindNofollow | Fate::OutOfScope | Fate::Unreached => outcome.is_none() && !document,
    }
}

fn first(wrong: &[String]) -> String {
    wrong.iter().take(20).cloned().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use orbweaver_toyweb::Entry;
    use serde_json::json;

    use super::*;

    fn truth() -> Vec<Expected> {
        let expected = |url: &str, fate| Expected { url: url.into(), fate, least: 1, most: 1, kind: None };
        vec![
            expected("http://a/", Fate::Fetched),
            expected("http://b/", Fate::Gone),
            expected("http://c/", Fate::OutOfScope),
        ]
    }

    fn output(documents: &[&str], urls: &[(&str, &str)]) -> Output {
        let document = |url: &&str| ((*url).to_owned(), json!({}));
        let url = |(url, outcome): &(&str, &str)| ((*url).to_owned(), json!({ "outcome": outcome }));
        Output {
            documents: documents.iter().map(document).collect(),
            urls: urls.iter().map(url).collect(),
            summary: json!({}),
        }
    }

    #[test]
    fn a_crawl_that_did_what_is_true_passes() {
        let good = output(&["http://a/"], &[("http://a/", "fetched"), ("http://b/", "gone")]);
        assert!(check(&truth(), &good).is_ok());
        assert_eq!(outside(&truth()), "^http://(c)/");
    }

    #[test]
    fn a_page_requested_too_often_too_rarely_or_without_reason_is_found() {
        let entry = |host: &str| Entry {
            at_us: 0,
            epoch_us: 0,
            host: host.into(),
            target: "/".into(),
            status: 200,
            agent: String::new(),
            version: None,
        };
        let truth = &truth()[..2];
        let check = |hosts: &[&str]| {
            let requests = Requests::new(hosts.iter().map(|host| entry(host)).collect());
            check_requests(truth, &requests).map_err(|error| error.to_string())
        };
        assert_eq!(check(&["a", "b"]), Ok(()));
        assert!(check(&["a", "b", "b"]).unwrap_err().contains("http://b/: requested 2 times, not 1 to 1"));
        assert!(check(&["a"]).unwrap_err().contains("http://b/: requested 0 times"));
        assert!(check(&["a", "b", "x"]).unwrap_err().contains("http://x/: requested, but not in the truth"));
    }

    #[test]
    fn a_lost_page_an_invented_page_and_a_wrong_outcome_are_each_found() {
        let lost = output(&[], &[("http://b/", "gone")]);
        let invented = output(&["http://a/", "http://x/"], &[("http://a/", "fetched"), ("http://b/", "gone")]);
        let wrong = output(&["http://a/"], &[("http://a/", "fetched"), ("http://b/", "fetched")]);
        let trespass =
            output(&["http://a/"], &[("http://a/", "fetched"), ("http://b/", "gone"), ("http://c/", "gone")]);
        for (output, url) in
            [(lost, "http://a/"), (invented, "http://x/"), (wrong, "http://b/"), (trespass, "http://c/")]
        {
            let error = check(&truth(), &output).unwrap_err().to_string();
            assert!(error.contains(url), "{error}");
        }
    }
}

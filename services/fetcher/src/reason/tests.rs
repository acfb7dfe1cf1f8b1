use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::{
    classify::{
        Verdict,
        tests::{answered, dispatch, verdict_of},
    },
    metrics,
};

/// All reasons that have no parameter, and one for each value of the others but statuses.
pub(crate) fn all() -> Vec<Reason> {
    let own = [
        Reason::ContentType,
        Reason::BadRedirect,
        Reason::UrlTooLong,
        Reason::TooManyRedirects,
        Reason::RedirectLoop,
        Reason::RedirectDelay,
        Reason::Port,
        Reason::Host,
        Reason::Robots,
        Reason::RobotsUnreachable,
        Reason::CrawlDelay,
        Reason::Purpose,
        Reason::Late,
        Reason::Blocked,
        Reason::Address,
        Reason::ArchiveLag,
    ];
    let holds = [Hold::Frozen, Hold::Paused, Hold::Stopped, Hold::Unread].map(Reason::Held);
    let all = own.into_iter().chain(holds).chain(FetchError::ALL.map(Reason::Failed));
    let all: Vec<_> = all.chain(Substitute::ALL.map(Reason::Substitute)).collect();
    for reason in &all {
        // A reason that is added here belongs to the list above.
        match reason {
            Reason::Status(_) => panic!("statuses are no part of it"),
            Reason::Failed(_) | Reason::Substitute(_) | Reason::Held(_) => {}
            Reason::ContentType | Reason::BadRedirect | Reason::UrlTooLong | Reason::TooManyRedirects => {}
            Reason::RedirectLoop | Reason::RedirectDelay | Reason::Port | Reason::Host | Reason::Robots => {}
            Reason::RobotsUnreachable | Reason::CrawlDelay | Reason::Purpose | Reason::Late => {}
            Reason::Blocked | Reason::Address | Reason::ArchiveLag => {}
        }
    }
    all
}

impl From<&str> for Reason {
    fn from(word: &str) -> Self {
        let status = word.strip_prefix("http_").and_then(|status| status.parse().ok());
        let named = || all().into_iter().find(|reason| reason.name() == word);
        status.map(Reason::Status).or_else(named).unwrap_or_else(|| panic!("{word} is no reason"))
    }
}

impl From<String> for Reason {
    fn from(word: String) -> Self {
        word.as_str().into()
    }
}

/// Returns the rows of the table of reasons in the README: of each word, the text of its column `then`.
fn rows() -> BTreeMap<String, String> {
    let readme = std::fs::read_to_string("README.md").unwrap();
    let table = readme.split("<!-- reasons -->").nth(1).expect("the README has a table of reasons");
    let mut rows = BTreeMap::new();
    for line in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = line.split(" | ").map(str::trim).collect();
        let [words, then, ..] = cells[..] else { panic!("{line}") };
        for word in words.split('`').skip(1).step_by(2) {
            assert_eq!(rows.insert(word.to_owned(), then.to_owned()), None, "{word} is there twice");
        }
    }
    rows
}

fn words() -> BTreeSet<String> {
    all().into_iter().map(|reason| reason.name().into_owned()).collect()
}

#[test]
fn the_readme_names_each_reason_once_and_no_others() {
    let listed: BTreeSet<_> = rows().into_keys().filter(|word| !word.starts_with("http_")).collect();
    assert_eq!(listed, words());
    assert_eq!(words().len(), all().len() - 1, "of two reasons, `dns` is the only word");
}

#[test]
fn the_readme_says_of_each_failure_and_status_whether_it_is_retried() {
    let kind = |verdict| match verdict {
        Verdict::Retry(..) => "retried",
        Verdict::Deferred(..) => "deferred",
        Verdict::Blocked { .. } => "blocks",
        Verdict::Refused(_) => "refused",
        Verdict::Gone(_) => "gone",
        verdict => panic!("{verdict:?}"),
    };
    let rows = rows();
    let dispatch = dispatch("https://a.example/", 1, 0);
    let of = |result| kind(verdict_of(&dispatch, &[], result));
    for failure in FetchError::ALL.into_iter().filter(|failure| *failure != FetchError::UnknownHost) {
        assert_eq!(rows[failure.reason()], of(Err(failure)), "{failure:?}");
    }
    for status in (100..=999).filter(|status| !matches!(status, 200 | 304)) {
        let name = Reason::Status(status).name();
        let general = if status / 100 == 5 { "http_5xx" } else { "http_NNN" };
        let row = rows.get(&*name).unwrap_or_else(|| &rows[general]);
        assert_eq!(row, of(Ok(answered(status))), "{name}");
    }
}

#[test]
fn the_words_of_the_metrics_are_those_of_the_outcomes() {
    let words = words();
    let labels = metrics::tests::labels(metrics::REQUESTS);
    let failures: BTreeSet<_> = labels.into_iter().filter(|label| words.contains(label)).collect();
    assert_eq!(failures, FetchError::ALL.iter().map(|failure| failure.reason().to_owned()).collect());
    assert!(metrics::tests::labels(metrics::SUBSTITUTES).iter().all(|label| words.contains(label)));
}

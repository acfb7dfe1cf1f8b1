//! Meaning of the end of a URL for those who link to it. Pure.

use orbweaver_messages::OutcomeKind;
use serde::{Deserialize, Serialize};

/// Reasons of the outcome `gone` for which the crawler is responsible, not the site: such URLs were not checked.
const UNCHECKED: [&str; 5] = ["stuck", "rejected", "internal", "challenge", "firewall"];
/// Reason of a URL that was not requested since the robots.txt of its server could not be read: the server does not
/// answer, or answers each request for it with an error.
const UNREACHABLE: &str = "robots_unreachable";
/// Reason of a URL whose redirects lead back to one of them.
const LOOP: &str = "redirect_loop";

/// Last outcome of a URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) kind: OutcomeKind,
    pub(super) reason: Option<String>,
    pub(super) status: Option<u16>,
    /// Canonical form of the target of a redirect.
    pub(super) location: Option<String>,
    /// Page that led to the URL.
    pub(super) via: Option<String>,
}

/// Meaning of the last URL of a chain of redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// The server has it.
    Ok,
    /// The server, or the network, does not.
    Broken,
    /// The redirects lead back to one of them.
    Loop,
    /// The crawl does not request it: robots.txt, content type, a trap.
    Refused,
    /// The crawl has no outcome of it: out of scope, or queued.
    NotCrawled,
    /// The crawler failed.
    Unchecked,
}

impl Verdict {
    /// Returns `true` if a link to the URL is broken.
    pub(super) fn is_broken(self) -> bool {
        matches!(self, Self::Broken | Self::Loop)
    }

    /// Returns the name, as it is serialized.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Broken => "broken",
            Self::Loop => "loop",
            Self::Refused => "refused",
            Self::NotCrawled => "not_crawled",
            Self::Unchecked => "unchecked",
        }
    }
}

/// Returns `true` if links to a URL with this outcome may be reported.
pub(super) fn may_be_reported(kind: OutcomeKind, reason: Option<&str>) -> bool {
    match kind {
        OutcomeKind::Gone | OutcomeKind::Redirected => true,
        OutcomeKind::Refused => reason == Some(UNREACHABLE),
        _ => false,
    }
}

/// Returns the meaning of a URL that does not redirect; `None`: the crawl has no outcome of it.
pub(super) fn verdict(end: Option<&End>) -> Verdict {
    let Some(end) = end else { return Verdict::NotCrawled };
    let reason = end.reason.as_deref().unwrap_or_default();
    match end.kind {
        OutcomeKind::Fetched | OutcomeKind::Unchanged => Verdict::Ok,
        // Answered, and of no type that the crawl reads.
        OutcomeKind::Refused if reason == "content_type" => Verdict::Ok,
        // The server does not answer: a link to it is as broken as one to a host without an address.
        OutcomeKind::Refused if reason == UNREACHABLE => Verdict::Broken,
        OutcomeKind::Refused => Verdict::Refused,
        OutcomeKind::Gone if reason == LOOP => Verdict::Loop,
        OutcomeKind::Gone if UNCHECKED.contains(&reason) => Verdict::Unchecked,
        OutcomeKind::Gone => Verdict::Broken,
        // A redirect without a target, and outcomes that end no URL.
        OutcomeKind::Redirected | OutcomeKind::Blocked | OutcomeKind::Retry | OutcomeKind::Deferred => {
            Verdict::NotCrawled
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns the end of a URL without a page that led there.
    pub(in super::super) fn end(kind: OutcomeKind, reason: Option<&str>, status: Option<u16>) -> End {
        End { kind, reason: reason.map(str::to_owned), status, location: None, via: None }
    }

    #[test]
    fn errors_of_the_site_are_broken_and_refusals_of_the_crawl_are_not() {
        use OutcomeKind::{Fetched, Gone, Redirected, Refused, Unchanged};
        let cases = [
            (Gone, Some("http_404"), Verdict::Broken),
            (Gone, Some("http_503"), Verdict::Broken),
            (Gone, Some("dns"), Verdict::Broken),
            (Gone, Some("tls"), Verdict::Broken),
            (Gone, Some("too_many_redirects"), Verdict::Broken),
            (Gone, Some("bad_redirect"), Verdict::Broken),
            (Gone, None, Verdict::Broken),
            (Gone, Some("redirect_loop"), Verdict::Loop),
            (Gone, Some("stuck"), Verdict::Unchecked),
            (Gone, Some("rejected"), Verdict::Unchecked),
            (Gone, Some("challenge"), Verdict::Unchecked),
            (Gone, Some("soft_404"), Verdict::Broken),
            (Gone, Some("internal"), Verdict::Unchecked),
            (Refused, Some("robots"), Verdict::Refused),
            (Refused, Some("robots_unreachable"), Verdict::Broken),
            (Refused, Some("trap"), Verdict::Refused),
            (Refused, Some("content_type"), Verdict::Ok),
            (Fetched, None, Verdict::Ok),
            (Unchanged, None, Verdict::Ok),
            (Redirected, None, Verdict::NotCrawled),
        ];
        for (kind, reason, expected) in cases {
            assert_eq!(verdict(Some(&end(kind, reason, None))), expected, "{kind:?} {reason:?}");
        }
        assert_eq!(verdict(None), Verdict::NotCrawled);
    }

    #[test]
    fn only_a_broken_end_or_a_loop_makes_a_link_broken_and_names_are_those_of_json() {
        let all =
            [Verdict::Ok, Verdict::Broken, Verdict::Loop, Verdict::Refused, Verdict::NotCrawled, Verdict::Unchecked];
        let broken: Vec<_> = all.into_iter().filter(|verdict| verdict.is_broken()).map(Verdict::name).collect();
        assert_eq!(broken, ["broken", "loop"]);
        for verdict in all {
            assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.name());
        }
    }
}

//! Chains of redirects. Pure.

use orbweaver_messages::OutcomeKind;
use serde::Serialize;

use super::classify::{End, Verdict, verdict};

/// Maximum number of redirects that are followed. A crawl follows 20, from each URL at which it begins: chains of several
/// may be joined.
pub(super) const MAX_HOPS: usize = 64;
/// Reason of a chain that is longer.
const TOO_LONG: &str = "too_many_redirects";

/// Redirect of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Hop {
    /// URL that redirects.
    pub(super) url: String,
    pub(super) status: Option<u16>,
}

/// Redirects from a URL, and where they end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chain {
    /// Redirects, in their order; the first one is that of the URL itself. Empty if it does not redirect.
    pub(super) hops: Vec<Hop>,
    /// URL without a redirect, or the first one that is reached twice.
    pub(super) url: String,
    pub(super) verdict: Verdict,
    /// Status of the last URL; in a loop, none.
    pub(super) status: Option<u16>,
    /// Reason of its outcome.
    pub(super) reason: Option<String>,
}

/// Follows the redirects from a URL, whose last outcome is `end`; `find` returns that of another URL.
pub(super) fn follow<E>(
    url: &str,
    end: &End,
    mut find: impl FnMut(&str) -> Result<Option<End>, E>,
) -> Result<Chain, E> {
    let mut hops: Vec<Hop> = vec![];
    let (mut url, mut end) = (url.to_owned(), Some(end.clone()));
    loop {
        if hops.iter().any(|hop| hop.url == url) {
            return Ok(Chain { hops, url, verdict: Verdict::Loop, status: None, reason: Some("redirect_loop".into()) });
        }
        let target =
            end.as_ref().filter(|end| end.kind == OutcomeKind::Redirected).and_then(|end| end.location.clone());
        let Some(target) = target else {
            let verdict = verdict(end.as_ref());
            let (status, reason) = end.map_or((None, None), |end| (end.status, end.reason));
            return Ok(Chain { hops, url, verdict, status, reason });
        };
        if hops.len() == MAX_HOPS {
            return Ok(Chain { hops, url, verdict: Verdict::Broken, status: None, reason: Some(TOO_LONG.into()) });
        }
        hops.push(Hop { url, status: end.and_then(|end| end.status) });
        end = find(&target)?;
        url = target;
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, convert::Infallible};

    use super::*;
    use crate::report::classify::tests::end;

    fn redirect(to: &str) -> End {
        End { location: Some(to.to_owned()), ..end(OutcomeKind::Redirected, None, Some(301)) }
    }

    fn chain_from(url: &str, ends: &BTreeMap<String, End>) -> Chain {
        follow(url, &ends[url], |url| Ok::<_, Infallible>(ends.get(url).cloned())).unwrap()
    }

    fn ends(all: &[(&str, End)]) -> BTreeMap<String, End> {
        all.iter().map(|(url, end)| ((*url).to_owned(), end.clone())).collect()
    }

    #[test]
    fn a_chain_has_each_redirect_with_its_status_and_the_end() {
        let gone = end(OutcomeKind::Gone, Some("http_404"), Some(404));
        let found = End { status: Some(302), ..redirect("c") };
        let ends = ends(&[("a", redirect("b")), ("b", found), ("c", gone)]);
        let chain = chain_from("a", &ends);
        let hops: Vec<_> = chain.hops.iter().map(|hop| (&*hop.url, hop.status)).collect();
        assert_eq!(hops, [("a", Some(301)), ("b", Some(302))]);
        assert_eq!((&*chain.url, chain.verdict, chain.status), ("c", Verdict::Broken, Some(404)));
        assert_eq!(chain_from("c", &ends).hops, []);
    }

    #[test]
    fn redirects_in_a_circle_are_a_loop_wherever_they_begin() {
        let ends = ends(&[("a", redirect("b")), ("b", redirect("c")), ("c", redirect("b")), ("d", redirect("d"))]);
        for (url, hops, back) in [("a", 3, "b"), ("b", 2, "b"), ("c", 2, "c"), ("d", 1, "d")] {
            let chain = chain_from(url, &ends);
            assert_eq!((chain.hops.len(), &*chain.url, chain.verdict), (hops, back, Verdict::Loop), "{url}");
        }
    }

    #[test]
    fn a_target_that_was_not_crawled_ends_the_chain_and_is_not_broken() {
        let ends = ends(&[("a", redirect("elsewhere"))]);
        let chain = chain_from("a", &ends);
        assert_eq!((&*chain.url, chain.verdict), ("elsewhere", Verdict::NotCrawled));
    }

    #[test]
    fn an_endless_chain_ends_as_broken() {
        let first = redirect("0");
        let chain = follow("start", &first, |url| {
            let number: u32 = url.parse().unwrap_or_default();
            Ok::<_, Infallible>(Some(redirect(&(number + 1).to_string())))
        });
        let chain = chain.unwrap();
        assert_eq!((chain.hops.len(), chain.verdict), (MAX_HOPS, Verdict::Broken));
    }
}

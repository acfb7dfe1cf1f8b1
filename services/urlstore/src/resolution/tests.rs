use std::collections::BTreeMap;

use orbweaver_messages::Millis;
use proptest::prelude::*;

use super::*;

fn identity(number: usize) -> Identity {
    Identity::read(&url(number), &Keying::default()).unwrap()
}

fn url(number: usize) -> String {
    format!("https://{number}.example/")
}

fn page(number: usize, outcome: OutcomeKind, at_ms: Millis) -> PageRow {
    let Identity { url, canonical, fingerprint } = identity(number);
    PageRow {
        fingerprint,
        key: canonical,
        url,
        site: "example".into(),
        fetched_at_ms: at_ms,
        status: Some(200),
        outcome: outcome.name().to_owned(),
        reason: None,
        content_type: None,
        etag: None,
        last_modified: None,
        bytes: 0,
        content_hash: None,
        depth: 0,
        via: None,
    }
}

fn redirect(from: usize, to: &str, at_ms: Millis) -> RedirectRow {
    let Identity { url, fingerprint, .. } = identity(from);
    RedirectRow { fingerprint, from: url, to: to.to_owned(), status: 301, at_ms }
}

/// Scripted store.
#[derive(Debug, Default)]
struct Rows {
    pages: BTreeMap<Fingerprint, PageRow>,
    redirects: BTreeMap<Fingerprint, RedirectRow>,
}

impl Rows {
    fn page(mut self, number: usize, outcome: OutcomeKind) -> Self {
        self.pages.insert(identity(number).fingerprint, page(number, outcome, 10));
        self
    }

    fn redirect(mut self, from: usize, to: &str, at_ms: Millis) -> Self {
        self.redirects.insert(identity(from).fingerprint, redirect(from, to, at_ms));
        self.page(from, OutcomeKind::Redirected)
    }

    /// Resolves the URL 0; also returns the number of lookups.
    fn resolved(&self, follows: bool) -> (Resolved, usize) {
        let mut step = Step::begin(identity(0), Keying::default(), follows);
        for lookups in 0.. {
            step = match step {
                Step::Page(at) => {
                    let row = self.pages.get(&at.fingerprint()).cloned();
                    at.page(row)
                }
                Step::Redirect(at, state) => {
                    let row = self.redirects.get(&at.fingerprint()).cloned();
                    at.redirect(*state, row)
                }
                Step::Ended(resolved) => return (*resolved, lookups),
            };
        }
        unreachable!()
    }

    fn ending(&self) -> (Ending, String, usize) {
        let (resolved, _) = self.resolved(true);
        (resolved.ending, resolved.end.url, resolved.chain.len())
    }
}

#[test]
fn a_page_takes_one_lookup_and_each_redirect_two() {
    let rows = Rows::default().page(0, OutcomeKind::Fetched);
    let (resolved, lookups) = rows.resolved(true);
    assert_eq!((resolved.ending, resolved.state.unwrap().url, lookups), (Ending::Page, url(0), 1));
    let rows = Rows::default().redirect(0, &url(1), 10).page(1, OutcomeKind::Gone);
    let (resolved, lookups) = rows.resolved(true);
    assert_eq!((resolved.ending, resolved.end.url, lookups), (Ending::Page, url(1), 3));
    let at = "1970-01-01T00:00:00.010Z".to_owned();
    assert_eq!(resolved.chain, [Hop { from: url(0), to: url(1), status: 301, at }]);
    assert_eq!(resolved.state.unwrap().outcome, "gone");
}

#[test]
fn a_redirect_that_is_not_followed_is_a_state() {
    let rows = Rows::default().redirect(0, &url(1), 10).page(1, OutcomeKind::Fetched);
    let (resolved, lookups) = rows.resolved(false);
    assert_eq!((resolved.ending, resolved.end, lookups), (Ending::Page, identity(0), 1));
    assert_eq!(resolved.state.unwrap().outcome, "redirected");
}

#[test]
fn a_url_that_no_longer_redirects_is_a_page_although_its_redirect_is_stored() {
    let rows = Rows::default().redirect(0, &url(1), 9).page(0, OutcomeKind::Fetched);
    assert_eq!(rows.ending(), (Ending::Page, url(0), 0));
}

#[test]
fn a_redirect_older_than_the_state_is_not_the_one_that_the_state_names() {
    assert_eq!(Rows::default().redirect(0, &url(1), 9).ending(), (Ending::NoTarget, url(0), 0));
    assert_eq!(Rows::default().redirect(0, &url(1), 11).ending(), (Ending::Unknown, url(1), 1));
    assert_eq!(Rows::default().page(0, OutcomeKind::Redirected).ending(), (Ending::NoTarget, url(0), 0));
}

#[test]
fn a_target_with_another_scheme_ends_the_chain() {
    assert_eq!(Rows::default().redirect(0, "mailto:a@b", 10).ending(), (Ending::InvalidTarget, url(0), 1));
}

#[test]
fn a_redirect_to_the_same_page_in_another_spelling_is_a_loop() {
    let rows = Rows::default().redirect(0, "https://0.EXAMPLE:443/#top", 10);
    assert_eq!(rows.ending(), (Ending::Loop, url(0), 1));
}

#[test]
fn an_unknown_url_has_no_state() {
    let (resolved, lookups) = Rows::default().resolved(true);
    assert_eq!((resolved.ending, resolved.state, lookups), (Ending::Unknown, None, 1));
}

/// End of a generated chain.
#[derive(Debug, Clone, Copy)]
enum End {
    Page,
    Unknown,
    NoTarget,
    InvalidTarget,
    /// Back to this URL of the chain.
    Back(usize),
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        Just(End::Page),
        Just(End::Unknown),
        Just(End::NoTarget),
        Just(End::InvalidTarget),
        any::<usize>().prop_map(End::Back),
    ]
}

proptest! {
    #[test]
    fn every_chain_ends_as_it_was_made(length in 0_usize..14, end in end()) {
        let mut rows = Rows::default();
        for number in 0..length {
            rows = rows.redirect(number, &url(number + 1), 10);
        }
        // The last URL has the number `length`, and `length` redirects lead to it.
        let (rows, ending, own) = match end {
            End::Page => (rows.page(length, OutcomeKind::Fetched), Ending::Page, 0),
            End::Unknown => (rows, Ending::Unknown, 0),
            End::NoTarget => (rows.page(length, OutcomeKind::Redirected), Ending::NoTarget, 0),
            End::InvalidTarget => (rows.redirect(length, "ftp://a.example/", 10), Ending::InvalidTarget, 1),
            End::Back(to) => (rows.redirect(length, &url(to % (length + 1)), 10), Ending::Loop, 1),
        };
        let (resolved, lookups) = rows.resolved(true);
        prop_assert!(lookups <= 2 * (MAX_HOPS + 1));
        if length + own > MAX_HOPS {
            prop_assert_eq!((resolved.ending, resolved.chain.len()), (Ending::TooLong, MAX_HOPS));
            prop_assert_eq!(resolved.end, identity(MAX_HOPS));
        } else {
            prop_assert_eq!((resolved.ending, resolved.chain.len()), (ending, length + own));
            prop_assert_eq!(resolved.end, identity(length));
        }
        for (number, hop) in resolved.chain.iter().enumerate() {
            prop_assert_eq!(&hop.from, &url(number));
        }
        prop_assert_eq!(resolved.state.is_some(), resolved.ending != Ending::Unknown);
    }
}

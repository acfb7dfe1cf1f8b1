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
    declared: BTreeMap<Fingerprint, DeclaredCanonical>,
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

    /// Adds a page that declares a canonical URL.
    fn canonical(mut self, number: usize, declared: DeclaredCanonical) -> Self {
        self.declared.insert(identity(number).fingerprint, declared);
        self.page(number, OutcomeKind::Fetched)
    }

    fn of_site(mut self, number: usize, site: &str) -> Self {
        self.pages.get_mut(&identity(number).fingerprint).unwrap().site = site.into();
        self
    }

    /// Resolves the URL 0; also returns the number of lookups.
    fn resolved(&self, follows: bool) -> (Resolved, usize) {
        self.resolved_from(0, follows)
    }

    fn resolved_from(&self, number: usize, follows: bool) -> (Resolved, usize) {
        let mut step = Step::begin(identity(number), Keying::default(), follows);
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
                Step::Canonical(at, state) => {
                    let declared = self.declared.get(&at.fingerprint()).cloned();
                    at.canonical(*state, declared)
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
fn a_page_takes_two_lookups_without_a_response_one_and_each_redirect_two() {
    let rows = Rows::default().page(0, OutcomeKind::Fetched);
    let (resolved, lookups) = rows.resolved(true);
    assert_eq!((resolved.ending, resolved.state.unwrap().url, lookups), (Ending::Page, url(0), 2));
    let rows = Rows::default().redirect(0, &url(1), 10).page(1, OutcomeKind::Gone);
    let (resolved, lookups) = rows.resolved(true);
    assert_eq!((resolved.ending, resolved.end.url, lookups), (Ending::Page, url(1), 3));
    let at = "1970-01-01T00:00:00.010Z".to_owned();
    assert_eq!(resolved.chain, [Hop { kind: HopKind::Redirect, from: url(0), to: url(1), status: Some(301), at }]);
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
        prop_assert_eq!(&resolved.ignored, &None);
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

fn other(number: usize) -> DeclaredCanonical {
    DeclaredCanonical::Other(url(number))
}

fn ignored(resolved: &Resolved) -> Option<(&str, Objection)> {
    resolved.ignored.as_ref().map(|ignored| (&*ignored.to, ignored.reason))
}

/// Returns the end of the chain from the URL 0, and the canonical URL that is not followed.
fn end_of(rows: &Rows) -> (String, usize, Option<(String, Objection)>) {
    let (resolved, _) = rows.resolved(true);
    assert_eq!((resolved.ending, &resolved.state.as_ref().unwrap().url), (Ending::Page, &resolved.end.url));
    let ignored = ignored(&resolved).map(|(to, reason)| (to.to_owned(), reason));
    (resolved.end.url, resolved.chain.len(), ignored)
}

#[test]
fn a_canonical_url_of_the_site_is_followed_to_a_page_that_was_fetched() {
    let rows = Rows::default().canonical(0, other(1)).page(1, OutcomeKind::Unchanged);
    assert_eq!(end_of(&rows), (url(1), 1, None));
    let (resolved, lookups) = rows.resolved(true);
    let hop = Hop { kind: HopKind::Canonical, from: url(0), to: url(1), status: None, at: rfc3339(10) };
    assert_eq!((resolved.chain, lookups), (vec![hop], 4));
    let (resolved, lookups) = rows.resolved(false);
    assert_eq!((resolved.end, lookups), (identity(0), 1));
    for outcome in [OutcomeKind::Gone, OutcomeKind::Blocked, OutcomeKind::Refused, OutcomeKind::Redirected] {
        let rows = Rows::default().canonical(0, other(1)).page(1, outcome);
        assert_eq!(end_of(&rows), (url(0), 0, Some((url(1), Objection::NotFetched))), "{outcome:?}");
    }
    let rows = Rows::default().canonical(0, other(1));
    assert_eq!(end_of(&rows), (url(0), 0, Some((url(1), Objection::NotFetched))));
}

#[test]
fn a_page_of_another_site_has_to_agree() {
    let claims = Rows::default().canonical(0, other(1)).page(1, OutcomeKind::Fetched).of_site(1, "elsewhere");
    assert_eq!(end_of(&claims), (url(0), 0, Some((url(1), Objection::NotConfirmed))));
    for own in [DeclaredCanonical::Own, DeclaredCanonical::Other("https://1.EXAMPLE:443/#top".to_owned())] {
        let agrees = Rows::default().canonical(0, other(1)).canonical(1, own).of_site(1, "elsewhere");
        assert_eq!(end_of(&agrees), (url(1), 1, None));
    }
    let third = Rows::default().canonical(0, other(1)).canonical(1, other(2)).of_site(1, "elsewhere");
    let third = third.page(2, OutcomeKind::Fetched).of_site(2, "elsewhere");
    assert_eq!(end_of(&third), (url(0), 0, Some((url(1), Objection::NotConfirmed))));
}

#[test]
fn a_canonical_url_after_redirects_is_followed_and_one_back_into_them_is_not() {
    let rows = Rows::default().redirect(0, &url(1), 10).canonical(1, other(2)).canonical(2, DeclaredCanonical::Own);
    assert_eq!(end_of(&rows), (url(2), 2, None));
    let back = Rows::default().redirect(0, &url(1), 10).canonical(1, other(0));
    assert_eq!(end_of(&back), (url(1), 1, Some((url(0), Objection::Loop))));
}

#[test]
fn a_canonical_url_that_cannot_be_crawled_is_not_followed() {
    let rows = Rows::default().canonical(0, DeclaredCanonical::Other("mailto:a@b".to_owned()));
    assert_eq!(end_of(&rows), (url(0), 0, Some(("mailto:a@b".to_owned(), Objection::InvalidTarget))));
}

#[test]
fn pages_in_a_circle_keep_their_own_states() {
    let rows = Rows::default().canonical(0, other(1)).canonical(1, other(2)).canonical(2, other(0));
    for number in 0..3 {
        let (resolved, lookups) = rows.resolved_from(number, true);
        assert_eq!((resolved.end.url.clone(), resolved.chain.len(), lookups), (url(number), 0, 6));
        assert_eq!(ignored(&resolved), Some((&*url((number + 1) % 3), Objection::Loop)));
    }
}

#[test]
fn ten_canonical_urls_are_followed_and_of_more_none() {
    let chain = |length| (0..length).fold(Rows::default(), |rows, number| rows.canonical(number, other(number + 1)));
    let (ten, eleven) = (chain(10).page(10, OutcomeKind::Fetched), chain(11).page(11, OutcomeKind::Fetched));
    assert_eq!(end_of(&ten), (url(10), 10, None));
    assert_eq!(end_of(&eleven), (url(0), 0, Some((url(1), Objection::TooLong))));
}

proptest! {
    /// Redirects and declarations of pages of one site, at random.
    #[test]
    fn an_end_is_found_with_bounded_lookups_and_is_its_own_end(
        links in proptest::collection::vec((0_usize..14, 0_u8..4), 14)
    ) {
        let mut rows = Rows::default();
        for (number, &(to, kind)) in links.iter().enumerate() {
            rows = match kind {
                0 => rows.redirect(number, &url(to), 10),
                1 => rows.canonical(number, other(to)),
                2 => rows.canonical(number, DeclaredCanonical::Own),
                _ => rows.page(number, OutcomeKind::Gone),
            };
        }
        let (resolved, lookups) = rows.resolved(true);
        prop_assert!(lookups <= 4 * (MAX_HOPS + 1));
        prop_assert!(resolved.chain.len() <= 2 * MAX_HOPS);
        if resolved.ending == Ending::Page {
            let state = resolved.state.as_ref().unwrap();
            prop_assert_eq!(&state.url, &resolved.end.url);
            let number = (0..14).find(|number| url(*number) == resolved.end.url).unwrap();
            let again = rows.resolved_from(number, true).0;
            // A page from which a circle or a long chain is reached keeps its state, too.
            prop_assert_eq!(again.end.url, resolved.end.url);
            prop_assert_eq!(again.ignored.is_some(), resolved.ignored.is_some());
        }
    }
}

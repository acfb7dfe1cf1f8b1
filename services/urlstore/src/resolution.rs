//! Resolution of a URL to its canonical one: from a row to the next lookup, or to the end. Pure.
//!
//! A redirect is followed while the last known state of its URL is that redirect. From the page at its end, `rel=canonical` is
//! followed to pages that were fetched; one of another site has to declare itself to be canonical. If these declarations lead in
//! a circle, none of them is followed, so that all pages of the circle keep their own states.

use orbweaver_messages::{Millis, OutcomeKind};
use orbweaver_store::{DeclaredCanonical, PageRow, RedirectRow};
use orbweaver_url::{Fingerprint, Keying, parse};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{answers::rfc3339, identity::Identity};

/// Maximum number of redirects that are followed, and of canonical URLs.
pub const MAX_HOPS: usize = 10;

/// End of a resolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The last URL has a state, which is no redirect.
    Page,
    /// The last URL was not fetched in this crawl.
    Unknown,
    /// The last redirect leads back to a URL of the chain.
    Loop,
    /// The chain has more redirects than are followed.
    TooLong,
    /// The last redirect leads to something that is not crawled, such as another scheme.
    InvalidTarget,
    /// The target of the last redirect is not stored.
    NoTarget,
}

/// Kind of a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HopKind {
    Redirect,
    /// `rel=canonical` of the page.
    Canonical,
}

/// A redirect of a chain, or a canonical URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Hop {
    pub kind: HopKind,
    /// URL that was requested.
    pub from: String,
    /// Target.
    pub to: String,
    /// HTTP status.
    pub status: Option<u16>,
    /// Time of the last fetch (RFC 3339).
    pub at: String,
}

/// Reason why a canonical URL was not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Objection {
    /// The URL is not one that can be crawled.
    InvalidTarget,
    /// The URL was not fetched in this crawl with success, or redirects.
    NotFetched,
    /// The URL belongs to another site, and its page does not declare itself to be canonical.
    NotConfirmed,
    /// The URL is one of the chain.
    Loop,
    /// There are more canonical URLs than are followed.
    TooLong,
}

/// Canonical URL that was not followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Ignored {
    /// URL that the last page of the chain declares.
    pub to: String,
    pub reason: Objection,
}

/// Result of a resolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub ending: Ending,
    /// Last URL.
    pub end: Identity,
    /// Last known state of the last URL.
    pub state: Option<PageRow>,
    /// Hops from the first URL to the last one; of a loop of redirects also the one that closes it.
    pub chain: Vec<Hop>,
    pub ignored: Option<Ignored>,
}

/// Resolution in progress.
#[derive(Debug)]
pub struct Resolving {
    keying: Keying,
    follows: bool,
    /// URLs of the chain; never empty.
    seen: Vec<Fingerprint>,
    at: Identity,
    chain: Vec<Hop>,
    /// Pages from the end of the redirects on, each but the first declared by the one before.
    pages: Vec<Reached>,
}

/// Page of the chain that is no redirect.
#[derive(Debug)]
struct Reached {
    identity: Identity,
    state: PageRow,
    /// Other canonical URL that the page declares.
    declared: Option<String>,
}

/// Next step.
#[derive(Debug)]
pub enum Step {
    /// The page of [`Resolving::fingerprint`] is needed.
    Page(Resolving),
    /// The redirect of [`Resolving::fingerprint`], whose state is this row, is needed.
    Redirect(Resolving, Box<PageRow>),
    /// The canonical URL that the page of [`Resolving::fingerprint`], whose state is this row, declares is needed.
    Canonical(Resolving, Box<PageRow>),
    Ended(Box<Resolved>),
}

impl Step {
    /// Begins at a URL. Unless `follows`, its state is the result, also if that is a redirect.
    #[must_use]
    pub fn begin(at: Identity, keying: Keying, follows: bool) -> Self {
        Self::Page(Resolving { keying, follows, seen: vec![at.fingerprint], at, chain: vec![], pages: vec![] })
    }
}

impl Resolving {
    /// Returns the key of the next row.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.at.fingerprint
    }

    /// Continues with a page.
    #[must_use]
    pub fn page(self, row: Option<PageRow>) -> Step {
        match row {
            Some(row) if self.follows && is_success(&row) => Step::Canonical(self, Box::new(row)),
            _ if !self.pages.is_empty() => self.ends_at_page(Some(Objection::NotFetched)),
            None => self.ends(Ending::Unknown, None),
            Some(row) if self.follows && row.outcome == OutcomeKind::Redirected.name() => {
                Step::Redirect(self, Box::new(row))
            }
            row => self.ends(Ending::Page, row),
        }
    }

    /// Continues with the redirect of the page `state`.
    #[must_use]
    pub fn redirect(mut self, state: PageRow, row: Option<RedirectRow>) -> Step {
        // An older one was replaced by a redirect whose row is not readable yet.
        let Some(row) = row.filter(|row| row.at_ms >= state.fetched_at_ms) else {
            return self.ends(Ending::NoTarget, Some(state));
        };
        if self.chain.len() >= MAX_HOPS {
            return self.ends(Ending::TooLong, Some(state));
        }
        let target = self.read(&row.to);
        self.chain.push(hop(HopKind::Redirect, (row.from, row.to), Some(row.status), row.at_ms));
        match target {
            None => self.ends(Ending::InvalidTarget, Some(state)),
            Some(target) if self.seen.contains(&target.fingerprint) => self.ends(Ending::Loop, Some(state)),
            Some(target) => self.looks_up(target),
        }
    }

    /// Continues with the canonical URL that the page `state` declares.
    #[must_use]
    pub fn canonical(mut self, state: PageRow, declared: Option<DeclaredCanonical>) -> Step {
        let target = match &declared {
            Some(DeclaredCanonical::Other(url)) => self.read(url),
            _ => None,
        };
        let names_itself = declared == Some(DeclaredCanonical::Own)
            || target.as_ref().is_some_and(|target| target.fingerprint == self.at.fingerprint);
        if let Some(last) = self.pages.last() {
            if last.state.site != state.site && !names_itself {
                return self.ends_at_page(Some(Objection::NotConfirmed));
            }
            let urls = (last.state.url.clone(), last.declared.clone().unwrap_or_default());
            self.chain.push(hop(HopKind::Canonical, urls, None, last.state.fetched_at_ms));
        }
        let declared = match declared {
            Some(DeclaredCanonical::Other(url)) if !names_itself => Some(url),
            _ => None,
        };
        let leads_on = declared.is_some();
        self.pages.push(Reached { identity: self.at.clone(), state, declared });
        match target {
            _ if !leads_on => self.ends_at_page(None),
            None => self.ends_at_page(Some(Objection::InvalidTarget)),
            Some(target) if self.pages.iter().any(|page| page.identity.fingerprint == target.fingerprint) => {
                self.ends_before_all(Objection::Loop)
            }
            // It redirects to one of the pages, which does not depend on the beginning.
            Some(target) if self.seen.contains(&target.fingerprint) => self.ends_at_page(Some(Objection::Loop)),
            Some(_) if self.pages.len() > MAX_HOPS => self.ends_before_all(Objection::TooLong),
            Some(target) => self.looks_up(target),
        }
    }

    fn read(&self, url: &str) -> Option<Identity> {
        parse(url).ok().map(|url| Identity::of(url, &self.keying))
    }

    fn looks_up(mut self, target: Identity) -> Step {
        self.seen.push(target.fingerprint);
        Step::Page(Self { at: target, ..self })
    }

    /// Ends at the first page: no canonical URL is followed.
    fn ends_before_all(mut self, reason: Objection) -> Step {
        self.chain.retain(|hop| hop.kind == HopKind::Redirect);
        self.pages.truncate(1);
        self.ends_at_page(Some(reason))
    }

    /// Ends at the last page; with an objection, its canonical URL is not followed.
    fn ends_at_page(mut self, objection: Option<Objection>) -> Step {
        let Some(Reached { identity, state, declared }) = self.pages.pop() else {
            return self.ends(Ending::Unknown, None);
        };
        let ignored = objection.zip(declared).map(|(reason, to)| Ignored { to, reason });
        let state = Some(state);
        Step::Ended(Box::new(Resolved { ending: Ending::Page, end: identity, state, chain: self.chain, ignored }))
    }

    fn ends(self, ending: Ending, state: Option<PageRow>) -> Step {
        Step::Ended(Box::new(Resolved { ending, end: self.at, state, chain: self.chain, ignored: None }))
    }
}

/// Returns `true` for a page that was fetched with success, also if it was unchanged then.
fn is_success(row: &PageRow) -> bool {
    let is_fetched = [OutcomeKind::Fetched, OutcomeKind::Unchanged].iter().any(|kind| row.outcome == kind.name());
    is_fetched && row.status.is_some_and(|status| (200..300).contains(&status) || status == 304)
}

fn hop(kind: HopKind, (from, to): (String, String), status: Option<u16>, at_ms: Millis) -> Hop {
    Hop { kind, from, to, status, at: rfc3339(at_ms) }
}

#[cfg(test)]
mod tests;

//! Resolution of redirects: from a row to the next lookup, or to the end. Pure.
//!
//! A redirect is followed while the last known state of its URL is that redirect. Each step needs one row of the store.

use orbweaver_messages::OutcomeKind;
use orbweaver_store::{PageRow, RedirectRow};
use orbweaver_url::{Fingerprint, Keying, parse};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{answers::rfc3339, identity::Identity};

/// Maximum number of redirects that are followed.
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

/// A redirect of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Hop {
    /// URL that was requested.
    pub from: String,
    /// Target.
    pub to: String,
    /// HTTP status.
    pub status: u16,
    /// Time of the fetch (RFC 3339).
    pub at: String,
}

/// Result of a resolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub ending: Ending,
    /// Last URL.
    pub end: Identity,
    /// Last known state of the last URL.
    pub state: Option<PageRow>,
    /// Redirects from the first URL to the last one; of a loop also the one that closes it.
    pub chain: Vec<Hop>,
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
}

/// Next step.
#[derive(Debug)]
pub enum Step {
    /// The page of [`Resolving::fingerprint`] is needed.
    Page(Resolving),
    /// The redirect of [`Resolving::fingerprint`], whose state is this row, is needed.
    Redirect(Resolving, Box<PageRow>),
    Ended(Box<Resolved>),
}

impl Step {
    /// Begins at a URL. Unless `follows`, its state is the result, also if that is a redirect.
    #[must_use]
    pub fn begin(at: Identity, keying: Keying, follows: bool) -> Self {
        Self::Page(Resolving { keying, follows, seen: vec![at.fingerprint], at, chain: vec![] })
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
        let target = parse(&row.to).map(|url| Identity::of(url, &self.keying));
        self.chain.push(Hop { from: row.from, to: row.to, status: row.status, at: rfc3339(row.at_ms) });
        match target {
            Err(_) => self.ends(Ending::InvalidTarget, Some(state)),
            Ok(target) if self.seen.contains(&target.fingerprint) => self.ends(Ending::Loop, Some(state)),
            Ok(target) => {
                self.seen.push(target.fingerprint);
                Step::Page(Self { at: target, ..self })
            }
        }
    }

    fn ends(self, ending: Ending, state: Option<PageRow>) -> Step {
        Step::Ended(Box::new(Resolved { ending, end: self.at, state, chain: self.chain }))
    }
}

#[cfg(test)]
mod tests;

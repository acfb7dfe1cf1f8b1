//! What the answer to a request for robots.txt means (RFC 9309 section 2.3.1).

use orbweaver_messages::Millis;

/// A robots.txt is used for so long before it is asked for again, in milliseconds: 24 hours (RFC 9309 section 2.4).
pub const FRESH_MS: Millis = 24 * 3_600_000;
/// A robots.txt that cannot be had anew is used for so long, in milliseconds: seven days.
pub const STALE_MS: Millis = 7 * 24 * 3_600_000;
/// How long "unreachable" is believed before the robots.txt is asked for again, in milliseconds: ten minutes.
pub const UNREACHABLE_MS: Millis = 600_000;
/// Redirects of a robots.txt that are followed, across hosts too.
pub const MAX_REDIRECTS: u8 = 5;

/// What came of a request for robots.txt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RobotsAnswer {
    /// An answer with this status, after `redirects` redirects.
    Status {
        /// The HTTP status.
        status: u16,
        /// The redirects that led to it.
        redirects: u8,
    },
    /// No answer: DNS, connection, TLS, timeout, broken HTTP.
    Failed,
}

/// What holds for an authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RobotsPolicy {
    /// What the body says; for a body of any content type, since an error page holds no rules.
    Parse,
    /// Ask where the redirect leads, and apply what is found there to the first authority.
    Follow,
    /// Unavailable: everything is allowed.
    AllowAll,
    /// Unreachable: nothing is allowed, for [`UNREACHABLE_MS`]; unless a copy younger than [`STALE_MS`] is at hand. It stays
    /// so however long it lasts (the RFC would let us go on after 30 days).
    DisallowAll,
}

impl RobotsAnswer {
    /// What it means. 429 counts as unreachable, as with Google: a site that is busy has not said that all is allowed. A
    /// redirect without a target, and the one after [`MAX_REDIRECTS`], count as unavailable.
    #[must_use]
    pub fn policy(self) -> RobotsPolicy {
        match self {
            Self::Status { status: 200..=299, .. } => RobotsPolicy::Parse,
            Self::Status { status: 300..=399, redirects } if redirects < MAX_REDIRECTS => RobotsPolicy::Follow,
            Self::Status { status: 429, .. } => RobotsPolicy::DisallowAll,
            Self::Status { status: 300..=499, .. } => RobotsPolicy::AllowAll,
            Self::Status { .. } | Self::Failed => RobotsPolicy::DisallowAll,
        }
    }
}

//! Meaning of the response to a request for robots.txt (RFC 9309 section 2.3.1).

use orbweaver_messages::Millis;

/// Time after which a robots.txt is requested again, in milliseconds: 24 hours (RFC 9309 section 2.4).
pub const FRESH_MS: Millis = 24 * 3_600_000;
/// Longest lifetime of a robots.txt, and the time for which an expired one is used while it cannot be refreshed, in
/// milliseconds: seven days.
pub const STALE_MS: Millis = 7 * 24 * 3_600_000;
/// Time for which a robots.txt counts as unreachable before it is requested again, in milliseconds: ten minutes.
pub const UNREACHABLE_MS: Millis = 600_000;
/// Maximum number of redirects followed for a robots.txt, across hosts too.
pub const MAX_REDIRECTS: u8 = 5;

/// Result of a request for robots.txt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RobotsAnswer {
    /// A response with this status, after `redirects` redirects.
    Status {
        /// The HTTP status.
        status: u16,
        /// Number of redirects that led to it.
        redirects: u8,
    },
    /// No response: DNS, connection, TLS, timeout, invalid HTTP.
    Failed,
}

/// Policy for an authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RobotsPolicy {
    /// Obey the body, whatever its content type, since an error page holds no rules.
    Parse,
    /// Request the redirect's target, and apply the result to the first authority.
    Follow,
    /// Unavailable: everything is allowed.
    AllowAll,
    /// Unreachable: nothing is allowed for [`UNREACHABLE_MS`], unless a copy is available that expired less than
    /// [`STALE_MS`] ago.
    /// This holds for as long as the file is unreachable (the RFC would permit crawling after 30 days).
    DisallowAll,
}

impl RobotsAnswer {
    /// Returns the policy. 429 counts as unreachable, as with Google: a busy site has not allowed everything. A
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

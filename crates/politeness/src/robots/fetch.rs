//! Meaning of the response to a request for robots.txt (RFC 9309 section 2.3.1).

use orbweaver_messages::Millis;

/// Longest lifetime of a robots.txt, and the time for which an expired one is used while it cannot be refreshed, in
/// milliseconds: seven days.
pub const STALE_MS: Millis = 7 * 24 * 3_600_000;
/// Time for which a robots.txt counts as unreachable before it is requested again, in milliseconds: ten minutes.
pub const UNREACHABLE_MS: Millis = 600_000;
/// Maximum number of redirects followed for a robots.txt, across hosts too.
const MAX_REDIRECTS: u8 = 5;

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

impl RobotsPolicy {
    /// Returns the policy for a response with this status, after `redirects` redirects; without a response the file is
    /// unreachable. 429 counts as unreachable, as with Google: a busy site has not allowed everything. A redirect
    /// without a target, and the sixth one, count as unavailable.
    #[must_use]
    pub fn of(status: u16, redirects: u8) -> Self {
        match status {
            200..=299 => Self::Parse,
            300..=399 if redirects < MAX_REDIRECTS => Self::Follow,
            300..=428 | 430..=499 => Self::AllowAll,
            _ => Self::DisallowAll,
        }
    }
}

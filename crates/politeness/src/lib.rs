//! Pure politeness rules: permission to request a path, the time of a site's next request, and back-off after refusals.
//!
//! ```text
//! robots.txt ──> robots   may this agent request this path, and which line decides
//! responses  ──> clock    interval of a site, time of its next request
//! refusals   ──> backoff  retry delay of a URL, block duration of a site
//! statements ──> purposes purposes for which a site refuses the use of a page
//! ```
//!
//! Nothing here reads a clock, a socket or a random source: `now` is a value. The rate-limiter and the fetcher both
//! decide with this crate, so that they cannot disagree about a rule.
//!
//! The modules are listed in `README.md`.

pub mod backoff;
pub mod clock;
mod purposes;
pub mod robots;
pub mod statements;
mod user_agent;

pub use backoff::{MAX_ATTEMPTS, MAX_BLOCKS, block_ms, retry_after_ms, retry_delay_ms, staggered_ms};
pub use clock::{AdaptiveInterval, next_request_ms, one_in_flight};
pub use purposes::Purposes;
pub use robots::{AgentRules, Explanation, Verdict, agent_token, explain};
pub use user_agent::UserAgent;

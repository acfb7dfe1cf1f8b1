//! Politeness, pure: what a site allows, when it may be asked next, and how long to stay away after a refusal.
//!
//! ```text
//! robots.txt ──> robots   may this agent request this path, and which line says so
//! answers    ──> clock    the interval of a site, and its next moment
//! refusals   ──> backoff  how long a URL waits, how long a site is left alone
//! ```
//!
//! Nothing here reads a clock, a socket or a random source: `now` is a value. The rate-limiter and the fetcher both
//! decide with this crate, so that they cannot disagree about a rule.
//!
//! | module | what it knows |
//! |---|---|
//! | [`robots`] | RFC 9309: groups, rules, matching, what an answer to the request for the file means |
//! | [`clock`] | the interval of a site, what its answers teach, its next moment |
//! | [`backoff`] | delays of retries, durations of blocks, `Retry-After` |

pub mod backoff;
pub mod clock;
pub mod robots;

pub use backoff::{MAX_ATTEMPTS, MAX_BLOCKS, block_ms, retry_after_ms, retry_delay_ms};
pub use clock::{Pace, next_moment, one_in_flight};
pub use robots::{AgentRules, Explanation, Limits, Robots, Verdict, agent_token, explain};

//! Order in which the URLs of a crawl are requested.

use serde::{Deserialize, Serialize};

use crate::{Millis, is_default};

/// Order of the URLs of a crawl: by weight, the heaviest first. The weight of a URL is the product of its terms; at a
/// site, URLs of equal weight come in the order of their admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrawlOrder {
    /// Factor of the weight for each link from the seed, in percent: below 100 breadth first, above 100 depth first.
    #[serde(default = "breadth_first", skip_serializing_if = "is_breadth_first")]
    pub depth_percent: u16,
    /// Time in which the weight of a queued URL falls to a half, in milliseconds; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_life_ms: Option<Millis>,
    /// Weight that a site gains or loses by the mean score of its answers, in percent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub answers_percent: u16,
}

impl CrawlOrder {
    /// Pages near the seeds first.
    pub const BREADTH_FIRST: Self = Self { depth_percent: 50, half_life_ms: None, answers_percent: 0 };
    /// Pages far from the seeds first.
    pub const DEPTH_FIRST: Self = Self { depth_percent: 200, half_life_ms: None, answers_percent: 0 };
    /// New pages near the seeds first, and more of sites that answer well.
    pub const BEST_FIRST: Self = Self { depth_percent: 70, half_life_ms: Some(50 * 3_600_000), answers_percent: 30 };
}

impl Default for CrawlOrder {
    fn default() -> Self {
        Self::BREADTH_FIRST
    }
}

fn breadth_first() -> u16 {
    CrawlOrder::BREADTH_FIRST.depth_percent
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_breadth_first(depth_percent: &u16) -> bool {
    *depth_percent == breadth_first()
}

/// Priority of a seed, from [`Priority::LOWEST`] to [`Priority::HIGHEST`]: each step doubles the weight of the seed and of
/// all URLs that are found from there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct Priority(i8);

/// Error of a priority that is not permitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the priority is {0}; allowed: {lowest} to {highest}", lowest = Priority::LOWEST.0, highest = Priority::HIGHEST.0)]
pub struct PriorityError(i64);

impl Priority {
    pub const LOWEST: Self = Self(-10);
    pub const HIGHEST: Self = Self(10);

    /// Returns the number of times that the weight is doubled.
    #[must_use]
    pub fn doublings(self) -> i8 {
        self.0
    }
}

impl TryFrom<i64> for Priority {
    type Error = PriorityError;

    fn try_from(value: i64) -> Result<Self, PriorityError> {
        let permitted = i8::try_from(value).ok().map(Self).filter(|it| (Self::LOWEST..=Self::HIGHEST).contains(it));
        permitted.ok_or(PriorityError(value))
    }
}

impl From<Priority> for i64 {
    fn from(priority: Priority) -> Self {
        priority.0.into()
    }
}

impl std::str::FromStr for Priority {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let value: i64 = text.parse().map_err(|_| format!("`{text}` is not a whole number"))?;
        Self::try_from(value).map_err(|error| error.to_string())
    }
}

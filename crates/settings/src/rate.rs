//! Request rates.

use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum request rate to a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Cow<'_, str>", into = "String")]
#[schemars(
    inline,
    description = "Maximum rate of requests to a site, unless the site requests a lower one. Frontier, rate-limiter and \
                   fetcher need the same value.",
    extend("allowed" = "`1/s`, `30/m`, an interval such as `2s` (1ms to a day), or `unlimited`")
)]
pub struct Rate {
    /// Minimum time from a response to the next request, in milliseconds; 0 is unlimited.
    pub interval_ms: u64,
}

/// Interval of the slowest rate, one request per day, in milliseconds.
const SLOWEST_MS: f64 = 86_400_000.0;

impl Default for Rate {
    /// One request per second.
    fn default() -> Self {
        Self { interval_ms: 1000 }
    }
}

/// Text that is not a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("allowed: `1/s`, `30/m`, an interval such as `2s` (1ms to a day), or `unlimited`")]
pub struct RateError;

impl FromStr for Rate {
    type Err = RateError;

    /// Parses `2/s`, `30/m`, `10/h`, a bare number (per second), `unlimited`, or the interval itself such as `500ms`.
    fn from_str(text: &str) -> Result<Self, RateError> {
        let text = text.trim();
        if text == "unlimited" {
            return Ok(Self { interval_ms: 0 });
        }
        let (number, unit_ms) = match text.split_once('/') {
            Some((number, unit)) => (number.trim(), unit_ms(unit.trim()).ok_or(RateError)?),
            None => (text, 1000.0),
        };
        let interval_ms = match number.parse::<f64>() {
            Ok(number) if number > 0.0 => unit_ms / number,
            Err(_) if !text.contains('/') => {
                humantime::parse_duration(text).map_err(|_| RateError)?.as_secs_f64() * 1000.0
            }
            _ => return Err(RateError),
        };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked before")]
        match interval_ms {
            ms if (1.0..=SLOWEST_MS).contains(&ms) => Ok(Self { interval_ms: ms.ceil() as u64 }),
            _ => Err(RateError),
        }
    }
}

fn unit_ms(unit: &str) -> Option<f64> {
    Some(match unit {
        "s" => 1000.0,
        "m" | "min" => 60_000.0,
        "h" => 3_600_000.0,
        _ => return None,
    })
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.interval_ms {
            0 => f.write_str("unlimited"),
            ms if 1000 % ms == 0 => write!(f, "{}/s", 1000 / ms),
            ms => write!(f, "{}", humantime::format_duration(Duration::from_millis(ms))),
        }
    }
}

impl TryFrom<Cow<'_, str>> for Rate {
    type Error = RateError;

    fn try_from(text: Cow<'_, str>) -> Result<Self, RateError> {
        text.parse()
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> Self {
        rate.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_in_every_form_that_people_write() {
        for (text, interval_ms) in [
            ("unlimited", 0),
            ("1", 1000),
            ("0.5", 2000),
            ("1/s", 1000),
            (" 3 / s ", 334),
            ("30/m", 2000),
            ("60/h", 60_000),
            ("500ms", 500),
            ("2s", 2000),
            ("1000/s", 1),
        ] {
            assert_eq!(text.parse(), Ok(Rate { interval_ms }), "{text}");
        }
        for text in ["", "0", "-1", "nan", "inf", "1/d", "2000/s", "1/", "/s", "0s", "2d", "1s/s", "fast"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_rate_that_is_shown_reads_back_as_the_same() {
        for ms in [0, 1, 100, 334, 1000, 90_500] {
            let rate = Rate { interval_ms: ms };
            assert_eq!(rate.to_string().parse(), Ok(rate), "{rate}");
        }
    }
}

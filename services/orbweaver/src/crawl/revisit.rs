//! Revisit policy of a crawl on the command line.

use std::time::Duration;

use orbweaver_messages::RevisitPolicy;

/// Longest interval, in shortest ones, unless it is given.
const LONGEST: u64 = 30;

/// A policy as an option, which may remove that of an existing crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RevisitOption(pub Option<RevisitPolicy>);

/// Parses a policy: `never`, or the shortest interval and optionally the longest one.
///
/// # Errors
/// Fails with the permitted forms. Whether the intervals are within their bounds is checked with the definition.
pub fn parse(text: &str) -> Result<RevisitOption, String> {
    if text == "never" {
        return Ok(RevisitOption(None));
    }
    let (shortest, longest) = text.split_once("..").map_or((text, None), |(from, to)| (from, Some(to)));
    let interval_ms = millis(shortest);
    let max_interval_ms = match longest {
        Some(longest) => millis(longest),
        None => interval_ms.map(|interval_ms| interval_ms.saturating_mul(LONGEST)),
    };
    match (interval_ms, max_interval_ms) {
        (Some(interval_ms), Some(max_interval_ms)) => {
            Ok(RevisitOption(Some(RevisitPolicy { interval_ms, max_interval_ms })))
        }
        _ => Err(format!(
            "`{text}` is no revisit policy: expected `never`, the shortest interval between two visits, such as `1day`, or \
             the shortest and the longest, such as `6hours..30days`"
        )),
    }
}

fn millis(text: &str) -> Option<u64> {
    u64::try_from(humantime::parse_duration(text).ok()?.as_millis()).ok()
}

/// Returns a policy as it is given on the command line.
#[must_use]
pub fn shown(policy: Option<RevisitPolicy>) -> String {
    let Some(RevisitPolicy { interval_ms, max_interval_ms }) = policy else { return "never".to_owned() };
    let time = |ms| humantime::format_duration(Duration::from_millis(ms)).to_string().replace(' ', "");
    format!("{}..{}", time(interval_ms), time(max_interval_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_reads_back_as_it_is_shown() {
        for text in ["never", "6h..30days", "1day..1day"] {
            assert_eq!(shown(parse(text).unwrap().0), text);
        }
        assert_eq!(shown(parse("1day").unwrap().0), "1day..30days");
    }

    #[test]
    fn text_that_is_no_policy_is_refused_with_the_permitted_forms() {
        for text in ["", "daily", "1day..", "..1day", "1day..soon", "-1s"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("is no revisit policy: expected `never`"), "{text}: {error}");
        }
    }
}

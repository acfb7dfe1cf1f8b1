//! Revisit policy of a crawl on the command line.

use orbweaver_messages::{RevisitBounds, RevisitPolicy};

/// Longest interval, in shortest ones, unless it is given.
const LONGEST: u64 = 30;

/// A policy as an option, which may remove that of an existing crawl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisitOption(pub Option<RevisitPolicy>);

/// Parses a policy: `never`, or the shortest interval and optionally the longest one, and those of further types.
///
/// # Errors
/// Fails with the permitted forms. Whether the intervals are within their bounds is checked with the definition.
pub fn parse(text: &str) -> Result<RevisitOption, String> {
    if text == "never" {
        return Ok(RevisitOption(None));
    }
    policy(text).map(|policy| RevisitOption(Some(policy))).ok_or_else(|| {
        format!(
            "`{text}` is no revisit policy: expected `never`, the shortest interval between two visits, such as `1day`, or \
             the shortest and the longest, such as `6hours..30days`, followed by those of further types, such as \
             `6hours..30days,image/*=90days`"
        )
    })
}

fn policy(text: &str) -> Option<RevisitPolicy> {
    let mut parts = text.split(',');
    let RevisitBounds { interval_ms, max_interval_ms } = bounds(parts.next()?)?;
    let of_type = |part: &str| {
        let (range, intervals) = part.split_once('=')?;
        Some((range.to_owned(), bounds(intervals)?))
    };
    Some(RevisitPolicy { interval_ms, max_interval_ms, types: parts.map(of_type).collect::<Option<_>>()? })
}

fn bounds(text: &str) -> Option<RevisitBounds> {
    let (shortest, longest) = text.split_once("..").map_or((text, None), |(from, to)| (from, Some(to)));
    let interval_ms = millis(shortest)?;
    let max_interval_ms = longest.map_or(Some(interval_ms.saturating_mul(LONGEST)), millis)?;
    Some(RevisitBounds { interval_ms, max_interval_ms })
}

fn millis(text: &str) -> Option<u64> {
    u64::try_from(humantime::parse_duration(text).ok()?.as_millis()).ok()
}

/// Returns a policy as it is given on the command line.
#[must_use]
pub fn shown(policy: Option<&RevisitPolicy>) -> String {
    let Some(RevisitPolicy { interval_ms, max_interval_ms, types }) = policy else { return "never".to_owned() };
    let of_type = |(range, bounds): (&String, &RevisitBounds)| {
        format!(",{range}={}..{}", time(bounds.interval_ms), time(bounds.max_interval_ms))
    };
    let types: String = types.iter().map(of_type).collect();
    format!("{}..{}{types}", time(*interval_ms), time(*max_interval_ms))
}

/// Returns a time in the largest unit that gives a whole number.
fn time(ms: u64) -> String {
    let units = [("days", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    match units.into_iter().find(|(_, size)| ms.is_multiple_of(*size)) {
        Some(("days", size)) if ms == size => "1day".to_owned(),
        Some((unit, size)) => format!("{}{unit}", ms / size),
        None => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_reads_back_as_it_is_shown() {
        for text in ["never", "6h..30days", "1day..1day", "90m..36h", "6h..30days,*/*=90days..90days,image/*=1h..2h"] {
            assert_eq!(shown(parse(text).unwrap().0.as_ref()), text);
        }
        assert_eq!(shown(parse("1day,a/b=2days").unwrap().0.as_ref()), "1day..30days,a/b=2days..60days");
    }

    #[test]
    fn text_that_is_no_policy_is_refused_with_the_permitted_forms() {
        for text in ["", "daily", "1day..", "..1day", "1day..soon", "-1s", "1day,", "1day,a/b", "1day,a/b=", "a/b=1day"]
        {
            let error = parse(text).unwrap_err();
            assert!(error.contains("is no revisit policy: expected `never`"), "{text}: {error}");
        }
    }
}

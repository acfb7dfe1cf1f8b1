//! Order of a crawl on the command line.

use std::time::Duration;

use orbweaver_messages::{CrawlOrder, Millis};

/// Orders with a name.
const NAMED: [(&str, CrawlOrder); 3] = [
    ("breadth-first", CrawlOrder::BREADTH_FIRST),
    ("depth-first", CrawlOrder::DEPTH_FIRST),
    ("best-first", CrawlOrder::BEST_FIRST),
];

/// Parses an order: the name of one, or its terms.
///
/// # Errors
/// Fails with the permitted forms. Whether the values of the terms are, is checked with the definition.
pub fn parse(text: &str) -> Result<CrawlOrder, String> {
    if let Some((_, order)) = NAMED.into_iter().find(|(name, _)| *name == text) {
        return Ok(order);
    }
    let mut order = CrawlOrder::BREADTH_FIRST;
    for term in text.split(',') {
        let (name, value) = term.split_once('=').unwrap_or((term, ""));
        let is_read = match name {
            "depth" => percent(value).map(|percent| order.depth_percent = percent),
            "answers" => percent(value).map(|percent| order.answers_percent = percent),
            "half-life" => half_life(value).map(|half_life| order.half_life_ms = half_life),
            _ => None,
        };
        is_read.ok_or_else(|| {
            format!(
                "`{term}` is no order: expected breadth-first, depth-first, best-first, or terms such as \
                 `depth=70%,half-life=2days,answers=30%`"
            )
        })?;
    }
    Ok(order)
}

fn percent(text: &str) -> Option<u16> {
    text.strip_suffix('%').unwrap_or(text).parse().ok()
}

fn half_life(text: &str) -> Option<Option<Millis>> {
    if text == "none" {
        return Some(None);
    }
    let time = humantime::parse_duration(text).ok()?;
    Millis::try_from(time.as_millis()).ok().map(Some)
}

/// Returns an order as it is given on the command line.
#[must_use]
pub fn shown(order: &CrawlOrder) -> String {
    if let Some((name, _)) = NAMED.into_iter().find(|(_, named)| named == order) {
        return name.to_owned();
    }
    let CrawlOrder { depth_percent, half_life_ms, answers_percent } = order;
    let half_life = half_life_ms.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or_default()));
    let half_life = half_life.map_or_else(|| "none".to_owned(), |time| humantime::format_duration(time).to_string());
    format!("depth={depth_percent}%,half-life={},answers={answers_percent}%", half_life.replace(' ', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_reads_back_as_it_is_shown() {
        for text in ["breadth-first", "depth-first", "best-first", "depth=70%,half-life=2days3h,answers=0%"] {
            assert_eq!(shown(&parse(text).unwrap()), text);
        }
        let other = parse("answers=30,half-life=90m").unwrap();
        assert_eq!(
            other,
            CrawlOrder { half_life_ms: Some(5_400_000), answers_percent: 30, ..CrawlOrder::BREADTH_FIRST }
        );
        assert_eq!(shown(&other), "depth=50%,half-life=1h30m,answers=30%");
        assert_eq!(parse("depth=50%"), Ok(CrawlOrder::BREADTH_FIRST));
    }

    #[test]
    fn what_is_no_order_is_named() {
        for text in ["", "widest-first", "depth", "depth=-1", "half-life=soon", "depth=70%,", "depth=99999"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("is no order: expected breadth-first"), "{text}: {error}");
        }
    }
}

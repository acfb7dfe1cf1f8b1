//! Check of crawls, settings of sites and dead letters (pure).

use super::{
    finding::{Finding, count, listed},
    progress::Waits,
};

/// A definition that services refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub crawl: String,
    pub reason: String,
    /// Whether an earlier definition still applies.
    pub applies: bool,
}

/// Contents of `crawl.control`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CrawlsSeen {
    pub crawls: usize,
    pub stopped: usize,
    pub refused: Vec<Refused>,
    pub waits: Waits,
}

/// Returns the findings about crawls.
#[must_use]
pub fn crawls(seen: &CrawlsSeen) -> Vec<Finding> {
    let CrawlsSeen { crawls, stopped, refused, waits } = seen;
    let mut found: Vec<Finding> = refused.iter().map(refusal).collect();
    if *crawls == 0 {
        let advice = "orbweaver topics create defines the crawl `default`; orbweaver crawls create NAME another one";
        found.push(Finding::warn("crawls", "none is defined: no seed is admitted", advice));
        return found;
    }
    let mut parts = vec![count(*crawls as u64, "crawl")];
    let named = |what: &str, names: &[String]| (!names.is_empty()).then(|| format!("{what}: {}", listed(names)));
    parts.extend(named("paused", &waits.paused));
    parts.extend(named("at their page cap", &waits.capped));
    parts.extend((*stopped > 0).then(|| format!("{stopped} stopped")));
    parts.extend((waits.frozen_sites > 0).then(|| format!("{} frozen", count(waits.frozen_sites as u64, "site"))));
    let resume = if waits.paused.is_empty() { "" } else { " (orbweaver crawls resume NAME)" };
    found.push(Finding::ok("crawls", format!("{}{resume}", parts.join("; "))));
    found
}

fn refusal(refused: &Refused) -> Finding {
    let Refused { crawl, reason, applies } = refused;
    let check = format!("crawl {crawl}");
    let advice = format!(
        "orbweaver crawls show {crawl}; write a usable definition with orbweaver crawls set {crawl} and its options"
    );
    if *applies {
        Finding::warn(check, format!("services refuse its last definition, and use the one before: {reason}"), advice)
    } else {
        let advice =
            "write a usable definition to crawl.control (schemas/crawl-definition.v1.schema.json), or delete its key";
        Finding::bad(check, format!("services refuse its definition, and it has no other: {reason}"), advice)
    }
}

/// Returns the finding about dead letters that were not replayed.
#[must_use]
pub fn dead_letters(left: u64) -> Finding {
    if left == 0 {
        return Finding::ok("dead letters", "none");
    }
    Finding::warn(
        "dead letters",
        format!("{} could not be processed", count(left, "record")),
        "orbweaver dead-letters list shows them with the reason; once it is fixed: orbweaver dead-letters replay --all",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;

    #[test]
    fn a_refused_definition_is_bad_if_no_other_applies() {
        let refused = |applies| Refused { crawl: "docs".to_owned(), reason: "no such scope".to_owned(), applies };
        let seen = CrawlsSeen { crawls: 1, refused: vec![refused(true), refused(false)], ..CrawlsSeen::default() };
        let found = crawls(&seen);
        assert_eq!(found.iter().map(|finding| finding.level).collect::<Vec<_>>(), [Level::Warn, Level::Bad, Level::Ok]);
        assert!(found[0].seen.contains("no such scope"), "{found:?}");
    }

    #[test]
    fn paused_crawls_are_named_and_frozen_sites_counted() {
        let waits = Waits { paused: vec!["docs".to_owned()], frozen_sites: 2, ..Waits::default() };
        let found = crawls(&CrawlsSeen { crawls: 3, stopped: 1, waits, ..CrawlsSeen::default() });
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].level, &*found[0].seen),
            (Level::Ok, "3 crawls; paused: docs; 1 stopped; 2 sites frozen (orbweaver crawls resume NAME)")
        );
        assert_eq!(crawls(&CrawlsSeen::default())[0].level, Level::Warn, "no crawl");
    }

    #[test]
    fn dead_letters_are_a_warning_with_the_command_that_shows_them() {
        assert_eq!(dead_letters(0).level, Level::Ok);
        let found = dead_letters(1);
        assert_eq!((found.level, &*found.seen), (Level::Warn, "1 record could not be processed"));
        assert!(found.advice.is_some_and(|advice| advice.starts_with("orbweaver dead-letters list")));
    }
}

//! Number of pages of each site in a crawl with a page cap per site, compared with the frontiers' counts.

use std::collections::{BTreeMap, BTreeSet};

use orbweaver_log::{MemoryLog, Offset};
use orbweaver_messages::{LEASE_MS, Outcome, OutcomeKind, SitePages, decode, topic};
use orbweaver_url::{Fingerprint, SiteName};

use crate::{crawls::Crawl, observer::tps};

/// Outcomes of a site.
#[derive(Debug, Default)]
struct SiteOutcomes {
    /// URLs that ended as fetched.
    fetched: u64,
    /// Pages whose outcome came so late that the lease of their dispatch may have expired.
    late: u64,
    /// URLs that were refused at the cap.
    refused: u64,
}

/// Outcomes of the crawls with a page cap per site, read while they are in the log.
#[derive(Debug, Default)]
pub(crate) struct SitePagesTruth {
    /// Offset in each partition below which outcomes are read.
    next: BTreeMap<u32, Offset>,
    ended: BTreeSet<Fingerprint>,
    sites: BTreeMap<SiteName, SiteOutcomes>,
}

impl SitePagesTruth {
    /// Reads new outcomes of this crawl. Must run before any deletion, so that none is missed.
    pub(crate) fn look(&mut self, log: &MemoryLog, crawl: &Crawl) {
        for tp in tps(log, topic::OUTCOMES) {
            let next = self.next.entry(tp.partition).or_default();
            for record in log.records(tp).into_iter().filter(|record| record.offset >= *next).collect::<Vec<_>>() {
                *next = record.offset + 1;
                let Ok(outcome) = decode::<Outcome>("outcome", record.value.as_ref()) else { continue };
                let context = &outcome.context;
                let is_first_visit = context.visit == 0 && context.sighting.is_page();
                if context.crawl != *crawl.name() || !is_first_visit || !outcome.kind.is_terminal() {
                    continue;
                }
                let site = self.sites.entry(context.site.clone()).or_default();
                let is_first = self.ended.insert(context.fingerprint);
                match outcome.kind {
                    OutcomeKind::Fetched if is_first => {
                        site.fetched += 1;
                        site.late += u64::from(record.timestamp_ms >= outcome.dispatched_at_ms + LEASE_MS / 2);
                    }
                    OutcomeKind::Refused if outcome.reason.as_deref() == Some("site_cap") => site.refused += 1,
                    _ => {}
                }
            }
        }
    }

    /// Returns violations of the cap: sites with more pages, and sites whose URLs were refused below it, by what a
    /// frontier that opened all partitions now would count.
    pub(crate) fn judge(&mut self, log: &MemoryLog, crawl: &Crawl) -> Vec<String> {
        let Some(max) = crawl.max_pages_per_site() else { return vec![] };
        self.look(log, crawl);
        let mut counted: BTreeMap<SiteName, SitePages> = BTreeMap::new();
        for record in tps(log, topic::SITE_PAGES).into_iter().flat_map(|tp| log.records(tp)) {
            if let Ok(pages) = decode::<SitePages>("site-pages", record.value.as_ref()) {
                let known = counted.entry(pages.site.clone()).or_insert_with(|| pages.clone());
                if known.upto <= pages.upto {
                    *known = pages;
                }
            }
        }
        let judge = |(site, outcomes): (&SiteName, &SiteOutcomes)| {
            let SiteOutcomes { fetched, late, refused } = outcomes;
            let counted = counted.get(site).map_or(0, |counted| counted.pages);
            let is_over = *fetched > max + late;
            (is_over || counted < *fetched || *refused > 0 && counted < max).then(|| {
                format!(
                    "{site}: {fetched} pages ({late} late) of at most {max}, {counted} counted, {refused} URLs refused"
                )
            })
        };
        self.sites.iter().filter_map(judge).collect()
    }
}

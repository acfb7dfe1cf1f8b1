//! Decisions on the links of a record.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    convert::Infallible,
};

use orbweaver_log::{ConsumerRecord, Partition};
use orbweaver_messages::{
    Discovered, DiscoveryKind, EXTERNAL_DEPTH, FrontierUrl, Millis, REQUISITE_DEPTH, SeenEntry, Trail, Traps,
    UrlContext,
};
use orbweaver_scope::{rank, rank_of_depth};
use orbweaver_seen::{PendingAdmissions, Recent, SeenError, SeenPartition, admits};
use orbweaver_stage::{Origin, Plan, Token};
use orbweaver_url::{CrawlName, Fingerprint, SiteName, Slot, Url, WideDomains, parse, slot_of};

use crate::{
    draft::{Draft, Tokens},
    scope::{Entries, Rules},
    tally::{Counts, LinkOutcome},
};

/// Maximum number of redirects from a discovered URL to an admitted one (docs/protocol.md#redirects).
pub(crate) const LONGEST_CHAIN: usize = 20;

#[derive(Debug)]
pub(crate) struct OpenPartition {
    pub(crate) partition: Partition,
    pub(crate) seen: Box<dyn SeenPartition>,
    pub(crate) pending: PendingAdmissions<Origin, Discovered>,
    pub(crate) draft: Option<Draft>,
    /// Scope entries of plans in flight, as (crawl, entry).
    pub(crate) entries: HashMap<Token, Vec<(CrawlName, String)>>,
    /// Records that arrived while the links of this partition waited for a plan; not decoded, so that they take no more
    /// memory than is charged to the budget.
    pub(crate) backlog: VecDeque<(Origin, ConsumerRecord)>,
}

impl OpenPartition {
    pub(crate) fn new(partition: Partition, seen: Box<dyn SeenPartition>) -> Self {
        Self {
            partition,
            seen,
            pending: PendingAdmissions::default(),
            draft: None,
            entries: HashMap::new(),
            backlog: VecDeque::new(),
        }
    }

    /// Completes the draft and returns it as a plan.
    pub(crate) fn finish_draft(&mut self, now: Millis) -> Option<Plan<Infallible>> {
        let mut draft = self.draft.take()?;
        let token = draft.token;
        if !draft.entries.is_empty() {
            self.entries.insert(token, std::mem::take(&mut draft.entries));
        }
        Some(draft.into_plan(self.partition, now))
    }
}

/// Context for admitting a record.
pub(crate) struct Admission<'a> {
    pub(crate) rules: Rules<'a>,
    pub(crate) entries: &'a mut Entries,
    pub(crate) served: &'a mut OpenPartition,
    pub(crate) recent: &'a mut Recent,
    pub(crate) counts: &'a mut Counts,
    pub(crate) plans: &'a mut Vec<Plan<Infallible>>,
    pub(crate) tokens: &'a mut Tokens,
    pub(crate) partitions: Partition,
    pub(crate) now: Millis,
}

impl Admission<'_> {
    /// Takes the links of a record out of it and decides on them. Afterwards its origin is complete unless it waits in
    /// the pending ledger.
    pub(crate) fn admit(&mut self, origin: Origin, record: &mut Discovered) -> Result<(), SeenError> {
        let urls = std::mem::take(&mut record.urls);
        let modified_ms = std::mem::take(&mut record.modified_ms);
        let record = &*record;
        if record.chain.len() > LONGEST_CHAIN {
            self.counts.add(LinkOutcome::TooManyRedirects, urls.len());
            return Ok(());
        }
        let is_seed = record.sighting == DiscoveryKind::Seed;
        // A seed may still have to extend the scope.
        let is_decided_each_time = is_seed || self.is_again(record);
        // Links beyond the depth limit may be external.
        if !is_seed && self.is_too_deep(record) && !self.rules.applied.rules.checks_external() {
            self.counts.add(LinkOutcome::TooDeep, urls.len());
            return Ok(());
        }
        let slot = slot_of(&record.site);
        // By plan, so that the links which wait for the same one share the other fields of the record.
        let mut deferred: BTreeMap<Token, Vec<(String, Millis)>> = BTreeMap::new();
        let mut urls = urls.into_iter().zip(modified_ms.into_iter().chain(std::iter::repeat(0)));
        while let Some((text, modified_ms)) = urls.next() {
            if let Some(token) = self.tokens.awaited(self.served.partition) {
                let rest = deferred.entry(token).or_default();
                rest.push((text, modified_ms));
                rest.extend(urls);
                break;
            }
            let as_found = Fingerprint::of(&record.crawl, &text);
            let decision = match self.recall(as_found, record.depth) {
                Some(end) if !is_decided_each_time => Decision::Made(end),
                _ => self.link(Link { origin, record, text: &text, modified_ms, as_found, slot })?,
            };
            match decision {
                Decision::Made(end) => self.counts.add(end, 1),
                Decision::Deferred(token) => deferred.entry(token).or_default().push((text, modified_ms)),
            }
        }
        for (token, links) in deferred {
            let (urls, mut modified_ms): (Vec<_>, Vec<_>) = links.into_iter().unzip();
            if modified_ms.iter().all(|modified_ms| *modified_ms == 0) {
                modified_ms = vec![];
            }
            self.served.pending.defer(token, origin, Discovered { urls, modified_ms, ..record.clone() });
        }
        Ok(())
    }

    /// Fast path: most links were seen recently, spelled the same. The recent cache holds the fingerprints of canonical
    /// URLs and of links as found; they cannot be confused, because the two are equal exactly when the link is
    /// canonical.
    fn recall(&mut self, fingerprint: Fingerprint, depth: u16) -> Option<LinkOutcome> {
        let known = self.recent.get(fingerprint)?;
        (!self.admits(Some(known), depth)).then_some(LinkOutcome::Duplicate)
    }

    /// Slow path.
    fn link(&mut self, link: Link<'_>) -> Result<Decision, SeenError> {
        let Discovered { crawl, site, sighting, chain, .. } = link.record;
        let url = match parse(link.text) {
            Ok(url) => url,
            Err(error) => return Ok(Decision::Made(LinkOutcome::from(&error))),
        };
        let canonical = self.rules.policy.canonical_text(&url);
        if !is_of_site(&url, site, self.rules.wide) {
            return Ok(Decision::Made(LinkOutcome::Misplaced));
        }
        let fingerprint = if canonical == *link.text { link.as_found } else { Fingerprint::of(crawl, &canonical) };
        if self.rules.applied.rules.is_stopped() {
            self.enter_stopped(fingerprint, link)?;
            return Ok(Decision::Made(LinkOutcome::Stopped));
        }
        if *sighting == DiscoveryKind::Seed {
            let missing = self.entries.missing(self.rules.scope(), &canonical, site, !chain.is_empty());
            if let Some(entry) = missing {
                self.extend_scope(entry, link);
            }
        }
        // A seed is always in scope. A recently seen link is judged only if it may be admitted again: the rules may
        // have changed. One that was external is judged first, since it is no nearer if it still is.
        let mut judged = (*sighting == DiscoveryKind::Seed).then_some(As::found(link.record));
        if judged.is_none() && self.recent.get(fingerprint).is_none_or(|known| known == EXTERNAL_DEPTH) {
            match self.judge(link.record, &canonical) {
                Ok(found) => judged = Some(found),
                Err(end) => return Ok(Decision::Made(end)),
            }
        }
        let depth = judged.map_or(link.record.depth, |found| found.depth);
        let is_again = self.is_again(link.record);
        if let Some(pending) = self.served.pending.get(fingerprint) {
            if is_again || self.admits(Some(pending.depth), depth) {
                // One outstanding write per key (docs/protocol.md#one-write-per-key): decided once the other plan is
                // durable.
                return Ok(Decision::Deferred(pending.token));
            }
            self.served.pending.wait(pending.token, link.origin);
            return Ok(Decision::Made(LinkOutcome::Duplicate));
        }
        let known = match self.recent.get(fingerprint) {
            // The cached depth may be greater than the known one.
            Some(known) if !is_again && !self.admits(Some(known), depth) => Some(known),
            _ => self.served.seen.depth_of(fingerprint)?,
        };
        if let Some(known) = known.filter(|_| !is_again && !self.admits(known, depth)) {
            self.recent.insert(fingerprint, known);
            self.recent.insert(link.as_found, known);
            return Ok(Decision::Made(LinkOutcome::Duplicate));
        }
        let found = match judged.map_or_else(|| self.judge(link.record, &canonical), Ok) {
            Ok(found) => found,
            Err(end) => return Ok(Decision::Made(end)),
        };
        if !is_again && !self.admits(known, found.depth) {
            return Ok(Decision::Made(LinkOutcome::Duplicate));
        }
        if is_again && chain.iter().any(|before| *before == *link.text) {
            // Redirects in a circle: nothing else ends them.
            return Ok(Decision::Made(LinkOutcome::Duplicate));
        }
        let key = (canonical != url.as_str()).then(|| canonical.into_owned());
        // A requisite becomes a page.
        let again = known.filter(|known| is_again && *known < REQUISITE_DEPTH);
        let found = again.map_or(found, |depth| As { depth, sighting: *sighting });
        let mut waiting = waiting((link.record, found), (fingerprint, self.rules), url, key, self.now);
        waiting.context.listed_modified_ms = Some(link.modified_ms).filter(|modified_ms| *modified_ms != 0);
        self.admit_url(&waiting, again.is_some(), link);
        Ok(Decision::Made(match known {
            None => LinkOutcome::New,
            Some(_) if again.is_some() && *sighting == DiscoveryKind::Update => LinkOutcome::Updated,
            Some(_) if again.is_some() => LinkOutcome::Recrawled,
            Some(_) => LinkOutcome::Shallower,
        }))
    }

    /// Enters a link of a stopped crawl in `crawl.seen`, unless it is known. An owner of the partition that was killed may
    /// have queued the URL without that, before the crawl was stopped; what deletes the crawl finds its URLs there.
    fn enter_stopped(&mut self, fingerprint: Fingerprint, link: Link<'_>) -> Result<(), SeenError> {
        if let Some(pending) = self.served.pending.get(fingerprint) {
            self.served.pending.wait(pending.token, link.origin);
            return Ok(());
        }
        if self.recent.get(fingerprint).is_some() || self.served.seen.depth_of(fingerprint)?.is_some() {
            return Ok(());
        }
        let entry = SeenEntry { slot: link.slot, depth: link.record.depth, fingerprint };
        let draft = self.draft();
        let (bytes, token) = (draft.enter_url(&link.record.crawl, entry), draft.token);
        self.served.pending.admit(token, entry, link.origin);
        self.drafted(token, bytes);
        Ok(())
    }

    /// Returns how a URL is admitted; the error is the reason if it is not.
    fn judge(&self, found: &Discovered, canonical: &str) -> Result<As, LinkOutcome> {
        if !found.sighting.is_page() {
            return self.rules.judge_no_page(canonical).map(|()| As::found(found));
        }
        let is_link = matches!(found.sighting, DiscoveryKind::Link | DiscoveryKind::Redirect);
        match self.rules.judge(self.entries, canonical, &found.site) {
            Ok(()) if self.is_too_deep(found) => Err(LinkOutcome::TooDeep),
            Ok(()) => Ok(As::found(found)),
            Err(LinkOutcome::OutOfScope | LinkOutcome::NotIncluded)
                if is_link && self.rules.applied.rules.checks_external() =>
            {
                self.rules.judge_no_page(canonical).map(|()| As::EXTERNAL)
            }
            Err(end) => Err(end),
        }
    }

    /// Returns `true` if known URLs of the record are passed on as well: a user requested them again, or a sitemap lists
    /// them as modified, which matters if the crawl has revisits.
    fn is_again(&self, record: &Discovered) -> bool {
        match record.sighting {
            DiscoveryKind::Recrawl => true,
            DiscoveryKind::Update => self.rules.applied.definition.revisit.is_some(),
            _ => false,
        }
    }

    fn is_too_deep(&self, found: &Discovered) -> bool {
        found.sighting.is_page() && self.rules.applied.rules.is_too_deep(found.depth)
    }

    fn admits(&self, known: Option<u16>, depth: u16) -> bool {
        admits(known, depth, self.rules.applied.rules.limits_depth())
    }

    /// Adds a URL to the draft. One that is fetched again is in `crawl.seen` already.
    fn admit_url(&mut self, waiting: &FrontierUrl, is_seen: bool, link: Link<'_>) {
        let partition = self.served.partition;
        let entry =
            SeenEntry { slot: link.slot, depth: waiting.context.depth, fingerprint: waiting.context.fingerprint };
        let draft = self.draft();
        let (bytes, token) = (draft.admit_url(waiting, (!is_seen).then_some(entry), partition), draft.token);
        if is_seen {
            self.served.pending.readmit(token, entry, link.origin);
        } else {
            self.served.pending.admit(token, entry, link.origin);
        }
        self.drafted(token, bytes);
    }

    /// Counts the bytes of a URL in the draft, and starts its plan if it is full.
    fn drafted(&mut self, token: Token, bytes: usize) {
        self.tokens.add(token, bytes);
        if self.served.draft.as_ref().is_some_and(Draft::is_full) {
            self.plans.extend(self.served.finish_draft(self.now));
        }
    }

    /// Extends the scope by an entry. It applies immediately, so that links on the seed's page are in scope however
    /// soon they arrive.
    fn extend_scope(&mut self, entry: String, link: Link<'_>) {
        self.entries.insert(&entry, false);
        let (partitions, now) = (self.partitions, self.now);
        let draft = self.draft();
        let bytes = draft.extend_scope(&link.record.crawl, entry, partitions, now);
        let token = draft.token;
        self.tokens.add(token, bytes);
        self.served.pending.wait(token, link.origin);
    }

    fn draft(&mut self) -> &mut Draft {
        let partition = self.served.partition;
        self.served.draft.get_or_insert_with(|| Draft::new(self.tokens.begin(partition)))
    }
}

/// Decision on a link.
enum Decision {
    Made(LinkOutcome),
    /// To be made once this plan is durable.
    Deferred(Token),
}

/// Sighting and depth with which a URL is admitted.
#[derive(Clone, Copy)]
struct As {
    sighting: DiscoveryKind,
    depth: u16,
}

impl As {
    /// As a link out of the crawl, whatever its depth.
    const EXTERNAL: Self = Self { sighting: DiscoveryKind::External, depth: EXTERNAL_DEPTH };

    /// Returns those of the record. A new URL that a sitemap lists as modified is a link like its others.
    fn found(record: &Discovered) -> Self {
        let is_update = record.sighting == DiscoveryKind::Update;
        let sighting = if is_update { DiscoveryKind::Link } else { record.sighting };
        Self { sighting, depth: record.depth }
    }
}

/// One link of a record, which has no URLs itself.
#[derive(Clone, Copy)]
struct Link<'a> {
    origin: Origin,
    record: &'a Discovered,
    text: &'a str,
    /// Modification time in the sitemap or feed that lists it; 0: none.
    modified_ms: Millis,
    as_found: Fingerprint,
    slot: Slot,
}

/// Returns `true` if the host is the site or below it. The site is computed once, where the link was found, and
/// trusted; this check only prevents a faulty producer from having a site requested at the rate of another. With wide
/// domains the site must match exactly: a producer without that setting would put all their hosts into one site.
fn is_of_site(url: &Url, site: &SiteName, wide: &WideDomains) -> bool {
    if !wide.is_empty() {
        return *wide.site_of(url) == *site;
    }
    let host = url.host_str().unwrap_or_default();
    let host = host.strip_suffix('.').unwrap_or(host);
    host.strip_suffix(&**site).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn waiting(
    (record, As { sighting, depth }): (&Discovered, As),
    (fingerprint, rules): (Fingerprint, Rules<'_>),
    url: Url,
    key: Option<String>,
    now: Millis,
) -> FrontierUrl {
    let definition = &rules.applied.definition;
    let traps = definition.traps;
    let context = UrlContext {
        crawl: record.crawl.clone(),
        fingerprint,
        url: url.into(),
        key,
        policy: rules.policy,
        site: record.site.clone(),
        depth,
        sighting,
        via: record.via.clone(),
        chain: record.chain.clone(),
        // An external URL leads to no pages.
        trail: if traps == Traps::Off || !sighting.is_page() { Trail::default() } else { record.trail.clone() },
        priority: record.priority,
        metadata: record.metadata.clone(),
        visit: 0,
        listed_modified_ms: None,
    };
    let content = record.content.filter(|_| traps != Traps::Off && sighting.is_page());
    let rank = if sighting == DiscoveryKind::Requisite {
        // As heavy as a seed: its page is worth little without it.
        rank(&definition.order, record.priority, 0, now).or(Some(rank_of_depth(0)))
    } else {
        rank(&definition.order, record.priority, depth, now)
    };
    FrontierUrl { traps, rank, content, definition: rules.applied.version, ..FrontierUrl::admitted(context, now) }
}

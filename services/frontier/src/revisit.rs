//! Schedule of revisits: from the end of a visit to the next one. Pure.
//!
//! A page that changes at the rate λ is visited at intervals of √(`interval` / λ), between `interval` and
//! `max_interval`. Pages that change four times more rarely are thus visited half as often. Equal intervals for all pages
//! waste visits on pages that do not change, and intervals in proportion to those of the changes (as in Nutch's adaptive
//! schedule) waste more of them on pages that change all the time: Cho and Garcia-Molina, "Effective page refresh policies
//! for web crawlers", 2003, prove that they keep fewer pages fresh than equal intervals do. Their optimum for rates below
//! that of the visits approaches the square root. λ is their estimator for changes that are seen only at visits
//! ("Estimating frequency of change", 2003), with one more interval that has half a change. A change is one of the text, where
//! that is known: many pages have a new token in each response, which would be visits for nothing. A policy may have other bounds
//! for pages that are not HTML, by media type.

use orbweaver_messages::{
    ChangeKind, ChangeRate, FrontierUrl, Millis, Outcome, OutcomeKind, PageChange, PageVersion, RevisitBounds,
    RevisitPolicy, UrlContext, Visits,
};
use orbweaver_scope::{is_html, media_type, revisit_bounds};

/// Number of observed intervals at which the weight of all of them is halved: a page may change its habits.
const OBSERVED: u16 = 20;

/// Maximum length of a media type that is kept, in bytes; one that is longer has the intervals of HTML.
const MAX_MEDIA_TYPE_BYTES: usize = 100;

/// Result of a visit for the page.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Finding {
    /// Found, in this version.
    Page(PageVersion),
    /// Not changed; the response may have had other validators.
    Unchanged(PageVersion),
    /// Not available any longer.
    Gone,
    /// Nothing is known: the visit failed, or was not allowed.
    Unknown,
}

/// End of a visit by a terminal outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndedVisit {
    /// Number of the visit.
    pub(crate) number: u32,
    at_ms: Millis,
    status: Option<u16>,
    /// Media type of the response, if it has one.
    media_type: Option<String>,
    finding: Finding,
}

impl EndedVisit {
    pub(crate) fn of(outcome: &Outcome) -> Self {
        let is_gone = match outcome.kind {
            OutcomeKind::Redirected => true,
            OutcomeKind::Gone => matches!(outcome.status, Some(404 | 410)),
            // Another type of content.
            OutcomeKind::Refused => outcome.status == Some(200),
            _ => false,
        };
        let finding = match (outcome.kind, outcome.version.clone()) {
            (OutcomeKind::Fetched, Some(version)) => Finding::Page(version),
            (OutcomeKind::Unchanged, version) => Finding::Unchanged(version.unwrap_or_default()),
            _ if is_gone => Finding::Gone,
            _ => Finding::Unknown,
        };
        let media_type = Some(media_type(outcome.content_type.as_deref())).filter(|known| !known.is_empty());
        Self {
            number: outcome.context.visit,
            at_ms: outcome.ended_at_ms,
            status: outcome.status,
            media_type: media_type.map(str::to_ascii_lowercase),
            finding,
        }
    }
}

/// Change of a page between its last visit and the one that has ended.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    ended: &'a EndedVisit,
    before: Visits,
    /// `None` if it has not changed, or if nothing is known.
    kind: Option<ChangeKind>,
    version: PageVersion,
}

impl<'a> Change<'a> {
    /// Compares the end of a visit with the record of its URL.
    pub(crate) fn of(waiting: &FrontierUrl, ended: &'a EndedVisit) -> Self {
        let before = waiting.visits.as_deref().cloned().unwrap_or_default();
        let was_known = !before.version.is_unknown();
        let (kind, version) = match &ended.finding {
            Finding::Page(version) if was_known && version.content_hash == before.version.content_hash => {
                (None, version.clone())
            }
            Finding::Page(version) if was_known => (Some(ChangeKind::Changed), version.clone()),
            Finding::Page(version) => (Some(ChangeKind::New), version.clone()),
            Finding::Unchanged(version) => (None, revalidated(&before.version, version)),
            Finding::Gone => (was_known.then_some(ChangeKind::Gone), PageVersion::default()),
            Finding::Unknown => (None, before.version.clone()),
        };
        Self { ended, before, kind, version }
    }

    /// Returns the record of the change, if there is one.
    pub(crate) fn page_change(&self, waiting: &FrontierUrl) -> Option<PageChange> {
        Some(PageChange {
            kind: self.kind?,
            context: waiting.context.clone(),
            status: self.ended.status,
            at_ms: self.ended.at_ms,
            version: self.version.clone(),
            previous_hash: self.before.version.content_hash.clone(),
            text_changed: self.text_changed(),
            previous_at_ms: waiting.visits.as_ref().map(|visits| visits.visited_at_ms),
        })
    }

    /// Returns `true` if a sitemap or feed lists the page as modified after the visit before this one.
    pub(crate) fn is_listed(&self, waiting: &FrontierUrl) -> bool {
        let visited_at_ms = waiting.visits.as_ref().map(|visits| visits.visited_at_ms);
        visited_at_ms.is_some() && visited_at_ms < waiting.context.listed_modified_ms
    }

    /// Returns whether the visit found another text than the one before; `None` if that is not known, or if it did not find
    /// the page.
    pub(crate) fn is_new_text(&self) -> Option<bool> {
        match &self.ended.finding {
            Finding::Page(_) => Some(self.kind.is_some() && self.text_changed() != Some(false)),
            Finding::Unchanged(_) => Some(false),
            Finding::Gone | Finding::Unknown => None,
        }
    }

    /// Returns whether the text of a changed page is another one; `None` if one of both is not known.
    fn text_changed(&self) -> Option<bool> {
        self.kind.filter(|kind| *kind == ChangeKind::Changed)?;
        Some(self.version.text_hash.as_ref()? != self.before.version.text_hash.as_ref()?)
    }

    /// Returns the record of the URL, which sleeps until its next visit. The interval runs from `now`: the end of the visit is a
    /// time of the fetcher's clock, by which the next visit could be due at once.
    pub(crate) fn next_visit(self, policy: &RevisitPolicy, waiting: &FrontierUrl, now: Millis) -> FrontierUrl {
        let has_new_text = self.is_new_text() == Some(true);
        let Self { ended, before, version, .. } = self;
        let is_found = matches!(ended.finding, Finding::Page(_) | Finding::Unchanged(_));
        let misses = if is_found { 0 } else { before.misses.saturating_add(1) };
        let mut changes = before.changes;
        if is_found && !before.version.is_unknown() {
            let span_ms = ended.at_ms.saturating_sub(before.visited_at_ms).max(0).unsigned_abs();
            changes = observed(changes, span_ms, has_new_text);
        }
        let of_response = ended.media_type.clone();
        let media_type = match ended.finding {
            Finding::Page(_) => of_response,
            Finding::Unchanged(_) => of_response.or(before.media_type),
            Finding::Gone | Finding::Unknown => before.media_type,
        };
        let media_type = media_type.filter(|known| known.len() <= MAX_MEDIA_TYPE_BYTES && !is_html(known));
        let bounds = revisit_bounds(policy, media_type.as_deref());
        let interval_ms = if misses > 0 { missed_interval_ms(bounds, misses) } else { interval_ms(bounds, changes) };
        FrontierUrl {
            context: UrlContext { visit: ended.number.saturating_add(1), ..waiting.context.clone() },
            content: None,
            failures: 0,
            blocks: 0,
            lost: 0,
            not_before_ms: now.saturating_add_unsigned(interval_ms),
            visits: Some(Box::new(Visits { version, visited_at_ms: ended.at_ms, media_type, misses, changes })),
            ..waiting.clone()
        }
    }
}

/// Returns the version of an unchanged page: a 304 response may omit the validators.
fn revalidated(before: &PageVersion, now: &PageVersion) -> PageVersion {
    PageVersion {
        content_hash: before.content_hash.clone(),
        text_hash: before.text_hash.clone(),
        etag: now.etag.clone().or_else(|| before.etag.clone()),
        last_modified: now.last_modified.clone().or_else(|| before.last_modified.clone()),
    }
}

/// Adds an interval to those observed.
fn observed(before: ChangeRate, span_ms: u64, has_changed: bool) -> ChangeRate {
    let halved = |rate: ChangeRate| ChangeRate {
        intervals: rate.intervals / 2,
        changed: rate.changed / 2,
        span_ms: rate.span_ms / 2,
    };
    let rate = if before.intervals >= OBSERVED { halved(before) } else { before };
    ChangeRate {
        intervals: rate.intervals + 1,
        changed: rate.changed.saturating_add(u16::from(has_changed)),
        span_ms: rate.span_ms.saturating_add(span_ms),
    }
}

/// Returns the interval until the next visit of a page.
fn interval_ms(bounds: RevisitBounds, ChangeRate { intervals, changed, span_ms }: ChangeRate) -> u64 {
    if intervals == 0 {
        return bounds.interval_ms;
    }
    #[allow(clippy::cast_precision_loss, reason = "an interval needs no more than fifteen digits")]
    let (shortest, longest, span) = (bounds.interval_ms as f64, bounds.max_interval_ms as f64, span_ms as f64);
    let observed = f64::from(intervals) + 1.0;
    let changed = f64::from(changed.min(intervals)) + 0.5;
    let mean_ms = (span + shortest) / observed;
    let changes_per_ms = -((observed - changed + 0.5) / (observed + 0.5)).ln() / mean_ms;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the policy's bounds")]
    let interval_ms = (shortest / changes_per_ms).sqrt().clamp(shortest, longest.max(shortest)) as u64;
    interval_ms
}

/// Returns the interval until the next visit of a page that was not found this many times in a row: each doubles it.
fn missed_interval_ms(bounds: RevisitBounds, misses: u8) -> u64 {
    let doublings = u32::from(misses.saturating_sub(1).min(62));
    bounds.interval_ms.saturating_mul(1 << doublings).min(bounds.max_interval_ms.max(bounds.interval_ms))
}

#[cfg(test)]
mod tests;

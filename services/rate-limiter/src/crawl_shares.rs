//! Division of a site's times among the crawls that share it, in proportion to their shares. Pure.
//!
//! Each request of a crawl costs it the inverse of its share. A crawl that has spent more than the mean of all that compete, weighted
//! by their shares, is ahead: its dispatches are deferred until the others have caught up (eligibility as in EEVDF, Stoica and
//! Abdel-Wahab, 1995). No rate is estimated, so that the parts are right whatever the site's interval is.
//!
//! Dispatches cannot wait here, so a crawl that is behind may have none at the moment. A time that is about to be lost therefore
//! goes to a crawl that is ahead. The crawls that should have taken it compete again from their next dispatch on, and until
//! they have used a few times without fail, the others try each time.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

use orbweaver_messages::Millis;

/// Time for which a crawl is remembered after its last dispatch, in milliseconds, and two intervals of the site more.
const REMEMBERED_MS: Millis = 60_000;
/// Cost of a request for a crawl of share 1.
const COST: i64 = 1_000_000_000;
/// Number of its own requests by which a crawl is ahead or behind at most.
const MOST_REQUESTS: i64 = 4;
/// Number of times that a crawl takes without fail before the others rely on it.
const RELIABLE_AFTER: u8 = 8;
/// Number of the site's times for which a crawl is deferred at most, and the longest deferral by more than one of them, in milliseconds.
const MOST_TIMES: i64 = 4;
const MAX_DEFERRAL_MS: Millis = 60_000;
/// Shortest deferral, in milliseconds.
const MIN_DEFERRAL_MS: Millis = 10;

/// Dispatch of a crawl.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim<'a> {
    pub(crate) crawl: &'a str,
    pub(crate) share: u32,
    /// Interval of the crawl alone, in milliseconds; 0: none.
    pub(crate) own_ms: Millis,
    /// Earliest time by that interval.
    pub(crate) own_at_ms: Millis,
}

/// Next time of a site.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NextTime {
    pub(crate) at_ms: Millis,
    /// Time from one request of the site to the next one, in milliseconds.
    pub(crate) spacing_ms: Millis,
    /// Planning horizon, in milliseconds.
    pub(crate) horizon_ms: Millis,
}

impl NextTime {
    /// Returns how long before it a time is about to be lost, in milliseconds: long enough for a dispatch to reach the fetcher, and
    /// short enough for the next dispatch of a crawl that was requested at the time before.
    fn last_call_ms(self) -> Millis {
        self.spacing_ms.min(self.horizon_ms) / 4
    }
}

/// Crawl at a shared site.
#[derive(Debug, Clone)]
struct Competitor {
    crawl: u64,
    share: i64,
    /// Sum of the costs of its requests; only differences matter.
    spent: i64,
    /// Number of times that it took since it last missed one.
    in_row: u8,
    /// Whether it is expected to take its next time.
    competes: bool,
    /// Whether its last dispatch was deferred.
    deferred: bool,
    /// Scheduled time of its last dispatch, or the time from which that may come again.
    until_ms: Millis,
}

/// Crawls at one site. While there is one only, nothing is kept but its last dispatch.
#[derive(Debug, Default)]
pub(crate) struct CrawlShares {
    last: Option<LastDispatch>,
    crawls: Vec<Competitor>,
}

#[derive(Debug, Clone, Copy)]
struct LastDispatch {
    crawl: u64,
    share: i64,
    at_ms: Millis,
}

/// Sum of shares, and of the costs weighted by them, relative to `base`.
#[derive(Debug, Clone, Copy)]
struct Balance {
    base: i64,
    shares: i64,
    weighted: i64,
}

impl Balance {
    /// Returns by how much of the cost of the site's next requests this sum of costs is ahead of the mean; the lead falls by [`COST`] with
    /// each request of another crawl.
    fn lead(self, spent: i64) -> i64 {
        spent.saturating_sub(self.base).saturating_mul(self.shares).saturating_sub(self.weighted)
    }

    fn mean(self) -> i64 {
        self.base.saturating_add(self.weighted / self.shares.max(1))
    }
}

/// Returns a hash of the name, which is shorter. Two crawls with the same hash have one share.
fn key(crawl: &str) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(crawl)
}

impl CrawlShares {
    /// Decides on a dispatch that may be deferred to `later_ms` for other reasons. Returns the time from which it may come again, or
    /// `None` if it takes the next time.
    pub(crate) fn defer(
        &mut self,
        claim: Claim<'_>,
        next: NextTime,
        later_ms: Option<Millis>,
        now: Millis,
    ) -> Option<Millis> {
        if next.spacing_ms == 0 {
            return later_ms;
        }
        let Some(at) = self.enter(claim, next, now) else { return later_ms };
        let retry_ms = if claim.own_at_ms > next.at_ms {
            // Another crawl may take the time until then.
            self.crawls[at].competes = false;
            let gap_ms = claim.own_at_ms.saturating_sub(next.at_ms);
            let is_lost = gap_ms > next.last_call_ms() && self.is_wanted(next, now);
            later_ms.or_else(|| is_lost.then(|| claim.own_at_ms.saturating_sub(next.last_call_ms())))
        } else {
            self.wait_ms(at, next, now).or(later_ms)
        };
        let is_slow = self.is_slow(at, claim.own_ms, next);
        let own = &mut self.crawls[at];
        own.deferred = retry_ms.is_some();
        own.until_ms = retry_ms.unwrap_or(next.at_ms.max(claim.own_at_ms));
        if retry_ms.is_none() {
            own.spent = own.spent.saturating_add(COST / own.share);
            own.in_row = own.in_row.saturating_add(1);
            own.competes &= !is_slow;
        }
        retry_ms
    }

    /// Forgets the crawls if one only is left.
    pub(crate) fn prune(&mut self, spacing_ms: Millis, now: Millis) {
        self.crawls.retain(|own| is_remembered(own.until_ms, spacing_ms, now));
        if self.crawls.len() < 2 {
            self.crawls = vec![];
        }
    }

    /// Notes a dispatch. Returns the index of its crawl, or `None` while the crawl has the site for itself.
    fn enter(&mut self, claim: Claim<'_>, next: NextTime, now: Millis) -> Option<usize> {
        let (crawl, share) = (key(claim.crawl), i64::from(claim.share.max(1)));
        let last = self.last.replace(LastDispatch { crawl, share, at_ms: now });
        if self.crawls.is_empty() {
            let other = last.filter(|last| last.crawl != crawl && is_remembered(last.at_ms, next.spacing_ms, now))?;
            self.add(other.crawl, other.share, other.at_ms);
        }
        let at = self.crawls.iter().position(|own| own.crawl == crawl);
        if let Some(at) = at {
            self.crawls[at].until_ms = now;
        } else {
            self.add(crawl, share, now);
        }
        self.prune(next.spacing_ms, now);
        let at = self.crawls.iter().position(|own| own.crawl == crawl)?;
        self.crawls[at].share = share;
        self.compete(at, claim.own_ms, next);
        Some(at)
    }

    /// Adds a crawl, which starts at the mean of the others.
    fn add(&mut self, crawl: u64, share: i64, until_ms: Millis) {
        let spent = self.balance(None).mean();
        self.crawls.push(Competitor { crawl, share, spent, in_row: 0, competes: true, deferred: false, until_ms });
    }

    /// Lets a crawl compete for the next time.
    fn compete(&mut self, at: usize, own_ms: Millis, next: NextTime) {
        if self.is_slow(at, own_ms, next) {
            // It takes its times when its interval permits, has no right to more, and the others do not rely on it.
            self.crawls[at].competes = false;
            let others = self.balance(None);
            self.crawls[at].spent = if others.shares > 0 { others.mean() } else { self.crawls[at].spent };
            self.crawls[at].in_row = 0;
        }
        self.crawls[at].competes = true;
        let (all, own) = (self.balance(None), &mut self.crawls[at]);
        let most = MOST_REQUESTS.saturating_mul(COST / own.share).saturating_mul(all.shares);
        let lead = all.lead(own.spent);
        // A change of its own costs changes the mean, too.
        let others = all.shares.saturating_sub(own.share).max(1);
        own.spent = own.spent.saturating_sub(lead.saturating_sub(lead.clamp(-most, most)) / others);
    }

    /// Returns `true` if the interval of a crawl alone is longer than its part of the site permits.
    fn is_slow(&self, at: usize, own_ms: Millis, next: NextTime) -> bool {
        let own = &self.crawls[at];
        own_ms.saturating_mul(own.share) > next.spacing_ms.saturating_mul(self.balance(Some(at)).shares)
    }

    /// Returns the time from which a crawl that is ahead may dispatch again, or `None` if it may take the next time.
    fn wait_ms(&mut self, at: usize, next: NextTime, now: Millis) -> Option<Millis> {
        let last_call_ms = next.at_ms.saturating_sub(next.last_call_ms());
        let is_last_call = now >= last_call_ms;
        if is_last_call && !self.is_expected(at, next, now) {
            return None;
        }
        let all = self.balance(None);
        let lead = all.lead(self.crawls[at].spent);
        if lead <= 0 {
            return None;
        }
        let times = lead.saturating_add(COST - 1) / COST;
        let after_ms = |times: i64| now.saturating_add(times.saturating_mul(next.spacing_ms));
        let mut ahead = self.crawls.iter().filter(|other| other.competes && all.lead(other.spent) <= 0);
        let retry_ms = if ahead.all(|other| other.in_row >= RELIABLE_AFTER) {
            let most = MOST_TIMES.min(MAX_DEFERRAL_MS / next.spacing_ms.max(1)).max(1);
            after_ms(times.min(most))
        } else {
            // The last call of the next time, or of the one after it; before, while requests are scheduled far ahead, at the half.
            let next_call_ms = last_call_ms.saturating_add(if is_last_call { next.spacing_ms } else { 0 });
            let half_ms = now.saturating_add(next_call_ms.saturating_sub(now) / 2);
            after_ms(times).max(half_ms).min(next_call_ms)
        };
        Some(retry_ms.max(now.saturating_add(MIN_DEFERRAL_MS)))
    }

    /// Returns `true` if a crawl that is not ahead comes back for the next time, which is about to be lost. Those that should have
    /// dispatched by now do not compete any longer.
    fn is_expected(&mut self, at: usize, next: NextTime, now: Millis) -> bool {
        loop {
            let all = self.balance(None);
            if all.lead(self.crawls[at].spent) <= 0 {
                return false;
            }
            let overdue_ms = now.saturating_sub(next.last_call_ms());
            let missing = self.crawls.iter().enumerate().position(|(index, other)| {
                let comes = other.deferred && other.until_ms >= overdue_ms;
                index != at && other.competes && !comes && all.lead(other.spent) <= 0
            });
            let Some(missing) = missing else {
                return self.crawls.iter().enumerate().any(|(index, other)| {
                    index != at && other.competes && all.lead(other.spent) <= 0 && other.until_ms <= next.at_ms
                });
            };
            (self.crawls[missing].competes, self.crawls[missing].in_row) = (false, 0);
        }
    }

    /// Returns `true` if a crawl competes that dispatched within the last two intervals.
    fn is_wanted(&self, next: NextTime, now: Millis) -> bool {
        let since_ms = now.saturating_sub(next.spacing_ms.saturating_mul(2));
        self.crawls.iter().any(|other| other.competes && other.until_ms > since_ms)
    }

    /// Returns the balance of the crawls that compete, and of that at `also`.
    fn balance(&self, also: Option<usize>) -> Balance {
        let mut competing = self
            .crawls
            .iter()
            .enumerate()
            .filter(|(index, own)| own.competes || also == Some(*index))
            .map(|(_, own)| own);
        let Some(first) = competing.next() else { return Balance { base: 0, shares: 0, weighted: 0 } };
        let start = Balance { base: first.spent, shares: first.share, weighted: 0 };
        competing.fold(start, |sum, own| {
            let spent = own.spent.saturating_sub(sum.base).saturating_mul(own.share);
            Balance {
                shares: sum.shares.saturating_add(own.share),
                weighted: sum.weighted.saturating_add(spent),
                ..sum
            }
        })
    }
}

/// Returns `true` if a crawl whose last dispatch was, or may come again, at this time is remembered. A time that is too far ahead comes
/// from before a step of the clock.
fn is_remembered(until_ms: Millis, spacing_ms: Millis, now: Millis) -> bool {
    until_ms.saturating_sub(now).saturating_abs() < REMEMBERED_MS.saturating_add(spacing_ms.saturating_mul(2))
}

#[cfg(test)]
mod tests;

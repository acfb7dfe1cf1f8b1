//! Gate of one site.

use std::collections::VecDeque;

use orbweaver_messages::Millis;
use orbweaver_politeness::one_in_flight;
use orbweaver_stage::FairQueue;
use orbweaver_url::{CrawlName, SiteName};

use crate::{
    crawl_clocks::CrawlClocks,
    gates::{GateEvent, QueuedRequest},
};

/// Maximum number of queued requests that are compared for the next one to send, at a site with clocks of single crawls.
const COMPARED: usize = 64;

/// Clock of a site, and its queued requests.
#[derive(Debug)]
pub(crate) struct SiteGate<T> {
    /// Requests for robots.txt, and of dispatches that have begun; few.
    pub(crate) ahead: VecDeque<QueuedRequest<T>>,
    /// First requests of dispatches, in order of arrival, which is nearly that of their `not_after_ms`.
    pub(crate) queue: VecDeque<QueuedRequest<T>>,
    pub(crate) in_flight: usize,
    pub(crate) crawls: CrawlClocks,
    /// Time of the last request.
    pub(crate) started_ms: Millis,
    /// Time of the first byte of the last response.
    pub(crate) answered_ms: Millis,
    /// Interval of the last request queued; `None` before the first.
    pub(crate) interval_ms: Option<u64>,
    pub(crate) crawl_delay_ms: u64,
    pub(crate) blocked_until_ms: Millis,
    /// The only valid timer of this site; `Millis::MAX`: none.
    pub(crate) timer_ms: Millis,
    /// Whether the site is in the queue of ready sites, or waits at the door.
    pub(crate) is_ready: bool,
}

impl<T> SiteGate<T> {
    pub(crate) fn asked_at(asked_ms: Millis) -> Self {
        Self {
            ahead: VecDeque::new(),
            queue: VecDeque::new(),
            in_flight: 0,
            crawls: CrawlClocks::default(),
            started_ms: asked_ms,
            answered_ms: asked_ms,
            interval_ms: None,
            crawl_delay_ms: 0,
            blocked_until_ms: 0,
            timer_ms: Millis::MAX,
            is_ready: false,
        }
    }

    /// Returns the earliest time of the next queued request; `None` if none is queued, or a response in flight must
    /// arrive first.
    pub(crate) fn earliest_ms(&self, now: Millis, per_site: usize) -> Option<Millis> {
        self.next(now, per_site).map(|(_, at)| at)
    }

    /// Adds the site to those that are ready if the time of its next queued request has come.
    pub(crate) fn make_ready(
        &mut self,
        site: &SiteName,
        (now, per_site): (Millis, usize),
        ready: &mut FairQueue<CrawlName, SiteName>,
    ) {
        if self.is_ready {
            return;
        }
        if let Some((_, request)) = self.due(now, per_site) {
            ready.push((&request.crawl, request.share), site.clone(), 1);
            self.is_ready = true;
        }
    }

    /// Returns the next queued request, by its position in both queues, if its time has come.
    pub(crate) fn due(&self, now: Millis, per_site: usize) -> Option<(usize, &QueuedRequest<T>)> {
        let (index, _) = self.next(now, per_site).filter(|(_, at)| *at <= now)?;
        self.ahead.iter().chain(&self.queue).nth(index).map(|request| (index, request))
    }

    /// Removes and returns the queued request at this position.
    pub(crate) fn take(&mut self, index: usize) -> Option<QueuedRequest<T>> {
        match index.checked_sub(self.ahead.len()) {
            None => self.ahead.remove(index),
            Some(index) => self.queue.remove(index),
        }
    }

    /// Returns the next queued request, by its position in both queues, and its earliest time: the first one, unless the
    /// delay of its crawl lets others go before it.
    fn next(&self, now: Millis, per_site: usize) -> Option<(usize, Millis)> {
        let requests = self.ahead.iter().chain(&self.queue).take(self.compared()).enumerate();
        let times = requests.filter_map(|(index, request)| Some((index, self.request_ms(request, now, per_site)?)));
        times.min_by_key(|(_, at)| now.max(*at))
    }

    /// Returns the earliest time of a queued request; `None` if a response in flight must arrive first.
    fn request_ms(&self, request: &QueuedRequest<T>, now: Millis, per_site: usize) -> Option<Millis> {
        let gap = request.interval_ms.max(self.crawl_delay_ms).max(self.crawls.between_ms(request.own_ms));
        if self.in_flight >= if one_in_flight(gap) { 1 } else { per_site } {
            return None;
        }
        let own = self.crawls.free_ms(&request.crawl, now)?;
        Some(self.free_ms(gap, now).max(request.not_before_ms).max(own))
    }

    /// Returns the time at which `gap` has certainly passed; `Millis::MIN` if it is 0. A last time in the future
    /// counts as now (docs/protocol.md#delays-restart).
    fn free_ms(&self, gap: u64, now: Millis) -> Millis {
        if gap == 0 {
            return Millis::MIN;
        }
        // With parallel requests, responses would keep postponing the next start.
        let last = if one_in_flight(gap) { self.started_ms.max(self.answered_ms) } else { self.started_ms };
        // One more, since both times are truncated to whole milliseconds.
        last.min(now).saturating_add(Millis::try_from(gap).unwrap_or(Millis::MAX)).saturating_add(1)
    }

    /// Returns the number of queued requests, from the front, that may be sent next.
    fn compared(&self) -> usize {
        if self.crawls.is_empty() { 1 } else { COMPARED }
    }

    /// Returns the time after which the first of the queued requests is too late.
    fn deadline_ms(&self) -> Option<Millis> {
        let requests = self.ahead.iter().chain(self.queue.iter().take(self.compared()));
        requests.map(|request| request.not_after_ms).min()
    }

    /// Returns the time at which the site must be checked next; `Millis::MAX`: not before its next event.
    pub(crate) fn wake_ms(&self, now: Millis, per_site: usize) -> Millis {
        let Some(deadline) = self.deadline_ms() else {
            let busy = self.in_flight > 0 || self.is_ready;
            return if busy { Millis::MAX } else { self.idle_ms(now) };
        };
        let late = deadline.saturating_add(1);
        // A ready site waits for a request slot or at the door, not for a time.
        if self.is_ready { late } else { self.earliest_ms(now, per_site).map_or(late, |at| at.min(late)) }
    }

    /// Returns the time from which a site without queued requests can be forgotten.
    fn idle_ms(&self, now: Millis) -> Millis {
        let free_ms = self.free_ms(self.interval_ms.unwrap_or(0).max(self.crawl_delay_ms).max(1), now);
        free_ms.max(self.blocked_until_ms).max(self.crawls.idle_ms(now))
    }

    pub(crate) fn is_idle(&self, now: Millis) -> bool {
        self.deadline_ms().is_none() && self.in_flight == 0 && !self.is_ready && self.idle_ms(now) <= now
    }

    /// Removes requests that are too late. Returns their number.
    pub(crate) fn expire(&mut self, now: Millis, events: &mut Vec<GateEvent<T>>) -> usize {
        let before = events.len();
        for _ in 0..self.ahead.len() {
            match self.ahead.pop_front() {
                Some(request) if request.not_after_ms < now => events.push(GateEvent::Late(request)),
                Some(request) => self.ahead.push_back(request),
                None => {}
            }
        }
        let mut index = 0;
        while index < self.compared()
            && let Some(request) = self.queue.get(index)
        {
            if request.not_after_ms < now {
                events.extend(self.queue.remove(index).map(GateEvent::Late));
            } else {
                index += 1;
            }
        }
        events.len() - before
    }

    pub(crate) fn take_where(&mut self, matches: impl Fn(&T) -> bool, taken: &mut Vec<T>) {
        for queue in [&mut self.ahead, &mut self.queue] {
            for _ in 0..queue.len() {
                match queue.pop_front() {
                    Some(request) if matches(&request.payload) => taken.push(request.payload),
                    Some(request) => queue.push_back(request),
                    None => {}
                }
            }
        }
    }

    /// Counts the site as requested now, on a clock that stepped back by `back` milliseconds.
    pub(crate) fn reset_clocks(&mut self, now: Millis, back: Millis) {
        self.started_ms = now;
        self.answered_ms = now;
        self.crawls.reset(now);
        self.blocked_until_ms = self.blocked_until_ms.saturating_sub(back);
        self.timer_ms = Millis::MAX;
        for request in self.ahead.iter_mut().chain(&mut self.queue) {
            request.not_before_ms = request.not_before_ms.saturating_sub(back);
        }
    }
}

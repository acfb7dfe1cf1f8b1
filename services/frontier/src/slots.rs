//! Limits of a site's dispatches in flight, in total and for demoted URLs. Pure.
//!
//! Demoted URLs are dispatched only when nothing else of their site is queued. While other URLs are in flight, which
//! may lead to more, demoted ones make up at most a quarter of the dispatches in flight. Alone, they start with a few
//! slots and gain one with each dispatch that ends. They thus soon proceed at the full rate, and few of them are in the
//! way if other URLs are discovered after all.

/// Slots of a site whose rate is unlimited.
const UNLIMITED: u32 = 4096;
/// Divisor of the slots that yields the maximum share of demoted URLs, as counted against the URLs before them.
const BACK_PART: u32 = 4;
/// Number of demoted URLs that may initially be in flight when there are no others.
const BACK_AT_FIRST: u32 = 2;
/// Minimum interval at which a site gets one request at a time (docs/protocol.md#answer-delay), in milliseconds.
const ONE_REQUEST_FROM_MS: u64 = 100;

/// Dispatches of a site in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    /// Dispatches of demoted URLs.
    pub(crate) back: u32,
    /// Dispatches of all other URLs.
    pub(crate) front: u32,
}

impl InFlight {
    /// Returns the counter of demoted URLs, or of all others.
    pub(crate) fn of(&mut self, back: bool) -> &mut u32 {
        if back { &mut self.back } else { &mut self.front }
    }

    /// Returns `true` if nothing is in flight.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Slots of a site: the limits of its dispatches in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slots {
    /// Total number; at least 1.
    pub(crate) all: u32,
    /// The site gets one request at a time.
    one_request: bool,
}

impl Slots {
    /// Computes the slots: rate × (1 s + smoothed time from dispatch to outcome), so that the site always has its next
    /// request available, and few more (docs/protocol.md#outstanding-dispatches). An interval of 0 is unlimited.
    pub(crate) fn of(interval_ms: u64, round_trip_ms: f32) -> Self {
        if interval_ms == 0 {
            return Self { all: UNLIMITED, one_request: false };
        }
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the quotient is positive and clamped right after"
        )]
        let wanted = ((1000.0 + f64::from(round_trip_ms)) / interval_ms as f64).ceil() as u32;
        Self { all: wanted.clamp(1, UNLIMITED), one_request: interval_ms >= ONE_REQUEST_FROM_MS }
    }

    /// Returns the slots that demoted URLs may hold while others come before them.
    pub(crate) fn back(self) -> u32 {
        if self.one_request { 1 } else { (self.all / BACK_PART).max(1) }
    }

    /// Returns `true` if a URL that is not demoted may be dispatched. Demoted URLs in flight beyond their share do not
    /// count, so that it need not wait for the next free slot.
    pub(crate) fn admit_front(self, in_flight: InFlight) -> bool {
        in_flight.front + in_flight.back.min(self.back()) < self.all
    }

    /// Returns `true` if a demoted URL may be dispatched while nothing else is queued. `alone` is the number of
    /// dispatches of demoted URLs that have ended since there was any other URL. A site that gets one request at a time
    /// has at most one demoted URL in flight, for which others may have to wait.
    pub(crate) fn admit_back(self, in_flight: InFlight, alone: u32) -> bool {
        let most = match in_flight.front {
            _ if self.one_request => 1,
            0 => BACK_AT_FIRST.saturating_add(alone).min(self.all),
            front => (front / (BACK_PART - 1)).clamp(1, self.back()),
        };
        in_flight.back < most && in_flight.front + in_flight.back < self.all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Event at a site.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        Queue { back: bool, count: u32 },
        Land { back: bool, count: u32 },
    }

    fn event() -> impl Strategy<Value = Event> {
        (any::<bool>(), any::<bool>(), 1..6000u32).prop_map(|(queues, back, count)| match queues {
            true => Event::Queue { back, count },
            false => Event::Land { back, count },
        })
    }

    fn slots() -> impl Strategy<Value = Slots> {
        let intervals = vec![0, 1, 10, 50, 99, 100, 200, 1000, 30_000];
        (prop::sample::select(intervals), 0..10_000u16).prop_map(|(interval, time)| Slots::of(interval, time.into()))
    }

    /// A site: its queued URLs, and its dispatches in flight.
    struct Model {
        slots: Slots,
        queued: InFlight,
        in_flight: InFlight,
        alone: u32,
    }

    impl Model {
        /// Dispatches all URLs that may be dispatched, in the order of the queue.
        fn dispatch(&mut self) {
            loop {
                let back = self.queued.front == 0;
                let admitted = match back {
                    false => self.slots.admit_front(self.in_flight),
                    true => self.queued.back > 0 && self.slots.admit_back(self.in_flight, self.alone),
                };
                if !admitted {
                    return;
                }
                *self.queued.of(back) -= 1;
                *self.in_flight.of(back) += 1;
            }
        }

        fn land(&mut self, back: bool, count: u32) {
            let in_flight = self.in_flight.of(back);
            let landed = count.min(*in_flight);
            *in_flight -= landed;
            if back && self.in_flight.front == 0 && self.queued.front == 0 {
                self.alone += landed;
            }
        }

        fn check(&self) {
            let Self { slots: Slots { all, one_request }, queued, in_flight, alone } = *self;
            assert!(in_flight.front <= all && in_flight.back <= all);
            if queued.front > 0 {
                assert!(all - in_flight.front <= (all / 4).max(1), "the back keeps {} of {all}", all - in_flight.front);
            }
            if one_request {
                assert!(in_flight.back <= 1, "more than one request to wait for");
                assert!(queued.front == 0 || in_flight.front + 1 >= all);
            }
            if queued.front == 0 && in_flight.front == 0 && queued.back > 0 {
                let wanted = if one_request { 1 } else { (BACK_AT_FIRST + alone).min(all) };
                assert!(in_flight.back >= wanted, "there is nothing but the back");
            }
        }
    }

    proptest! {
        #[test]
        fn the_back_holds_a_quarter_before_others_and_all_when_alone_and_nothing_starves(
            slots in slots(),
            events in prop::collection::vec(event(), 1..30),
        ) {
            let mut site = Model { slots, queued: InFlight::default(), in_flight: InFlight::default(), alone: 0 };
            for event in events {
                let (fronts, backs) = (site.queued.front, site.in_flight.back);
                match event {
                    Event::Queue { back, count } => {
                        *site.queued.of(back) += count;
                        site.alone = if back { site.alone } else { 0 };
                    }
                    Event::Land { back, count } => site.land(back, count),
                }
                site.dispatch();
                site.check();
                let is_before = matches!(event, Event::Land { .. }) && fronts > 0 && site.queued.front > 0;
                prop_assert!(!is_before || site.in_flight.back <= backs, "the back went before what was queued");
            }
            let InFlight { back, front } = site.in_flight;
            let mut rounds = site.queued.front + site.queued.back + back + front + 1;
            while !site.in_flight.is_empty() {
                let back = site.in_flight.front == 0;
                site.land(back, 1);
                site.land(!back, 1);
                site.dispatch();
                site.check();
                rounds = rounds.saturating_sub(1);
            }
            prop_assert!(rounds > 0 && site.queued.is_empty(), "{:?} is left", site.queued);
        }
    }

    #[test]
    fn a_site_that_is_asked_one_request_at_a_time_has_one_of_the_back_and_another_all() {
        let backs = |interval| (Slots::of(interval, 0.0).all, Slots::of(interval, 0.0).back());
        assert_eq!(
            [0, 10, 50, 100, 1000, 5000].map(backs),
            [(4096, 1024), (100, 25), (20, 5), (10, 1), (1, 1), (1, 1)]
        );
    }
}

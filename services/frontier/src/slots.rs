//! How many dispatches of a site may be in flight, and how many of them may be of URLs at the back. Pure.
//!
//! What is at the back is dispatched only when nothing else of its site is queued. While other URLs are in flight, which may
//! lead to more, it is a quarter of what is in flight at most. Alone it begins with few and has one more with each that ends,
//! so that it soon goes as fast as anything else would, and little of it is in the way where others come after all.

/// Dispatches of an unlimited site that may be in flight.
const UNLIMITED: u32 = 4096;
/// The part of the slots that the back holds at most, as seen by what comes before it.
const BACK_PART: u32 = 4;
/// Of the back alone so many are in flight at first.
const BACK_AT_FIRST: u32 = 2;
/// The least interval at which a site is asked one request at a time (rule 19), in milliseconds.
const ONE_REQUEST_FROM_MS: u64 = 100;

/// Dispatches of a site that are in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    /// Of URLs at the back.
    pub(crate) back: u32,
    /// Of all others.
    pub(crate) front: u32,
}

impl InFlight {
    /// The counter of the back, or of all others.
    pub(crate) fn of(&mut self, back: bool) -> &mut u32 {
        if back { &mut self.back } else { &mut self.front }
    }

    /// Returns `true` when nothing is in flight.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// The slots of a site: dispatches of it that may be in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slots {
    /// At least 1.
    pub(crate) all: u32,
    /// The site is asked one request at a time.
    one_request: bool,
}

impl Slots {
    /// Rule 15: rate × (1 s + smoothed time from dispatch to outcome), so that the site always has its next request at hand
    /// and little more. An interval of 0 is unlimited.
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

    /// The slots that the back may hold while something comes before it.
    pub(crate) fn back(self) -> u32 {
        if self.one_request { 1 } else { (self.all / BACK_PART).max(1) }
    }

    /// Whether a URL that is not at the back may be dispatched. What the back holds beyond its part does not count: the next
    /// slot is not waited for.
    pub(crate) fn admit_front(self, in_flight: InFlight) -> bool {
        in_flight.front + in_flight.back.min(self.back()) < self.all
    }

    /// Whether a URL at the back may be dispatched, where nothing else is queued; `alone`: dispatches of the back that ended
    /// since there was anything else. A site that is asked one request at a time has one of the back, which others may have
    /// to wait for.
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

    /// What happens at a site.
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

    /// A site: what is queued, and what is in flight.
    struct Model {
        slots: Slots,
        queued: InFlight,
        in_flight: InFlight,
        alone: u32,
    }

    impl Model {
        /// Dispatches all that may be, in the order of the queue.
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

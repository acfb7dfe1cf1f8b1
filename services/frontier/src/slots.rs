//! Limits of a site's dispatches in flight, in total and for demoted URLs. Pure.
//!
//! Demoted URLs are dispatched only when nothing else of their site is queued. While other URLs are in flight, which
//! may lead to more, demoted ones make up at most a quarter of the dispatches in flight; on a site that gets one
//! request at a time, they are one. Alone, they start with one or two slots and gain one with each dispatch that ends.
//! Thus they soon proceed at the full rate, and few of them are in the way if other URLs are discovered after all. At
//! two requests per second and fewer they stay at one, which costs less than a tenth of their rate.

/// Slots of a site whose rate is unlimited.
const UNLIMITED: u32 = 4096;
/// Demoted URLs get at most one slot in this many, but at least one, while other URLs are queued or in flight.
const DEMOTED_PART: u32 = 4;
/// Number of demoted URLs that may initially be in flight when there are no others; one on a site that gets one request
/// at a time.
const DEMOTED_AT_FIRST: u32 = 2;
/// Minimum interval at which a site gets one request at a time (docs/protocol.md#answer-delay), in milliseconds.
const ONE_REQUEST_FROM_MS: u64 = 100;
/// Minimum interval at which a site never has more than one demoted URL in flight, in milliseconds.
const ONE_DEMOTED_FROM_MS: u64 = 500;

/// Dispatches of a site in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    /// Dispatches of demoted URLs.
    pub(crate) demoted: u32,
    /// Dispatches of all other URLs.
    pub(crate) normal: u32,
}

impl InFlight {
    /// Returns the counter of demoted URLs, or of all others.
    pub(crate) fn of(&mut self, demoted: bool) -> &mut u32 {
        if demoted { &mut self.demoted } else { &mut self.normal }
    }

    /// Returns the number of all dispatches.
    pub(crate) fn all(self) -> u64 {
        u64::from(self.demoted) + u64::from(self.normal)
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
    /// Maximum number of demoted URLs in flight when there are no others.
    demoted_alone: u32,
}

impl Slots {
    /// Computes the slots: rate × (1 s + smoothed time from dispatch to outcome), so that the site always has its next
    /// request available, and few more (docs/protocol.md#outstanding-dispatches). An interval of 0 is unlimited.
    pub(crate) fn of(interval_ms: u64, round_trip_ms: f32) -> Self {
        if interval_ms == 0 {
            return Self { all: UNLIMITED, one_request: false, demoted_alone: UNLIMITED };
        }
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the quotient is positive and clamped right after"
        )]
        let wanted = ((1000.0 + f64::from(round_trip_ms)) / interval_ms as f64).ceil() as u32;
        let all = wanted.clamp(1, UNLIMITED);
        let demoted_alone = if interval_ms >= ONE_DEMOTED_FROM_MS { 1 } else { all };
        Self { all, one_request: interval_ms >= ONE_REQUEST_FROM_MS, demoted_alone }
    }

    /// Returns the slots that demoted URLs may hold while others come before them.
    pub(crate) fn demoted(self) -> u32 {
        if self.one_request { 1 } else { (self.all / DEMOTED_PART).max(1) }
    }

    /// Returns `true` if a URL that is not demoted may be dispatched. Demoted URLs in flight beyond their share do not
    /// count, so that it need not wait for the next free slot.
    pub(crate) fn admit_front(self, in_flight: InFlight) -> bool {
        in_flight.normal + in_flight.demoted.min(self.demoted()) < self.all
    }

    /// Returns `true` if a demoted URL may be dispatched while nothing else is queued. `alone` is the number of
    /// dispatches of demoted URLs that have ended since there was any other URL. On a site that gets one request at a
    /// time, others may have to wait for each demoted URL in flight, so that they start with one.
    pub(crate) fn admits_demoted(self, in_flight: InFlight, alone: u32) -> bool {
        let most = match in_flight.normal {
            0 => self.back_at_first().saturating_add(alone).min(self.demoted_alone),
            normal => (normal / (DEMOTED_PART - 1)).clamp(1, self.demoted()),
        };
        in_flight.demoted < most && in_flight.normal + in_flight.demoted < self.all
    }

    fn back_at_first(self) -> u32 {
        if self.one_request { 1 } else { DEMOTED_AT_FIRST }
    }
}

/// Limit of a queue's dispatches in flight that follows deferrals: after one, the queue has one dispatch more in flight than it has then,
/// and one more with each request. So it has as many as the rate-limiter has times for, and few of them are deferred.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Window {
    /// No limit.
    #[default]
    Open,
    /// A dispatch was deferred; its next one determines the limit.
    Closed,
    Most(u32),
}

impl Window {
    /// Notes a deferral.
    pub(crate) fn close(&mut self) {
        *self = Self::Closed;
    }

    /// Returns `true` if another dispatch may be in flight.
    pub(crate) fn admits(self, in_flight: InFlight) -> bool {
        match self {
            Self::Open | Self::Closed => true,
            Self::Most(most) => in_flight.all() < u64::from(most),
        }
    }

    /// Begins with the first dispatch after a deferral.
    pub(crate) fn begin(&mut self, in_flight: InFlight) {
        if *self == Self::Closed {
            *self = Self::Most(u32::try_from(in_flight.all()).unwrap_or(u32::MAX).saturating_add(1));
        }
    }

    /// Notes a request; at as many as the queue has slots, the limit ends.
    pub(crate) fn grow(&mut self, slots: u32) {
        if let Self::Most(most) = self {
            *most = most.saturating_add(1);
            if *most >= slots {
                *self = Self::Open;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Event at a site.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        Queue { demoted: bool, count: u32 },
        Land { demoted: bool, count: u32 },
    }

    fn event() -> impl Strategy<Value = Event> {
        (any::<bool>(), any::<bool>(), 1..6000u32).prop_map(|(queues, demoted, count)| match queues {
            true => Event::Queue { demoted, count },
            false => Event::Land { demoted, count },
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
                let demoted = self.queued.normal == 0;
                let admitted = match demoted {
                    false => self.slots.admit_front(self.in_flight),
                    true => self.queued.demoted > 0 && self.slots.admits_demoted(self.in_flight, self.alone),
                };
                if !admitted {
                    return;
                }
                *self.queued.of(demoted) -= 1;
                *self.in_flight.of(demoted) += 1;
            }
        }

        fn land(&mut self, demoted: bool, count: u32) {
            let in_flight = self.in_flight.of(demoted);
            let landed = count.min(*in_flight);
            *in_flight -= landed;
            if demoted && self.in_flight.normal == 0 && self.queued.normal == 0 {
                self.alone += landed;
            }
        }

        fn check(&self) {
            let Self { slots, queued, in_flight, alone } = *self;
            let Slots { all, one_request, demoted_alone } = slots;
            assert!(in_flight.normal <= all && in_flight.demoted <= all);
            if queued.normal > 0 {
                assert!(
                    all - in_flight.normal <= (all / 4).max(1),
                    "the demoted keeps {} of {all}",
                    all - in_flight.normal
                );
            }
            assert!(!one_request || queued.normal == 0 || in_flight.normal + 1 >= all);
            if queued.normal == 0 && in_flight.normal == 0 && queued.demoted > 0 {
                let wanted = (slots.back_at_first() + alone).min(demoted_alone);
                assert!(in_flight.demoted >= wanted, "there is nothing but the demoted");
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
                let (fronts, backs) = (site.queued.normal, site.in_flight.demoted);
                match event {
                    Event::Queue { demoted, count } => {
                        *site.queued.of(demoted) += count;
                        site.alone = if demoted { site.alone } else { 0 };
                    }
                    Event::Land { demoted, count } => site.land(demoted, count),
                }
                site.dispatch();
                site.check();
                let is_before = matches!(event, Event::Land { .. }) && fronts > 0 && site.queued.normal > 0;
                prop_assert!(!is_before || site.in_flight.demoted <= backs, "a demoted URL preceded a queued one");
                let waits_for_one = !slots.one_request || site.in_flight.normal == 0;
                prop_assert!(waits_for_one || site.in_flight.demoted <= backs.max(1), "more than one request to wait for");
            }
            let InFlight { demoted, normal } = site.in_flight;
            let mut rounds = site.queued.normal + site.queued.demoted + demoted + normal + 1;
            while !site.in_flight.is_empty() {
                let demoted = site.in_flight.normal == 0;
                site.land(demoted, 1);
                site.land(!demoted, 1);
                site.dispatch();
                site.check();
                rounds = rounds.saturating_sub(1);
            }
            prop_assert!(rounds > 0 && site.queued.is_empty(), "{:?} is left", site.queued);
        }
    }

    #[test]
    fn after_a_deferral_one_more_dispatch_than_then_is_in_flight_and_one_more_with_each_request() {
        let (mut window, flight) = (Window::default(), |normal| InFlight { normal, demoted: 1 });
        assert!(window.admits(flight(4095)));
        window.close();
        window.close();
        window.begin(flight(2));
        assert_eq!([2, 3, 4].map(|normal| window.admits(flight(normal))), [true, false, false]);
        window.begin(flight(9));
        window.grow(6);
        assert_eq!([3, 4].map(|normal| window.admits(flight(normal))), [true, false], "it has begun");
        window.grow(6);
        assert_eq!(window, Window::Open, "six slots");
        window.grow(6);
        assert_eq!(window, Window::Open);
    }

    #[test]
    fn demoted_urls_have_all_slots_alone_or_one_of_a_slow_site_and_one_or_a_quarter_while_others_wait() {
        let shares =
            [(0, 4096), (10, 100), (50, 20), (63, 16), (100, 10), (125, 8), (250, 4), (334, 3), (500, 2), (1000, 1)];
        for (interval, all) in shares {
            let slots = Slots::of(interval, 0.0);
            assert_eq!((slots.all, slots.one_request), (all, interval >= 100));
            let filled = |mut in_flight: InFlight, alone| {
                while slots.admits_demoted(in_flight, alone) {
                    in_flight.demoted += 1;
                }
                in_flight.demoted
            };
            let share = if slots.one_request { 1 } else { all / 4 };
            // Alone, they start with few, and soon have every slot, or stay at one on a slow site.
            assert_eq!(filled(InFlight::default(), 0), slots.back_at_first().min(all), "{all} slots");
            assert_eq!(filled(InFlight::default(), all), if interval >= 500 { 1 } else { all }, "{all} slots");
            // With others in flight they take no more than their share, however long they were alone before.
            for normal in 1..=all {
                assert!(filled(InFlight { normal, demoted: 0 }, all) <= share, "{normal} of {all} slots");
            }
            // If they have every slot when others are found, those find all slots but that share.
            let mut in_flight = InFlight { normal: 0, demoted: all };
            while slots.admit_front(in_flight) {
                in_flight.normal += 1;
            }
            assert_eq!(in_flight.normal, all - share, "{all} slots");
            assert!(!slots.admits_demoted(in_flight, all), "{all} slots");
        }
    }
}

use proptest::prelude::*;

use super::*;

/// A door that is always open.
struct Open;

impl Door<usize> for Open {
    fn admit(&mut self, _: &SiteName, _: &QueuedRequest<usize>) -> bool {
        true
    }

    fn withdraw(&mut self, _: &SiteName) {}
}

fn queued_request(payload: usize, not_before_ms: Millis, interval_ms: u64) -> QueuedRequest<usize> {
    QueuedRequest {
        payload,
        not_before_ms,
        not_after_ms: Millis::MAX,
        interval_ms,
        crawl: crawl(0),
        share: 100,
        own_ms: 0,
        is_first: false,
    }
}

/// Returns the payloads that a poll sends.
fn sent(gates: &mut SiteGates<usize>, now: Millis, free: usize) -> Vec<usize> {
    let mut turns = vec![];
    gates.poll(now, free, &mut Open, &mut turns);
    let payload = |turn| if let GateEvent::Send(_, request) = turn { Some(request.payload) } else { None };
    turns.into_iter().filter_map(payload).collect()
}

fn crawl(number: usize) -> CrawlName {
    format!("crawl{number}").parse().unwrap()
}

fn key(site: &str) -> SiteName {
    site.into()
}

/// A door that lets no site in until it is opened, and notes those that have left.
#[derive(Default)]
struct Closed {
    is_open: bool,
    left: Vec<SiteName>,
}

impl Door<usize> for Closed {
    fn admit(&mut self, _: &SiteName, _: &QueuedRequest<usize>) -> bool {
        self.is_open
    }

    fn withdraw(&mut self, site: &SiteName) {
        self.left.push(site.clone());
    }
}

#[test]
fn a_site_that_waits_at_the_door_takes_no_slot_and_ends_its_late_requests() {
    let (mut gates, mut door, mut events) = (SiteGates::new(8), Closed::default(), vec![]);
    gates.push(&"a".into(), QueuedRequest { not_after_ms: 500, ..queued_request(0, 0, 0) }, 0, 0).unwrap();
    gates.push(&"a".into(), queued_request(1, 0, 0), 0, 0).unwrap();
    gates.push(&"b".into(), QueuedRequest { not_after_ms: 500, ..queued_request(2, 0, 0) }, 0, 0).unwrap();
    gates.poll(1, 8, &mut door, &mut events);
    gates.poll(2, 8, &mut door, &mut events);
    assert!(events.is_empty() && gates.next_ms() == Some(501));
    door.is_open = true;
    gates.poll(501, 8, &mut door, &mut events);
    let late = |event: &GateEvent<usize>| if let GateEvent::Late(request) = event { request.payload } else { 9 };
    let mut ended: Vec<_> = events.drain(..).map(|event| late(&event)).collect();
    ended.sort_unstable();
    assert_eq!(ended, [0, 2], "and nothing is sent until the site is resumed");
    assert!(gates.resume(&"a".into(), 502) && !gates.resume(&"b".into(), 502));
    gates.poll(502, 8, &mut door, &mut events);
    assert!(matches!(&events[..], [GateEvent::Send(_, request)] if request.payload == 1), "{events:?}");
    assert!(door.left.is_empty());
    // A request that ends while its site is ready again leaves nothing to send.
    gates.answered(&key("a"), &crawl(0), 502, 502);
    door.is_open = false;
    gates.push(&"a".into(), queued_request(3, 0, 0), 0, 502).unwrap();
    gates.poll(503, 8, &mut door, &mut events);
    assert!(gates.resume(&"a".into(), 503));
    assert_eq!(gates.take_where(|_| true), [3]);
    gates.poll(503, 8, &mut door, &mut events);
    assert_eq!(door.left, [key("a")]);
}

#[test]
fn a_remembered_site_counts_as_asked_when_its_partition_was_opened_again() {
    let mut gates = SiteGates::new(8);
    gates.push(&"a".into(), queued_request(0, 0, 2000), 1000, 1000).unwrap();
    assert_eq!(sent(&mut gates, 3001, 8), [0]);
    gates.answered(&key("a"), &crawl(0), 3100, 3100);
    // Another fetcher owned the partition and requested the site until just before.
    gates.push(&"a".into(), queued_request(1, 0, 2000), 5000, 5010).unwrap();
    assert_eq!(sent(&mut gates, 7000, 8), [0; 0], "5101 is two seconds after the last answer that is known here");
    assert_eq!(sent(&mut gates, 7001, 8), [1]);
}

#[test]
fn the_next_request_waits_for_the_answer_and_then_for_the_interval_since_its_first_byte() {
    // An answer that came before its end, or while the turn lasted.
    for (answered_ms, now) in [(8500, 9000), (1400, 1300)] {
        let mut gates = SiteGates::new(8);
        for payload in 0..3 {
            gates.push(&"a".into(), queued_request(payload, 0, 1000), 0, 1000).unwrap();
        }
        assert_eq!(sent(&mut gates, 1000, 8), [0; 0]);
        assert_eq!(sent(&mut gates, 1001, 8), [0]);
        assert_eq!(sent(&mut gates, now, 8), [0; 0], "one is in flight");
        gates.answered(&key("a"), &crawl(0), answered_ms, now);
        assert_eq!(sent(&mut gates, answered_ms + 1000, 8), [0; 0]);
        assert_eq!(sent(&mut gates, answered_ms + 1001, 8), [1]);
    }
}

#[test]
fn the_longest_crawl_delay_that_was_learnt_applies_and_a_first_wish_goes_first() {
    let mut gates = SiteGates::new(8);
    gates.push(&"a".into(), queued_request(0, 0, 1000), 0, 0).unwrap();
    gates.learn_delay(&"a".into(), 5000, 0, 0);
    gates.learn_delay(&"a".into(), 2000, 0, 0);
    gates.push(&"a".into(), QueuedRequest { is_first: true, ..queued_request(1, 0, 1000) }, 0, 0).unwrap();
    assert_eq!(sent(&mut gates, 5000, 8), [0; 0]);
    assert_eq!(sent(&mut gates, 5001, 8), [1]);
}

#[test]
fn a_site_of_which_only_a_crawl_delay_or_a_block_is_known_has_no_interval() {
    let mut gates = SiteGates::new(8);
    gates.learn_delay(&"a".into(), 100, 0, 0);
    assert_eq!(gates.block(&"b".into(), 1000, 0, 0).len(), 0);
    assert_eq!(["a", "b"].map(|site| gates.interval_of(&site.into())), [None, None], "not 0, which is unlimited");
    gates.push(&"a".into(), queued_request(0, 0, 0), 0, 0).unwrap();
    assert_eq!(gates.interval_of(&"a".into()), Some(0));
}

#[test]
fn a_site_above_ten_a_second_is_asked_in_parallel_and_spaced_by_its_interval() {
    let mut gates = SiteGates::new(8);
    for payload in 0..4 {
        gates.push(&"a".into(), queued_request(payload, 0, 50), 0, 1000).unwrap();
    }
    assert_eq!(sent(&mut gates, 1000, 8), [0]);
    assert_eq!(sent(&mut gates, 1050, 8), [0; 0]);
    assert_eq!(sent(&mut gates, 1051, 8), [1]);
    gates.answered(&key("a"), &crawl(0), 1090, 1090);
    assert_eq!(sent(&mut gates, 1101, 8), [0; 0]);
    assert_eq!(sent(&mut gates, 1102, 8), [2], "an answer does not push the next start away");
}

#[test]
fn an_unlimited_site_leaves_an_eighth_of_the_slots_to_others_and_sites_take_turns() {
    let mut gates = SiteGates::new(16);
    for payload in 0..40 {
        gates.push(&"big".into(), queued_request(payload, 0, 0), 0, 1000).unwrap();
    }
    assert_eq!(sent(&mut gates, 1000, 16).len(), 14);
    gates.push(&"small".into(), queued_request(100, 0, 0), 0, 1000).unwrap();
    gates.push(&"small".into(), queued_request(101, 0, 0), 0, 1000).unwrap();
    assert_eq!(sent(&mut gates, 1000, 2), [100, 101]);
    for _ in 0..14 {
        gates.answered(&key("big"), &crawl(0), 1001, 1001);
    }
    for _ in 0..3 {
        gates.push(&"small".into(), queued_request(200, 0, 0), 0, 1001).unwrap();
    }
    let order = sent(&mut gates, 1001, 6);
    assert_eq!(order.iter().filter(|&&payload| payload == 200).count(), 3, "by turns: {order:?}");
}

#[test]
fn a_block_gives_back_what_is_held_and_refuses_more_until_it_is_over() {
    let mut gates = SiteGates::new(8);
    gates.push(&"a".into(), queued_request(0, 0, 1000), 0, 0).unwrap();
    gates.push(&"a".into(), QueuedRequest { is_first: true, ..queued_request(1, 0, 1000) }, 0, 0).unwrap();
    let back: Vec<_> =
        gates.block(&"a".into(), 60_000, 0, 10).into_iter().map(|queued_request| queued_request.payload).collect();
    assert_eq!((back, gates.queued), (vec![1, 0], 0));
    assert_eq!(gates.push(&"a".into(), queued_request(2, 0, 1000), 0, 59_999).unwrap_err().1, 60_000);
    let mut turns = vec![];
    gates.poll(59_999, 8, &mut Open, &mut turns);
    assert_eq!(gates.blocked_until(&"a".into(), 59_999), Some(60_000), "not forgotten while it lasts");
    gates.push(&"a".into(), queued_request(3, 0, 1000), 0, 60_000).unwrap();
    assert_eq!(sent(&mut gates, 60_000, 8), [3]);
}

#[test]
fn what_is_too_late_is_told_at_once_even_while_the_site_is_busy_or_no_slot_is_free() {
    let mut gates = SiteGates::new(8);
    gates.push(&"a".into(), queued_request(0, 0, 1000), 0, 1000).unwrap();
    assert_eq!(sent(&mut gates, 1001, 8), [0]);
    gates.push(&"a".into(), QueuedRequest { not_after_ms: 2000, ..queued_request(1, 0, 1000) }, 0, 1001).unwrap();
    gates.push(&"b".into(), QueuedRequest { not_after_ms: 2000, ..queued_request(2, 0, 0) }, 0, 1001).unwrap();
    let mut turns = vec![];
    gates.poll(2000, 0, &mut Open, &mut turns);
    assert!(turns.is_empty());
    assert_eq!(gates.next_ms(), Some(2001));
    gates.poll(2001, 0, &mut Open, &mut turns);
    let late: Vec<_> = turns.iter().map(|turn| matches!(turn, GateEvent::Late(_))).collect();
    assert_eq!((late, gates.queued), (vec![true, true], 0));
}

#[test]
fn a_clock_that_is_set_back_holds_no_site_for_longer_than_its_interval() {
    let mut gates = SiteGates::new(8);
    gates.push(&"a".into(), queued_request(0, 10_000_000, 1000), 10_000_000, 10_000_000).unwrap();
    assert_eq!(sent(&mut gates, 10_001_000, 8), [0; 0]);
    assert_eq!(sent(&mut gates, 5_000_000, 8), [0; 0], "it counts as asked now");
    assert_eq!(sent(&mut gates, 5_001_000, 8), [0; 0]);
    assert_eq!(sent(&mut gates, 5_001_001, 8), [0]);
    gates.answered(&key("a"), &crawl(0), 5_001_100, 5_001_100);
}

#[test]
fn a_site_is_forgotten_when_its_interval_has_passed_and_not_before() {
    let mut gates = SiteGates::new(8);
    gates.push(&"a".into(), queued_request(0, 0, 1000), 0, 5000).unwrap();
    assert_eq!(sent(&mut gates, 5000, 8), [0]);
    gates.answered(&key("a"), &crawl(0), 5100, 5100);
    assert_eq!((sent(&mut gates, 6100, 8).len(), gates.sites.len()), (0, 1));
    assert_eq!((sent(&mut gates, 6101, 8).len(), gates.sites.len()), (0, 0));
}

#[test]
fn what_goes_with_a_partition_is_taken_out_and_the_rest_stays() {
    let mut gates = SiteGates::new(8);
    for payload in 0..6 {
        gates.push(&"a".into(), queued_request(payload, 0, 0), 0, 0).unwrap();
    }
    assert_eq!(gates.take_where(|payload| payload % 2 == 0), [0, 2, 4]);
    assert_eq!((sent(&mut gates, 0, 8), gates.queued), (vec![1, 3, 5], 0));
}

/// Dispatch that arrives.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    site: usize,
    crawl: usize,
    /// Time since the previous arrival, and until `not_after_ms`.
    after_ms: Millis,
    patience_ms: Millis,
}

/// Generates dispatches of a few crawls and sites that arrive at random times.
fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let arrival = (0..4usize, 0..3usize, 0..400i64, 1000..20_000i64);
    let arrival =
        arrival.prop_map(|(site, crawl, after_ms, patience_ms)| Arrival { site, crawl, after_ms, patience_ms });
    proptest::collection::vec(arrival, 1..120)
}

#[test]
fn a_slow_crawl_keeps_its_own_delay_and_lets_others_of_the_site_go_before_it() {
    let mut gates = SiteGates::new(8);
    let own = |payload| QueuedRequest { crawl: crawl(1), own_ms: 3000, ..queued_request(payload, 0, 100) };
    for request in [own(0), own(1), queued_request(2, 0, 100)] {
        gates.push(&"a".into(), request, 0, 0).unwrap();
    }
    assert_eq!(sent(&mut gates, 101, 8), [2], "the crawl counts as asked when the partition was opened");
    gates.answered(&key("a"), &crawl(0), 200, 200);
    assert_eq!(sent(&mut gates, 3000, 8), [0; 0]);
    assert_eq!(sent(&mut gates, 3001, 8), [0]);
    gates.answered(&key("a"), &crawl(1), 3050, 3050);
    gates.push(&"a".into(), queued_request(3, 0, 100), 0, 3060).unwrap();
    assert_eq!(sent(&mut gates, 3151, 8), [3]);
    gates.answered(&key("a"), &crawl(0), 3160, 3160);
    assert_eq!(sent(&mut gates, 6050, 8), [0; 0]);
    assert_eq!(sent(&mut gates, 6051, 8), [1]);
    gates.answered(&key("a"), &crawl(1), 6100, 6100);
    assert_eq!(sent(&mut gates, 9100, 8), [0; 0]);
    assert_eq!(gates.sites.len(), 1, "its delay still binds");
    assert_eq!(sent(&mut gates, 9101, 8), [0; 0]);
    assert!(gates.sites.is_empty());
}

/// Returns a request of a crawl with this delay.
fn of_crawl(payload: usize, number: usize, (interval_ms, own_ms): (u64, u64)) -> QueuedRequest<usize> {
    QueuedRequest { crawl: crawl(number), own_ms, ..queued_request(payload, 0, interval_ms) }
}

#[test]
fn two_requests_are_at_least_the_shorter_delay_of_their_crawls_apart_in_whatever_order_they_were_scheduled() {
    let mut gates = SiteGates::new(8);
    for (payload, own_ms) in [(0, 1500), (1, 1250)] {
        gates.push(&"a".into(), of_crawl(payload, payload, (1000, own_ms)), 0, 5000).unwrap();
    }
    assert_eq!(sent(&mut gates, 5000, 8), [0]);
    gates.answered(&key("a"), &crawl(0), 5000, 5000);
    assert_eq!(sent(&mut gates, 6250, 8), [0; 0]);
    assert_eq!(sent(&mut gates, 6251, 8), [1]);
}

#[test]
fn a_slow_crawl_is_requested_while_a_fast_one_has_requests_all_the_time() {
    let mut gates = SiteGates::new(8);
    let mut order = vec![];
    for payload in [0, 10] {
        gates.push(&"a".into(), of_crawl(payload, 0, (100, 500)), 0, 5000).unwrap();
    }
    for payload in 1..10 {
        gates.push(&"a".into(), of_crawl(payload, 1, (100, 100)), 0, 5000).unwrap();
    }
    for now in 5000..6500 {
        for payload in sent(&mut gates, now, 8) {
            gates.answered(&key("a"), &crawl(usize::from(payload % 10 > 0)), now, now);
            order.push(payload);
        }
    }
    assert_eq!(order, [0, 1, 2, 3, 4, 10, 5, 6, 7, 8, 9]);
}

#[test]
fn a_request_of_a_crawl_without_a_delay_counts_once_the_crawl_has_one() {
    let mut gates = SiteGates::new(8);
    gates.push(&"a".into(), of_crawl(0, 0, (1000, 0)), 0, 5000).unwrap();
    assert_eq!(sent(&mut gates, 5000, 8), [0]);
    gates.answered(&key("a"), &crawl(0), 5000, 5000);
    for (payload, number, own_ms) in [(1, 1, 100), (2, 0, 1000)] {
        gates.push(&"a".into(), of_crawl(payload, number, (100, own_ms)), 0, 5000).unwrap();
    }
    assert_eq!(sent(&mut gates, 5101, 8), [1]);
    gates.answered(&key("a"), &crawl(1), 5101, 5101);
    assert_eq!(sent(&mut gates, 6000, 8), [0; 0]);
    assert_eq!(sent(&mut gates, 6001, 8), [2]);
}

#[test]
fn crawls_have_free_slots_in_proportion_to_their_shares() {
    let mut gates = SiteGates::new(8);
    for site in 0..400 {
        let request =
            QueuedRequest { crawl: crawl(site % 2), share: [100, 300][site % 2], ..queued_request(site, 0, 100) };
        gates.push(&format!("site{site}").into(), request, 0, 0).unwrap();
    }
    let sent: Vec<usize> = (0..20).flat_map(|_| sent(&mut gates, 101, 4)).collect();
    assert_eq!((sent.len(), sent.iter().filter(|site| *site % 2 == 0).count()), (80, 20), "{sent:?}");
}

/// Requests as seen by the server of a site.
#[derive(Default)]
struct Seen {
    in_flight: usize,
    last_ms: Option<Millis>,
}

proptest! {
    #[test]
    fn no_site_is_asked_twice_at_a_time_or_too_soon_and_every_wish_has_exactly_one_end(
        arrivals in arrivals(),
        latencies in proptest::collection::vec(0..3000i64, 1..20),
        intervals in proptest::collection::vec(100..2500u64, 4..5),
        owns in proptest::collection::vec(prop_oneof![Just(0), 100..4000u64], 3..4),
        concurrency in 1..6usize,
    ) {
        let mut gates = SiteGates::new(concurrency);
        let mut seen: HashMap<SiteName, Seen> = HashMap::new();
        let mut seen_of_crawls: HashMap<(SiteName, CrawlName), Millis> = HashMap::new();
        let mut flying: Vec<(Millis, SiteName, CrawlName)> = vec![];
        let mut ends = vec![0; arrivals.len()];
        let (mut now, mut sends) = (1_000_000, 0);
        let opened = now;
        let mut coming = arrivals.iter().enumerate().peekable();
        let mut due = now;
        while coming.peek().is_some() || gates.queued > 0 || !flying.is_empty() {
            // Advance to the next event of any kind.
            let arrival = coming.peek().map(|(_, arrival)| due + arrival.after_ms);
            let answer = flying.iter().map(|(at, ..)| *at).min();
            let next = [arrival, answer, gates.next_ms()].into_iter().flatten().min();
            prop_assert!(next.is_some(), "wishes wait and nothing will ever happen");
            now = next.unwrap_or(now).max(now);
            while let Some((payload, arrival)) = coming.next_if(|(_, arrival)| due + arrival.after_ms <= now) {
                let Arrival { site, crawl: number, after_ms, patience_ms } = *arrival;
                due += after_ms;
                let queued_request = QueuedRequest {
                    not_after_ms: now + patience_ms,
                    crawl: crawl(number),
                    own_ms: owns[number],
                    ..queued_request(payload, now, intervals[site])
                };
                gates.push(&format!("site{site}").into(), queued_request, opened, now).unwrap();
            }
            for (at, site, crawl) in flying.extract_if(.., |(at, ..)| *at <= now) {
                seen.entry(site.clone()).or_default().in_flight -= 1;
                seen.entry(site.clone()).or_default().last_ms = Some(at);
                gates.answered(&site, &crawl, at, now);
                seen_of_crawls.insert((site, crawl), at);
            }
            let mut turns = vec![];
            gates.poll(now, concurrency - flying.len(), &mut Open, &mut turns);
            for turn in turns {
                match turn {
                    GateEvent::Late(queued_request) => {
                        prop_assert!(queued_request.not_after_ms < now);
                        ends[queued_request.payload] += 1;
                    }
                    GateEvent::Send(site, queued_request) => {
                        ends[queued_request.payload] += 1;
                        prop_assert!(queued_request.not_before_ms <= now && now <= queued_request.not_after_ms);
                        let server = seen.entry(site.clone()).or_default();
                        prop_assert_eq!(server.in_flight, 0);
                        let gap = now - server.last_ms.unwrap_or(opened);
                        prop_assert!(gap > i64::try_from(queued_request.interval_ms).unwrap(), "asked after {} ms", gap);
                        server.in_flight = 1;
                        let QueuedRequest { crawl, own_ms, .. } = queued_request;
                        let last_ms = seen_of_crawls.get(&(site.clone(), crawl.clone())).copied().unwrap_or(opened);
                        let since_ms = now - last_ms;
                        prop_assert!(own_ms == 0 || since_ms > i64::try_from(own_ms).unwrap(), "{crawl} after {since_ms} ms");
                        flying.push((now + latencies[sends % latencies.len()], site, crawl));
                        sends += 1;
                    }
                }
            }
            prop_assert!(flying.len() <= concurrency);
        }
        prop_assert!(ends.iter().all(|&ends| ends == 1), "{:?}", ends);
    }
}

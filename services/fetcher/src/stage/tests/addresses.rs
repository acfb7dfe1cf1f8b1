//! Requests by address: sites that share one wait for each other.

use std::net::IpAddr;

use super::*;

const SHARED: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(93, 184, 216, 34));

/// Returns surroundings in which these sites, each with one page, are at one address.
fn sharing(config: FetcherConfig, sites: usize) -> Surroundings {
    let around = Surroundings::new(config);
    for number in 0..sites {
        around.client.at(&host(number), Ok(SHARED));
        around.client.on(&url(number), page("x"));
    }
    around
}

fn host(number: usize) -> String {
    format!("h{number}.example")
}

fn url(number: usize) -> String {
    format!("https://{}/", host(number))
}

fn at_most(max_requests_per_address: usize) -> FetcherConfig {
    FetcherConfig { max_requests_per_address, ..unlimited() }
}

impl Surroundings {
    /// Performs the first request in flight.
    fn answer_one(&mut self) {
        let Some(Job::Ask { number, request, .. }) = self.jobs.pop_front() else { panic!("no request") };
        let attempt = Box::new(self.client.answer(request));
        self.call(|stage, now, acts| stage.job_done(Done::Asked { number, attempt, body: None }, now, acts));
    }

    fn deliver_all(&mut self, sites: usize) {
        for number in 0..sites {
            self.deliver(&self.ready(&url(number), 1 + number as u64));
        }
    }
}

#[test]
fn an_address_has_no_more_requests_at_once_than_allowed_and_its_sites_take_turns() {
    let mut around = sharing(at_most(4), 20);
    around.client.at("elsewhere.example", Ok([93, 184, 216, 35].into()));
    around.deliver_all(20);
    around.deliver(&around.ready("https://elsewhere.example/", 100));
    // The sites that wait for the address hold no slots.
    assert_eq!((around.jobs.len(), around.stage.requests.slots), (5, 5));
    while !around.jobs.is_empty() {
        let shared =
            |job: &&Job| matches!(job, Job::Ask { request, .. } if request.destination == Destination::At(SHARED));
        assert!(around.jobs.iter().filter(shared).count() <= 4);
        around.answer_one();
    }
    around.settle();
    let asked = around.asked();
    let elsewhere = asked.iter().position(|url| url == "https://elsewhere.example/").unwrap();
    assert!(elsewhere <= 4, "it waits for none of them");
    let shared: Vec<_> = asked.into_iter().filter(|url| url != "https://elsewhere.example/").collect();
    assert_eq!(shared, (0..20).map(url).collect::<Vec<_>>(), "in the order in which they asked");
    around.assert_all_complete();
}

#[test]
fn a_request_that_waited_for_its_address_keeps_the_interval_of_its_site_from_the_response() {
    let mut around = sharing(at_most(1), 2);
    around.deliver(&around.ready_every(1000, &url(0), 1));
    let second = format!("{}2", url(1));
    around.client.on(&second, page("y"));
    for (sequence, url) in [(2, &url(1)), (3, &second)] {
        around.deliver(&around.ready_every(1000, url, sequence));
    }
    around.clock.advance(1001);
    around.call(FetcherStage::tick);
    assert_eq!(around.jobs.len(), 1);
    // The first site takes five seconds; the second one has waited for as long.
    around.clock.advance(5000);
    around.answer_one();
    around.clock.advance(300);
    around.answer_one();
    assert_eq!(around.asked(), [url(0), url(1)]);
    around.pass(1000);
    assert_eq!(around.asked().len(), 2);
    around.pass(1);
    assert_eq!(around.asked().len(), 3);
    around.settle();
    around.assert_all_complete();
}

#[test]
fn a_request_that_waits_for_its_address_until_it_is_too_late_is_deferred_and_never_sent() {
    let mut around = sharing(at_most(1), 3);
    around.deliver_all(3);
    let held = around.jobs.pop_front().unwrap();
    around.pass(classify::tests::dispatch(&url(0), 1, around.now()).not_after_ms - around.now() + 1);
    assert_eq!(around.kinds(), [some(OutcomeKind::Deferred, "address"), some(OutcomeKind::Deferred, "address")]);
    let outcome = around.outcomes().remove(0);
    assert_eq!(outcome.retry_at_ms, Some(around.now() + 10_000));
    assert_eq!(around.stage.metrics.address_deferrals.get(), 2);
    around.jobs.push_back(held);
    around.settle();
    around.pass(30_000);
    assert_eq!(around.asked(), [url(0)]);
    // The address is free for the next dispatch.
    around.request(&url(2), 9);
    assert_eq!(around.asked(), [url(0), url(2)]);
    around.assert_all_complete();
}

#[test]
fn each_fetcher_has_the_part_of_the_places_that_its_partitions_are() {
    let mut around = sharing(at_most(8), 20);
    for partition in 1..PARTITIONS {
        around.call(|stage, _, _| {
            stage.drain(partition);
            stage.close(partition);
            Ok(())
        });
    }
    let own = |number: &usize| partition_of(slot_of(&SiteName::from(host(*number))), PARTITIONS) == 0;
    let sites: Vec<_> = (0..1000).filter(own).take(10).collect();
    for &number in &sites {
        around.client.at(&host(number), Ok(SHARED));
        around.deliver(&around.ready(&url(number), 1 + number as u64));
    }
    assert_eq!(around.jobs.len(), 2, "a quarter of the partitions");
    around.open(1, 2);
    around.call(FetcherStage::tick);
    assert_eq!(around.jobs.len(), 4);
    around.settle();
    assert_eq!(around.asked().len(), sites.len());
}

#[test]
fn refusals_of_several_sites_slow_their_address_down() {
    let mut around = sharing(unlimited(), 10);
    for number in 0..3 {
        around.client.at(&format!("busy{number}.example"), Ok(SHARED));
        around.client.on(&format!("https://busy{number}.example/"), status(503));
        around.request(&format!("https://busy{number}.example/"), 100 + number);
    }
    let before = around.asked().len();
    around.deliver_all(10);
    around.settle();
    assert_eq!(around.asked().len(), before, "a quarter of a second after the last one");
    around.pass(250);
    assert_eq!(around.asked().len(), before + 1);
    around.pass(9 * 250);
    assert_eq!(around.asked().len(), before + 10);
    around.assert_all_complete();
}

#[test]
fn a_name_without_an_address_fails_as_a_request_does() {
    let mut around = Surroundings::unlimited();
    for (number, failure) in [FetchError::Dns, FetchError::UnknownHost, FetchError::Private].into_iter().enumerate() {
        around.client.at(&host(number), Err(failure));
        around.request(&url(number), 1 + number as u64);
    }
    let ends = [
        some(OutcomeKind::Retry, "dns"),
        some(OutcomeKind::Gone, "dns"),
        some(OutcomeKind::Refused, "private_address"),
    ];
    assert_eq!(around.kinds(), ends);
    around.assert_all_complete();
}

#[test]
fn a_robots_txt_takes_a_place_at_its_address_too() {
    let config =
        FetcherConfig { user_agent: "Testbot/1.0".into(), max_requests_per_address: 1, ..FetcherConfig::default() };
    let mut around = sharing(config, 3);
    around.deliver_all(3);
    while let Some(Job::Load { key }) = around.jobs.pop_front() {
        around.call(|stage, now, acts| stage.job_done(Done::Loaded { key, row: None }, now, acts));
    }
    assert_eq!(around.stage.requests.in_flight.len(), 1);
}

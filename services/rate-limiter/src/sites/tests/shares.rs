//! Crawls that divide the rate of one site by their shares.

use std::collections::VecDeque;

use super::{
    crawls::{answer, define_share, of, terms},
    *,
};

/// Number of a site's times that each model runs.
const TIMES: i64 = 1000;
const INTERVALS: [u64; 4] = [100, 1000, 5000, 20_000];

/// URLs that a crawl has at the site.
#[derive(Debug, Clone, Copy)]
enum Urls {
    Enough,
    /// The second number every that many times of the site.
    Every(i64, u32),
    /// Enough until this one of the site's times.
    Until(i64),
}

#[derive(Debug, Clone, Copy)]
struct Crawl {
    share: u32,
    /// Interval of its profile.
    own_ms: Option<u64>,
    /// Number of dispatches that it has outstanding at most.
    outstanding: usize,
    urls: Urls,
}

fn crawl(share: u32, outstanding: usize) -> Crawl {
    Crawl { share, own_ms: None, outstanding, urls: Urls::Enough }
}

/// Dispatches and outcomes of one crawl at the site.
#[derive(Debug, Default)]
struct Progress {
    /// Scheduled times, and the times at which the response comes and at which the frontier has the outcome.
    in_flight: VecDeque<(Millis, Millis, Millis)>,
    retry_at_ms: Millis,
    requests: u32,
    deferrals: u32,
}

/// Model of the crawls at a site: the frontier dispatches again when an outcome comes, and the rate-limiter and the fetcher take a while.
struct Model {
    interval_ms: Millis,
    terms: SiteTerms,
    sites: Sites,
    crawls: Vec<Crawl>,
    names: Vec<String>,
    progress: Vec<Progress>,
    now: Millis,
    /// State of the generator of delays.
    random: u64,
}

impl Model {
    fn new(interval_ms: u64, crawls: &[Crawl]) -> Self {
        let mut terms = terms(interval_ms, &[]);
        let names: Vec<_> = (0..crawls.len()).map(|number| format!("crawl{number}")).collect();
        for ((offset, name), crawl) in (1..).zip(&names).zip(crawls) {
            define_share(&mut terms, offset, name, (crawl.own_ms, crawl.share));
        }
        let sites = sites(&terms, 0, vec![], T);
        let progress = crawls.iter().map(|_| Progress::default()).collect();
        let interval_ms = i64::try_from(interval_ms).unwrap();
        Self { interval_ms, terms, sites, crawls: crawls.to_vec(), names, progress, now: T, random: 7 }
    }

    /// Returns a number from 0 to this one.
    fn random(&mut self, most: i64) -> i64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        i64::try_from(self.random >> 33).unwrap() % (most + 1)
    }

    /// Runs for this number of the site's intervals.
    fn run(&mut self, times: i64) {
        let end_ms = self.now + times * self.interval_ms;
        while self.now < end_ms {
            // The order in which the dispatches of different crawls come changes.
            let first = usize::try_from(self.random(1)).unwrap();
            for number in 0..self.crawls.len() {
                let number = if first == 0 { number } else { self.crawls.len() - 1 - number };
                self.learn(number);
                self.dispatch(number);
            }
            self.now += (self.interval_ms / 20).clamp(5, 100);
        }
    }

    fn learn(&mut self, number: usize) {
        while let Some((moment, answered, _)) =
            self.progress[number].in_flight.front().copied().filter(|(.., ended)| *ended <= self.now)
        {
            self.progress[number].in_flight.pop_front();
            let outcome = answer(&self.names[number], moment, answered - moment);
            self.sites.learn(&self.terms, &outcome, origin(), self.now);
        }
    }

    fn dispatch(&mut self, number: usize) {
        let crawl = self.crawls[number];
        let times = (self.now - T) / self.interval_ms;
        let found = match crawl.urls {
            Urls::Enough => u32::MAX,
            Urls::Every(every, count) => u32::try_from(times / every + 1).unwrap() * count,
            Urls::Until(end) => {
                if times < end {
                    u32::MAX
                } else {
                    0
                }
            }
        };
        while self.progress[number].in_flight.len() < crawl.outstanding
            && self.progress[number].requests < found
            && self.progress[number].retry_at_ms <= self.now
        {
            match self.sites.decide(&self.terms, &of(&self.names[number], self.now), self.now) {
                Decision::Pass { not_before_ms, .. } => {
                    let most_ms = (self.interval_ms / 5).min(100);
                    let answered = not_before_ms + most_ms / 2 + self.random(most_ms / 2);
                    let ended = answered + self.random(most_ms);
                    let progress = &mut self.progress[number];
                    progress.in_flight.push_back((not_before_ms, answered, ended));
                    progress.requests += 1;
                }
                Decision::Defer { retry_at_ms, .. } => {
                    let delay_ms = self.random((self.interval_ms / 10).min(50));
                    self.progress[number].retry_at_ms = retry_at_ms.max(self.now) + delay_ms;
                    self.progress[number].deferrals += 1;
                }
            }
        }
    }

    fn requests(&self) -> Vec<u32> {
        self.progress.iter().map(|progress| progress.requests).collect()
    }
}

/// Returns the number of requests of each crawl in that many of the site's times, after a while in which they find each other, and the
/// part of the site's rate that they use together.
fn run(interval_ms: u64, crawls: &[Crawl]) -> (Vec<u32>, f64) {
    let mut model = Model::new(interval_ms, crawls);
    model.run(50);
    let before = model.requests();
    model.run(TIMES);
    let requests: Vec<_> = model.requests().iter().zip(before).map(|(all, before)| all - before).collect();
    let mut alone = Model::new(interval_ms, &[crawl(CrawlDefinition::EQUAL_SHARE, 15)]);
    alone.run(50);
    let before = alone.requests()[0];
    alone.run(TIMES);
    let possible = alone.requests()[0] - before;
    let used = f64::from(requests.iter().sum::<u32>()) / f64::from(possible);
    if std::env::var_os("SHOW_SHARES").is_some() {
        let deferrals: u32 = model.progress.iter().map(|progress| progress.deferrals).sum();
        println!("{interval_ms} ms, {crawls:?}: {requests:?}, {used:.3} used, {deferrals} deferrals");
    }
    (requests, used)
}

/// Asserts that crawls have these parts of their requests together.
fn assert_parts(requests: &[u32], parts: &[u32], case: &str) {
    let (all, sum) = (f64::from(requests.iter().sum::<u32>()), f64::from(parts.iter().sum::<u32>()));
    for (count, part) in requests.iter().zip(parts) {
        let expected = all * f64::from(*part) / sum;
        let off = (f64::from(*count) - expected).abs();
        assert!(off <= 0.1 * expected + 1.0, "{count} requests instead of {expected:.0}: {requests:?}, {case}");
    }
}

#[test]
fn crawls_at_one_site_have_requests_in_proportion_to_their_shares_and_use_all_of_its_rate() {
    let shares: [&[u32]; 5] = [&[100, 100], &[100, 300], &[50, 100, 1000], &[100, 300, 50, 1000, 200], &[100; 5]];
    for (shares, interval_ms) in shares.iter().flat_map(|shares| INTERVALS.map(|interval_ms| (shares, interval_ms))) {
        for outstanding in [1, 2, 4, 12] {
            let crawls: Vec<_> = shares.iter().map(|share| crawl(*share, outstanding)).collect();
            let (requests, used) = run(interval_ms, &crawls);
            let case = format!("{shares:?} at {interval_ms} ms with {outstanding} outstanding");
            assert_parts(&requests, shares, &case);
            assert!(used >= 0.95, "{used:.2} used: {case}");
        }
    }
}

#[test]
fn crawls_with_different_numbers_of_outstanding_dispatches_have_their_shares_too() {
    for interval_ms in INTERVALS {
        for (one, other) in [((100, 12), (100, 1)), ((100, 12), (300, 2)), ((100, 1), (300, 12))] {
            let (requests, used) = run(interval_ms, &[crawl(one.0, one.1), crawl(other.0, other.1)]);
            let case = format!("{one:?} and {other:?} at {interval_ms} ms");
            assert_parts(&requests, &[one.0, other.0], &case);
            assert!(used >= 0.95, "{used:.2} used: {case}");
        }
    }
}

#[test]
fn the_part_that_a_crawl_cannot_use_is_divided_among_the_others_by_their_shares() {
    for (interval_ms, outstanding) in
        INTERVALS.into_iter().flat_map(|ms| [1, 3, 12].map(|outstanding| (ms, outstanding)))
    {
        let heavy = crawl(1000, outstanding);
        let limited = [
            Crawl { own_ms: Some(10 * interval_ms), ..heavy },
            Crawl { own_ms: Some(3 * interval_ms), ..heavy },
            Crawl { urls: Urls::Every(10, 1), ..heavy },
            Crawl { urls: Urls::Every(5, 2), ..heavy },
            Crawl { urls: Urls::Every(60, 10), ..heavy },
        ];
        for limited in limited {
            let (requests, used) = run(interval_ms, &[crawl(50, outstanding), crawl(100, outstanding), limited]);
            let case = format!("{limited:?} at {interval_ms} ms");
            assert_parts(&requests[..2], &[50, 100], &case);
            assert!(used >= 0.9, "{used:.2} used, {requests:?}: {case}");
            let found = match limited.urls {
                Urls::Every(every, count) => u32::try_from(TIMES / every).unwrap() * count,
                _ => 0,
            };
            assert!(requests[2] + 12 >= found, "{requests:?}: {case}");
        }
    }
}

#[test]
fn a_crawl_that_ends_holds_the_others_back_for_a_few_times_at_most() {
    for (interval_ms, outstanding) in
        INTERVALS.into_iter().flat_map(|ms| [1, 3, 12].map(|outstanding| (ms, outstanding)))
    {
        let ending = Crawl { urls: Urls::Until(200), ..crawl(10_000, outstanding) };
        let mut model = Model::new(interval_ms, &[crawl(1, outstanding), ending]);
        model.run(200);
        let before = model.requests();
        model.run(100);
        let after = model.requests();
        let case = format!("{before:?}, {after:?} at {interval_ms} ms with {outstanding} outstanding");
        assert!(after[0] - before[0] >= 80, "{case}");
    }
}

#[test]
fn a_crawl_with_the_least_share_has_its_requests_alongside_one_with_the_greatest() {
    let mut model = Model::new(100, &[crawl(1, 2), crawl(10_000, 12)]);
    model.run(100);
    let before = model.requests();
    model.run(25_000);
    let after = model.requests();
    assert!((2..=4).contains(&(after[0] - before[0])), "{before:?}, {after:?}");
}

#[test]
fn a_changed_share_applies_to_the_next_dispatches() {
    for interval_ms in INTERVALS {
        let mut model = Model::new(interval_ms, &[crawl(10_000, 3), crawl(100, 3)]);
        model.run(150);
        for (offset, shares) in [(11, [100, 300]), (21, [300, 100]), (31, [1, 10_000]), (41, [100, 100])] {
            for ((offset, name), share) in (offset..).zip(model.names.clone()).zip(shares) {
                define_share(&mut model.terms, offset, &name, (None, share));
            }
            model.run(10);
            let before = model.requests();
            model.run(400);
            let requests: Vec<_> = model.requests().iter().zip(before).map(|(all, before)| all - before).collect();
            assert_parts(&requests, &shares, &format!("{shares:?} at {interval_ms} ms"));
        }
    }
}

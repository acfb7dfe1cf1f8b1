use proptest::prelude::*;

use super::*;

const T: Millis = 1_000_000_000;

fn claim(crawl: &str, share: u32) -> Claim<'_> {
    Claim { crawl, share, own_ms: 0, own_at_ms: Millis::MIN }
}

fn next(at_ms: Millis) -> NextTime {
    NextTime { at_ms, spacing_ms: 1000, horizon_ms: 2000 }
}

#[test]
fn a_crawl_alone_is_deferred_for_other_reasons_only_and_leaves_no_trace() {
    let mut shares = CrawlShares::default();
    for times in 0..10 {
        assert_eq!(shares.defer(claim("docs", 1), next(T + times * 1000), None, T), None);
        assert_eq!(shares.defer(claim("docs", 1), next(T + times * 1000), Some(T + 500), T), Some(T + 500));
        assert_eq!(shares.crawls.capacity(), 0);
    }
    let later = T + REMEMBERED_MS + 2000;
    assert_eq!(shares.defer(claim("news", 1), next(later), None, later), None);
    assert_eq!(shares.crawls.capacity(), 0, "the other one dispatched too long ago");
}

#[test]
fn crawls_that_dispatch_no_longer_are_forgotten() {
    let mut shares = CrawlShares::default();
    for crawl in ["docs", "news", "shop"] {
        shares.defer(claim(crawl, 100), next(T), None, T);
    }
    assert_eq!(shares.crawls.len(), 3);
    shares.prune(1000, T + REMEMBERED_MS);
    assert_eq!(shares.crawls.len(), 3);
    shares.prune(1000, T + REMEMBERED_MS + 3000);
    assert_eq!(shares.crawls.capacity(), 0);
}

#[test]
fn a_time_that_is_about_to_be_lost_goes_to_a_crawl_that_is_ahead_unless_another_one_comes_for_it() {
    let mut shares = CrawlShares::default();
    assert_eq!(shares.defer(claim("docs", 100), next(T), None, T), None);
    assert_eq!(shares.defer(claim("news", 100), next(T + 1000), None, T), None);
    assert_eq!(
        shares.defer(claim("news", 100), next(T + 2000), None, T),
        Some(T + 1000),
        "the other one has the next time"
    );
    assert_eq!(
        shares.defer(claim("docs", 100), next(T + 2000), Some(T + 1600), T),
        Some(T + 1600),
        "beyond the horizon"
    );
    assert_eq!(shares.defer(claim("news", 100), next(T + 2000), None, T + 1760), Some(T + 2750), "expected soon");
    assert_eq!(shares.defer(claim("news", 100), next(T + 3000), None, T + 2760), None, "it has not come");
    assert_eq!(shares.defer(claim("news", 100), next(T + 4000), None, T + 2760), None, "and is not waited for again");
    assert_eq!(shares.defer(claim("docs", 100), next(T + 5000), None, T + 2770), None, "until it comes back");
    assert!(shares.defer(claim("news", 100), next(T + 6000), None, T + 2770).is_some());
}

#[test]
fn a_clock_that_steps_back_forgets_times_from_before() {
    let mut shares = CrawlShares::default();
    for crawl in ["docs", "news"] {
        shares.defer(claim(crawl, 100), next(T), None, T);
    }
    let back = T - 3_600_000;
    assert_eq!(shares.defer(claim("news", 100), next(back), None, back), None);
    assert_eq!(shares.crawls.len(), 0);
}

/// Numbers of the requests of crawls that always have a dispatch, by the site's times.
fn requests(shares: &[u32], dispatches: &[usize]) -> Vec<Vec<usize>> {
    let names: Vec<_> = (0..shares.len()).map(|number| format!("crawl{number}")).collect();
    let mut division = CrawlShares::default();
    let mut taken = vec![vec![]; shares.len()];
    for (time, dispatch) in dispatches.iter().enumerate() {
        let now = T + i64::try_from(time).unwrap() * 1000;
        // All crawls dispatch in each interval, in another order. The first one that may takes the time, and is the only one.
        let mut taker = None;
        for number in (0..shares.len()).map(|number| (number + dispatch) % shares.len()) {
            let later_ms = taker.map(|_| now + 500);
            let retry_ms = division.defer(claim(&names[number], shares[number]), next(now + 1000), later_ms, now);
            assert!(retry_ms.is_none_or(|at| at > now && at <= now + MAX_DEFERRAL_MS));
            if retry_ms.is_none() {
                taker = Some(number);
            }
        }
        taken[taker.unwrap()].push(time);
    }
    taken
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn between_two_requests_of_a_crawl_are_at_most_twice_as_many_of_others_as_the_shares_permit_and_a_few(
        shares in prop::collection::vec(1u32..=1000, 2..6),
        dispatches in prop::collection::vec(0usize..6, 1500),
    ) {
        let taken = requests(&shares, &dispatches);
        let all: u32 = shares.iter().sum();
        for (share, times) in shares.iter().zip(&taken) {
            let part = (all / share) as usize;
            let most = 2 * part + 2 * shares.len();
            let starts = times.iter().copied().chain([dispatches.len()]);
            let ends = [0].into_iter().chain(times.iter().copied());
            for (end, start) in starts.zip(ends) {
                prop_assert!(end - start <= most, "{} times without a request of share {share}: {shares:?}", end - start);
            }
            let expected = dispatches.len() as f64 * f64::from(*share) / f64::from(all);
            let off = (times.len() as f64 - expected).abs();
            prop_assert!(off <= 2.0 + shares.len() as f64, "{} requests instead of {expected:.1}: {shares:?}", times.len());
        }
    }

    #[test]
    fn no_claims_in_any_order_defer_a_crawl_into_the_past_or_by_more_than_a_minute_or_one_time(
        claims in prop::collection::vec((0usize..5, 0u32..=10_000, 0i64..100_000, 0i64..100_000, any::<bool>()), 1..200),
        spacing_ms in prop::sample::select(vec![1i64, 100, 1000, 20_000, 86_400_000]),
    ) {
        let mut division = CrawlShares::default();
        let mut now = T;
        for (crawl, share, own_ms, wait_ms, later) in claims {
            now += wait_ms / 10;
            let at_ms = now + wait_ms % (2 * spacing_ms);
            let own_at_ms = if own_ms % 3 == 0 { now + own_ms } else { Millis::MIN };
            let names = ["a", "b", "c", "d", "e"];
            let claim = Claim { crawl: names[crawl], share, own_ms, own_at_ms };
            let later_ms = later.then_some(now + 700);
            let next = NextTime { at_ms, spacing_ms, horizon_ms: 10_000 };
            let retry_ms = division.defer(claim, next, later_ms, now);
            prop_assert!(!later || retry_ms.is_some());
            let most_ms = MAX_DEFERRAL_MS.max(2 * spacing_ms).max(own_at_ms.saturating_sub(now));
            prop_assert!(retry_ms.is_none_or(|at| at > now && at <= now + most_ms), "{retry_ms:?} at {now}");
            prop_assert!(division.crawls.len() <= 5);
        }
    }
}

use std::time::Duration;

use futures::FutureExt as _;
use proptest::prelude::*;
use tokio::time::{sleep, timeout};

use super::*;
use crate::panics::caught;

fn budget(bytes: usize) -> ByteBudget {
    ByteBudget::new(bytes, IntGauge::new("bytes", "in use").unwrap())
}

fn in_use(budget: &ByteBudget) -> usize {
    usize::try_from(budget.in_use.get()).unwrap()
}

#[tokio::test]
async fn one_reservation_may_exceed_the_budget_and_the_next_waits_until_it_has_ended() {
    let budget = budget(100);
    let (mut first, mut second) = (budget.reservation(), budget.reservation());
    first.grow(60).await;
    second.grow(40).await;
    assert!(!budget.has_room(1));
    first.grow(30).await;
    assert_eq!((first.bytes(), in_use(&budget), first.has_waited()), (90, 130, false));
    assert!(second.grow(10).now_or_never().is_none());
    assert!(second.has_waited());
    first.grow(500).now_or_never().unwrap();
    drop(first);
    second.grow(10).now_or_never().unwrap();
    assert_eq!((second.bytes(), in_use(&budget)), (50, 50));
}

#[tokio::test]
async fn a_reservation_ends_with_the_last_handle_of_the_bytes_that_it_is_attached_to() {
    let budget = budget(100);
    let mut room = budget.try_reserve(80).unwrap();
    assert!(budget.try_reserve(30).is_none());
    room.set(20);
    let rest = room.split(5);
    let bytes = room.attach(Bytes::from_static(b"0123456789"));
    let part = bytes.slice(2..4);
    drop(bytes);
    assert_eq!((&part[..], in_use(&budget)), (&b"23"[..], 20));
    drop(part);
    assert_eq!((rest.bytes(), in_use(&budget)), (5, 5));
}

#[tokio::test]
async fn what_is_in_memory_already_is_counted_beyond_the_budget_and_what_is_larger_than_it_takes_all() {
    let budget = budget(100);
    let mut all = budget.reserve(1000).await;
    assert_eq!((all.bytes(), budget.has_room(1)), (100, false));
    all.set(150);
    assert_eq!((all.bytes(), in_use(&budget)), (150, 150));
    let part = all.split(70);
    assert_eq!((part.bytes(), all.bytes(), in_use(&budget)), (70, 80, 150));
    drop(part);
    assert!(budget.has_room(20) && !budget.has_room(21));
    drop(all);
    assert!(in_use(&budget) == 0 && budget.has_room(100));
}

#[tokio::test]
async fn what_is_overdrawn_is_paid_back_before_others_get_any() {
    let budget = budget(100);
    let mut holders: Vec<_> = (0..4).map(|_| budget.try_reserve(10).unwrap()).collect();
    holders.iter_mut().for_each(|holder| holder.set(50));
    assert_eq!(in_use(&budget), 200);
    assert!(!budget.has_room(1) && budget.try_reserve(1).is_none());

    let mut waiting = Box::pin(budget.reserve(30));
    for left in [150, 100] {
        drop(holders.pop());
        assert_eq!(in_use(&budget), left);
        assert!(waiting.as_mut().now_or_never().is_none());
    }
    holders[0].set(21);
    assert!(waiting.as_mut().now_or_never().is_none(), "29 bytes are free");
    holders[0].set(20);
    let paid = waiting.as_mut().now_or_never().unwrap();
    assert_eq!((paid.bytes(), in_use(&budget), budget.has_room(1)), (30, 100, false));
}

#[tokio::test]
async fn a_debt_of_others_does_not_stop_the_one_that_may_exceed_the_budget() {
    let budget = budget(100);
    let mut holder = budget.try_reserve(10).unwrap();
    holder.set(150);
    let (mut first, mut second) = (budget.reservation(), budget.reservation());
    first.grow(30).now_or_never().unwrap();
    assert!(second.grow(10).now_or_never().is_none());
    drop(holder);
    second.grow(10).now_or_never().unwrap();
    assert_eq!((first.bytes(), second.bytes(), in_use(&budget)), (30, 10, 40));
}

/// The end of a job.
#[derive(Debug, Clone, Copy)]
enum End {
    Done,
    Panics,
    /// Dropped after this many milliseconds, even while it waits.
    Cancelled(u64),
}

/// Reservations of a job, and how long it keeps them.
#[derive(Debug, Clone)]
struct Job {
    steps: Vec<usize>,
    keeps_ms: u64,
    end: End,
}

const BUDGET: usize = 1000;
const LARGEST: usize = 400;

fn job() -> impl Strategy<Value = Job> {
    let end = prop_oneof![4 => Just(End::Done), 1 => Just(End::Panics), 1 => (0u64..30).prop_map(End::Cancelled)];
    let steps = prop::collection::vec(1..=LARGEST / 4, 1..=4);
    (steps, 0u64..20, end).prop_map(|(steps, keeps_ms, end)| Job { steps, keeps_ms, end })
}

async fn run(job: Job, budget: ByteBudget) {
    let mut room = budget.reservation();
    for more in job.steps {
        room.grow(more).await;
        assert!(in_use(&budget) <= BUDGET + LARGEST, "{} bytes are in use", in_use(&budget));
        sleep(Duration::from_millis(1)).await;
    }
    assert!(!matches!(job.end, End::Panics), "this job panics");
    let bytes = room.attach(Bytes::from_static(b"result"));
    sleep(Duration::from_millis(job.keeps_ms)).await;
    drop(bytes);
}

const THREADS: usize = 3;
/// Largest size of a page, more than the budget.
const LARGEST_PAGE: usize = 2 * BUDGET;

/// Takes a page of `bytes` after reserving `reserved`, on one of the threads, and keeps it for a time.
async fn extract((reserved, bytes, keeps_ms): (usize, usize, u64), budget: ByteBudget, threads: Arc<Semaphore>) {
    let thread = threads.acquire_owned().await.unwrap();
    let mut room = budget.reserve(reserved).await;
    sleep(Duration::from_millis(1)).await;
    room.set(bytes);
    assert!(in_use(&budget) <= BUDGET + THREADS * LARGEST_PAGE, "{} bytes are in use", in_use(&budget));
    drop(thread);
    sleep(Duration::from_millis(keeps_ms)).await;
}

proptest! {
    #[test]
    fn every_page_ends_and_the_budget_is_exceeded_by_one_page_per_thread_at_most(
        pages in prop::collection::vec((0..=LARGEST_PAGE, 0..=LARGEST_PAGE, 0u64..20), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (budget, threads) = (budget(BUDGET), Arc::new(Semaphore::new(THREADS)));
            let start = |page| tokio::spawn(extract(page, budget.clone(), threads.clone()));
            let running: Vec<_> = pages.into_iter().map(start).collect();
            for page in running {
                timeout(Duration::from_secs(3600), page).await.expect("it does not end").unwrap();
            }
            assert!(in_use(&budget) == 0 && budget.has_room(BUDGET));
        });
    }

    #[test]
    fn every_job_ends_the_budget_is_exceeded_by_one_job_at_most_and_nothing_leaks(
        jobs in prop::collection::vec(job(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let budget = budget(BUDGET);
            let running: Vec<_> = jobs
                .into_iter()
                .map(|job| {
                    let (budget, end) = (budget.clone(), job.end);
                    tokio::spawn(async move {
                        let job = caught(run(job, budget));
                        match end {
                            End::Cancelled(after_ms) => {
                                timeout(Duration::from_millis(after_ms), job).await.is_ok_and(|ended| ended.is_err())
                            }
                            End::Panics => job.await.is_ok(),
                            End::Done => job.await.is_err(),
                        }
                    })
                })
                .collect();
            for job in running {
                let failed = timeout(Duration::from_secs(3600), job).await.expect("it does not end").unwrap();
                assert!(!failed);
            }
            assert!(in_use(&budget) == 0 && budget.has_room(BUDGET));
            assert!(budget.overdraft.try_lock().is_ok());
        });
    }
}

//! Times from clocks that were changed.

use orbweaver_messages::{CLOCK_MARGIN_MS, Outcome, ReadyDispatch};

#[allow(clippy::unwrap_used, reason = "examples are part of the checkout")]
fn example<T: serde::de::DeserializeOwned>(file: &str) -> T {
    let path = format!("../../schemas/examples/{file}");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_dispatch_from_a_clock_that_is_too_far_ahead_counts_as_made_now() {
    let ready: ReadyDispatch = example("ready/2/slowed-down.json");
    let made = ready.dispatch.dispatched_at_ms;
    for now in [made - CLOCK_MARGIN_MS, made, made + 3_600_000] {
        assert_eq!(ready.clone().in_time(now), ready, "as far as clocks may be apart, or late");
    }
    let now = made - 3_600_000;
    let counted = ready.clone().in_time(now);
    assert_eq!(counted.dispatch.dispatched_at_ms, now);
    let spans = |ready: &ReadyDispatch| {
        let made = ready.dispatch.dispatched_at_ms;
        [ready.not_before_ms, ready.dispatch.not_after_ms, ready.dispatch.expires_ms].map(|at| at - made)
    };
    assert_eq!(spans(&counted), spans(&ready));
}

#[test]
fn an_outcome_from_a_clock_that_is_too_far_ahead_ended_now_and_waits_no_longer_than_it_says() {
    let outcome: Outcome = example("outcome/2/retry-timeout.json");
    let waits = outcome.retry_at_ms.unwrap() - outcome.ended_at_ms;
    assert_eq!(outcome.clone().in_time(outcome.ended_at_ms - CLOCK_MARGIN_MS), outcome);
    let (ended, now) = (outcome.ended_at_ms, outcome.ended_at_ms - 3_600_000);
    let counted = outcome.in_time(now);
    assert_eq!((counted.ended_at_ms, counted.retry_at_ms), (now, Some(now + waits)));
    assert_eq!(counted.event_ms(), ended, "the store has it with this time, which later versions must exceed");
}

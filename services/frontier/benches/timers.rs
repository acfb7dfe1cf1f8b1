//! Timers of sites: a heap, as the frontier has it, against a hierarchical wheel (`DelayQueue` of tokio-util), both with
//! the number of timers of `ORBWEAVER_BENCH_TIMERS` (a million): what an entry takes, and what an expiry with the
//! insertion that follows costs.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may panic, and prints what it measured")]

#[allow(dead_code, reason = "the other benchmark uses the rest")]
mod measured;

use std::{cmp::Reverse, collections::BinaryHeap, future::poll_fn, time::Duration};

use measured::{Began, Measured, resident_kib};
use tokio_util::time::DelayQueue;

/// Expiries per measurement.
const EXPIRIES: usize = 1_000_000;
/// Timers are set for up to this time ahead, in milliseconds.
const AHEAD_MS: u64 = 600_000;

/// Returns numbers that are spread evenly.
fn spread() -> impl FnMut() -> u64 {
    let mut state = 0u64;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (state ^ (state >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 24
    }
}

fn show(name: &str, timers: usize, before_kib: u64, (set, expire): (&Measured, &Measured)) {
    let bytes = resident_kib().saturating_sub(before_kib) * 1024 / timers as u64;
    println!("{name:<6} set: {set}; expire and set again: {expire}; {bytes} bytes each");
}

fn heap(timers: usize) {
    let (mut random, before) = (spread(), resident_kib());
    let mut heap = BinaryHeap::new();
    let (mut set, mut expire) = (Measured::default(), Measured::default());
    set.of(timers, || (0..timers as u64).for_each(|key| heap.push(Reverse((random() % AHEAD_MS, key)))));
    expire.of(EXPIRIES, || {
        for _ in 0..EXPIRIES {
            let Reverse((now, key)) = heap.pop().unwrap();
            heap.push(Reverse((now + random() % AHEAD_MS, key)));
        }
    });
    show("heap", timers, before, (&set, &expire));
}

fn wheel(timers: usize) {
    let (mut random, before) = (spread(), resident_kib());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut wheel = DelayQueue::new();
        let (mut set, mut expire) = (Measured::default(), Measured::default());
        let mut after = move || Duration::from_millis(random() % AHEAD_MS);
        set.of(timers, || {
            for key in 0..timers as u64 {
                wheel.insert(key, after());
            }
        });
        let began = Began::now();
        for _ in 0..EXPIRIES {
            // The clock is paused, and moves on to the next timer.
            let key = poll_fn(|cx| wheel.poll_expired(cx)).await.unwrap().into_inner();
            wheel.insert(key, after());
        }
        expire.end(EXPIRIES, &began);
        show("wheel", timers, before, (&set, &expire));
    });
}

fn main() {
    let timers = std::env::var("ORBWEAVER_BENCH_TIMERS").map_or(1_000_000, |count| count.parse().unwrap());
    println!("{timers} timers");
    heap(timers);
    wheel(timers);
}

//! Topics that a process reads completely, such as the settings in `crawl.control`: read positions, and waiters for
//! refreshes.
//!
//! A refresh queries the ends of all partitions and is complete when all records below them have reached the stage. One
//! refresh runs at a time; later requests wait for the next one, since its ends may be higher. A partition opens after
//! a refresh, so that the stage knows everything the former owner wrote.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use orbweaver_log::{Offset, TopicPartition};
use tokio::{sync::oneshot, time::Instant};

use crate::{Token, patience::Patience};

/// Recipient of the notification that a refresh has ended.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// A partition that is being opened.
    Opening(oneshot::Sender<()>),
    /// The stage, by [`Actions::refreshes`](crate::Actions::refreshes).
    Stage(Token),
}

/// A running refresh.
#[derive(Debug)]
struct Refresh {
    waiters: Vec<Waiter>,
    /// Topic-partitions not yet read up to their end, with position and end.
    missing: BTreeMap<TopicPartition, (Offset, Offset)>,
    /// Whether the ends are known.
    expected: bool,
    patience: Patience,
}

/// The tails of a stage.
#[derive(Debug)]
pub(crate) struct Tails {
    tps: Arc<[TopicPartition]>,
    /// Waiters for the next refresh.
    waiting: Vec<Waiter>,
    wanted: bool,
    running: Option<Refresh>,
}

impl Tails {
    /// Creates the tails of these topic-partitions, sorted.
    pub(crate) fn new(mut tps: Vec<TopicPartition>) -> Self {
        tps.sort_unstable();
        Self { tps: tps.into(), waiting: vec![], wanted: false, running: None }
    }

    pub(crate) fn tps(&self) -> Arc<[TopicPartition]> {
        self.tps.clone()
    }

    pub(crate) fn contains(&self, tp: TopicPartition) -> bool {
        self.tps.binary_search(&tp).is_ok()
    }

    /// Requests a refresh that starts after this call.
    pub(crate) fn wait(&mut self, waiter: Option<Waiter>) {
        // The tails may have waited for a partition since the refresh began.
        if !self.delays_an_opening()
            && let Some(refresh) = &mut self.running
        {
            refresh.patience.moved(Instant::now());
        }
        self.waiting.extend(waiter);
        self.wanted = true;
    }

    /// Starts the next refresh if one was requested and none is running. Returns the topic-partitions whose bounds are
    /// to be queried.
    pub(crate) fn begin(&mut self) -> Option<Arc<[TopicPartition]>> {
        if self.running.is_some() || !std::mem::take(&mut self.wanted) {
            return None;
        }
        let waiters = std::mem::take(&mut self.waiting);
        let (missing, patience) = (BTreeMap::new(), Patience::new(Instant::now()));
        self.running = Some(Refresh { waiters, missing, expected: false, patience });
        Some(self.tps())
    }

    /// Notes that `tp` was read up to `position` and is to be read up to `end`.
    pub(crate) fn expect(&mut self, tp: TopicPartition, position: Offset, end: Offset) {
        if let Some(refresh) = self.running.as_mut().filter(|_| position < end) {
            refresh.missing.insert(tp, (position, end));
        }
    }

    /// Notes that all ends are known.
    pub(crate) fn expected(&mut self) {
        if let Some(refresh) = &mut self.running {
            refresh.expected = true;
            refresh.patience.moved(Instant::now());
        }
    }

    /// Notes that `tp` was read up to `position`.
    pub(crate) fn passed(&mut self, tp: TopicPartition, position: Offset) {
        let Some(refresh) = &mut self.running else { return };
        let Some((at, end)) = refresh.missing.get_mut(&tp) else { return };
        *at = position;
        refresh.patience.moved(Instant::now());
        if position >= *end {
            refresh.missing.remove(&tp);
        }
    }

    /// Returns the waiters of the running refresh if it is complete.
    pub(crate) fn finished(&mut self) -> Vec<Waiter> {
        let over = self.running.take_if(|refresh| refresh.expected && refresh.missing.is_empty());
        over.map_or_else(Vec::new, |refresh| refresh.waiters)
    }

    /// Returns the reason why partitions that wait for a refresh cannot open: nothing was read for `patience`.
    pub(crate) fn overdue(&mut self, patience: Duration) -> Option<String> {
        let (delays_an_opening, seconds) = (self.delays_an_opening(), patience.as_secs());
        let refresh = self.running.as_mut()?;
        let waited = refresh.patience.waited(Instant::now());
        let (tp, (position, end)) = refresh.missing.first_key_value()?;
        let reason = || format!("{tp}: nothing could be read between {position} and {end} for {seconds} s");
        (delays_an_opening && waited > patience).then(reason)
    }

    /// Returns `true` if a partition waits for the running refresh, or for the next one and therefore for both.
    fn delays_an_opening(&self) -> bool {
        let running = self.running.iter().flat_map(|refresh| &refresh.waiters);
        let opening = |waiter: &Waiter| matches!(waiter, Waiter::Opening(opening) if !opening.is_closed());
        running.chain(&self.waiting).any(opening)
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::topic;
    use proptest::prelude::*;

    use super::*;

    /// Advances the time by `seconds`, with a check in each.
    async fn wait_and_check(tails: &mut Tails, seconds: u64) -> Option<String> {
        let mut overdue = None;
        for _ in 0..seconds {
            tokio::time::advance(Duration::from_secs(1)).await;
            overdue = tails.overdue(Duration::from_secs(60));
        }
        overdue
    }

    fn at(partition: u32) -> TopicPartition {
        TopicPartition::new(topic::CONTROL, partition)
    }

    fn tokens(waiters: Vec<Waiter>) -> Vec<Token> {
        let token = |waiter| match waiter {
            Waiter::Stage(token) => token,
            Waiter::Opening(_) => panic!("an opening"),
        };
        waiters.into_iter().map(token).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_opening_is_given_up_with_its_partition_when_its_tail_does_not_move() {
        let mut tails = Tails::new(vec![at(1), at(0)]);
        let (opening, waits) = oneshot::channel();
        tails.wait(Some(Waiter::Opening(opening)));
        tails.begin().unwrap();
        tails.expect(at(1), 3, 9);
        tails.expected();
        assert_eq!(wait_and_check(&mut tails, 50).await, None);
        tails.passed(at(1), 5);
        assert_eq!(wait_and_check(&mut tails, 50).await, None, "it moved");
        let reason = "crawl.control/1: nothing could be read between 5 and 9 for 60 s";
        assert_eq!(wait_and_check(&mut tails, 50).await.as_deref(), Some(reason));
        drop(waits);
        assert_eq!(wait_and_check(&mut tails, 1).await, None, "nothing waits for it any more");
    }

    #[tokio::test(start_paused = true)]
    async fn the_patience_of_an_opening_does_not_begin_before_it() {
        let mut tails = Tails::new(vec![at(0)]);
        tails.wait(None);
        tails.begin().unwrap();
        tails.expect(at(0), 3, 9);
        tails.expected();
        assert_eq!(wait_and_check(&mut tails, 3600).await, None);
        let (opening, _waits) = oneshot::channel();
        tails.wait(Some(Waiter::Opening(opening)));
        assert_eq!(wait_and_check(&mut tails, 40).await, None);
        tails.wait(Some(Waiter::Opening(oneshot::channel().0)));
        assert!(wait_and_check(&mut tails, 40).await.is_some(), "the next one does not extend it");
    }

    proptest! {
        /// A waiter is notified once, after the tails were read up to ends that were queried after it had started to
        /// wait.
        #[test]
        fn a_refresh_ends_behind_all_that_was_in_the_log_when_it_was_wanted(steps in proptest::collection::vec((0_u8..5, 0_u32..3), 1..200)) {
            let mut tails = Tails::new((0..3).map(at).collect());
            let (mut ends, mut read, mut asked) = ([0_u64; 3], [0_u64; 3], false);
            // Log ends at the time each waiter started to wait.
            let mut wanted: Vec<[u64; 3]> = vec![];
            let mut reported = 0;
            for (what, partition) in steps {
                let tp = partition as usize;
                match what {
                    0 => ends[tp] += 1,
                    1 => {
                        tails.wait(Some(Waiter::Stage(wanted.len() as u64)));
                        wanted.push(ends);
                    }
                    2 => asked |= tails.begin().is_some(),
                    3 if std::mem::take(&mut asked) => {
                        (0..3).for_each(|number| tails.expect(at(number), read[number as usize], ends[number as usize]));
                        tails.expected();
                    }
                    _ if read[tp] < ends[tp] => {
                        read[tp] += 1;
                        tails.passed(at(partition), read[tp]);
                    }
                    _ => {}
                }
                for token in tokens(tails.finished()) {
                    prop_assert_eq!(token, reported, "in order, and once");
                    reported += 1;
                    prop_assert!(wanted[token as usize].iter().zip(read).all(|(end, read)| read >= *end));
                }
            }
            // All are notified in the end.
            for _ in 0..2 {
                asked |= tails.begin().is_some();
                if std::mem::take(&mut asked) {
                    (0..3).for_each(|number| tails.expect(at(number), read[number as usize], ends[number as usize]));
                    tails.expected();
                }
                (0..3).for_each(|number| tails.passed(at(number), ends[number as usize]));
                read = ends;
                reported += tails.finished().len() as u64;
            }
            prop_assert_eq!(reported, wanted.len() as u64);
        }
    }
}

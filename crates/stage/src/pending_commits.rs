//! Commits that wait or are being answered: one request at a time, and everything that is queued meanwhile goes into
//! the next one.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
};

use futures::future::BoxFuture;
use orbweaver_log::{Commit, LogError, Partition, TopicPartition};
use orbweaver_messages::Millis;
use tokio::time::error::Elapsed;

/// Answer of the log, in time or not.
pub(crate) type Answer = Result<Result<(), LogError>, Elapsed>;

/// Commits that belong together, and the reaction to their answer.
#[derive(Debug)]
pub(crate) struct Queued<T> {
    pub(crate) commits: Vec<(TopicPartition, Commit)>,
    pub(crate) then: T,
}

/// One request to the log.
#[derive(Debug)]
pub(crate) struct Request<T> {
    commits: BTreeMap<TopicPartition, Commit>,
    refused: BTreeSet<TopicPartition>,
    gone: BTreeSet<TopicPartition>,
    /// Parts of the request, in the order in which they were queued.
    pub(crate) parts: Vec<Queued<T>>,
}

impl<T> Request<T> {
    pub(crate) fn commits(&self) -> Vec<(TopicPartition, Commit)> {
        self.commits.iter().map(|(tp, commit)| (*tp, commit.clone())).collect()
    }

    /// Returns `true` if nothing remains to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.commits.is_empty()
    }

    /// Removes a topic-partition that is no longer assigned, so that it does not block the others.
    pub(crate) fn remove(&mut self, tp: TopicPartition) {
        self.commits.remove(&tp);
        self.gone.insert(tp);
    }

    /// Notes that all remaining commits were refused.
    pub(crate) fn refuse(&mut self) {
        self.refused.extend(std::mem::take(&mut self.commits).into_keys());
    }

    pub(crate) fn is_gone(&self, tp: TopicPartition) -> bool {
        self.gone.contains(&tp)
    }

    /// Returns `true` if the commit of `tp` was not accepted.
    pub(crate) fn is_refused(&self, tp: TopicPartition) -> bool {
        self.is_gone(tp) || self.refused.contains(&tp)
    }
}

/// A request that was sent.
struct Sent<T> {
    request: Request<T>,
    asked_ms: Millis,
    waiting: BoxFuture<'static, Answer>,
    /// The answer, once it has arrived.
    answer: Option<Answer>,
}

pub(crate) struct PendingCommits<T> {
    queue: Vec<Queued<T>>,
    sent: Option<Sent<T>>,
    /// Topic-partitions to be released once no commit names their partition.
    releases: BTreeSet<TopicPartition>,
}

impl<T> PendingCommits<T> {
    pub(crate) fn new() -> Self {
        Self { queue: vec![], sent: None, releases: BTreeSet::new() }
    }

    pub(crate) fn queue(&mut self, commits: Vec<(TopicPartition, Commit)>, then: T) {
        self.queue.push(Queued { commits, then });
    }

    /// Takes everything that is queued as one request; for a topic-partition that is named twice the later commit
    /// applies. `None` if nothing is queued, or a request is being answered.
    pub(crate) fn next(&mut self) -> Option<Request<T>> {
        if self.queue.is_empty() || self.sent.is_some() {
            return None;
        }
        let parts = std::mem::take(&mut self.queue);
        let commits = parts.iter().flat_map(|part| part.commits.iter().cloned()).collect();
        Some(Request { commits, refused: BTreeSet::new(), gone: BTreeSet::new(), parts })
    }

    /// Notes that `request` was sent at `asked_ms`; `waiting` resolves with the answer.
    pub(crate) fn sent(&mut self, request: Request<T>, asked_ms: Millis, waiting: BoxFuture<'static, Answer>) {
        self.sent = Some(Sent { request, asked_ms, waiting, answer: None });
    }

    /// Waits until the request is answered; forever without one. Cancel-safe.
    pub(crate) async fn arrive(&mut self) {
        match &mut self.sent {
            None => pending().await,
            Some(sent) if sent.answer.is_none() => sent.answer = Some((&mut sent.waiting).await),
            Some(_) => {}
        }
    }

    /// Waits until no request is without an answer.
    pub(crate) async fn settle(&mut self) {
        if self.sent.is_some() {
            self.arrive().await;
        }
    }

    /// Takes the request that was answered, the time at which it was sent, and the answer.
    pub(crate) fn take_answered(&mut self) -> Option<(Request<T>, Millis, Answer)> {
        let Sent { request, asked_ms, answer, .. } = self.sent.take_if(|sent| sent.answer.is_some())?;
        Some((request, asked_ms, answer?))
    }

    pub(crate) fn is_sending(&self) -> bool {
        self.sent.is_some()
    }

    /// Returns `true` if nothing waits for a commit.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.sent.is_none() && self.releases.is_empty()
    }

    /// Returns `true` if a commit names a topic-partition of `partition`: it can neither be released nor opened.
    pub(crate) fn names(&self, partition: Partition) -> bool {
        let sent = self.sent.iter().flat_map(|sent| sent.request.commits.keys());
        let queued = self.queue.iter().flat_map(|part| part.commits.iter().map(|(tp, _)| tp));
        sent.chain(queued).any(|tp| tp.partition == partition)
    }

    /// Releases topic-partitions once no commit names their partition: see [`Self::take_releases`].
    pub(crate) fn release(&mut self, tps: impl IntoIterator<Item = TopicPartition>) {
        self.releases.extend(tps);
    }

    /// Takes the topic-partitions that can be released now.
    pub(crate) fn take_releases(&mut self) -> Vec<TopicPartition> {
        let (waiting, free): (BTreeSet<_>, BTreeSet<_>) =
            std::mem::take(&mut self.releases).into_iter().partition(|tp| self.names(tp.partition));
        self.releases = waiting;
        free.into_iter().collect()
    }

    /// Forgets a lost topic-partition: nothing is committed for it, and it is not released.
    pub(crate) fn forget(&mut self, tp: TopicPartition) {
        self.releases.remove(&tp);
        self.queue.iter_mut().for_each(|part| part.commits.retain(|(queued, _)| *queued != tp));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::future::FutureExt;
    use orbweaver_messages::topic;
    use tokio::time::{sleep, timeout};

    use super::*;

    fn at(partition: Partition) -> TopicPartition {
        TopicPartition::new(topic::SEEDS, partition)
    }

    fn commit(partition: Partition, offset: u64) -> Vec<(TopicPartition, Commit)> {
        vec![(at(partition), Commit { offset, metadata: String::new() })]
    }

    fn answered_after(seconds: u64) -> BoxFuture<'static, Answer> {
        timeout(Duration::from_secs(20), async move {
            sleep(Duration::from_secs(seconds)).await;
            Ok(())
        })
        .boxed()
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_queued_while_a_request_is_answered_goes_into_the_next_one() {
        let mut commits = PendingCommits::new();
        commits.queue(commit(1, 5), "first");
        let request = commits.next().unwrap();
        commits.sent(request, 1_000, answered_after(10));
        commits.queue(commit(1, 6), "second");
        commits.queue(commit(2, 7), "third");
        commits.queue(commit(1, 8), "fourth");
        assert!(commits.next().is_none(), "one at a time");
        assert!(commits.take_answered().is_none());
        commits.arrive().await;
        let (request, asked_ms, answer) = commits.take_answered().unwrap();
        assert_eq!((request.commits(), asked_ms, answer.unwrap().is_ok()), (commit(1, 5), 1_000, true));
        let request = commits.next().unwrap();
        assert_eq!(request.commits(), [commit(1, 8), commit(2, 7)].concat());
        assert_eq!(request.parts.iter().map(|part| part.then).collect::<Vec<_>>(), ["second", "third", "fourth"]);
        assert!(commits.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_kept_until_it_is_taken() {
        let mut commits = PendingCommits::new();
        commits.queue(commit(1, 5), ());
        let request = commits.next().unwrap();
        commits.sent(request, 1_000, answered_after(30));
        commits.arrive().await;
        commits.settle().await;
        commits.arrive().await;
        let (_, _, answer) = commits.take_answered().unwrap();
        assert!(answer.is_err(), "it timed out");
        commits.settle().await;
    }

    #[test]
    fn nothing_is_sent_for_a_topic_partition_that_was_lost_and_it_is_not_released() {
        let mut commits = PendingCommits::new();
        commits.queue([commit(1, 5), commit(2, 6)].concat(), ());
        commits.release([at(1)]);
        commits.forget(at(1));
        assert_eq!(commits.take_releases(), []);
        let mut request = commits.next().unwrap();
        assert_eq!(request.commits(), commit(2, 6));
        request.remove(at(2));
        assert!(request.is_empty() && request.is_gone(at(2)) && request.is_refused(at(2)));
    }
}

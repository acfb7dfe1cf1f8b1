//! Consumer of a process.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::{BoxFuture, FutureExt};
use orbweaver_log::{Commit, Consumer, Event, Log, LogError, Offset, TopicPartition};
use orbweaver_messages::{Topic, topic};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{
    Inner,
    apart::{Apart, Translated},
    lock,
};
use crate::broken::Rule;

/// A member of a group, with the delays of its process.
pub(super) struct ProcessConsumer {
    consumer: Box<dyn Consumer>,
    inner: Arc<Inner>,
    group: String,
    member: usize,
    /// Arrival time of the next fetch.
    comes_at: Instant,
    /// Number of commits that were applied.
    commits: Arc<AtomicU64>,
    /// Set if `Rule::Together` is disabled.
    apart: Option<Apart>,
}

impl ProcessConsumer {
    pub(super) fn new(
        consumer: Box<dyn Consumer>,
        inner: Arc<Inner>,
        (group, member): (&str, usize),
        topics: &[Topic],
    ) -> Self {
        let apart = inner.broken.is_off(Rule::Together).then(|| Apart::new(topics));
        Self {
            consumer,
            inner,
            group: group.to_owned(),
            member,
            comes_at: Instant::now(),
            commits: Arc::default(),
            apart,
        }
    }

    /// Polls until `deadline`. A slow fetch delays the next event; nothing is taken from the log before it arrives, so
    /// a cancelled poll, a pause or a revocation loses nothing.
    async fn poll_until(&mut self, deadline: Instant) -> Result<Option<Event>, LogError> {
        let comes_at = self.comes_at.min(deadline);
        sleep_until(comes_at).await;
        if timeout_at(deadline, self.inner.gate.reaches_the_log()).await.is_err() {
            return Ok(None);
        }
        let wait = deadline.saturating_duration_since(Instant::now());
        let event = self.consumer.poll(wait).await?;
        if event.is_some() {
            self.comes_at = Instant::now() + self.inner.weather.delay(&mut self.inner.random());
        }
        let written = |tp| lock(&self.inner.written).get(&tp).copied();
        let event = event.map(|event| self.inner.broken.poll(event, written));
        match (&mut self.apart, event) {
            (Some(apart), Some(event)) => {
                let translated = apart.translate(event);
                self.carry_out(translated).await
            }
            (_, event) => Ok(event),
        }
    }

    /// Starts and releases topic-partitions of partitions that the runner keeps open.
    async fn carry_out(&mut self, translated: Translated) -> Result<Option<Event>, LogError> {
        let Translated { event, joined, left } = translated;
        self.consumer.release(&left)?;
        let commits = self.inner.log.committed(&self.group, &joined).await?;
        for (tp, commit) in joined.into_iter().zip(commits) {
            self.consumer.start(tp, commit.map_or(0, |commit| commit.offset))?;
        }
        Ok(event)
    }

    /// Returns the sending of commits, which does not borrow the consumer.
    fn sending(
        &self,
        commits: Vec<(TopicPartition, Commit)>,
    ) -> impl Future<Output = Result<(), LogError>> + Send + use<> {
        let (inner, group, member) = (self.inner.clone(), self.group.clone(), self.member);
        let (is_apart, count) = (self.apart.is_some(), self.commits.clone());
        async move {
            inner.ask().await;
            let script = lock(&inner.script).clone();
            let away = || LogError::Invalid("the coordinator of the group is not available".to_owned());
            if script.refuse_commits {
                return Err(away());
            }
            for (tp, commit) in &commits {
                tracing::debug!(process = inner.process, topic_partition = %tp, offset = commit.offset, "commit");
            }
            let held = inner.log.held(&group, member);
            let commits = commits.into_iter().filter(|(tp, _)| !is_apart || held.contains(tp));
            let commits = commits.map(|(tp, commit)| (tp, inner.broken.commit(commit)));
            inner.log.commit_as(&group, member, commits.collect())?;
            let count = count.fetch_add(1, Ordering::Relaxed) + 1;
            inner.ask().await;
            let lost = script.lose_answer_every > 0 && count.is_multiple_of(script.lose_answer_every);
            if lost { Err(away()) } else { Ok(()) }
        }
    }
}

impl Consumer for ProcessConsumer {
    fn poll(&mut self, max_wait: Duration) -> BoxFuture<'_, Result<Option<Event>, LogError>> {
        self.poll_until(Instant::now() + max_wait).boxed()
    }

    fn start(&mut self, tp: TopicPartition, from: Offset) -> Result<(), LogError> {
        if self.inner.broken.is_off(Rule::CommitPoint) && tp.topic == topic::FRONTIER {
            // The in-memory log commits at once; a rejection does not matter while the rule is disabled.
            let commit = Commit { offset: from, metadata: String::new() };
            let _ = self.consumer.commit(vec![(tp, commit)]).now_or_never();
        }
        self.consumer.start(tp, from)
    }

    fn pause(&mut self, tps: &[TopicPartition]) -> Result<(), LogError> {
        self.consumer.pause(tps)
    }

    fn resume(&mut self, tps: &[TopicPartition]) -> Result<(), LogError> {
        self.consumer.resume(tps)
    }

    fn commit(&mut self, commits: Vec<(TopicPartition, Commit)>) -> BoxFuture<'static, Result<(), LogError>> {
        self.sending(commits).boxed()
    }

    fn release(&mut self, tps: &[TopicPartition]) -> Result<(), LogError> {
        self.consumer.release(tps)
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), LogError>> {
        async move {
            self.inner.ask().await;
            let Self { consumer, inner, group, member, .. } = *self;
            consumer.close().await?;
            inner.groups.leave(&group, member);
            Ok(())
        }
        .boxed()
    }
}

//! Group member of the in-memory log.

use std::{sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt, ready};
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use super::{AssignedPartition, Shared};
use crate::{Commit, Consumer, Event, LogError, Offset, TopicPartition};

pub(super) struct MemoryConsumer {
    pub(super) shared: Arc<Shared>,
    pub(super) group: String,
    pub(super) member: usize,
    pub(super) news: Arc<Notify>,
}

impl MemoryConsumer {
    fn with_held(
        &self,
        tps: &[TopicPartition],
        mut change: impl FnMut(&mut AssignedPartition),
    ) -> Result<(), LogError> {
        let mut state = self.shared.state();
        let member = state.member(&self.group, self.member)?;
        if let Some(tp) = tps.iter().find(|tp| !member.held.contains_key(tp)) {
            return Err(LogError::NotAssigned(*tp));
        }
        for tp in tps {
            member.held.entry(*tp).and_modify(&mut change);
        }
        // More records may be deliverable now.
        member.news.notify_one();
        Ok(())
    }
}

impl Consumer for MemoryConsumer {
    fn poll(&mut self, max_wait: Duration) -> BoxFuture<'_, Result<Option<Event>, LogError>> {
        async move {
            let deadline = Instant::now() + max_wait;
            loop {
                if let Some(event) = self.shared.state().next_event(&self.group, self.member)? {
                    return Ok(Some(event));
                }
                // A notification since the check is stored as a permit.
                if timeout_at(deadline, self.news.notified()).await.is_err() {
                    return Ok(None);
                }
            }
        }
        .boxed()
    }

    fn start(&mut self, tp: TopicPartition, from: Offset) -> Result<(), LogError> {
        self.shared.state().partition(tp)?.bounds.check(tp, from)?;
        self.with_held(&[tp], |held| held.next = Some(from))
    }

    fn pause(&mut self, tps: &[TopicPartition]) -> Result<(), LogError> {
        self.with_held(tps, |held| held.paused = true)
    }

    fn resume(&mut self, tps: &[TopicPartition]) -> Result<(), LogError> {
        self.with_held(tps, |held| held.paused = false)
    }

    fn commit(&mut self, commits: Vec<(TopicPartition, Commit)>) -> BoxFuture<'static, Result<(), LogError>> {
        let result = self.shared.state().commit(&self.group, self.member, commits);
        ready(result).boxed()
    }

    fn release(&mut self, tps: &[TopicPartition]) -> Result<(), LogError> {
        let mut state = self.shared.state();
        let member = state.member(&self.group, self.member)?;
        for tp in tps {
            member.held.remove(tp);
        }
        Ok(())
    }
}

impl Drop for MemoryConsumer {
    fn drop(&mut self) {
        self.shared.state().leave(&self.group, self.member);
    }
}

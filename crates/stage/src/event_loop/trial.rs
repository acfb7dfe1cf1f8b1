//! Trials of quarantined records: each is marked in a commit before the stage receives it.

use orbweaver_log::{ConsumerRecord, Offset, TopicPartition};
use tokio::time::Instant;

use super::{EventLoop, commits::Then};
use crate::{Origin, Stage, StageError, open_partitions::Delivery, quarantine::Next, trials::Permit};

impl<S: Stage> EventLoop<S> {
    /// Passes one quarantined record to the stage if nothing else is in flight in the process: all other
    /// topic-partitions are paused meanwhile.
    pub(super) fn feed_quarantined(&mut self) -> Result<(), StageError> {
        let is_idle = self.is_idle();
        let Self { quarantine, assignment, .. } = self;
        match quarantine.next(Instant::now(), is_idle, |partition| assignment.is_draining(partition)) {
            Next::Wait => Ok(()),
            Next::End(tp, waiting) => {
                self.polling.adjust(tp, None)?;
                self.deliver(waiting)
            }
            Next::Claim(claim) => {
                if let Delivery::Accepted(origin) = self.open.deliver(&claim) {
                    self.complete(origin);
                }
                Ok(())
            }
            Next::Reject(record, reason) => {
                if let Some(origin) = self.give(&record) {
                    self.in_flight.reject(origin, reason);
                }
                Ok(())
            }
            Next::Mark(tp, offset, permit) => self.mark(tp, offset, permit),
        }
    }

    fn mark(&mut self, tp: TopicPartition, offset: Offset, permit: Permit) -> Result<(), StageError> {
        if permit == Permit::Uncounted {
            tracing::warn!(
                service = self.context.service,
                topic_partition = %tp,
                offset,
                "another service of the process still has records in flight: an end during this trial does not count"
            );
        }
        // Durable before the stage receives the record, so that the next start finds the suspect; together with the
        // marks of the others, so that only one record counts as tried.
        let points = self.quarantine.tps().filter_map(|tp| self.open.commit_point(tp)).collect();
        let commits = self.commits_of(points)?;
        self.pending.queue(commits, Then::Try(tp));
        Ok(())
    }

    /// Passes the marked record to the stage if its mark was accepted.
    pub(super) fn try_marked(&mut self, tp: TopicPartition, is_accepted: bool) -> Result<(), StageError> {
        if !is_accepted {
            self.quarantine.unmark(tp);
            return Ok(());
        }
        let record = self.quarantine.take_marked(tp);
        match record.and_then(|record| Some((self.give(&record)?, record))) {
            Some(given) => self.receive(vec![given]),
            None => {
                self.quarantine.unmark(tp);
                Ok(())
            }
        }
    }

    /// Notes that the stage receives a quarantined record; `None` if its partition accepts none any more.
    fn give(&mut self, record: &ConsumerRecord) -> Option<Origin> {
        let Delivery::Accepted(origin) = self.open.deliver(record) else { return None };
        self.quarantine.give(origin);
        Some(origin)
    }
}

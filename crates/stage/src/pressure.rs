//! Back-pressure: pausing and resuming while the budget is full, while another topic-partition is quarantined, and
//! while a stage of the process tries a record.

use orbweaver_log::{LogError, TopicPartition};
use tokio::time::Instant;

use crate::{Stage, StageError, event_loop::EventLoop, quarantine::Quarantine};

impl<S: Stage> EventLoop<S> {
    /// Pauses and resumes open topic-partitions. Only paused ones are resumed.
    pub(crate) fn apply_backpressure(&mut self) -> Result<(), StageError> {
        let now = Instant::now();
        let is_held = self.trial.is_held() || self.alone.values().any(|alone| alone.holds_others(now));
        let pressure = (self.served.budget().paused(), is_held);
        let tps: Vec<TopicPartition> = if std::mem::replace(&mut self.pressure, pressure) == pressure {
            self.alone.keys().copied().collect()
        } else {
            self.metrics.paused.set(i64::from(pressure.0));
            self.served.tps().collect()
        };
        tps.into_iter().try_for_each(|tp| self.adjust(tp, pressure.0))
    }

    pub(crate) fn adjust(&mut self, tp: TopicPartition, full: bool) -> Result<(), StageError> {
        let waits_for_others = self.pressure.1 && !self.alone.contains_key(&tp);
        let pause = full || waits_for_others || self.alone.get(&tp).is_some_and(Quarantine::is_occupied);
        if pause == self.paused.contains(&tp) {
            return Ok(());
        }
        let adjusted = if pause { self.consumer.pause(&[tp]) } else { self.consumer.resume(&[tp]) };
        match adjusted {
            Ok(()) if pause => drop(self.paused.insert(tp)),
            Ok(()) => drop(self.paused.remove(&tp)),
            // The topic-partition was lost; its event has not arrived yet.
            Err(LogError::NotAssigned(_)) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

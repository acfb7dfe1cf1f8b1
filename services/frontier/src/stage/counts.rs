//! Page counts: those of crawls, in `crawl.control`, and those of sites, in `crawl.site-pages`.

use orbweaver_log::ConsumerRecord;
use orbweaver_messages::{MessageError, Millis, SitePages, decode};
use orbweaver_stage::{Plan, Step};

use super::{FrontierActions, FrontierStage};
use crate::{
    counted,
    partition::PartitionFrontier,
    plan_builder::{PlanBuilder, forgotten},
};

impl FrontierStage {
    /// Writes the page counts that are due: those that other instances need soon, and all of them after some time.
    pub(super) fn write_counts(&mut self, now: Millis, actions: &mut FrontierActions) {
        for (number, partition) in &mut self.open {
            if self.draining.contains(number) {
                continue;
            }
            partition.report_live(|crawl, live| {
                let name = self.names.get(&crawl);
                name.inspect(|name| self.pages.set_live(*number, name, (live.urls, live.asleep))).is_some()
            });
            self.pages.hold(*number, partition.capped_at());
            let counts = self.pages.write(*number, now);
            if !counts.is_empty() {
                let steps = vec![Step::Produce(counted::records(&counts, now))];
                let token = Some(counted::token(*number, partition.epoch()));
                actions.plans.push(Plan { steps, completes: vec![], token });
            }
        }
    }

    /// Appends the number of pages of a site again, behind a record of a former owner of the partition.
    pub(super) fn correct_pages(&mut self, record: &ConsumerRecord, now: Millis, actions: &mut FrontierActions) {
        let partition = record.tp.partition;
        let Ok(pages) = decode::<SitePages>("site pages", record.value.as_ref()) else { return };
        if let Some(correction) = self.open.get(&partition).and_then(|open| open.corrected_pages(&pages)) {
            let mut appends = PlanBuilder::at(now);
            appends.partition = partition;
            appends.add(correction, actions);
            appends.finish(|| self.probes.dispatches(), actions);
        }
    }
}

/// Replays a record of `crawl.site-pages`.
pub(super) fn restore_pages(partition: &mut PartitionFrontier, record: &ConsumerRecord) {
    match decode::<SitePages>("site pages", record.value.as_ref()) {
        Ok(pages) => partition.restore_pages(&pages),
        Err(MessageError::Empty(_)) => {
            if let Some(queue) = forgotten(record) {
                partition.restore_forgotten(queue);
            }
        }
        // One undecodable record must not stop the partition indefinitely; its site may get more pages.
        Err(error) => tracing::error!(
            topic_partition = %record.tp, offset = record.offset, %error,
            "number of pages of a site cannot be decoded: ignored"
        ),
    }
}

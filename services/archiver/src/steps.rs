//! Steps of files: from a record to its file, the entry of the file, and completion.

use std::collections::BTreeSet;

use orbweaver_log::{Partition, Record, TopicPartition};
use orbweaver_messages::{ArchiveFile, Millis, encode, topic};
use orbweaver_stage::{Origin, Plan, Step as PlanStep};
use orbweaver_store::{CaptureRow, Write};
use orbweaver_url::CrawlName;

use crate::{
    ArchiverStage,
    file::{CrawlFile, Phase, Step},
    file_name::FileName,
    job::{ArchiveJob, Checked, Closed, FileId, Size},
    partition::OpenPartition,
    stage::Wanted,
};

impl ArchiverStage {
    /// Starts the next step of a crawl's file, if one is due.
    pub(crate) fn advance(&mut self, partition: Partition, crawl: &CrawlName, now: Millis, actions: &mut Wanted) {
        let Some(open) = self.partitions.get_mut(&partition) else { return };
        let epoch = open.owner_epoch;
        let Some(file) = open.crawls.get_mut(crawl) else { return };
        let step = file.next(&self.limits, now, |first| FileName::new(crawl, now, partition, first, epoch));
        if file.is_empty() {
            open.crawls.remove(crawl);
        } else if let Some(at) = file.closes_at(&self.limits) {
            self.closes_at = Some(self.closes_at.map_or(at, |other| other.min(at)));
        }
        match step {
            None => {}
            Some(Step::Write(name, records)) => {
                actions.jobs.push(ArchiveJob::Write { file: open.file(crawl.clone(), name), records, now });
            }
            Some(Step::Finish(name)) => actions.jobs.push(ArchiveJob::Finish(open.file(crawl.clone(), name))),
        }
    }

    /// Closes the least recently written files beyond the limit, except for those of `written`.
    pub(crate) fn close_beyond_limit(
        &mut self,
        written: &BTreeSet<(Partition, CrawlName)>,
        now: Millis,
        actions: &mut Wanted,
    ) {
        let open_files: usize = self.partitions.values().map(OpenPartition::open_files).sum();
        self.metrics.open_files.set(i64::try_from(open_files).unwrap_or(i64::MAX));
        let beyond = open_files.saturating_sub(self.max_open_files);
        if beyond == 0 {
            return;
        }
        let mut open: Vec<(Millis, (Partition, CrawlName))> = vec![];
        let mut closing = 0;
        for (&partition, files) in &self.partitions {
            for (crawl, file) in &files.crawls {
                let id = (partition, crawl.clone());
                match file.written_at() {
                    Some(at) if !written.contains(&id) => open.push((at, id)),
                    None if file.file.is_some() => closing += 1,
                    _ => {}
                }
            }
        }
        open.sort_unstable();
        for (_, (partition, crawl)) in open.into_iter().take(beyond.saturating_sub(closing)) {
            self.close_file(partition, &crawl, now, actions);
        }
    }

    pub(crate) fn close_file(&mut self, partition: Partition, crawl: &CrawlName, now: Millis, actions: &mut Wanted) {
        if let Some(file) = self.partitions.get_mut(&partition).and_then(|open| open.crawls.get_mut(crawl)) {
            file.close();
        }
        self.advance(partition, crawl, now, actions);
    }

    /// Returns all crawls with files or waiting records, of the partitions that `are`.
    pub(crate) fn crawls(&self, are: impl Fn(&OpenPartition) -> bool) -> Vec<(Partition, CrawlName)> {
        let partitions = self.partitions.iter().filter(|(_, open)| are(open));
        partitions
            .flat_map(|(&partition, open)| open.crawls.keys().map(move |crawl| (partition, crawl.clone())))
            .collect()
    }

    /// Closes the files of revoked partitions; records that wait are left to their next owners.
    pub(crate) fn drain_revoked(&mut self, now: Millis, actions: &mut Wanted) {
        for (partition, crawl) in self.crawls(|open| open.is_draining) {
            let file = self.partitions.get_mut(&partition).and_then(|open| open.crawls.get_mut(&crawl));
            let waiting = file.map(CrawlFile::take_queue).unwrap_or_default();
            actions.parked.extend(waiting.into_iter().map(|(origin, _)| origin));
            self.close_file(partition, &crawl, now, actions);
        }
    }

    /// Rejects the record, unless it is one of an earlier assignment, which its next owner rejects.
    pub(crate) fn reject(&self, origin: Origin, reason: String, actions: &mut Wanted) {
        let open = self.partitions.get(&origin.tp.partition);
        if open.is_some_and(|open| open.assignment_epoch == origin.assignment_epoch) {
            self.metrics.count("rejected", 1);
            tracing::warn!(topic_partition = %origin.tp, offset = origin.offset, reason, "page record rejected");
            actions.rejects.push((origin, reason));
        }
    }

    /// Parks the records of a write, rejects those that are not valid, and stores the locations of the others.
    pub(crate) fn written(
        &mut self,
        id: FileId,
        (records, size): (Vec<Checked>, Size),
        locations: Vec<CaptureRow>,
        actions: &mut Wanted,
    ) {
        let Some(file) = self.partitions.get_mut(&id.partition).and_then(|open| open.crawl_of(&id)) else {
            actions.jobs.push(ArchiveJob::Discard(id));
            return;
        };
        file.written(&records, size);
        if !locations.is_empty() {
            // Before the entry: a file that counts has all its locations.
            file.phase = Phase::Locating;
            self.last_token += 1;
            self.locating.insert(self.last_token, id);
            let steps = vec![PlanStep::Perform(locations.into_iter().map(Write::Capture).collect())];
            actions.plans.push(Plan { steps, completes: vec![], token: Some(self.last_token) });
        }
        for (origin, result) in records {
            match result {
                Ok(()) => actions.parked.push(origin),
                Err(reason) => self.reject(origin, reason, actions),
            }
        }
    }

    /// Continues with a file whose locations are durable.
    pub(crate) fn located(&mut self, id: FileId, now: Millis, actions: &mut Wanted) {
        match self.partitions.get_mut(&id.partition).and_then(|open| open.crawl_of(&id)) {
            Some(crawl) => {
                crawl.phase = Phase::Ready;
                self.advance(id.partition, &id.crawl, now, actions);
            }
            None => actions.jobs.push(ArchiveJob::Discard(id)),
        }
    }

    /// Starts the upload of a durable file, or appends its entry if it remains in the directory.
    pub(crate) fn finished(&mut self, file: FileId, closed: Closed, now: Millis, actions: &mut Wanted) {
        if !self.is_uploading {
            return self.enter(file, closed, now, actions);
        }
        match self.partitions.get_mut(&file.partition).and_then(|open| open.crawl_of(&file)) {
            Some(crawl) => {
                crawl.phase = Phase::Uploading;
                actions.jobs.push(ArchiveJob::Upload { file, closed });
            }
            None => actions.jobs.push(ArchiveJob::Discard(file)),
        }
    }

    /// Appends the entry of a file that is complete.
    pub(crate) fn enter(&mut self, id: FileId, closed: Closed, now: Millis, actions: &mut Wanted) {
        let Some(open) = self.partitions.get_mut(&id.partition) else {
            actions.jobs.push(ArchiveJob::Discard(id));
            return;
        };
        let epoch = open.owner_epoch;
        let file = open.crawl_of(&id).and_then(|crawl| {
            crawl.phase = Phase::Entering;
            crawl.file.as_ref()
        });
        let Some((file, (&first, &last))) =
            file.and_then(|file| Some((file, file.offsets.first().zip(file.offsets.last())?)))
        else {
            actions.jobs.push(ArchiveJob::Discard(id));
            return;
        };
        let entry = ArchiveFile {
            crawl: id.crawl.clone(),
            file: id.name.path(),
            first,
            last,
            responses: u64::try_from(file.offsets.len()).unwrap_or(u64::MAX),
            bytes: closed.bytes,
            sha256: Some(closed.sha256),
            closed_at_ms: now,
            epoch,
        };
        let tp = TopicPartition::new(topic::ARCHIVE, id.partition);
        let key = id.crawl.as_bytes().to_vec().into();
        let record = Record::new(tp, Some(key), Some(encode(&entry)), now);
        self.last_token += 1;
        self.entering.insert(self.last_token, id);
        let steps = vec![PlanStep::Produce(vec![record])];
        actions.plans.push(Plan { steps, completes: vec![], token: Some(self.last_token) });
    }

    /// Completes the records of a file that is published.
    pub(crate) fn published(&mut self, id: &FileId, now: Millis, actions: &mut Wanted) {
        self.metrics.files.inc();
        let Some(open) = self.partitions.get_mut(&id.partition) else { return };
        let assignment_epoch = open.assignment_epoch;
        let Some(file) = open.crawl_of(id).and_then(CrawlFile::published) else { return };
        self.metrics.count("archived", file.offsets.len());
        let tp = TopicPartition::new(topic::PAGES, id.partition);
        let origins = file.offsets.into_iter().map(|offset| Origin { tp, offset, assignment_epoch });
        actions.completes.extend(origins);
        self.advance(id.partition, &id.crawl, now, actions);
    }
}

//! The file of a crawl in a partition: its steps, one at a time, and when it closes. Pure.

use orbweaver_log::{ConsumerRecord, Offset};
use orbweaver_messages::Millis;
use orbweaver_stage::Origin;

use crate::{
    config::FileLimits,
    file_name::FileName,
    job::{Checked, Size},
};

/// Records with their origins.
pub(crate) type Records = Vec<(Origin, ConsumerRecord)>;

/// Step in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// None.
    Ready,
    Writing,
    /// The locations of written responses are being stored.
    Locating,
    Finishing,
    Uploading,
    /// The entry is being appended.
    Entering,
    Publishing,
}

/// Next step of a file.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    Write(FileName, Records),
    Finish(FileName),
}

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) name: FileName,
    /// Offsets of its responses, in ascending order.
    pub(crate) offsets: Vec<Offset>,
    size: Size,
    since: Millis,
    written_at: Millis,
}

impl OpenFile {
    /// Returns the time at which it closes; the past if it has reached a limit.
    fn closes_at(&self, limits: &FileLimits) -> Millis {
        let is_large = self.size.bytes >= limits.bytes || self.size.index_bytes >= limits.index_bytes;
        if is_large || self.offsets.len() >= limits.responses {
            return Millis::MIN;
        }
        self.since.saturating_add(limits.age).min(self.written_at.saturating_add(limits.idle))
    }
}

/// The responses of a crawl in a partition: at most one open file, and records that wait for a step of it.
#[derive(Debug)]
pub(crate) struct CrawlFile {
    pub(crate) file: Option<OpenFile>,
    pub(crate) phase: Phase,
    queue: Records,
    /// Number of records that are being written.
    writing: usize,
    is_closing: bool,
}

impl CrawlFile {
    pub(crate) fn new() -> Self {
        Self { file: None, phase: Phase::Ready, queue: vec![], writing: 0, is_closing: false }
    }

    pub(crate) fn push(&mut self, origin: Origin, record: ConsumerRecord) {
        self.queue.push((origin, record));
    }

    /// Requests that the file be closed; without one, that of the records that wait.
    pub(crate) fn close(&mut self) {
        self.is_closing = true;
    }

    /// Returns the next step, if none is in progress and one is due. `name` returns the name of a file that begins with
    /// an offset.
    pub(crate) fn next(
        &mut self,
        limits: &FileLimits,
        now: Millis,
        name: impl FnOnce(Offset) -> FileName,
    ) -> Option<Step> {
        if self.phase != Phase::Ready {
            return None;
        }
        if let Some(file) = self.file.take_if(|file| file.offsets.is_empty()) {
            // All its records were rejected: it was never created. Its name is free, and the next one has another.
            drop(file);
        }
        if let Some(file) = &self.file
            && (self.is_closing || file.closes_at(limits) <= now)
        {
            self.phase = Phase::Finishing;
            return Some(Step::Finish(file.name.clone()));
        }
        let Some((first, _)) = self.queue.first() else {
            self.is_closing &= self.file.is_some();
            return None;
        };
        let begin = || OpenFile {
            name: name(first.offset),
            offsets: vec![],
            size: Size::default(),
            since: now,
            written_at: now,
        };
        let file = self.file.get_or_insert_with(begin);
        file.written_at = now;
        self.phase = Phase::Writing;
        self.writing = self.queue.len();
        Some(Step::Write(file.name.clone(), std::mem::take(&mut self.queue)))
    }

    /// Notes the result of a write.
    pub(crate) fn written(&mut self, records: &[Checked], size: Size) {
        let Some(file) = &mut self.file else { return };
        let valid = records.iter().filter(|(_, result)| result.is_ok());
        file.offsets.extend(valid.map(|(origin, _)| origin.offset));
        file.size = size;
        self.writing = 0;
        self.phase = Phase::Ready;
    }

    /// Removes and returns the file, which has its final name.
    pub(crate) fn published(&mut self) -> Option<OpenFile> {
        self.phase = Phase::Ready;
        self.is_closing = false;
        self.file.take()
    }

    /// Returns the time at which the file closes, if no step is in progress.
    pub(crate) fn closes_at(&self, limits: &FileLimits) -> Option<Millis> {
        let file = self.file.as_ref().filter(|_| self.phase == Phase::Ready)?;
        Some(file.closes_at(limits))
    }

    /// Returns the time of the last write, unless the file is being closed.
    pub(crate) fn written_at(&self) -> Option<Millis> {
        let is_open = matches!(self.phase, Phase::Ready | Phase::Writing | Phase::Locating) && !self.is_closing;
        self.file.as_ref().filter(|_| is_open).map(|file| file.written_at)
    }

    /// Returns the number of records and files that wait for a step. None do during an upload: each request has limits, and
    /// an upload may take longer than a stall.
    pub(crate) fn due(&self) -> usize {
        if self.phase == Phase::Uploading {
            return 0;
        }
        let has_step = !matches!(self.phase, Phase::Ready | Phase::Writing);
        self.queue.len() + self.writing + usize::from(has_step)
    }

    /// Removes and returns the records that wait.
    pub(crate) fn take_queue(&mut self) -> Records {
        std::mem::take(&mut self.queue)
    }

    /// Returns `true` if there is neither a file nor a record.
    pub(crate) fn is_empty(&self) -> bool {
        self.file.is_none() && self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_log::TopicPartition;
    use orbweaver_messages::topic;
    use orbweaver_url::CrawlName;

    use super::*;

    const LIMITS: FileLimits = FileLimits { bytes: 1000, index_bytes: 100, responses: 5, age: 100, idle: 60 };

    fn name(first: Offset) -> FileName {
        FileName::new(&CrawlName::default(), 0, 0, first, 7)
    }

    fn push(file: &mut CrawlFile, offset: Offset) -> Origin {
        let tp = TopicPartition::new(topic::PAGES, 0);
        let record = ConsumerRecord { tp, offset, timestamp_ms: 0, key: None, value: None, headers: vec![] };
        let origin = Origin { tp, offset, assignment_epoch: 1 };
        file.push(origin, record);
        origin
    }

    fn size(bytes: u64) -> Size {
        Size { bytes, index_bytes: 0 }
    }

    /// Writes records at `now`; `bytes` is the size of the file then.
    fn write(file: &mut CrawlFile, offsets: std::ops::Range<Offset>, now: Millis, bytes: u64) {
        let origins: Vec<Origin> = offsets.map(|offset| push(file, offset)).collect();
        assert!(matches!(file.next(&LIMITS, now, name), Some(Step::Write(..))));
        file.written(&origins.into_iter().map(|origin| (origin, Ok(()))).collect::<Vec<_>>(), size(bytes));
    }

    fn finishes(file: &mut CrawlFile, now: Millis) -> bool {
        matches!(file.next(&LIMITS, now, name), Some(Step::Finish(_)))
    }

    #[test]
    fn a_file_closes_when_it_is_idle_old_large_or_has_many_responses() {
        let mut idle = CrawlFile::new();
        write(&mut idle, 0..1, 100, 10);
        assert_eq!(idle.closes_at(&LIMITS), Some(160));
        assert!(!finishes(&mut idle, 159) && finishes(&mut idle, 160));

        let mut old = CrawlFile::new();
        write(&mut old, 0..1, 0, 10);
        write(&mut old, 1..2, 50, 20);
        write(&mut old, 2..3, 90, 30);
        assert!(!finishes(&mut old, 99) && finishes(&mut old, 100));

        let mut large_index = CrawlFile::new();
        let origin = push(&mut large_index, 0);
        assert!(large_index.next(&LIMITS, 0, name).is_some());
        large_index.written(&[(origin, Ok(()))], Size { bytes: 10, index_bytes: 100 });
        assert!(finishes(&mut large_index, 0));

        let (mut large, mut many) = (CrawlFile::new(), CrawlFile::new());
        write(&mut large, 0..1, 0, 1000);
        write(&mut many, 0..5, 0, 10);
        assert!(finishes(&mut large, 0) && finishes(&mut many, 0));
    }

    #[test]
    fn records_wait_until_the_step_of_their_file_is_over_and_begin_a_file_once_the_last_one_is_published() {
        let mut file = CrawlFile::new();
        push(&mut file, 3);
        assert!(matches!(file.next(&LIMITS, 0, name), Some(Step::Write(of, _)) if of == name(3)));
        let waiting = push(&mut file, 4);
        assert_eq!(file.next(&LIMITS, 0, name), None);
        file.written(&[(Origin { offset: 3, ..waiting }, Ok(()))], size(2000));
        assert_eq!(file.next(&LIMITS, 0, name), Some(Step::Finish(name(3))));
        for (phase, due) in [
            (Phase::Locating, 2),
            (Phase::Finishing, 2),
            (Phase::Uploading, 0),
            (Phase::Entering, 2),
            (Phase::Publishing, 2),
        ] {
            file.phase = phase;
            assert_eq!((file.next(&LIMITS, 9999, name), file.due()), (None, due));
        }
        assert_eq!(file.published().unwrap().offsets, [3]);
        assert!(matches!(file.next(&LIMITS, 0, name), Some(Step::Write(of, _)) if of == name(4)));
    }

    #[test]
    fn a_file_of_which_all_records_are_rejected_is_none() {
        let mut file = CrawlFile::new();
        let origin = push(&mut file, 3);
        assert!(file.next(&LIMITS, 0, name).is_some());
        file.written(&[(origin, Err("damaged".into()))], size(0));
        file.close();
        assert_eq!(file.next(&LIMITS, 0, name), None);
        assert!(file.is_empty() && file.due() == 0);
    }

    #[test]
    fn a_request_to_close_includes_the_records_that_wait() {
        let mut file = CrawlFile::new();
        let origin = push(&mut file, 3);
        file.close();
        assert!(matches!(file.next(&LIMITS, 0, name), Some(Step::Write(..))));
        file.written(&[(origin, Ok(()))], size(10));
        assert!(finishes(&mut file, 0));
    }
}

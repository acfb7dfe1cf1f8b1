//! The admitted URLs of a crawl, as `crawl.seen` has them.

use std::{collections::VecDeque, time::Duration};

use orbweaver_log::{ConsumerRecord, Log, Offset, Partition, Reader, TopicPartition, topic_partitions};
use orbweaver_messages::{CRAWL_HEADER, SeenBatch, topic::SEEN};
use orbweaver_url::{CrawlName, SiteName, partition_of, slot_of};

use crate::exit::{Failure, failed};

/// Timeout per read of the log.
const READ_WAIT: Duration = Duration::from_secs(5);

/// Batch of admitted URLs.
#[derive(Debug)]
pub(super) struct UrlBatch {
    pub(super) batch: SeenBatch,
    /// Whether all URLs are of the crawl. A batch of an earlier version may contain several crawls.
    pub(super) is_of_crawl: bool,
}

/// Reads the batches of a crawl, up to the log ends at the beginning.
pub(super) struct CrawlUrls<'a> {
    log: &'a dyn Log,
    crawl: &'a CrawlName,
    /// Partitions to be read.
    tps: VecDeque<TopicPartition>,
    /// Reader of the present partition, and its log end.
    reader: Option<(Box<dyn Reader>, Offset)>,
    records: VecDeque<ConsumerRecord>,
}

impl<'a> CrawlUrls<'a> {
    /// Begins to read, only the partition of this site if one is given.
    pub(super) fn new(log: &'a dyn Log, crawl: &'a CrawlName, site: Option<&SiteName>) -> Result<Self, Failure> {
        let partitions = log.partitions(SEEN).map_err(failed)?;
        let only: Option<Partition> = site.map(|site| partition_of(slot_of(site), partitions));
        let mut tps = VecDeque::from(topic_partitions(log, &[SEEN]).map_err(failed)?);
        tps.retain(|tp| only.is_none_or(|only| tp.partition == only));
        Ok(Self { log, crawl, tps, reader: None, records: VecDeque::new() })
    }

    /// Returns the next batch. One that cannot be decoded is reported and skipped.
    pub(super) async fn next(&mut self) -> Result<Option<UrlBatch>, Failure> {
        loop {
            while let Some(record) = self.records.pop_front() {
                let crawl = record.header(CRAWL_HEADER);
                if crawl.is_some_and(|name| **name != *self.crawl.as_bytes()) {
                    continue;
                }
                match SeenBatch::decode(record.value.as_ref()) {
                    Ok(batch) => return Ok(Some(UrlBatch { batch, is_of_crawl: crawl.is_some() })),
                    Err(_) => notice!("record {} of {} cannot be decoded: skipped", record.offset, record.tp),
                }
            }
            if !self.read().await? {
                return Ok(None);
            }
        }
    }

    /// Reads further records. Returns `false` if there are none.
    async fn read(&mut self) -> Result<bool, Failure> {
        if self.reader.is_none() {
            let Some(tp) = self.tps.pop_front() else { return Ok(false) };
            let bounds = self.log.bounds(tp).await.map_err(failed)?;
            self.reader = Some((self.log.reader(tp, bounds.start).await.map_err(failed)?, bounds.end));
        }
        if let Some((reader, end)) = &mut self.reader {
            if reader.position() >= *end {
                self.reader = None;
            } else {
                let records = reader.read(READ_WAIT).await.map_err(failed)?;
                self.records.extend(records.into_iter().filter(|record| record.offset < *end));
            }
        }
        Ok(true)
    }
}

//! Performs the lookups of contents on the store and the archive.

use bytes::Bytes;
use orbweaver_messages::Millis;
use orbweaver_store::CaptureRow;

use crate::{
    api::Api,
    archive::ReadError,
    location::{CONSIDERED, Search, Step},
    lookup::Located,
    problem::{Kind, Problem},
    record::{self, Archived, RecordError},
};

/// Records that may have the content of a page, the best one first.
pub(crate) struct Records<'a> {
    api: &'a Api,
    next: Step,
}

impl<'a> Records<'a> {
    pub(crate) async fn of(api: &'a Api, located: &Located) -> Result<Self, Problem> {
        let captures = api.store().captures(located.fingerprint(), CONSIDERED).await?;
        if captures.is_empty() {
            located.known(api.store()).await?;
        }
        Ok(Self { api, next: Search::begin(located.fingerprint(), captures) })
    }

    /// Returns the next record to read: the file of the one before is not in the archive.
    pub(crate) async fn next(self) -> Result<(CaptureRow, Self), Problem> {
        let Self { api, next: mut step } = self;
        let store = api.store();
        loop {
            step = match step {
                Step::History(search) => {
                    let events = store.history(search.fingerprint(), CONSIDERED).await?;
                    search.history(events)
                }
                Step::Content(search, hash) => {
                    let row = store.content(&hash).await?;
                    search.content(row)
                }
                Step::Captures(search, page, at_ms) => {
                    let rows = store.captures(page, CONSIDERED).await?;
                    search.captures(rows, at_ms)
                }
                Step::Read(search, row) => {
                    let next = search.missing(row.file.clone());
                    return Ok((*row, Self { api, next }));
                }
                Step::Ended(problem) => return Err(problem),
            };
        }
    }
}

/// Reads the newest archived response of a page, with the time of its fetch.
pub(crate) async fn newest(api: &Api, located: &Located) -> Result<(Archived, Millis), Problem> {
    let mut records = Records::of(api, located).await?;
    loop {
        let (row, further) = records.next().await?;
        if let Some(archived) = archived(api, &row).await? {
            return Ok((archived, row.at_ms));
        }
        records = further;
    }
}

/// Reads the gzip member of a record; `None`: its file is not in the archive.
pub(crate) async fn member(api: &Api, row: &CaptureRow) -> Result<Option<Bytes>, Problem> {
    let Some(archive) = &api.sources.archive else {
        return Err(Problem::new(Kind::NoArchive, "the crawl was not archived, or `urlstore.archive` is not set"));
    };
    // A record is about as long as its content if that cannot be compressed.
    if row.length > (api.max_content_bytes as u64).saturating_add(record::HEAD_BYTES as u64) {
        return Err(too_large(api.max_content_bytes));
    }
    let member = match archive.read(row).await {
        Ok(member) => member,
        Err(ReadError::Missing) => return Ok(None),
        Err(ReadError::Failed(reason)) => return Err(Problem::new(Kind::Unavailable, reason)),
        Err(ReadError::Damaged(reason)) => return Err(Problem::new(Kind::Damaged, reason)),
    };
    api.metrics.content_bytes.inc_by(member.len() as u64);
    Ok(Some(member))
}

/// Reads an archived response; `None`: its file is not in the archive.
pub(crate) async fn archived(api: &Api, row: &CaptureRow) -> Result<Option<Archived>, Problem> {
    let Some(member) = member(api, row).await? else { return Ok(None) };
    let max_bytes = api.max_content_bytes;
    let read = tokio::task::spawn_blocking(move || record::response(&member, max_bytes)).await;
    let archived = read.map_err(|error| Problem::new(Kind::Damaged, error.to_string()))?;
    archived.map(Some).map_err(|error| match error {
        RecordError::TooLarge(max_bytes) => too_large(max_bytes),
        error @ RecordError::Damaged(_) => {
            Problem::new(Kind::Damaged, format!("{} at {}: {error}", row.file, row.offset))
        }
    })
}

fn too_large(max_bytes: usize) -> Problem {
    let detail = format!("the content has more than {max_bytes} bytes; `/v1/captures` has its location in the archive");
    Problem::new(Kind::TooLarge, detail)
}

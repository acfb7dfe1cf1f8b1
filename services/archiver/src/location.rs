//! From a written response to its location in the store. Pure.

use orbweaver_messages::PageKind;
use orbweaver_store::CaptureRow;
use orbweaver_warc::Written;

use crate::{job::FileId, page::Response};

/// Returns the location of a response in a file; `None` for a robots.txt, which is no page.
pub(crate) fn location(file: &FileId, response: &Response<'_>, written: &Written) -> Option<CaptureRow> {
    let Response { page, capture, body, .. } = response;
    if page.kind == PageKind::Robots {
        return None;
    }
    // The hash is that of the body as it was read, of which the record may have a part.
    let is_whole = u64::try_from(body.len()).is_ok_and(|bytes| bytes == page.body_bytes);
    let has_content = !capture.unchanged && !body.is_empty() && is_whole;
    Some(CaptureRow {
        fingerprint: page.context.fingerprint,
        at_ms: page.event_ms(),
        epoch: file.owner_epoch,
        file: file.name.path(),
        offset: written.offset,
        length: written.length,
        status: page.status,
        is_revisit: capture.unchanged,
        content_hash: has_content.then(|| page.content_hash.clone()),
    })
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use orbweaver_messages::{Capture, Page};
    use orbweaver_url::CrawlName;

    use super::*;
    use crate::file_name::FileName;

    fn file() -> FileId {
        let crawl = CrawlName::default();
        let name = FileName::new(&crawl, 0, 3, 5, 7);
        FileId { partition: 3, assignment_epoch: 1, owner_epoch: 7, crawl, name }
    }

    fn response(kind: PageKind, body: &[u8]) -> Response<'_> {
        let example = include_str!("../../../schemas/examples/page/2/archived.json");
        let mut page: Page = serde_json::from_str(example).unwrap();
        (page.kind, page.status, page.body_bytes, page.content_hash) = (kind, 404, 4, "ab".to_owned());
        (page.fetched_at_ms, page.written_at_ms) = (10, Some(12));
        Response { page, capture: Box::new(Capture::default()), body: Cow::Borrowed(body), is_cut: false }
    }

    fn located(response: &Response<'_>) -> Option<CaptureRow> {
        let written = Written { offset: 20, length: 300, payload_digest: None, record_id: String::new() };
        location(&file(), response, &written)
    }

    #[test]
    fn a_location_has_the_event_time_of_its_fetch_and_the_file_with_its_final_name() {
        let response = response(PageKind::Response, b"body");
        let expected = CaptureRow {
            fingerprint: response.page.context.fingerprint,
            at_ms: 12,
            epoch: 7,
            file: file().name.path(),
            offset: 20,
            length: 300,
            status: 404,
            is_revisit: false,
            content_hash: Some("ab".to_owned()),
        };
        assert_eq!(located(&response), Some(expected));
        assert!(file().name.path().ends_with(".warc.gz"));
    }

    #[test]
    fn a_content_is_found_only_in_a_record_that_has_all_of_it() {
        let mut unchanged = response(PageKind::Html, b"body");
        unchanged.capture.unchanged = true;
        let mut empty = response(PageKind::Html, b"");
        empty.page.body_bytes = 0;
        for (response, is_revisit) in [(unchanged, true), (empty, false), (response(PageKind::Html, b"bod"), false)] {
            let row = located(&response).unwrap();
            assert_eq!((row.is_revisit, row.content_hash), (is_revisit, None));
        }
    }

    #[test]
    fn a_robots_txt_has_no_location() {
        assert_eq!(located(&response(PageKind::Robots, b"body")), None);
    }
}

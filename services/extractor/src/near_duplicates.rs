//! Marks of documents that are near duplicates, and records of originals.

use bytes::Bytes;
use orbweaver_log::{Partition, Record, TopicPartition};
use orbweaver_messages::{
    CRAWL_HEADER, Millis, NEAR_DUPLICATE_HEADER, PageSignature, SignatureGroup, TextSignature, encode, signature_key,
    topic::SIGNATURES,
};
use orbweaver_url::Fingerprint;

use crate::job::ComparedPage;
use crate::originals::Decision;

/// Maximum number of bytes by which a mark makes a document's record grow: the field, and the header with its framing.
pub(crate) const MARK_BYTES: usize = 256;

/// Marks the record of a document as a near duplicate of this page.
pub(crate) fn mark(document: &mut Record, original: Fingerprint) {
    let original = original.to_string();
    if let Some(json) = document.value.as_deref().and_then(|value| value.strip_suffix(b"}")) {
        let field = format!(",\"near_duplicate_of\":\"{original}\"}}");
        document.value = Some([json, field.as_bytes()].concat().into());
    }
    document.headers.push((NEAR_DUPLICATE_HEADER, original.into()));
}

/// Returns the records of the changes of a decision on a page.
pub(crate) fn records(
    decision: &Decision,
    compared: &ComparedPage,
    (partition, now): (Partition, Millis),
) -> Vec<Record> {
    let record = |&(group, page, signature): &(SignatureGroup, Fingerprint, Option<TextSignature>)| {
        // Only the page of the decision has a signature: others are dropped.
        let ComparedPage { crawl, site, .. } = compared;
        let value =
            signature.map(|signature| encode(&PageSignature { crawl: crawl.clone(), site: site.clone(), signature }));
        let key = Some(Bytes::from(signature_key(group, page)));
        let mut record = Record::new(TopicPartition::new(SIGNATURES, partition), key, value, now);
        if record.value.is_some() {
            record.headers.push((CRAWL_HEADER, Bytes::copy_from_slice(crawl.as_bytes())));
        }
        record
    };
    decision.changes.iter().map(record).collect()
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::{Document, topic::DOCUMENTS};
    use orbweaver_url::CrawlName;

    use super::*;
    use crate::{ExtractorConfig, PageInput, document::standalone};

    #[test]
    fn a_marked_document_is_encoded_like_one_with_the_field() {
        let url = orbweaver_url::parse("http://a.test/").unwrap();
        let page = PageInput { url: &url, site: None, content_type: None, headers: &[], body: b"x" };
        let options = ExtractorConfig { html: true, ..ExtractorConfig::default() };
        let document = standalone(&page, &CrawlName::default(), 0, &options);
        let original = Fingerprint::of(&CrawlName::default(), "http://a.test/b");
        let mut record = Record::new(TopicPartition::new(DOCUMENTS, 0), None, Some(encode(&document)), 0);
        let bytes = record.bytes();
        mark(&mut record, original);
        assert_eq!(record.value, Some(encode(&Document { near_duplicate_of: Some(original), ..document })));
        assert_eq!(record.headers.pop(), Some((NEAR_DUPLICATE_HEADER, Bytes::from(original.to_string()))));
        record.headers.push((NEAR_DUPLICATE_HEADER, original.to_string().into()));
        assert!(record.bytes() <= bytes + MARK_BYTES);
    }
}

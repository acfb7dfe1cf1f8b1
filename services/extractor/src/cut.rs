//! Cutting of documents to the room in their record.

use bytes::Bytes;
use orbweaver_messages::{Document, Truncated, encode, encoded_len, json_len, json_prefix};

/// Encodes a document in at most `room` bytes. A larger one is cut first: text and links to half of the room each, or
/// to the room that the other leaves; the body, if it was requested, to the room that both leave. Cut parts are
/// marked, with the whole counts.
///
/// All other fields have less than 400 KiB in total, whatever a page holds; a smaller room may be exceeded.
pub(crate) fn encode_within(document: &mut Document, room: usize) -> Bytes {
    let whole = encode(document);
    if whole.len() <= room {
        return whole;
    }
    drop(whole);
    let (text, links) = (std::mem::take(&mut document.text), std::mem::take(&mut document.links));
    let html = document.html.take();
    let marks = (document.truncated, document.links_total, document.text_bytes);

    // With truncation marks of maximum size.
    document.html = html.as_ref().map(|_| String::new());
    document.truncated = Truncated::ALL;
    (document.links_total, document.text_bytes) = (Some(u64::MAX), Some(u64::MAX));
    let room = room.saturating_sub(encoded_len(document));
    (document.truncated, document.links_total, document.text_bytes) = marks;

    // Each link with a comma.
    let sizes: Vec<usize> = links.iter().map(|link| encoded_len(link) + 1).collect();
    let (text_room, links_room) = shares(room, json_len(&text), sizes.iter().sum());
    document.text = json_prefix(&text, text_room).to_owned();
    let mut links_left = links_room;
    let fits = |size: &&usize| links_left.checked_sub(**size).map(|left| links_left = left).is_some();
    let kept = sizes.iter().take_while(fits).count();
    document.links = links;
    if document.text.len() < text.len() {
        document.truncated.text = true;
        document.text_bytes = document.text_bytes.or(u64::try_from(text.len()).ok());
    }
    if kept < document.links.len() {
        document.truncated.links = true;
        document.links_total = document.links_total.or(u64::try_from(document.links.len()).ok());
        document.links.truncate(kept);
    }
    if let Some(html) = html {
        let used: usize = json_len(&document.text) + sizes[..kept].iter().sum::<usize>();
        let kept = json_prefix(&html, room.saturating_sub(used)).to_owned();
        document.truncated.body |= kept.len() < html.len();
        document.html = Some(kept);
    }
    encode(document)
}

/// Shares `room` between two: each gets half, or more if the other needs less.
fn shares(room: usize, first: usize, second: usize) -> (usize, usize) {
    let half = room / 2;
    let of_first = first.min(room.saturating_sub(second).max(half));
    (of_first, room - of_first)
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::DocumentLink;
    use proptest::prelude::*;

    use super::*;
    use crate::document::standalone;
    use crate::{ExtractorConfig, PageInput};

    fn document(text: String, links: Vec<DocumentLink>, html: Option<String>) -> Document {
        let url = orbweaver_url::parse("http://a.test/").unwrap();
        let page = PageInput { url: &url, site: None, content_type: None, headers: &[], body: b"" };
        Document { text, links, html, ..standalone(&page, &"c".parse().unwrap(), 0, &ExtractorConfig::default()) }
    }

    /// Generates texts that grow in JSON, some six-fold, with characters of one to four bytes.
    fn text(pieces: usize) -> impl Strategy<Value = String> {
        let piece = prop_oneof!["[ -~]{0,30}", "\\PC{0,10}", "[\u{0}-\u{1f}]{0,30}", "[\"\\\\]{0,30}"];
        prop::collection::vec(piece, 0..pieces).prop_map(|pieces| pieces.concat())
    }

    fn links() -> impl Strategy<Value = Vec<DocumentLink>> {
        let link = (text(3), text(3), text(1)).prop_map(|(url, text, rel)| DocumentLink { url, text, rel });
        prop::collection::vec(link, 0..20)
    }

    proptest! {
        #[test]
        fn a_document_fits_its_room_and_only_what_does_not_fit_is_cut(
            text in text(30), links in links(), html in prop::option::of(text(20)), spare in 0..4000_usize,
        ) {
            let whole = document(text, links, html);
            let empty = encoded_len(&document(String::new(), vec![], whole.html.as_ref().map(|_| String::new())));
            let room = empty + 150 + spare;
            let mut cut = whole.clone();
            let value = encode_within(&mut cut, room);
            prop_assert!(value.len() <= room, "{} of {room}", value.len());
            prop_assert_eq!(&serde_json::from_slice::<Document>(&value).unwrap(), &cut);
            if encoded_len(&whole) <= room {
                prop_assert_eq!(&cut, &whole);
            }
            prop_assert!(whole.text.starts_with(&cut.text) && whole.links.starts_with(&cut.links));
            let cut_html = cut.html.clone().unwrap_or_default();
            prop_assert!(whole.html.clone().unwrap_or_default().starts_with(&cut_html));
            let marks = Truncated {
                body: cut_html.len() < whole.html.as_ref().map_or(0, String::len),
                links: cut.links.len() < whole.links.len(),
                text: cut.text.len() < whole.text.len(),
            };
            prop_assert_eq!(cut.truncated, marks);
            prop_assert_eq!(cut.links_total, marks.links.then_some(whole.links.len() as u64));
            prop_assert_eq!(cut.text_bytes, marks.text.then_some(whole.text.len() as u64));
        }

        #[test]
        fn what_one_of_two_leaves_the_other_gets(room in 0..1000_usize, first in 0..1500_usize, second in 0..1500_usize) {
            let (of_first, of_second) = shares(room, first, second);
            prop_assert!(of_first + of_second <= room);
            prop_assert!(of_first >= first.min(room / 2) && of_second >= second.min(room / 2));
            if first + second <= room {
                prop_assert!(of_first >= first && of_second >= second);
            }
        }
    }

    #[test]
    fn whole_counts_of_the_extractor_stay_when_more_is_cut() {
        let link = DocumentLink { url: "http://a.test/".into(), text: String::new(), rel: String::new() };
        let mut cut = document("text ".repeat(1000), vec![link; 1000], None);
        (cut.links_total, cut.text_bytes) = (Some(70_000), Some(80_000));
        encode_within(&mut cut, 2000);
        assert_eq!((cut.links_total, cut.text_bytes), (Some(70_000), Some(80_000)));
        assert!(!cut.text.is_empty() && !cut.links.is_empty());
    }
}

//! Cutting of documents to the room in their record.

use bytes::Bytes;
use orbweaver_messages::{Document, DocumentLink, Truncated, encode, encoded_len, json_len, json_prefix};

/// Encodes a document in at most `room` bytes. A larger one is cut first: text, links, other links, main text and Markdown
/// to equal parts of the room, or to more if others leave it; the body, if it was requested, to the room that all of them leave. Facts
/// are left out if they take more than a quarter of the room. Cut parts are marked, with the whole counts.
///
/// All other fields have less than 400 KiB in total, whatever a page holds; a smaller room may be exceeded.
pub(crate) fn encode_within(document: &mut Document, room: usize) -> Bytes {
    let whole = encode(document);
    if whole.len() <= room {
        return whole;
    }
    drop(whole);
    if document.facts.as_ref().is_some_and(|facts| encoded_len(facts) > room / 4) {
        document.facts = None;
        document.truncated.facts = true;
    }
    let (text, links) = (std::mem::take(&mut document.text), std::mem::take(&mut document.links));
    let (main_text, markdown) = (emptied(&mut document.main_text), emptied(&mut document.markdown));
    let (html, other_links) = (emptied(&mut document.html), emptied(&mut document.other_links));
    let marks = (document.truncated, document.links_total, document.text_bytes);

    // With truncation marks of maximum size.
    document.truncated = Truncated::ALL;
    (document.links_total, document.text_bytes) = (Some(u64::MAX), Some(u64::MAX));
    let room = room.saturating_sub(encoded_len(document));
    (document.truncated, document.links_total, document.text_bytes) = marks;

    let (sizes, other_sizes) = (sizes(&links), sizes(&other_links));
    let (main_text_len, markdown_len) = (json_len(&main_text), json_len(&markdown));
    let needs = [json_len(&text), sizes.iter().sum(), other_sizes.iter().sum(), main_text_len, markdown_len];
    let [text_room, links_room, other_links_room, main_text_room, markdown_room] = shares(room, needs);
    document.text = json_prefix(&text, text_room).to_owned();
    let (kept, links_bytes) = fitting(&sizes, links_room);
    let (kept_others, other_links_bytes) = fitting(&other_sizes, other_links_room);
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
    if let Some(part) = &mut document.other_links {
        document.truncated.other_links |= kept_others < other_links.len();
        part.extend(other_links.into_iter().take(kept_others));
    }
    document.truncated.main_text |= refill(&mut document.main_text, &main_text, main_text_room);
    document.truncated.main_text |= refill(&mut document.markdown, &markdown, markdown_room);
    let texts = [Some(&document.text), document.main_text.as_ref(), document.markdown.as_ref()];
    let used = texts.into_iter().flatten().map(|text| json_len(text)).sum::<usize>();
    let html_room = room.saturating_sub(used + links_bytes + other_links_bytes);
    document.truncated.body |= refill(&mut document.html, &html, html_room);
    encode(document)
}

/// Returns the size of each link in JSON, with a comma.
fn sizes(links: &[DocumentLink]) -> Vec<usize> {
    links.iter().map(|link| encoded_len(link) + 1).collect()
}

/// Returns the number of the first sizes that fit in `room`, and their sum.
fn fitting(sizes: &[usize], room: usize) -> (usize, usize) {
    let sums = sizes.iter().scan(0, |sum, size| {
        *sum += size;
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= room).zip(1..).last().map_or((0, 0), |(sum, number)| (number, sum))
}

/// Takes the contents of a part that was requested.
fn emptied<T: Default>(part: &mut Option<T>) -> T {
    part.as_mut().map(std::mem::take).unwrap_or_default()
}

/// Fills a part, if it was requested, with as much of its text as the room takes. Returns `true` if that is not all.
fn refill(part: &mut Option<String>, text: &str, room: usize) -> bool {
    let Some(part) = part else { return false };
    json_prefix(text, room).clone_into(part);
    part.len() < text.len()
}

/// Shares `room` among parts: each gets an equal share, or more if others need less.
fn shares<const N: usize>(mut room: usize, needs: [usize; N]) -> [usize; N] {
    let (mut order, mut shares): ([usize; N], _) = (std::array::from_fn(|part| part), [0; N]);
    order.sort_by_key(|part| needs[*part]);
    for (done, part) in order.into_iter().enumerate() {
        shares[part] = needs[part].min(room / (N - done));
        room -= shares[part];
    }
    shares
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::LinkKind;
    use proptest::prelude::*;

    use super::*;
    use crate::document::standalone;
    use crate::{ExtractorConfig, PageInput};

    fn document(text: String, links: Vec<DocumentLink>, others: [Option<String>; 3]) -> Document {
        let url = orbweaver_url::parse("http://a.test/").unwrap();
        let page = PageInput { url: &url, site: None, content_type: None, headers: &[], body: b"" };
        let empty = standalone(&page, &"c".parse().unwrap(), 0, &ExtractorConfig::default());
        let [html, main_text, markdown] = others;
        Document { text, links, html, main_text, markdown, ..empty }
    }

    /// Generates texts that grow in JSON, some six-fold, with characters of one to four bytes.
    fn text(pieces: usize) -> impl Strategy<Value = String> {
        let piece = prop_oneof!["[ -~]{0,30}", "\\PC{0,10}", "[\u{0}-\u{1f}]{0,30}", "[\"\\\\]{0,30}"];
        prop::collection::vec(piece, 0..pieces).prop_map(|pieces| pieces.concat())
    }

    fn links() -> impl Strategy<Value = Vec<DocumentLink>> {
        let kind = prop::sample::select(&[LinkKind::Navigation, LinkKind::Stylesheet][..]);
        let link = (text(3), text(3), text(1), kind);
        let link = link.prop_map(|(url, text, rel, kind)| DocumentLink { url, text, rel, kind });
        prop::collection::vec(link, 0..20)
    }

    proptest! {
        #[test]
        fn a_document_fits_its_room_and_only_what_does_not_fit_is_cut(
            (text, links, other_links) in (text(30), links(), prop::option::of(links())),
            others in prop::array::uniform3(prop::option::of(text(20))), spare in 0..4000_usize,
        ) {
            let whole = Document { other_links, ..document(text, links, others.clone()) };
            let empty = document(String::new(), vec![], others.map(|other| other.map(|_| String::new())));
            let empty = encoded_len(&Document { other_links: whole.other_links.as_ref().map(|_| vec![]), ..empty });
            let room = empty + 150 + spare;
            let mut cut = whole.clone();
            let value = encode_within(&mut cut, room);
            prop_assert!(value.len() <= room, "{} of {room}", value.len());
            prop_assert_eq!(&serde_json::from_slice::<Document>(&value).unwrap(), &cut);
            if encoded_len(&whole) <= room {
                prop_assert_eq!(&cut, &whole);
            }
            prop_assert!(whole.text.starts_with(&cut.text) && whole.links.starts_with(&cut.links));
            let other_links = |document: &Document| document.other_links.clone().unwrap_or_default();
            prop_assert!(other_links(&whole).starts_with(&other_links(&cut)));
            prop_assert_eq!(whole.other_links.is_some(), cut.other_links.is_some());
            let others = |document: &Document| {
                [&document.html, &document.main_text, &document.markdown].map(|part| part.clone().unwrap_or_default())
            };
            let [html, main_text, markdown] = others(&whole);
            let [cut_html, cut_main_text, cut_markdown] = others(&cut);
            prop_assert!(html.starts_with(&cut_html) && main_text.starts_with(&cut_main_text));
            prop_assert!(markdown.starts_with(&cut_markdown));
            let marks = Truncated {
                body: cut_html.len() < html.len(),
                main_text: cut_main_text.len() < main_text.len() || cut_markdown.len() < markdown.len(),
                links: cut.links.len() < whole.links.len(),
                text: cut.text.len() < whole.text.len(),
                facts: false,
                other_links: other_links(&cut).len() < other_links(&whole).len(),
            };
            prop_assert_eq!(cut.truncated, marks);
            prop_assert_eq!(cut.links_total, marks.links.then_some(whole.links.len() as u64));
            prop_assert_eq!(cut.text_bytes, marks.text.then_some(whole.text.len() as u64));
        }

        #[test]
        fn each_part_gets_its_share_and_room_that_others_leave(
            room in 0..1000_usize, needs in prop::array::uniform4(0..1500_usize),
        ) {
            let shares = shares(room, needs);
            let all: usize = shares.iter().sum();
            prop_assert!(all <= room);
            for (need, share) in needs.iter().zip(shares) {
                prop_assert!(share <= *need && share >= room.min(4 * need) / 4);
            }
            prop_assert!(all + 4 > room || shares == needs, "{shares:?}");
        }
    }

    fn link() -> DocumentLink {
        let (url, text, rel) = ("http://a.test/".to_owned(), String::new(), String::new());
        DocumentLink { url, text, rel, kind: LinkKind::Navigation }
    }

    #[test]
    fn links_that_fit_stay_whole_when_the_text_is_cut() {
        let links = vec![link(); 3];
        let text = document("text ".repeat(1000), links.clone(), [None, None, None]);
        let mut cut = Document { other_links: Some(links.clone()), ..text };
        encode_within(&mut cut, 3000);
        assert_eq!((&cut.links, cut.other_links.as_ref()), (&links, Some(&links)));
        assert_eq!(cut.truncated, Truncated { text: true, ..Truncated::default() });
    }

    #[test]
    fn whole_counts_of_the_extractor_stay_when_more_is_cut() {
        let mut cut = document("text ".repeat(1000), vec![link(); 1000], [None, None, None]);
        (cut.links_total, cut.text_bytes) = (Some(70_000), Some(80_000));
        encode_within(&mut cut, 2000);
        assert_eq!((cut.links_total, cut.text_bytes), (Some(70_000), Some(80_000)));
        assert!(!cut.text.is_empty() && !cut.links.is_empty());
    }
}

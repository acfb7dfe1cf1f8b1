//! Decision whether a discovered URL is admitted.

use orbweaver_messages::{EXTERNAL_DEPTH, REQUISITE_DEPTH};

/// Returns `true` if a URL discovered at `depth` is admitted that was admitted before at the depth `known`, if ever: the
/// URL is new, or its links, cut off by the depth limit then, may be within reach now. `depth_limited`: the crawl has a
/// maximum depth. A requisite is admitted again as a page, and an external URL as either.
#[must_use]
pub fn admits(known: Option<u16>, depth: u16, depth_limited: bool) -> bool {
    known.is_none_or(|known| {
        if known == EXTERNAL_DEPTH {
            depth < EXTERNAL_DEPTH
        } else if known >= REQUISITE_DEPTH {
            depth < REQUISITE_DEPTH
        } else {
            depth_limited && depth < known
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_passes_once_and_again_from_nearer_where_depth_is_limited() {
        assert!(admits(None, 3, false) && admits(None, 3, true) && admits(Some(3), 2, true));
        assert!(!admits(Some(3), 3, true) && !admits(Some(3), 4, true) && !admits(Some(3), 2, false));
    }

    #[test]
    fn a_requisite_passes_again_as_a_page_and_no_page_again_as_a_requisite() {
        for depth_limited in [false, true] {
            let again = |known, depth| admits(Some(known), depth, depth_limited);
            assert!(again(REQUISITE_DEPTH, 3) && again(EXTERNAL_DEPTH - 1, REQUISITE_DEPTH - 1));
            assert!(!again(3, REQUISITE_DEPTH) && !again(REQUISITE_DEPTH, EXTERNAL_DEPTH - 1));
            assert!(!again(EXTERNAL_DEPTH - 1, REQUISITE_DEPTH) && admits(None, REQUISITE_DEPTH, depth_limited));
        }
    }

    #[test]
    fn an_external_url_passes_again_as_a_requisite_or_a_page_and_neither_as_external() {
        for depth_limited in [false, true] {
            let again = |known, depth| admits(Some(known), depth, depth_limited);
            assert!(again(EXTERNAL_DEPTH, REQUISITE_DEPTH) && again(EXTERNAL_DEPTH, 3));
            assert!([3, REQUISITE_DEPTH, EXTERNAL_DEPTH].into_iter().all(|known| !again(known, EXTERNAL_DEPTH)));
            assert!(admits(None, EXTERNAL_DEPTH, depth_limited));
        }
    }
}

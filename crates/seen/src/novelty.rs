//! Decision whether a discovered URL is admitted.

use orbweaver_messages::REQUISITE_DEPTH;

/// Returns `true` if a URL discovered at `depth` is admitted that was admitted before at the depth `known`, if ever: the
/// URL is new, or its links, cut off by the depth limit then, may be within reach now. `depth_limited`: the crawl has a
/// maximum depth. A requisite is admitted again as a page, and no URL as a requisite.
#[must_use]
pub fn admits(known: Option<u16>, depth: u16, depth_limited: bool) -> bool {
    known.is_none_or(|known| {
        let is_requisite = known >= REQUISITE_DEPTH;
        if is_requisite { depth < REQUISITE_DEPTH } else { depth_limited && depth < known }
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
    fn a_requisite_passes_again_as_a_page_and_no_url_again_as_a_requisite() {
        for depth_limited in [false, true] {
            let again = |known, depth| admits(Some(known), depth, depth_limited);
            assert!(again(REQUISITE_DEPTH, 3) && again(u16::MAX, REQUISITE_DEPTH - 1));
            assert!(!again(3, REQUISITE_DEPTH) && !again(REQUISITE_DEPTH, u16::MAX));
            assert!(!again(u16::MAX, REQUISITE_DEPTH) && admits(None, REQUISITE_DEPTH, depth_limited));
        }
    }
}

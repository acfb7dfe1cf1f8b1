//! Decision whether a discovered URL is admitted.

/// Returns `true` if a URL discovered at `depth` is admitted that was admitted before at the depth `known`, if ever: the
/// URL is new, or its links, cut off by the depth limit then, may be within reach now. `depth_limited`: the crawl has a
/// maximum depth.
#[must_use]
pub fn admits(known: Option<u16>, depth: u16, depth_limited: bool) -> bool {
    known.is_none_or(|known| depth_limited && depth < known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_passes_once_and_again_from_nearer_where_depth_is_limited() {
        assert!(admits(None, 3, false) && admits(None, 3, true) && admits(Some(3), 2, true));
        assert!(!admits(Some(3), 3, true) && !admits(Some(3), 4, true) && !admits(Some(3), 2, false));
    }
}

//! Decision whether a discovered URL is new.

/// Novelty of a discovered URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Novelty {
    /// The URL was never admitted.
    First,
    /// Admitted at a greater depth: its links, cut off by the depth limit then, may be within reach now.
    Shallower,
    /// Admitted at the same or a lesser depth, or depth does not matter.
    Known,
}

impl Novelty {
    /// Returns `true` if the URL is admitted.
    #[must_use]
    pub fn passes(self) -> bool {
        self != Self::Known
    }
}

/// Decides on a URL discovered at `depth` that was admitted at the depth `known`, if ever. `depth_limited`: the crawl
/// has a maximum depth.
#[must_use]
pub fn novelty(known: Option<u16>, depth: u16, depth_limited: bool) -> Novelty {
    match known {
        None => Novelty::First,
        Some(known) if depth_limited && depth < known => Novelty::Shallower,
        Some(_) => Novelty::Known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_passes_once_and_again_from_nearer_where_depth_is_limited() {
        assert_eq!(novelty(None, 3, false), Novelty::First);
        assert_eq!(novelty(None, 3, true), Novelty::First);
        assert_eq!(novelty(Some(3), 3, true), Novelty::Known);
        assert_eq!(novelty(Some(3), 4, true), Novelty::Known);
        assert_eq!(novelty(Some(3), 2, true), Novelty::Shallower);
        assert_eq!(novelty(Some(3), 2, false), Novelty::Known);
    }
}

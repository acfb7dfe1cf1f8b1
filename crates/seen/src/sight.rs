//! Decision whether a discovered URL is new.

/// Novelty of a discovered URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// The URL was never admitted.
    First,
    /// Admitted at a greater depth: its links, cut off by the depth limit then, may be within reach now.
    Shallower,
    /// Admitted at the same or a lesser depth, or depth does not matter.
    Known,
}

impl Sight {
    /// Returns `true` if the URL is admitted.
    #[must_use]
    pub fn passes(self) -> bool {
        self != Self::Known
    }
}

/// Decides on a URL discovered at `depth` that was admitted at the depth `known`, if ever. `depth_limited`: the crawl
/// has a maximum depth.
#[must_use]
pub fn first_sight(known: Option<u16>, depth: u16, depth_limited: bool) -> Sight {
    match known {
        None => Sight::First,
        Some(known) if depth_limited && depth < known => Sight::Shallower,
        Some(_) => Sight::Known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_passes_once_and_again_from_nearer_where_depth_is_limited() {
        assert_eq!(first_sight(None, 3, false), Sight::First);
        assert_eq!(first_sight(None, 3, true), Sight::First);
        assert_eq!(first_sight(Some(3), 3, true), Sight::Known);
        assert_eq!(first_sight(Some(3), 4, true), Sight::Known);
        assert_eq!(first_sight(Some(3), 2, true), Sight::Shallower);
        assert_eq!(first_sight(Some(3), 2, false), Sight::Known);
    }
}

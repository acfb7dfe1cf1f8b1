//! Whether a sighting is the first.

/// What a sighting is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// The URL was never let through.
    First,
    /// It was, from further away than now: its links, cut off by the depth limit then, may be in reach now.
    Shallower,
    /// It was, from no further away, or depth does not matter.
    Known,
}

impl Sight {
    /// Whether the URL is let through.
    #[must_use]
    pub fn passes(self) -> bool {
        self != Self::Known
    }
}

/// Decides on a sighting at `depth` of a URL that was let through at the depth `known`, if ever. `depth_limited`: the crawl
/// has a maximal depth.
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

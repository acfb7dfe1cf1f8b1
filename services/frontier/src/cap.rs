//! The number of pages that may still be fetched.

/// Counts down the pages of a capped crawl. A dispatch reserves a page; what ends as anything but a page gives it back, so
/// that a cap is reached exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageCap(Option<u64>);

impl PageCap {
    /// A cap of `max` more pages; `None`: no limit.
    #[must_use]
    pub fn new(max: Option<u64>) -> Self {
        Self(max)
    }

    /// Whether no further page may be reserved.
    #[must_use]
    pub fn is_exhausted(self) -> bool {
        self.0 == Some(0)
    }

    /// Reserves a page. A restored lease reserves too, even beyond the cap: it is on its way already.
    pub fn reserve(&mut self) {
        if let Some(left) = &mut self.0 {
            *left = left.saturating_sub(1);
        }
    }

    /// Gives a reserved page back.
    pub fn give_back(&mut self) {
        if let Some(left) = &mut self.0 {
            *left += 1;
        }
    }
}

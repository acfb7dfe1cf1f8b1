//! Remainder of a crawl up to its caps, and the share of it that this instance may use.

use orbweaver_log::Partition;
use orbweaver_url::CrawlName;

use super::{Crawl, PageCaps};

/// Size assumed of a page while none is known, in bytes.
const ASSUMED_BYTES: u64 = 16 << 10;

impl Crawl {
    /// Returns the number of pages that are left below the caps of pages and bytes; `None`: there is no such cap.
    pub(super) fn left(&self) -> Option<u64> {
        let by_pages = self.max.map(|max| max.saturating_sub(self.sum.all()));
        [by_pages, self.left_by_bytes()].into_iter().flatten().min()
    }

    /// Returns the number of pages that are left below the cap of bytes if they are of the mean size.
    fn left_by_bytes(&self) -> Option<u64> {
        let left = self.max_bytes?.saturating_sub(self.sum.bytes);
        let mean = self.sum.bytes.checked_div(self.sum.pages).unwrap_or(ASSUMED_BYTES).max(1);
        Some(left.div_ceil(mean).saturating_sub(self.sum.leased))
    }
}

impl PageCaps {
    /// Returns the number of pages of a crawl that may be requested now, as [`PageCaps::slack`]; the cap of pages
    /// applies only to URLs that may be new pages.
    #[must_use]
    pub fn slack_of(&self, crawl: &CrawlName, may_be_new_page: bool) -> u64 {
        match self.crawl(crawl) {
            Some(known) if !may_be_new_page && !known.is_held() => self.share_of(known, known.left_by_bytes()),
            _ => self.slack(crawl),
        }
    }

    /// Returns the number of pages of a crawl that may be requested now; none while it is paused or has ended. The remainder up to the
    /// cap may be larger if other instances may use it too.
    #[must_use]
    pub fn slack(&self, crawl: &CrawlName) -> u64 {
        let Some(crawl) = self.crawl(crawl) else { return u64::MAX };
        if crawl.is_held() {
            return 0;
        }
        self.share_of(crawl, crawl.left())
    }

    /// Returns the part of this remainder of a crawl that this instance may use; `None` is no limit.
    fn share_of(&self, crawl: &Crawl, left: Option<u64>) -> u64 {
        let Some(left) = left else { return u64::MAX };
        if self.share >= self.partitions {
            return left;
        }
        let spent = crawl.own.saturating_sub(crawl.own_written);
        let then = u128::from(left) + u128::from(spent);
        let share = (then * u128::from(self.share)).div_ceil(u128::from(self.partitions));
        left.min(u64::try_from(share).unwrap_or(u64::MAX).saturating_sub(spent))
    }

    /// Notes that a partition is about to be restored; [`PageCaps::serve`] or [`PageCaps::leave`] follows.
    pub fn assign(&mut self, partition: Partition) {
        self.restoring.insert(partition);
    }

    /// Updates the share of this instance after a partition was opened or closed, or its restore was cancelled.
    pub(super) fn update_share(&mut self) {
        if self.restoring.is_empty() {
            self.own.values_mut().for_each(|own| own.shares = own.epoch.is_some());
        }
        self.share = self.own.values().map(|own| u64::from(own.shares)).sum();
    }
}
